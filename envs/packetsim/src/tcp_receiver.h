// SPDX-License-Identifier: BSD-3-Clause
// State of the receiving end of a connection.
#pragma once

#include "packet.h"
#include "tcp_rings.h"
#include "timer.h"

#include <cstdint>

namespace ncc::packetsim
{

struct TcpReceiver {
    enum class State : uint8_t { kListen, kSynReceived, kEstablished };

    uint32_t next = 0;    // first missing packet
    uint32_t held = 0;    // number of packets beyond it that have arrived
    uint32_t unacked = 0; // in-order packets since the last ACK
    State state = State::kListen;
    bool echo = false;    // DCTCP.CE, or "repeat ECE until CWR"
    uint8_t syn_acks = 0; // number sent
    Timer delayed_ack;    // before the connection is up: the SYN-ACK's retransmission
    TcpRing holds;        // bit n % 64 of word n / 64: packet n has arrived
    SackBlocks blocks;
    uint32_t duplicate = kNone; // packet that arrived again and that no ACK has reported
    uint32_t telemetry = kNone; // of the last data, which no ACK has given back
};

class Network;

// tcp_receiver.cc
void TcpReceiverOpen(Network &network, uint32_t slot); // without a handshake
void TcpReceiverReceive(Network &network, uint32_t slot, const Packet &packet);
void TcpReceiverExpired(Network &network, uint32_t slot);

} // namespace ncc::packetsim
