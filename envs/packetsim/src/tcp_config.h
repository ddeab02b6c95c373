// SPDX-License-Identifier: BSD-3-Clause
// Settings that all connections of a run, or of a component of its traffic, share: the controller and TCP's settings.
#pragma once

#include "rtt_noise.h"
#include "spec.h"

extern "C" {
#include "cc.h"
}

#include <cstdint>

namespace ncc::packetsim
{

constexpr uint32_t kHeaderBytes = 40;               // IP and TCP without options
constexpr int64_t kClockGranularityNs = 10'000;     // G of RFC 6298
constexpr int64_t kMaxRtoNs = 60'000'000'000;       // RFC 6298 rule 2.5
constexpr uint32_t kMaxUnscaledWindow = UINT16_MAX; // bytes: the window field

struct TcpConfig {
    const ncc_cc_ops *ops = nullptr;        // null: a message transport, and nothing else is set
    ncc_u64 params[NCC_CC_PARAMS_MAX] = {}; // in the order of the controller's table
    ncc_cc_conn conn = {};                  // without the rate of the host's link

    uint32_t mss_bytes = 0;
    uint32_t syn_bytes = 0; // IP packet of a SYN with its options
    uint32_t receive_buffer_bytes = 0;
    uint32_t send_buffer_bytes = 0;
    uint32_t window_shift = 0; // shift of the window field after the SYN (RFC 7323 section 2)
    uint32_t delayed_ack_pkts = 0;
    uint32_t dup_ack_pkts = 0;
    int64_t delayed_ack_ns = 0;
    int64_t min_rto_ns = 0;
    int64_t initial_rto_ns = 0;
    RttNoise rtt_noise{0, 0};
    ncc_cc_ecn ecn = NCC_CC_ECN_NONE;
    bool needs_rate = false; // the controller wants delivery rates
    bool handshake = true;
    bool sack = true;
    bool limited_transmit = true;
    bool modern = false;  // recovery: RACK-TLP, PRR, F-RTO instead of RFC 6675
    bool backlog = false; // Spec::backlog
    int64_t timer_slack_ns = 0, timer_tick_ns = 0;
};

// `stack`: as in FlowSpec. Throws std::invalid_argument if there is no transport of its name.
TcpConfig MakeTcpConfig(const Spec &spec, size_t stack);

} // namespace ncc::packetsim
