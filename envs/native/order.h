// SPDX-License-Identifier: BSD-3-Clause
// The order in which a host's flows get their turn under the rate limit.
#pragma once

#include "controllers.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ncc
{

// A flow as its host sees it. Times in ns of simulated time.
struct FlowView {
    int64_t arrived_ns = 0;
    int64_t last_left_ns = 0; // when a byte of it last left the host; `arrived_ns` if none has
    uint64_t size_bytes = 0;
    uint64_t known_bytes = 0;      // the part of its size that the host knows of (knows.h); never falls
    uint64_t left_bytes = 0;       // payload that has left the host at least once; never above known_bytes
    uint64_t delivered_bytes = 0;  // payload acknowledged
    uint64_t expected_bytes = 0;   // size by its service's predictor; 0: nothing beyond known_bytes
    uint64_t predict_at_bytes = 0; // known_bytes at which the size is predicted next
    bool limited = true;           // under the host's rate limit

    // Size of the flow as far as the host knows or predicts it.
    uint64_t estimated_bytes() const { return std::max(known_bytes, expected_bytes); }

    // Call when payload up to `end_bytes` has left the host.
    void Left(uint64_t end_bytes, int64_t now_ns)
    {
        last_left_ns = now_ns;
        left_bytes = std::max(left_bytes, end_bytes);
        known_bytes = std::max(known_bytes, left_bytes);
    }
};

constexpr uint32_t kNoFlow = UINT32_MAX;

// An order of baselines/orders: among the flows that wait, the one with the largest key goes first.
class FlowOrder
{
  public:
    // Returns null for "fifo", which the NIC itself serves. `flows` must outlive the order.
    static std::unique_ptr<FlowOrder> Make(const std::string &name, const Params &params,
                                           const std::vector<FlowView> &flows);

    // A data packet of `flow` joined its queue.
    void Joined(uint32_t flow);
    // The flow whose oldest packet goes next; called only while packets wait.
    uint32_t Next(int64_t now_ns) const;
    // Like `Next`, but among flows that are not under the rate limit; kNoFlow: none of them has a packet waiting.
    uint32_t NextUnlimited(int64_t now_ns) const;
    // The oldest packet of `flow` left.
    void Left(uint32_t flow);

  private:
    struct Waiting {
        uint32_t flow;
        uint32_t pkts;
    };

    FlowOrder(const ncc_order_ops &ops, const Params &params, const std::vector<FlowView> &flows)
        : ops_(ops), params_(ControllerParams(ops, params)), flows_(flows)
    {
    }
    std::vector<Waiting>::iterator Find(uint32_t flow);
    ncc_u64 Key(uint32_t flow, int64_t now_ns) const; // changes with time, so it is worked out for every packet

    const ncc_order_ops &ops_;
    const std::vector<ncc_u64> params_;
    const std::vector<FlowView> &flows_;
    std::vector<Waiting> queue_; // flows with packets, the one that has been here longest first
};

} // namespace ncc
