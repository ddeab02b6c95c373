// SPDX-License-Identifier: BSD-3-Clause
// Bytes that applications have written, and sizes that hosts know: Traffic.writes and Nic.knows of ncc/core.
#pragma once

#include "order.h"
#include "predictor.h"
#include "spec.h"

#include <cstdint>
#include <vector>

namespace ncc
{

// Payload of a flow that its application has written by `now_ns`, in whole packets.
inline uint64_t WrittenBytes(const Spec &spec, const FlowSpec &flow, int64_t now_ns)
{
    if (flow.every_ns == 0) {
        return flow.size_bytes;
    }
    if (flow.every_ns == kFed) {
        return flow.chunk_bytes < flow.size_bytes ? flow.chunk_bytes / spec.mss_bytes() * spec.mss_bytes()
                                                  : flow.size_bytes;
    }
    const uint64_t chunks = 1 + static_cast<uint64_t>((now_ns - flow.start_ns) / flow.every_ns);
    if (chunks > (flow.size_bytes - 1) / flow.chunk_bytes) {
        return flow.size_bytes;
    }
    return chunks * flow.chunk_bytes / spec.mss_bytes() * spec.mss_bytes();
}

// Returns a host's view of a flow that has sent nothing, on a new connection.
FlowView ViewOf(const Spec &spec, const FlowSpec &flow);

// The hosts' knowledge of their flows (Spec::backlog, FlowSpec::predictor).
class Knowledge
{
  public:
    explicit Knowledge(const Spec &spec);
    // Updates what a flow's host knows of it when `acked_bytes` are acknowledged and the window is `cwnd_bytes`. The
    // host knows the whole size; or only the acknowledged bytes and those written that fit into a send buffer, which
    // grows with the window as in Linux. If the buffer is full, the flow's predictor estimates how much more will come.
    void Learn(const FlowSpec &flow, FlowView &view, int64_t now_ns, uint64_t acked_bytes, uint64_t cwnd_bytes);
    void Began(const FlowSpec &flow, FlowView &view);
    void Ended(const FlowSpec &flow); // all of it is acknowledged

  private:
    const Spec &spec_;
    std::vector<Predictor> predictors_;
};

} // namespace ncc
