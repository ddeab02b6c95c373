// SPDX-License-Identifier: BSD-3-Clause
// Handling of packets beyond a port: drops, signals to senders, telemetry, lowered windows, pause frames.
#include "network.h"

#include <algorithm>

namespace ncc::packetsim
{

ncc_sw_packet Network::Describe(uint32_t place)
{
    const Packet &packet = engine_.packets()[place].packet;
    const bool ack = packet.kind == Kind::kAck, window = ack || packet.kind == Kind::kSynAck;
    const uint32_t flags = SwitchFlags(packet.to_receiver(), packet.kind == Kind::kSynAck,
                                       packet.fin && !packet.trimmed, packet.ecn_capable, packet.marked, window) |
                           (packet.expendable() ? static_cast<uint32_t>(NCC_SW_EXPENDABLE) : 0U) |
                           (Ect1(packet) ? static_cast<uint32_t>(NCC_SW_ECT1) : 0U);
    const uint32_t shift = ack ? connections().tcp(packet.connection).window_shift : 0;
    const uint32_t flow = connections().flow_of(packet.connection);
    const Router &router = flows_.router();
    const auto leaf = [&](bool of_source) {
        return router.tags() ? router.leaf(of_source ? spec_.flows[flow].src : spec_.flows[flow].dst) : 0;
    };
    return {flow,
            packet.ip_bytes,
            packet.has_payload() ? packet.ip_bytes - kHeaderBytes : 0,
            flags,
            packet.hop,
            packet.prio,
            packet.rank,
            packet.message ? 0 : static_cast<ncc_u64>(packet.window) << shift,
            0,
            router.tags() ? packet.rank : 0,
            leaf(packet.to_receiver()),
            leaf(!packet.to_receiver())};
}

bool Network::Ect1(const Packet &packet)
{
    return packet.ecn_capable && !packet.message &&
           (connections().tcp(packet.connection).ops->needs & NCC_CC_ECT1) != 0;
}

void Network::Drop(uint32_t place)
{
    ++dropped_;
    const Packet packet = engine_.packets()[place].packet;
    engine_.packets().Release(place);
    flows_.Forget(packet);
}

void Network::JoinLater(uint32_t port, uint32_t place, int64_t delay_ns)
{
    ++joining_;
    engine_.packets()[place].next_port = port;
    engine_.Schedule(now_ns() + delay_ns, EventKind::kJoin, place);
}

// The packet joins a port of this switch after what happens now.
void Network::SendSignal(uint32_t port, uint32_t about, const ncc_cc_signal &signal)
{
    const uint32_t slot = packets().slot(about), place = flows_.Make(slot, Kind::kSignal, NCC_SW_SIGNAL_BYTES);
    packets().header(place).number = signal.value;
    packets().header(place).window = static_cast<uint16_t>(signal.kind);
    packets()[place].word = PacketPool::kNoLink;
    JoinLater(flows_.WayBack(spec_.node_of(port), slot), place, 0);
}

void Network::WriteHop(uint32_t place, const ncc_cc_hop &hop)
{
    Packet &packet = engine_.packets()[place].packet;
    if (packet.message || !(connections().tcp(packet.connection).ops->needs & NCC_CC_HOPS)) {
        return;
    }
    packet.sack = packet.sack == kNone ? connections().telemetry().Take() : packet.sack;
    if (Telemetry &written = connections().telemetry()[packet.sack]; written.n < NCC_CC_HOPS_MAX) {
        written.hops[written.n++] = hop;
    }
}

void Network::LowerWindow(uint32_t place, uint64_t window_bytes)
{
    Packet &packet = engine_.packets()[place].packet;
    const uint32_t shift = packet.kind == Kind::kAck ? connections().tcp(packet.connection).window_shift : 0;
    packet.window = LoweredWindow(packet.window, window_bytes, shift, spec_.mss_bytes());
}

void Network::SendPause(uint32_t port, bool on)
{
    const uint32_t place = flows_.Make(kNone, Kind::kSyn, NCC_SW_PAUSE_BYTES);
    packets().header(place).number = on;
    const int64_t start_ps = std::max(engine_.link(port).free_ps, now_ns() * kPsPerNs);
    engine_.Transmit(port, place, start_ps);
}

} // namespace ncc::packetsim
