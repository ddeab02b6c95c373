// SPDX-License-Identifier: BSD-3-Clause
// State of the sending end of a connection. Bytes are payload; packets are numbers within the flow.
//
// Known differences from ns-3 3.44: payload is divided into packets once and for all, while ns-3 sends part of a packet
// if the send buffer or, in a repair, the receive window ends within it; and SYNs are repeated for ever. Two more are
// kept from ns-3 by envs/ns3/src/arrivals.cc: that a receiver offers less than a packet, and that a second SYN-ACK
// resets the window.
#pragma once

extern "C" {
#include "prr.h"
}

#include "modern.h"
#include "packet.h"
#include "tcp_config.h"
#include "tcp_rate.h"
#include "tcp_rings.h"
#include "timer.h"

#include <cstdint>
#include <memory>

namespace ncc::packetsim
{

// RFC 6675: a loss is suspected (disorder) or repaired (recovery), or everything sent counts as lost (loss). Reduced:
// the window shrinks because of ECN (modern recovery only; CWR in Linux).
enum class CongestionState : uint8_t { kOpen, kDisorder, kReduced, kRecovery, kLoss };

// A packet of the window as a word: the time in ns at which it was sent (classic: first, modern: last), and these
// flags.
struct Sent {
    static constexpr uint64_t kSacked = 1;    // the receiver has it beyond a gap
    static constexpr uint64_t kLost = 2;      // considered lost
    static constexpr uint64_t kRepaired = 4;  // sent again since it counts as lost or since the last timeout
    static constexpr uint64_t kAmbiguous = 8; // ever sent again: no RTT sample (Karn, RFC 6298 section 3)
    static constexpr unsigned kTimeShift = 4;
};

// Purposes of the retransmission timer.
enum class Waiting : uint8_t { kTimeout, kProbe, kReordering };

// State of modern recovery: RACK-TLP (RFC 8985), PRR (RFC 6937), F-RTO (RFC 5682).
struct TcpModern {
    // The packet sent last among those that have arrived, with its RTT
    int64_t sent_ns = 0;
    int64_t rtt_ns = 0;
    uint32_t number = 0;
    bool advanced = false;   // something arrived since losses were last searched
    bool lost_again = false; // a packet that was sent again was found lost in this event
    uint32_t found_lost = 0; // packets found lost in this event
    TcpRing resent;          // retransmissions in the order of sending: number and time
    uint32_t resent_first = 0, resent_end = 0;
    // Reordering window
    bool reordering = false; // a packet arrived after one sent later
    bool duplicate_seen = false;
    uint8_t window_steps = 1;
    uint8_t persist = 0;        // recoveries for which a widened window lasts
    uint32_t adapted_until = 0; // the window stays until this packet is acknowledged
    WindowUse use;
    // Timer and loss probe
    Waiting waiting = Waiting::kTimeout;
    bool probe_resent = false;
    uint32_t probe_end = kNone; // nxt when a probe was sent; kNone: no probe is out
    // Timeouts and undoing
    bool spurious_possible = false; // F-RTO is testing whether a timeout was spurious
    bool new_data_first = false;    // F-RTO waits for the answer to new data
    bool undo_possible = false;
    int32_t undo_resent = -1;       // retransmissions that DSACKs have not shown to be needless; -1: none was sent
    uint32_t undo_from = 0;         // una when the reduction began
    uint32_t undo_window_bytes = 0; // 0: do not restore
    uint32_t window_bytes = 0;      // the controller's
    uint32_t timeouts = 0;          // in a row
    ncc_prr prr = {};
    // RTO as Linux computes it
    int64_t deviation_ns = 0, max_deviation_ns = 0;
    uint32_t rtt_round = 0; // nxt at the start of this round trip
    alignas(8) unsigned char undo_controller[NCC_CC_SIM_STATE_MAX] = {};
};

struct TcpSender {
    uint32_t una = 0; // first unacknowledged packet
    uint32_t nxt = 0; // first packet that was never sent
    uint32_t cwnd_bytes = 0, ssthresh_bytes = UINT32_MAX;
    uint32_t rwnd_bytes = 0; // window that the receiver offers
    // Payload of the packets [una, nxt) that is sacked, lost, repaired: pipe = all - sacked - lost + repaired.
    uint32_t sacked_bytes = 0, lost_bytes = 0, repaired_bytes = 0;
    TcpRing sent;
    int64_t rto_ns = 0, srtt_ns = 0, rttvar_ns = 0;
    int64_t min_rtt_ns = 0;   // minimum of the samples that the controller gets; 0: none
    uint32_t rtt_samples = 0; // number of samples taken
    uint32_t rtt_from = 0;    // packets below it give no RTT sample
    CongestionState state = CongestionState::kOpen;
    bool established = false;
    bool rwnd_of_syn_ack = false; // no later packet of the receiver has come, whose sequence number is higher
    bool held_back = false;       // a packet was not sent because the host's queue was full
    bool recover_active = false;
    bool first_partial_ack = true; // no partial ACK yet in this recovery
    bool cwr_due = false;          // RFC 3168: set CWR on the next new packet, because ECE came
    uint32_t cwr_end = 0;          // packet after the last one with CWR
    Timer retransmit;
    Timer control; // the controller's
    ncc_cc_conn conn = {};
    alignas(8) unsigned char controller[NCC_CC_SIM_STATE_MAX] = {};
    uint64_t delivered_bytes = 0;    // most payload acknowledged so far, also by SACK
    uint64_t pacing_bytes_per_s = 0; // 0: unpaced
    Timer pace;
    uint64_t offered_bytes = 0; // bytes of the flow that the send buffer has taken so far
    uint64_t earlier_bytes = 0; // bytes of earlier flows on this connection

    // State of repairs
    uint32_t recover = 0;          // RecoveryPoint of RFC 6675
    uint32_t highest_sack = kNone; // packet
    uint32_t lost_below = 0;       // every packet below it is sacked or lost
    uint32_t unrepaired = 0;       // packets that are lost and not repaired ...
    uint32_t repair_from = 0;      // ... none of them below this one
    uint32_t rescue_from = 0;      // packets below it are sacked or repaired
    uint32_t dup_acks = 0;
    uint32_t syns = 0;                 // number sent
    int64_t syn_ns = 0;                // time of the first
    SackBlocks::Block seen[4] = {};    // blocks of the last ACK with any, which are all sacked
    TcpRate rate;                      // unused unless TcpConfig::needs_rate
    std::unique_ptr<TcpModern> modern; // null unless TcpConfig::modern
};

} // namespace ncc::packetsim
