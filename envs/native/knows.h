// SPDX-License-Identifier: BSD-3-Clause
// Bytes that applications have written, and sizes that hosts know: Traffic.writes and Nic.knows of ncc/core.
#pragma once

#include "order.h"
#include "spec.h"

#include <algorithm>
#include <cstdint>

namespace ncc
{

// Payload of a flow that its application has written by `now_ns`, in whole packets.
inline uint64_t WrittenBytes(const Spec &spec, const FlowSpec &flow, int64_t now_ns)
{
    if (flow.chunk_bytes == 0) {
        return flow.size_bytes;
    }
    const uint64_t chunks = 1 + static_cast<uint64_t>((now_ns - flow.start_ns) / flow.every_ns);
    if (chunks > (flow.size_bytes - 1) / flow.chunk_bytes) {
        return flow.size_bytes;
    }
    return chunks * flow.chunk_bytes / spec.mss_bytes() * spec.mss_bytes();
}

// Payload of a flow that its host knows of once `acked_bytes` are acknowledged and the window is `cwnd_bytes`: all of
// it, or what is acknowledged and what is written and fits into a send buffer that grows with the window as Linux lets
// it.
inline uint64_t KnownBytes(const Spec &spec, const FlowSpec &flow, int64_t now_ns, uint64_t acked_bytes,
                           uint64_t cwnd_bytes)
{
    constexpr uint64_t kWindows = 2; // tcp_sndbuf_expand
    if (!spec.backlog) {
        return flow.size_bytes;
    }
    const uint64_t least_bytes = static_cast<uint64_t>(spec.first_write_pkts) * spec.mss_bytes();
    const uint64_t room_bytes =
        std::min<uint64_t>(std::max(least_bytes, kWindows * cwnd_bytes), spec.send_buffer_bytes);
    return std::min(WrittenBytes(spec, flow, now_ns), acked_bytes + room_bytes);
}

// A flow that has sent nothing, on a new connection.
inline FlowView ViewOf(const Spec &spec, const FlowSpec &flow)
{
    const uint64_t cwnd_bytes = static_cast<uint64_t>(spec.initial_window_pkts) * spec.mss_bytes();
    const uint64_t known_bytes = KnownBytes(spec, flow, flow.start_ns, 0, cwnd_bytes);
    return {flow.start_ns, flow.start_ns, flow.size_bytes, known_bytes, 0, 0, flow.limited[0]};
}

} // namespace ncc
