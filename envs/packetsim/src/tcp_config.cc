// SPDX-License-Identifier: BSD-3-Clause
#include "tcp_config.h"

#include "programs.h"
#include "transports.h"

#include <algorithm>
#include <stdexcept>

namespace ncc::packetsim
{

TcpConfig MakeTcpConfig(const Spec &spec, size_t which)
{
    TcpConfig config;
    const StackSpec stack = spec.stack(which);
    if (FindTransport(stack.transport) != nullptr) {
        return config;
    }
    config.ops = FindController(stack.transport);
    if (config.ops == nullptr) {
        throw std::invalid_argument("no transport " + stack.transport);
    }
    const std::vector<ncc_u64> params = ControllerParams(*config.ops, stack.params);
    std::copy(params.begin(), params.end(), config.params);
    config.ecn = config.ops->ecn;
    config.needs_rate = (config.ops->needs & NCC_CC_RATE) != 0;
    config.mss_bytes = spec.mss_bytes();
    config.conn = {config.mss_bytes, config.mss_bytes * stack.initial_window_pkts, 0};
    // Window scale takes 3 bytes of options, SACK-permitted 2; options fill whole words.
    config.syn_bytes = kHeaderBytes + (spec.sack ? 8 : 4);
    config.receive_buffer_bytes = spec.receive_buffer_bytes;
    config.send_buffer_bytes = spec.send_buffer_bytes;
    config.window_shift = WindowShift(spec.receive_buffer_bytes);
    config.delayed_ack_pkts = spec.delayed_ack_pkts;
    config.dup_ack_pkts = spec.dup_ack_pkts;
    config.delayed_ack_ns = spec.delayed_ack_ns;
    config.min_rto_ns = stack.min_rto_ns;
    config.initial_rto_ns = stack.initial_rto_ns;
    config.rtt_noise = RttNoise(spec.seed, spec.rtt_noise_max_ns);
    config.handshake = spec.handshake;
    config.sack = spec.sack;
    config.limited_transmit = spec.limited_transmit;
    config.modern = spec.modern;
    config.backlog = spec.backlog;
    config.timer_slack_ns = spec.timer_slack_ns;
    config.timer_tick_ns = spec.modern ? spec.timer_tick_ns : 0;
    return config;
}

} // namespace ncc::packetsim
