// SPDX-License-Identifier: BSD-3-Clause
// The sending end of a connection: what it remembers. Bytes are payload; packets are numbers within the flow.
//
// Where it leaves ns-3 3.44, knowingly: payload is cut into packets once and for all, while ns-3 sends part of one
// where the send buffer or, in a repair, the receive window ends within it; the receiver offers at least one packet
// (ns-3 may offer nothing until its persist timer expires, since it counts what the application is about to fetch); a
// second SYN-ACK changes nothing (in ns-3 it sets the window back); and SYNs are repeated for ever.
#pragma once

#include "packet.h"
#include "tcp_config.h"
#include "tcp_rate.h"
#include "tcp_rings.h"
#include "timer.h"

#include <cstdint>

namespace ncc::packetsim
{

// RFC 6675: loss is suspected (disorder), repaired (recovery), or all that was sent is taken for lost (loss).
enum class CongestionState : uint8_t { kOpen, kDisorder, kRecovery, kLoss };

// A packet of the window as a word: when it was first sent, in ns, and these.
struct Sent {
    static constexpr uint64_t kSacked = 1;    // the receiver holds it beyond a gap
    static constexpr uint64_t kLost = 2;      // deemed lost
    static constexpr uint64_t kRepaired = 4;  // sent again since it was deemed lost or since the last timeout
    static constexpr uint64_t kAmbiguous = 8; // ever sent again: no RTT sample (Karn, RFC 6298 section 3)
    static constexpr unsigned kTimeShift = 4;
};

struct TcpSender {
    uint32_t una = 0; // first packet that is not acknowledged
    uint32_t nxt = 0; // first packet that was never sent
    uint32_t cwnd_bytes = 0, ssthresh_bytes = UINT32_MAX;
    uint32_t rwnd_bytes = 0; // window that the receiver offers
    // Of the packets [una, nxt), the payload that is sacked, lost, repaired: pipe = all - sacked - lost + repaired.
    uint32_t sacked_bytes = 0, lost_bytes = 0, repaired_bytes = 0;
    TcpRing sent;
    int64_t rto_ns = 0, srtt_ns = 0, rttvar_ns = 0;
    int64_t min_rtt_ns = 0;   // of the samples as the controller hears of them; 0: there is none
    uint32_t rtt_samples = 0; // taken
    uint32_t rtt_from = 0;    // packets below it give no RTT sample
    CongestionState state = CongestionState::kOpen;
    bool established = false;
    bool held_back = false; // a packet would have gone but for the host's queue
    bool recover_active = false;
    bool first_partial_ack = true; // no partial ACK yet in this recovery
    bool cwr_due = false;          // RFC 3168: tell the receiver with the next new packet that ECE was heard
    uint32_t cwr_packet = 0;       // where it was last told
    Timer retransmit;
    alignas(8) unsigned char controller[NCC_CC_STATE_MAX] = {};
    uint64_t delivered_bytes = 0;    // acknowledged, cumulatively or selectively, at most so far
    uint64_t pacing_bytes_per_s = 0; // 0: unpaced
    Timer pace;
    uint64_t offered_bytes = 0; // of the flow, what the send buffer has taken so far

    // Repair
    uint32_t recover = 0;          // RecoveryPoint of RFC 6675
    uint32_t highest_sack = kNone; // packet
    uint32_t lost_below = 0;       // every packet below it is sacked or lost
    uint32_t unrepaired = 0;       // packets that are lost and not repaired ...
    uint32_t repair_from = 0;      // ... none of them below this one
    uint32_t rescue_from = 0;      // packets below it are sacked or repaired
    uint32_t dup_acks = 0;
    uint32_t syns = 0;              // sent
    int64_t syn_ns = 0;             // when the first was sent
    SackBlocks::Block seen[4] = {}; // blocks of the last ACK that had any: all of it is sacked
    TcpRate rate;                   // idle unless TcpConfig::needs_rate
};

} // namespace ncc::packetsim
