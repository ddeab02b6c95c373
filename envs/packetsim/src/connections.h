// SPDX-License-Identifier: BSD-3-Clause
// The memory of connections: their states by slots, and data that only few of their packets carry.
#pragma once

#include "connection.h"
#include "slots.h"
#include "tcp_config.h"
#include "tcp_rings.h"

#include "spec.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

namespace ncc::packetsim
{

class Connections
{
  public:
    explicit Connections(const Spec &spec) : mss_bytes_(spec.mss_bytes()), slot_of_flow_(spec.flows.size(), kNone)
    {
        for (size_t stack = 0; stack <= spec.stacks.size(); ++stack) {
            tcp_.push_back(MakeTcpConfig(spec, stack));
        }
    }

    Connection &operator[](uint32_t slot) { return connections_[slot]; }
    const Connection &operator[](uint32_t slot) const { return connections_[slot]; }
    Path &path(uint32_t slot) { return paths_[slot]; }
    // Port that a packet joins at the end of its next link. kNone: that link leads to its host; kAsk: the packet's path
    // does not fix the port.
    uint32_t NextPort(const Packet &packet) const
    {
        return packet.kind == Kind::kSignal ? kAsk : paths_[packet.connection].ports[packet.way()][packet.hop];
    }
    uint32_t slot_of(uint32_t flow) const { return slot_of_flow_.at(flow); } // kNone: it is not live
    uint32_t flow_of(uint32_t slot) const { return connections_[slot].flow; }
    FlowQueue<PacketPool> &queue(uint32_t slot) { return connections_[slot].queue; }
    bool Limited(const Packet &packet) const { return connections_[packet.connection].limited[packet.way()]; }
    const TcpConfig &tcp(uint32_t slot) const { return tcp_[connections_[slot].stack]; }
    TcpRings &rings() { return rings_; }
    Slots<SackBlocks> &sacks() { return sacks_; }
    Slots<Telemetry> &telemetry() { return telemetry_; }
    Slots<MessageExtra> &extras() { return extras_; }

    // Returns a slot for a flow, or kNone if there are too many.
    uint32_t Take(uint32_t flow, const FlowSpec &spec)
    {
        uint32_t slot = static_cast<uint32_t>(connections_.size());
        if (free_.empty()) {
            if (slot > kMaxIndex) {
                return kNone;
            }
            connections_.emplace_back();
            paths_.emplace_back();
        } else {
            slot = free_.back();
            free_.pop_back();
            connections_[slot] = Connection();
        }
        slot_of_flow_[flow] = slot;
        Connection &connection = connections_[slot];
        connection.flow = flow;
        connection.src = spec.src;
        connection.dst = spec.dst;
        connection.stack = spec.stack;
        connection.message = tcp_[spec.stack].ops == nullptr;
        std::copy(std::begin(spec.limited), std::end(spec.limited), connection.limited);
        connection.packets = static_cast<uint32_t>((spec.size_bytes + mss_bytes_ - 1) / mss_bytes_);
        connection.last_bytes =
            static_cast<uint32_t>(spec.size_bytes - static_cast<uint64_t>(connection.packets - 1) * mss_bytes_);
        return slot;
    }
    // A connection's flow is over. Its slot is free once none of its packets is on its way.
    void Close(uint32_t slot)
    {
        connections_[slot].over = true;
        slot_of_flow_[connections_[slot].flow] = kNone;
        if (connections_[slot].in_network == 0) {
            free_.push_back(slot);
        }
    }
    // A packet of a connection has arrived or was dropped.
    void Forget(const Packet &packet)
    {
        if (packet.sack != kNone) [[unlikely]] {
            ForgetContent(packet);
        }
        Release(packet.connection);
    }
    void Release(uint32_t slot)
    {
        Connection &connection = connections_[slot];
        if (--connection.in_network == 0 && connection.over) {
            free_.push_back(slot);
        }
    }

  private:
    [[gnu::noinline]] void ForgetContent(const Packet &packet)
    {
        if (packet.message) {
            extras_.Release(packet.sack);
        } else if (packet.kind == Kind::kData) {
            telemetry_.Release(packet.sack);
        } else if (packet.kind == Kind::kAck) {
            if (const uint32_t written = sacks_[packet.sack].telemetry; written != kNone) {
                telemetry_.Release(written);
            }
            sacks_.Release(packet.sack);
        }
    }

    uint32_t mss_bytes_;
    std::vector<TcpConfig> tcp_; // by FlowSpec::stack
    TcpRings rings_;
    std::vector<Connection> connections_;
    std::vector<Path> paths_; // by slot
    std::vector<uint32_t> slot_of_flow_, free_;
    Slots<SackBlocks> sacks_;
    Slots<Telemetry> telemetry_;
    Slots<MessageExtra> extras_;
};

} // namespace ncc::packetsim
