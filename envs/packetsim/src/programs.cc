// SPDX-License-Identifier: BSD-3-Clause
// Programs of ports (switch.h): when they are called, and what becomes of what they say.
#include "network.h"

#include <algorithm>

namespace ncc::packetsim
{

ncc_cc_conn Network::Conn(uint32_t slot) const
{
    const Connection &connection = connections_[slot];
    ncc_cc_conn conn = tcp_[connection.stack].conn;
    conn.line_bytes_per_s = links_[hosts_[connection.src_host].nic->port()].wire.BytesPerS();
    return conn;
}

ncc_sw_packet Network::Describe(uint32_t place) const
{
    const Packet &packet = pool_[place].packet;
    const bool data = packet.has_payload(), window = packet.kind == Kind::kAck || packet.kind == Kind::kSynAck;
    const uint32_t flags = SwitchFlags(packet.to_receiver(), packet.kind == Kind::kSynAck,
                                       packet.fin && !packet.trimmed, packet.ecn_capable, packet.marked, window);
    return {connections_[packet.connection].flow,
            packet.ip_bytes,
            data ? packet.ip_bytes - kHeaderBytes : 0,
            flags,
            packet.hop,
            packet.prio,
            packet.rank,
            static_cast<ncc_u64>(packet.window)
                << (packet.kind == Kind::kAck ? tcp(packet.connection).window_shift : 0)};
}

uint32_t Network::Asked(uint32_t node, uint32_t place)
{
    InFlight &entry = pool_[place];
    const Packet &packet = entry.packet;
    if (packet.kind == Kind::kSignal) {
        return entry.next_port = WayBack(node, packet.connection);
    }
    const FlowSpec &flow = spec_.flows[connections_[packet.connection].flow];
    const uint32_t dst = packet.to_receiver() ? flow.dst : flow.src;
    entry.next_port =
        spec_.sprayed ? routes_.InTurn(node, dst) : router_.Port(routes_, node, dst, now_ns_, Describe(place));
    return entry.next_port;
}

uint32_t Network::WayBack(uint32_t node, uint32_t slot)
{
    const uint32_t flow = connections_[slot].flow;
    const uint32_t src = spec_.flows[flow].src;
    return routes_.Port(node, src, flow);
}

void Network::Drop(uint32_t place)
{
    ++dropped_;
    const Packet packet = pool_[place].packet;
    pool_.Release(place);
    Gone(packet);
}

void Network::JoinLater(uint32_t port, uint32_t place, int64_t delay_ns)
{
    ++joining_;
    pool_[place].next_port = port;
    Schedule(now_ns_ + delay_ns, EventKind::kJoin, place);
}

// The packet joins a port of this switch after what happens now.
void Network::SendSignal(uint32_t port, uint32_t slot, const ncc_cc_signal &signal)
{
    Packet packet{};
    packet.connection = slot;
    packet.number = signal.value;
    packet.sack = kNone;
    packet.ip_bytes = NCC_SW_SIGNAL_BYTES;
    packet.window = static_cast<uint16_t>(signal.kind);
    packet.kind = Kind::kSignal;
    ++connections_[slot].in_network;
    ++sent_;
    const uint32_t place = pool_.Take(packet);
    const LinkSpec &link = spec_.links[port / 2];
    pool_[place].word = kNoLink;
    JoinLater(WayBack(port % 2 == 0 ? link.a : link.b, slot), place, 0);
}

void Network::WriteHop(uint32_t place, const ncc_cc_hop &hop)
{
    Packet &packet = pool_[place].packet;
    if (!(tcp(packet.connection).ops->needs & NCC_CC_HOPS)) {
        return;
    }
    packet.sack = packet.sack == kNone ? TakeTelemetry() : packet.sack;
    if (Telemetry &written = telemetry_[packet.sack]; written.n < NCC_CC_HOPS_MAX) {
        written.hops[written.n++] = hop;
    }
}

uint32_t Network::TakeTelemetry()
{
    if (free_telemetry_.empty()) {
        telemetry_.emplace_back();
        return static_cast<uint32_t>(telemetry_.size() - 1);
    }
    const uint32_t index = free_telemetry_.back();
    free_telemetry_.pop_back();
    telemetry_[index].n = 0;
    return index;
}

void Network::DropTelemetry(uint32_t index)
{
    if (index != kNone) {
        free_telemetry_.push_back(index);
    }
}

void Network::KeepTelemetry(uint32_t &kept, uint32_t of)
{
    kept = kept == kNone ? TakeTelemetry() : kept;
    telemetry_[kept] = telemetry_[of];
}

void Network::LowerWindow(uint32_t place, uint64_t window_bytes)
{
    Packet &packet = pool_[place].packet;
    const uint32_t shift = packet.kind == Kind::kAck ? tcp(packet.connection).window_shift : 0;
    packet.window = LoweredWindow(packet.window, window_bytes, shift, mss_bytes_);
}

void Network::SendPause(uint32_t port, bool on)
{
    Packet frame{};
    frame.connection = frame.sack = kNone;
    frame.number = on;
    frame.ip_bytes = NCC_SW_PAUSE_BYTES;
    const uint32_t place = pool_.Take(frame);
    Link &out = links_[port];
    out.Transmit(pool_[place], std::max(out.free_ps, now_ns_ * kPsPerNs));
    ++sent_;
    OnLink(port, place, kAsk);
}

void Network::Paused(uint32_t index, uint32_t place)
{
    const bool on = pool_[place].packet.number != 0;
    pool_.Release(place);
    ++arrived_;
    if (switches_.port(index).at_switch()) {
        switches_.Pause(index, on);
        return;
    }
    const LinkSpec &link = spec_.links[index / 2];
    hosts_[host_index_[index % 2 == 0 ? link.a : link.b]].nic->Pause(on);
}

} // namespace ncc::packetsim
