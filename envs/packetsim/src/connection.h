// SPDX-License-Identifier: BSD-3-Clause
// A live flow: its two TCP ends, its path and its queue in the sending host. A slot is reused once its flow is over,
// the flow's last packet has left the network, and no later flow can take its connection.
#pragma once

#include "packet_pool.h"
#include "tcp_receiver.h"
#include "tcp_sender.h"

#include "nic.h"

#include <cstdint>

namespace ncc::packetsim
{

constexpr uint32_t kMaxHops = 8;

// Switch ports that a connection's packets take, by Packet::way and hop, then kNone; chosen once, by hash (ECMP), or
// kAsk where a switch chooses for each packet.
struct alignas(64) Path {
    uint32_t ports[2][kMaxHops];
};

struct Connection {
    uint32_t flow = kNone;     // number of the flow; kNone: the slot is free
    uint32_t src = 0, dst = 0; // nodes
    uint32_t packets = 0;      // number of packets of the flow
    uint32_t last_bytes = 0;   // payload of its last packet
    uint32_t in_network = 0;   // packets that have been sent and have neither arrived nor been dropped; an
                               // idle connection counts as one
    uint8_t stack = 0;         // index of its TcpConfig
    bool feeds = false;        // true: its receiver passes on what it delivers, in another connection
    bool message = false;      // its ends are a message transport's (message.h), not TCP's
    bool acknowledged = false;
    bool limited[2] = {true, true}; // by Packet::way: packets are under their host's rate limit
    bool over = false;              // both ends are closed; late duplicates may still be on their way
    FlowQueue<PacketPool> queue;
    TcpSender sender;
    TcpReceiver receiver;

    uint32_t PayloadBytes(uint32_t number, uint32_t mss_bytes) const
    {
        return number + 1 < packets ? mss_bytes : last_bytes;
    }
    Timer &TimerOf(TimerKind kind)
    {
        return kind == TimerKind::kRetransmit   ? sender.retransmit
               : kind == TimerKind::kDelayedAck ? receiver.delayed_ack
               : kind == TimerKind::kControl    ? sender.control
                                                : sender.pace;
    }
};

} // namespace ncc::packetsim
