// SPDX-License-Identifier: BSD-3-Clause
#include "run.h"

#include <stdexcept>
#include <string>

namespace ncc
{

Run::Run(const Spec &spec)
    : spec_(spec), routes_(spec_), router_(spec_), knowledge_(spec_), records_(spec_.flows.size()),
      senders_(spec_.is_host.size()), live_index_(spec_.flows.size()), idle_(spec_),
      uplinks_before_(spec_.uplinks.size())
{
    if (spec_.tags != "none") {
        tags_.emplace(spec_.tags, spec_.tag_params);
    }
    double longest_ns = 0;
    for (const FlowSpec &flow : spec_.flows) {
        if (!routes_.Reaches(flow.src, flow.dst) || !routes_.Reaches(flow.dst, flow.src)) {
            throw std::invalid_argument("no path between node " + std::to_string(flow.src) + " and node " +
                                        std::to_string(flow.dst));
        }
        views_.push_back(ViewOf(spec_, flow));
        // A host reports the base RTT of its longest path before the first sample; without flows, that of all hosts.
        double &rtt_ns = senders_[flow.src].rtt_mean_ns;
        rtt_ns = std::max(rtt_ns, static_cast<double>(routes_.BaseRttNs(spec_, flow.src, flow.dst)));
        longest_ns = std::max(longest_ns, rtt_ns);
    }
    for (Sender &sender : senders_) {
        sender.rtt_mean_ns = sender.rtt_mean_ns > 0 ? sender.rtt_mean_ns : longest_ns;
    }
}

void Run::Begin(uint32_t flow)
{
    knowledge_.Began(spec_.flows[flow], views_[flow]);
    if (gates_) {
        gates_->Open(flow, spec_.flows[flow]);
    }
    std::vector<uint32_t> &live = SenderOf(flow).live;
    live_index_[flow] = static_cast<uint32_t>(live.size());
    live.push_back(flow);
    ++live_;
}

void Run::Finish(uint32_t flow, int64_t now_ns)
{
    records_[flow].finish_ns = now_ns;
    ++finished_;
    if (gates_) {
        gates_->Received(flow);
    }
    std::vector<uint32_t> &live = SenderOf(flow).live;
    live[live_index_[flow]] = live.back();
    live_index_[live.back()] = live_index_[flow];
    live.pop_back();
}

void Run::End(uint32_t flow, int64_t now_ns)
{
    knowledge_.Ended(spec_.flows[flow]);
    if (gates_) {
        gates_->Over(flow, now_ns);
    }
}

} // namespace ncc
