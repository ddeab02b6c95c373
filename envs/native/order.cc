// SPDX-License-Identifier: BSD-3-Clause
#include "order.h"

#include <algorithm>

namespace ncc
{

std::unique_ptr<FlowOrder> FlowOrder::Make(const std::string &name, const Params &params,
                                           const std::vector<FlowView> &flows)
{
    if (name == "fifo") {
        return nullptr;
    }
    return std::unique_ptr<FlowOrder>(new FlowOrder(FindOrder(name), params, flows));
}

void FlowOrder::Joined(uint32_t flow)
{
    const auto found = Find(flow);
    if (found == queue_.end()) {
        queue_.push_back({flow, 1});
    } else {
        ++found->pkts;
    }
}

uint32_t FlowOrder::Next(int64_t now_ns) const
{
    const size_t depth = ops_.depth(params_.data());
    const size_t n = depth == 0 ? queue_.size() : std::min(depth, queue_.size());
    size_t best = 0;
    if (n > 1) {
        ncc_u64 best_key = Key(queue_[0].flow, now_ns);
        for (size_t i = 1; i < n; ++i) {
            if (const ncc_u64 key = Key(queue_[i].flow, now_ns); key > best_key) {
                best = i;
                best_key = key;
            }
        }
    }
    return queue_[best].flow;
}

uint32_t FlowOrder::NextUnlimited(int64_t now_ns) const
{
    const size_t depth = ops_.depth(params_.data());
    uint32_t best = kNoFlow;
    ncc_u64 best_key = 0;
    size_t seen = 0;
    for (const Waiting &each : queue_) {
        if (flows_[each.flow].limited) {
            continue;
        }
        if (const ncc_u64 key = Key(each.flow, now_ns); best == kNoFlow || key > best_key) {
            best = each.flow;
            best_key = key;
        }
        if (++seen == depth) {
            break;
        }
    }
    return best;
}

void FlowOrder::Left(uint32_t flow)
{
    const auto found = Find(flow);
    if (--found->pkts == 0) {
        queue_.erase(found);
    }
}

std::vector<FlowOrder::Waiting>::iterator FlowOrder::Find(uint32_t flow)
{
    return std::find_if(queue_.begin(), queue_.end(), [flow](const Waiting &each) { return each.flow == flow; });
}

ncc_u64 FlowOrder::Key(uint32_t flow, int64_t now_ns) const
{
    const FlowView &view = flows_[flow];
    const ncc_order_flow given{static_cast<ncc_u64>(now_ns - view.arrived_ns),
                               static_cast<ncc_u64>(now_ns - view.last_left_ns), view.estimated_bytes(),
                               view.left_bytes, view.delivered_bytes};
    return ops_.key(params_.data(), &given);
}

} // namespace ncc
