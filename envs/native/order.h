// SPDX-License-Identifier: BSD-3-Clause
// The order in which a host's flows get their turn under the rate limit.
#pragma once

#include "controllers.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
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

    // Its size as far as the host can tell.
    uint64_t told_bytes() const { return std::max(known_bytes, expected_bytes); }

    // Payload up to `end_bytes` has left the host.
    void Left(uint64_t end_bytes, int64_t now_ns)
    {
        last_left_ns = now_ns;
        left_bytes = std::max(left_bytes, end_bytes);
        known_bytes = std::max(known_bytes, left_bytes);
    }
};

constexpr uint32_t kNoFlow = UINT32_MAX;

// One that is a key per flow is a header in baselines/orders; the datapaths find it there.
class FlowOrder
{
  public:
    virtual ~FlowOrder() = default;
    // A data packet of `flow` joined its queue.
    virtual void Joined(uint32_t flow) = 0;
    // The flow whose oldest packet goes next; called only while packets wait.
    virtual uint32_t Next(int64_t now_ns) = 0;
    // The same among flows that are not under the rate limit; kNoFlow: none of them has a packet waiting.
    virtual uint32_t NextUnlimited(int64_t now_ns) = 0;
    // The oldest packet of `flow` left.
    virtual void Left(uint32_t flow) = 0;
};

// Null for "fifo", which the NIC itself serves. Throws std::out_of_range for an unknown name. `params` overrides the
// order's own; `flows` outlives what is made.
std::unique_ptr<FlowOrder> MakeOrder(const std::string &name,
                                     const std::vector<std::pair<std::string, uint64_t>> &params,
                                     const std::vector<FlowView> &flows);
std::vector<std::string> OrderNames();
std::vector<ParamRow> OrderParamRows(const std::string &name); // none for "fifo", or an unknown one

} // namespace ncc
