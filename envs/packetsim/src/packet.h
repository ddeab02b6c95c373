// SPDX-License-Identifier: BSD-3-Clause
// A packet: the header fields that the simulation needs.
#pragma once

extern "C" {
#include "switch.h"
}

#include "transports.h"

#include <cstdint>

namespace ncc::packetsim
{

constexpr uint32_t kNone = UINT32_MAX; // no connection, no node, no SACK blocks, ...
constexpr uint32_t kAsk = kNone - 1;   // a port that the switch chooses when the packet is there

// Kinds of packets; odd ones go to the sender.
enum class Kind : uint8_t {
    kSyn = 0,
    kSynAck = 1,
    kOpenAck = 2, // ends the handshake, carries no data
    kAck = 3,
    kData = 4,
    kGrant = 5,          // a receiver's grant (gates.h), a message beside TCP
    kNote = 6,           // a sender's notice of a flow that begins without a SYN
    kSignal = 7,         // a switch's signal to a sender (switch.h)
    kWordToReceiver = 8, // this and the next: control packets of a message transport (transport.h)
    kWordToSender = 9,
};

// Payload is counted in packets: packet n of a flow carries its bytes [n * mss, (n + 1) * mss), the last packet the
// rest.
struct Packet {
    uint32_t connection; // slot
    uint32_t number;     // kData: number of the packet; kAck: cumulative, the first missing packet; kSignal: its value
    // kAck: place of SACK blocks, kData: of telemetry, or kNone; kGrant: its place (Gates); message: its place in
    // Connections::extras
    uint32_t sack;
    uint16_t ip_bytes; // IP header, TCP header and payload
    // kSynAck, kAck: receive window as in the TCP header (RFC 7323 section 2); kSignal: its kind; message: MessageMark
    uint16_t window;
    uint32_t rank; // kData: of its tag (flow_tag.h); 0: most urgent
    uint8_t hop;   // links that it has crossed or is crossing
    Kind kind;
    uint8_t prio; // kData: class of its tag
    bool ecn_capable : 1;
    bool marked : 1;         // Congestion Experienced
    bool echo : 1;           // kAck: ECN-Echo
    bool window_reduced : 1; // kData: CWR
    bool retransmission : 1;
    bool fin : 1;     // kData: the last of its flow
    bool trimmed : 1; // kData: a port has cut its payload off (switch.h)
    bool message : 1; // belongs to a message transport

    void Trim() // cuts its payload off
    {
        ip_bytes = ip_bytes < NCC_SW_TRIM_BYTES ? ip_bytes : NCC_SW_TRIM_BYTES;
        trimmed = true;
    }
    bool has_payload() const { return kind == Kind::kData && !trimmed; }
    bool in_flow_queue() const { return has_payload() || (message && (window & kBehind) != 0); } // queue at its host
    bool shaped() const { return message && (window & kInShaped) != 0; }
    bool expendable() const { return message && (window & kExpendable) != 0; }
    unsigned way() const { return static_cast<unsigned>(kind) & 1; } // 0: to the receiver, 1: to the sender
    bool to_receiver() const { return way() == 0; }
};
static_assert(sizeof(Packet) == 24);

// Packets [first, end) that the receiver has beyond a gap, most recent block first (RFC 2018 section 4).
struct SackBlocks {
    struct Block {
        uint32_t first, end;
    };
    void Clear()
    {
        n = 0;
        trimmed = telemetry = kNone;
    }

    Block blocks[4];
    uint32_t n = 0;
    uint32_t trimmed = kNone;   // packet that arrived without its payload; it takes no room in the ACK
    uint32_t telemetry = kNone; // place of what ports wrote into the last data (Connections::telemetry)
};

// The content of a packet of a message transport.
struct MessageExtra {
    void Clear() {}

    ncc_tp_packet content;
};

// Telemetry that ports wrote into data on its way (NCC_CC_HOPS).
struct Telemetry {
    void Clear() { n = 0; }

    ncc_cc_hop hops[NCC_CC_HOPS_MAX];
    uint32_t n = 0;
};

} // namespace ncc::packetsim
