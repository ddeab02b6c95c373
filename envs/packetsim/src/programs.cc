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

auto Network::Arms(uint32_t port)
{
    return [this, first = first_program_[port]](uint32_t program, int64_t in_ns) {
        Schedule(now_ns_ + in_ns, EventKind::kProgram, first + program);
    };
}

void Network::StartPrograms()
{
    if (spec_.programs.empty()) {
        return;
    }
    for (uint32_t index = 0; index < ports_.size(); ++index) {
        Programs *programs = ports_[index].programs();
        first_program_.push_back(static_cast<uint32_t>(programs_.size()));
        if (programs == nullptr) {
            continue;
        }
        pausing_ |= programs->need(NCC_SW_INGRESS);
        if (programs->need(NCC_SW_REVERSE)) {
            links_[index ^ 1].seen_by = index;
        }
        for (uint32_t i = 0; i < programs->count(); ++i) {
            programs_.push_back({index, i});
        }
        programs->Init(ports_[index].Seen(links_[index], spec_.mtu_bytes, now_ns_), Arms(index));
    }
    for (uint32_t index = 0; pausing_ && index < ports_.size(); ++index) {
        if (ports_[index].at_switch()) { // count packets of all links into switches
            links_[index ^ 1].seen_by = index;
        }
    }
}

ncc_sw_packet Network::Seen(const Packet &packet) const
{
    const bool data = packet.has_payload(), window = packet.kind == Kind::kAck || packet.kind == Kind::kSynAck;
    const uint32_t flags = SwitchFlags(packet.to_receiver(), packet.kind == Kind::kSynAck,
                                       packet.fin && !packet.trimmed, packet.ecn_capable, packet.marked, window);
    return {connections_[packet.connection].flow,
            packet.ip_bytes,
            data ? packet.ip_bytes - kHeaderBytes : 0,
            flags,
            packet.hop + 1U,
            packet.prio,
            packet.rank,
            static_cast<ncc_u64>(packet.window)
                << (packet.kind == Kind::kAck ? tcp(packet.connection).window_shift : 0)};
}

ncc_verdict Network::Call(ncc_sw_needs hook, uint32_t index, ncc_sw_packet &packet, ncc_verdict verdict)
{
    Port &port = ports_[index];
    return port.programs()->Packet(hook, port.Seen(links_[index], spec_.mtu_bytes, now_ns_), packet, verdict,
                                   Arms(index));
}

ncc_verdict Network::Enqueue(uint32_t index, uint32_t place, ncc_verdict verdict, ncc_verdict fault, uint64_t &rank)
{
    Port &port = ports_[index];
    const Packet &packet = pool_[place].packet;
    const bool full = port.ranked() && verdict == NCC_DROP && fault != NCC_DROP; // others may make room
    ncc_sw_packet seen = Seen(packet);
    verdict = full ? NCC_PASS : verdict;
    if (port.programs()->need(NCC_SW_ENQUEUE)) {
        verdict = Call(NCC_SW_ENQUEUE, index, seen, verdict);
        const ncc_cc_signal signal = port.programs()->TakeSignal();
        if (signal.kind != NCC_CC_SIGNAL_NONE && packet.has_payload()) {
            const Packet about = packet; // the pool may move
            Signal(index, about, signal);
        }
    }
    rank = seen.rank;
    if (verdict == NCC_TRIM) {
        Packet &cut = pool_[place].packet;
        cut.ip_bytes = std::min<uint16_t>(cut.ip_bytes, NCC_SW_TRIM_BYTES);
        cut.trimmed = true;
    }
    if (!full || verdict == NCC_DROP) {
        return verdict;
    }
    const bool room = port.MakeRoom(pool_, pool_[place].packet.ip_bytes, rank, [this](uint32_t out) {
        const Packet gone = pool_[out].packet;
        const auto came_by = static_cast<uint32_t>(pool_[out].word);
        ++dropped_;
        pool_.Release(out);
        if (pausing_) {
            Ingress(came_by, -gone.ip_bytes);
        }
        Gone(gone);
    });
    return room ? verdict : NCC_DROP;
}

uint32_t Network::Asked(const Link &link, uint32_t place)
{
    InFlight &entry = pool_[place];
    const Packet &packet = entry.packet;
    const uint32_t node = link.wire.to;
    if (packet.kind == Kind::kSignal) {
        return entry.next_port = WayBack(node, packet.connection);
    }
    const FlowSpec &flow = spec_.flows[connections_[packet.connection].flow];
    const uint32_t dst = packet.to_receiver() ? flow.dst : flow.src;
    entry.next_port =
        spec_.sprayed ? routes_.InTurn(node, dst) : router_.Port(routes_, node, dst, now_ns_, Seen(packet));
    return entry.next_port;
}

uint32_t Network::WayBack(uint32_t node, uint32_t slot)
{
    const uint32_t flow = connections_[slot].flow;
    const uint32_t src = spec_.flows[flow].src;
    return routes_.Port(node, src, flow);
}

// The packet joins a port of this switch after what happens now.
void Network::Signal(uint32_t port, const Packet &about, const ncc_cc_signal &signal)
{
    Packet packet{};
    packet.connection = about.connection;
    packet.number = signal.value;
    packet.sack = kNone;
    packet.ip_bytes = NCC_SW_SIGNAL_BYTES;
    packet.window = static_cast<uint16_t>(signal.kind);
    packet.kind = Kind::kSignal;
    ++connections_[about.connection].in_network;
    ++sent_;
    ++joining_;
    const uint32_t place = pool_.Take(packet);
    const LinkSpec &link = spec_.links[port / 2];
    pool_[place].word = kNone; // it has come by no link
    pool_[place].next_port = WayBack(port % 2 == 0 ? link.a : link.b, about.connection);
    Schedule(now_ns_, EventKind::kJoin, place);
}

void Network::Leaving(uint32_t index, uint32_t place)
{
    Port &port = ports_[index];
    if (!port.programs() || !port.programs()->need(NCC_SW_DEQUEUE)) {
        return;
    }
    Packet &packet = pool_[place].packet;
    ncc_sw_packet seen = Seen(packet);
    --seen.hops; // it is on the next link already
    if (Call(NCC_SW_DEQUEUE, index, seen, NCC_PASS) == NCC_MARK && !packet.marked) {
        packet.marked = true;
        port.MarkedLeaving();
    }
    const ncc_cc_hop hop = port.programs()->TakeHop();
    if (hop.rate_bytes_per_s == 0 || !packet.has_payload() || !(tcp(packet.connection).ops->needs & NCC_CC_HOPS)) {
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

void Network::Reverse(uint32_t index, uint32_t place)
{
    pool_[place].word = index ^ 1;
    Packet &packet = pool_[place].packet;
    const Programs *programs = ports_[index].programs();
    if (packet.connection == kNone || !programs || !programs->need(NCC_SW_REVERSE)) {
        return;
    }
    ports_[index].Advance(pool_, links_[index], now_ns_);
    ncc_sw_packet seen = Seen(packet);
    Call(NCC_SW_REVERSE, index, seen, NCC_PASS);
    if (seen.flags & NCC_SW_HAS_WINDOW) {
        const uint32_t shift = packet.kind == Kind::kAck ? tcp(packet.connection).window_shift : 0;
        packet.window = LoweredWindow(packet.window, seen.window_bytes, shift, mss_bytes_);
    }
}

void Network::ProgramTimer(uint32_t program)
{
    const auto [index, i] = programs_[program];
    Port &port = ports_[index];
    if (!port.programs()->Due(i, now_ns_)) {
        return;
    }
    port.Advance(pool_, links_[index], now_ns_);
    port.programs()->Expired(i, port.Seen(links_[index], spec_.mtu_bytes, now_ns_), Arms(index));
}

void Network::Ingress(uint32_t link, int64_t bytes)
{
    if (link == kNone) {
        return;
    }
    const uint32_t index = link ^ 1;
    Port &port = ports_[index];
    port.Ingress(bytes);
    if (!port.programs() || !port.programs()->need(NCC_SW_INGRESS)) {
        return;
    }
    port.Advance(pool_, links_[index], now_ns_);
    const ncc_sw_pause pause =
        port.programs()->Ingress(port.Seen(links_[index], spec_.mtu_bytes, now_ns_), Arms(index));
    if (pause == NCC_SW_AS_IT_WAS) {
        return;
    }
    port.Pauses(pause == NCC_SW_PAUSE, now_ns_);
    Packet frame{};
    frame.connection = frame.sack = kNone;
    frame.number = pause == NCC_SW_PAUSE;
    frame.ip_bytes = NCC_SW_PAUSE_BYTES;
    const uint32_t place = pool_.Take(frame);
    Link &out = links_[index];
    out.Transmit(pool_[place], std::max(out.free_ps, now_ns_ * kPsPerNs));
    ++sent_;
    OnLink(index, place, kAsk);
}

void Network::Paused(uint32_t index, uint32_t place)
{
    const bool on = pool_[place].packet.number != 0;
    pool_.Release(place);
    ++arrived_;
    Port &port = ports_[index];
    if (!port.at_switch()) {
        const LinkSpec &link = spec_.links[index / 2];
        hosts_[host_index_[index % 2 == 0 ? link.a : link.b]].nic->Pause(*this, on);
        return;
    }
    port.Pause(on, now_ns_);
    if (!on && port.waiting_pkts() > 0 && !port.serving()) {
        port.Serve(true);
        Schedule(std::max(Port::FreeNs(links_[index]), now_ns_), EventKind::kTransmit, index);
    }
}

void Network::WatchPauses()
{
    std::vector<PausedPort> stuck;
    for (uint32_t index = 0; index < ports_.size(); ++index) {
        if (ports_[index].LongPaused(ports_[index ^ 1], now_ns_)) {
            stuck.push_back(ports_[index].Paused(index, pool_));
        }
    }
    const std::vector<uint32_t> ports =
        Deadlock(std::move(stuck), [this](uint32_t link) { return ports_[link ^ 1].ingress_bytes(); });
    if (!ports.empty()) {
        Fail(DeadlockMessage(ports));
    }
}

} // namespace ncc::packetsim
