// SPDX-License-Identifier: BSD-3-Clause
// The receiving end of a connection: what it remembers.
#pragma once

#include "packet.h"
#include "tcp_rings.h"
#include "timer.h"

#include <cstdint>

namespace ncc::packetsim
{

struct TcpReceiver {
    enum class State : uint8_t { kListen, kSynReceived, kEstablished };

    uint32_t next = 0;    // first packet that is missing
    uint32_t held = 0;    // packets beyond it that are here
    uint32_t unacked = 0; // in-order packets since the last ACK
    State state = State::kListen;
    bool echo = false;    // DCTCP.CE, or "repeat ECE until CWR"
    uint8_t syn_acks = 0; // sent
    Timer delayed_ack;    // before the connection is up: the SYN-ACK's retransmission
    TcpRing holds;        // bit n % 64 of word n / 64: packet n is here
    SackBlocks blocks;
};

class Network;

// tcp_receiver.cc
void TcpReceiverOpen(Network &network, uint32_t slot); // without a handshake
void TcpReceiverReceive(Network &network, uint32_t slot, const Packet &packet);
void TcpReceiverExpired(Network &network, uint32_t slot);

} // namespace ncc::packetsim
