// SPDX-License-Identifier: BSD-3-Clause
#include "order.h"

#include <algorithm>
#include <stdexcept>

namespace ncc
{

namespace
{

// The flow with the largest key of those that wait. Keys change with time, so they are worked out for every packet.
class Keyed final : public FlowOrder
{
  public:
    Keyed(const ncc_order_ops &ops, std::vector<ncc_u64> params, const std::vector<FlowView> &flows)
        : ops_(ops), params_(std::move(params)), flows_(flows)
    {
    }

    void Joined(uint32_t flow) override
    {
        const auto found = Find(flow);
        if (found == queue_.end()) {
            queue_.push_back({flow, 1});
        } else {
            ++found->pkts;
        }
    }

    uint32_t Next(int64_t now_ns) override
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

    uint32_t NextUnlimited(int64_t now_ns) override
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

    void Left(uint32_t flow) override
    {
        const auto found = Find(flow);
        if (--found->pkts == 0) {
            queue_.erase(found);
        }
    }

  private:
    struct Waiting {
        uint32_t flow;
        uint32_t pkts;
    };

    std::vector<Waiting>::iterator Find(uint32_t flow)
    {
        return std::find_if(queue_.begin(), queue_.end(), [flow](const Waiting &each) { return each.flow == flow; });
    }

    ncc_u64 Key(uint32_t flow, int64_t now_ns) const
    {
        const FlowView &view = flows_[flow];
        const ncc_order_flow given{static_cast<ncc_u64>(now_ns - view.arrived_ns),
                                   static_cast<ncc_u64>(now_ns - view.last_left_ns), view.told_bytes(), view.left_bytes,
                                   view.delivered_bytes};
        return ops_.key(params_.data(), &given);
    }

    const ncc_order_ops &ops_;
    const std::vector<ncc_u64> params_;
    const std::vector<FlowView> &flows_;
    std::vector<Waiting> queue_; // flows with packets, the one that has been here longest first
};

} // namespace

std::unique_ptr<FlowOrder> MakeOrder(const std::string &name,
                                     const std::vector<std::pair<std::string, uint64_t>> &params,
                                     const std::vector<FlowView> &flows)
{
    if (name == "fifo") {
        return nullptr;
    }
    const ncc_order_ops *ops = RowIn(ncc_order_table, name);
    if (ops == nullptr) {
        throw std::out_of_range("no flow order called " + name);
    }
    return std::make_unique<Keyed>(*ops, ControllerParams(*ops, params), flows);
}

std::vector<std::string> OrderNames() { return NamesIn(ncc_order_table, {"fifo"}); }

std::vector<ParamRow> OrderParamRows(const std::string &name) { return ParamRows(RowIn(ncc_order_table, name)); }

} // namespace ncc
