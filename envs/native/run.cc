// SPDX-License-Identifier: BSD-3-Clause
#include "run.h"

#include <algorithm>
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
        views_.push_back(ViewOf(spec_, flow));
        if (flow.size_bytes == 0) {
            continue;
        }
        if (!routes_.Reaches(flow.src, flow.dst) || !routes_.Reaches(flow.dst, flow.src)) {
            throw std::invalid_argument("no path between node " + std::to_string(flow.src) + " and node " +
                                        std::to_string(flow.dst));
        }
        // A host reports the base RTT of its longest path before the first sample; without flows, that of all hosts.
        double &rtt_ns = senders_[flow.src].rtt_mean_ns;
        rtt_ns = std::max(rtt_ns, static_cast<double>(routes_.BaseRttNs(spec_, flow.src, flow.dst)));
        longest_ns = std::max(longest_ns, rtt_ns);
    }
    for (Sender &sender : senders_) {
        sender.rtt_mean_ns = sender.rtt_mean_ns > 0 ? sender.rtt_mean_ns : longest_ns;
    }
    MakeRequests();
}

void Run::MakeRequests()
{
    const GraphSpec &graph = spec_.graph;
    if (graph.group.empty()) {
        return;
    }
    const auto n = static_cast<uint32_t>(graph.group.size());
    requests_.group = graph.group.data();
    requests_.after = graph.after.data();
    requests_.think_ns = graph.think_ns.data();
    const uint32_t groups = ncc_requests_groups(&requests_, n);
    left_.resize(groups);
    first_.resize(groups + 1);
    waiting_.resize(n);
    due_.resize(n);
    requests_.waiting = waiting_.data();
    requests_.first = first_.data();
    requests_.left = left_.data();
    ncc_requests_list(&requests_, n, groups);
    if (!graph.query_of.empty()) {
        MakeFronts();
    }
    requests_.due = due_.data();
    passed_bytes_.resize(graph.feeds.size());
}

void Run::MakeFronts()
{
    const GraphSpec &graph = spec_.graph;
    const size_t n = graph.group.size();
    requests_.front = &FindFront(spec_.front);
    front_params_ = ControllerParams(*requests_.front, spec_.front_params);
    front_ends_.resize(spec_.front_ends.size());
    const uint64_t extra_bytes = spec_.mtu_bytes - spec_.mss_bytes() + spec_.frame_overhead_bytes;
    for (size_t flow = 0; flow < n; ++flow) {
        const FlowSpec &spec = spec_.flows[flow];
        const uint64_t packets = (spec.size_bytes + spec_.mss_bytes() - 1) / spec_.mss_bytes();
        wire_bytes_.push_back(spec.size_bytes + packets * extra_bytes);
        if (graph.end_of[flow] >= 0) {
            ncc_front &seen = front_ends_[static_cast<size_t>(graph.end_of[flow])].seen;
            const auto rtt_ns = static_cast<uint64_t>(routes_.BaseRttNs(spec_, spec.src, spec.dst));
            seen.base_rtt_ns = std::max<ncc_u64>(seen.base_rtt_ns, rtt_ns);
        }
    }
    next_query_.resize(n);
    asked_ns_.assign(n, -1);
    due_.resize(2 * (n + front_ends_.size()));
    requests_.params = front_params_.data();
    requests_.ends = front_ends_.data();
    requests_.n_flows = static_cast<uint32_t>(n);
    requests_.end_of = graph.end_of.data();
    requests_.query_of = graph.query_of.data();
    requests_.wire_bytes = wire_bytes_.data();
    requests_.next = next_query_.data();
    requests_.asked_ns = asked_ns_.data();
    requests_.late_ns = spec_.min_rto_ns;
    for (size_t i = 0; i < front_ends_.size(); ++i) {
        ncc_front &seen = front_ends_[i].seen;
        seen.rate_bytes_per_s = spec_.front_ends[i].rate_bytes_per_s;
        seen.buffer_bytes = spec_.front_ends[i].buffer_bytes;
        seen.packet_bytes = spec_.mtu_bytes + spec_.frame_overhead_bytes;
        ncc_front_begin(&requests_, &front_ends_[i]);
    }
}

bool Run::Take(int64_t now_ns, uint32_t &flow)
{
    while (next_flow_ < spec_.flows.size() && spec_.flows[next_flow_].start_ns <= now_ns) {
        flow = static_cast<uint32_t>(next_flow_++);
        if (ncc_requests_starts(&requests_, flow, now_ns)) {
            return true;
        }
    }
    return ncc_requests_take(&requests_, now_ns, &flow) != 0;
}

void Run::Complete(uint32_t flow, int64_t now_ns)
{
    records_[flow].finish_ns = now_ns;
    ++finished_;
    if (tags_) {
        just_delivered_.push_back(flow);
    }
    if (requests_.group != nullptr) {
        ncc_requests_complete(&requests_, flow, now_ns);
    }
}

void Run::Begin(uint32_t flow)
{
    knowledge_.Began(spec_.flows[flow], views_[flow]);
    if (gates_) {
        gates_->Open(flow, spec_.flows[flow],
                     spec_.graph.query_rate_bps.empty() ? 0 : spec_.graph.query_rate_bps[flow]);
    }
    std::vector<uint32_t> &live = SenderOf(flow).live;
    live_index_[flow] = static_cast<uint32_t>(live.size());
    live.push_back(flow);
    ++live_;
}

void Run::Finish(uint32_t flow, int64_t now_ns)
{
    Complete(flow, now_ns);
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
