// SPDX-License-Identifier: BSD-3-Clause
// The life of a flow, and its packets at its hosts.
#include "flows.h"

#include "network.h"

#include <limits>
#include <stdexcept>
#include <string>

namespace ncc::packetsim
{

Flows::Flows(const Spec &spec, Network &network) : Run(spec), network_(network), connections_(spec_)
{
    constexpr uint64_t kMaxPackets = std::numeric_limits<uint32_t>::max() - 1;
    for (size_t i = 0; i < spec_.flows.size(); ++i) {
        const FlowSpec &flow = spec_.flows[i];
        if (flow.size_bytes == 0) {
            continue;
        }
        uint32_t hops = 0;
        for (uint32_t node = flow.src; node != flow.dst; ++hops) {
            node = network_.engine().link(routes_.Port(node, flow.dst, 0)).wire.to;
        }
        if (hops > kMaxHops) {
            throw std::invalid_argument("flow " + std::to_string(i) + " crosses " + std::to_string(hops) +
                                        " links; at most " + std::to_string(kMaxHops) + " are allowed");
        }
        if ((flow.size_bytes - 1) / spec_.mss_bytes() >= kMaxPackets) {
            throw std::invalid_argument("flow " + std::to_string(i) + " has " + std::to_string(flow.size_bytes) +
                                        " bytes; at most " + std::to_string(kMaxPackets) + " packets of " +
                                        std::to_string(spec_.mss_bytes()) + " bytes are allowed");
        }
    }
    CheckConnections(spec_, kMaxIndex, kMaxIndex);
    MakeGates(*this);
    if (HasMessages(spec_)) {
        ends_ = std::make_unique<Messages>(network_, *this);
    }
    Arm(*this);
}

int64_t Flows::now_ns() const { return network_.now_ns(); }

uint64_t Flows::Schedule(int64_t time_ns, EventKind kind, uint32_t index)
{
    return network_.engine().Schedule(time_ns, kind, index);
}

void Flows::StartFlow(uint32_t flow)
{
    const FlowSpec &spec = spec_.flows[flow];
    uint32_t before = idle_.Take(spec);
    const uint32_t slot = connections_.Take(flow, spec);
    if (before == IdleConnections::kAnother && Answers(flow)) {
        before = IdleConnections::kUnused;
    }
    if (slot == kNone) {
        network_.engine().Fail("more than " + std::to_string(kMaxIndex) + " flows at once");
        return;
    }
    if (before < IdleConnections::kUnused) { // the path is the connection's
        connections_.path(slot) = connections_.path(before);
    } else {
        ChoosePath(slot, spec);
    }
    Begin(flow);
    connections_[slot].feeds = Feeds(flow);
    if (connections_[slot].message) {
        ends_->Open(slot);
        return;
    }
    TcpOpen(network_, slot, before);
    const int64_t now_ns = network_.now_ns();
    if (spec.every_ns > 0 && WrittenBytes(flow, now_ns) < spec.size_bytes) {
        Schedule(now_ns + spec.every_ns, EventKind::kWrite, slot);
    }
    if (before < IdleConnections::kUnused) {
        connections_.Release(before);
    }
}

void Flows::Write(uint32_t slot)
{
    TcpWritten(network_, slot);
    const uint32_t flow = connections_.flow_of(slot);
    const int64_t now_ns = network_.now_ns();
    if (WrittenBytes(flow, now_ns) < spec_.flows[flow].size_bytes) {
        Schedule(now_ns + spec_.flows[flow].every_ns, EventKind::kWrite, slot);
    }
}

void Flows::ChoosePath(uint32_t slot, const FlowSpec &flow)
{
    const bool asks = spec_.sprayed || (spec_.by_entropy && connections_[slot].message) || router_.chooses();
    auto choose = [&](uint32_t *ports, uint32_t from, uint32_t to) {
        const uint32_t id = connections_.flow_of(slot);
        uint32_t node = from;
        for (uint32_t hop = 0;; ++hop) {
            const bool back = spec_.symmetric && to == flow.src;
            const uint32_t port = back ? routes_.PortBack(node, flow.src, flow.dst, id) : routes_.Port(node, to, id);
            node = network_.engine().link(port).wire.to;
            if (hop > 0) {
                ports[hop - 1] = asks ? kAsk : port;
            }
            if (node == to) {
                ports[hop] = kNone;
                return;
            }
        }
    };
    choose(connections_.path(slot).ports[0], flow.src, flow.dst);
    choose(connections_.path(slot).ports[1], flow.dst, flow.src);
}

uint32_t Flows::ChoosePort(uint32_t place, uint32_t node)
{
    const Packet &packet = network_.engine().packets()[place].packet;
    if (packet.kind == Kind::kSignal) { // it does not begin where its connection's packets do
        return spec_.is_host[node] ? kNone : WayBack(node, packet.connection);
    }
    const FlowSpec &flow = spec_.flows[connections_.flow_of(packet.connection)];
    const uint32_t dst = packet.to_receiver() ? flow.dst : flow.src;
    if (spec_.by_entropy && packet.message) {
        const uint32_t entropy = connections_.extras()[packet.sack].content.entropy;
        return routes_.Port(node, dst, Routes::Label(connections_.flow_of(packet.connection), entropy));
    }
    if (spec_.sprayed) {
        return routes_.InTurn(node, dst);
    }
    ncc_sw_packet seen = network_.Describe(place);
    const uint32_t port = router_.Port(routes_, node, dst, network_.now_ns(), seen);
    if (router_.tags()) {
        network_.engine().packets()[place].packet.rank = seen.tag;
    }
    return port;
}

uint32_t Flows::WayBack(uint32_t node, uint32_t slot) const
{
    const uint32_t flow = connections_.flow_of(slot);
    return routes_.Port(node, spec_.flows[flow].src, flow);
}

ncc_cc_conn Flows::Conn(uint32_t slot)
{
    ncc_cc_conn conn = connections_.tcp(slot).conn;
    conn.line_bytes_per_s = network_.engine().link(network_.nic(connections_[slot].src).port()).wire.BytesPerS();
    return conn;
}

uint32_t Flows::Make(uint32_t slot, Kind kind, uint32_t ip_bytes)
{
    ++sent_;
    if (slot != kNone) [[likely]] {
        ++connections_[slot].in_network;
    }
    const uint32_t place = network_.packets().Take();
    Packet &packet = network_.packets().header(place);
    packet = {};
    packet.connection = slot;
    packet.sack = kNone;
    packet.ip_bytes = static_cast<uint16_t>(ip_bytes);
    packet.kind = kind;
    return place;
}

void Flows::Send(uint32_t place)
{
    const Packet &packet = network_.packets().header(place);
    const Connection &connection = connections_[packet.connection];
    network_.nic(packet.to_receiver() ? connection.src : connection.dst).Send(place);
}

bool Flows::HasRoom(uint32_t slot) const
{
    const Connection &connection = connections_[slot];
    return connection.queue.HasRoom(spec_) && Passes(connection.flow, network_.now_ns());
}

void Flows::SendMessage(uint32_t flow, bool to_receiver, uint32_t place)
{
    const Kind kind = to_receiver ? Kind::kNote : Kind::kGrant;
    const uint32_t packet = Make(connections_.slot_of(flow), kind, Gates::kMessageBytes);
    network_.packets().header(packet).sack = place;
    ++messages_;
    Send(packet);
}

void Flows::SendNote(uint32_t slot)
{
    const uint32_t flow = connections_.flow_of(slot);
    const bool answers = Answers(flow);
    if (answers) { // its receiver has asked for it, and the query says when it may begin
        HeardOf(flow, network_.now_ns());
    }
    if (gates_ && !gates_->instant() && gates_->Opens(flow, network_.now_ns(), answers)) {
        SendMessage(flow, true, kNone);
    }
}

void Flows::Wake(uint32_t flow) { TcpRoom(network_, connections_.slot_of(flow)); }

uint64_t Flows::ReceivedBytes(uint32_t flow) const
{
    const Connection &connection = connections_[connections_.slot_of(flow)];
    const TcpReceiver &receiver = connection.receiver;
    const uint32_t last = connection.packets - 1, words = last / 64 - receiver.next / 64;
    const bool has_last =
        receiver.held > 0 && words < receiver.holds.capacity() && (receiver.holds[last / 64] >> last % 64 & 1) != 0;
    return static_cast<uint64_t>(receiver.next + receiver.held) * spec_.mss_bytes() -
           (has_last ? spec_.mss_bytes() - connection.last_bytes : 0);
}

void Flows::LeftHost(uint32_t place)
{
    const InFlight &entry = network_.engine().packets()[place];
    const Packet &packet = entry.packet;
    if (packet.kind != Kind::kData) {
        return;
    }
    const Connection &connection = connections_[packet.connection];
    const int64_t now_ns = network_.now_ns();
    if (record_sent_) {
        sent_packets_.push_back({now_ns, connection.flow, packet.number});
    }
    const uint64_t mss_bytes = spec_.mss_bytes(), begin_bytes = packet.number * mss_bytes;
    Left(connection.flow, begin_bytes + connection.PayloadBytes(packet.number, mss_bytes), packet.retransmission,
         now_ns);
    if (packet.message) [[unlikely]] {
        connections_.extras()[packet.sack].content.sent_ns = static_cast<ncc_u64>(now_ns);
    } else if (entry.joined_ns < now_ns && packet.number == connection.sender.una) {
        TcpHeadLeft(network_, packet.connection);
    }
}

void Flows::QueueShrank(uint32_t slot)
{
    const Connection &connection = connections_[slot];
    if (!connection.acknowledged) {
        connection.message ? ends_->Send(slot) : TcpRoom(network_, slot);
    } else if (connection.queue.bytes == 0) {
        End(slot);
    }
}

bool Flows::Holds(uint32_t slot, uint32_t number)
{
    const PacketPool &pool = network_.engine().packets();
    uint32_t place = connections_[slot].queue.list.front();
    while (place != kNone && pool[place].packet.number != number) {
        place = pool[place].behind;
    }
    return place != kNone;
}

void Flows::Deliver(const Packet &packet)
{
    const Connection &connection = connections_[packet.connection];
    const int64_t now_ns = network_.now_ns();
    if (packet.message) [[unlikely]] {
        ends_->Deliver(packet);
    } else if (packet.kind == Kind::kGrant) [[unlikely]] {
        gates_->Arrived(packet.sack, now_ns);
    } else if (packet.kind == Kind::kNote) [[unlikely]] {
        HeardOf(connection.flow, now_ns);
    } else if (packet.kind == Kind::kSignal) [[unlikely]] {
        if (!connection.over && !connection.message) {
            TcpSignal(network_, packet.connection, {packet.window, packet.number});
        }
    } else if (!connection.over) {
        if (packet.marked && packet.has_payload()) {
            CameMarked(connection.flow);
        }
        TcpReceive(network_, packet.connection, packet);
    }
    Forget(packet);
}

void Flows::Expire(TimerKind kind, const Event &event)
{
    const uint32_t slot = IndexOf(event.word);
    if (network_.engine().Expire(connections_[slot].TimerOf(kind), event)) {
        TcpExpired(network_, slot, kind);
    }
}

void Flows::Came(uint32_t slot)
{
    const Connection &connection = connections_[slot];
    const uint32_t next = connection.receiver.next;
    Feed(*this, connection.flow,
         next == connection.packets ? spec_.flows[connection.flow].size_bytes
                                    : static_cast<uint64_t>(next) * spec_.mss_bytes());
}

void Flows::Received(uint32_t slot)
{
    Finish(connections_.flow_of(slot), network_.now_ns());
    Arm(*this);
}

void Flows::Acknowledged(uint32_t slot)
{
    connections_[slot].acknowledged = true;
    if (connections_[slot].queue.bytes == 0) {
        End(slot);
    }
}

void Flows::End(uint32_t slot)
{
    const uint32_t flow = connections_.flow_of(slot);
    const int64_t now_ns = network_.now_ns();
    Run::End(flow, now_ns);
    Schedule(now_ns + 1, EventKind::kOver, slot); // later, because TCP is still using it
    if (idle_.kept()) {
        ++connections_[slot].in_network; // keeps the slot, with what the next flow inherits, until it is released
        idle_.Add(spec_.flows[flow], slot);
    }
}

void Flows::Close(uint32_t slot)
{
    connections_[slot].message ? ends_->Close(slot) : TcpClose(network_, slot);
    connections_.Close(slot);
    --live_;
}

} // namespace ncc::packetsim
