// SPDX-License-Identifier: GPL-2.0-only
#include "network.h"

#include "ns3/inet-socket-address.h"
#include "ns3/simulator.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace ncc
{

using namespace ns3;

namespace
{

constexpr uint16_t kServerPort = 5000;
constexpr uint32_t kMaxConnections = 16384; // ns-3's ephemeral ports, 49152 to 65535
constexpr uint32_t kNoIndex = std::numeric_limits<uint32_t>::max();

} // namespace

void Frame::Notify() { network->Arrive(this); }

Network::Network(const Spec &spec)
    : Run(spec), host_index_(spec_.is_host.size(), kNoIndex), switches_(*this, spec_), connections_(spec_.flows.size())
{
    SetDefaults(spec_);
    for (size_t stack = 0; stack <= spec_.stacks.size(); ++stack) {
        const bool tcp = FindTransport(spec_.stack(stack).transport) == nullptr;
        transports_.push_back(tcp ? std::make_unique<Transport>(spec_, stack) : nullptr);
    }
    CheckConnections(spec_, kNoIndex, kMaxConnections);
    BuildHosts();
    BuildLinks();
    MakeGates(*this);
    if (HasMessages(spec_)) {
        ends_ = std::make_unique<Messages>(*this);
    }
    switches_.StartPrograms();
    for (uint32_t port = 0; port < links_.size(); ++port) {
        see_windows_ |= switches_.port(port).needs(NCC_SW_REVERSE);
    }
    for (const uint32_t port : spec_.uplinks) {
        switches_.port(port).MeasureQueue();
    }
    Arm(*this);
}

Network::~Network()
{
    if (!LiveSimulation::Owned()) { // a forked copy: leave the parent's ns-3 objects alone
        for (auto &connection : connections_) {
            static_cast<void>(connection.release());
        }
        return;
    }
    for (auto &connection : connections_) {
        if (connection && connection->sender) {
            connection->sender->Shut();
            connection->receiver->Shut();
        }
    }
    connections_.clear();
    hosts_.clear();
}

void Network::StartFlow(uint32_t flow)
{
    if (!fault_.empty()) {
        return;
    }
    const FlowSpec &spec = spec_.flows[flow];
    const uint32_t before = idle_.Take(spec);
    const uint64_t written_bytes = WrittenBytes(flow, spec.start_ns);
    Begin(flow);
    if (transports_[spec.stack] == nullptr) {
        connections_[flow] = std::make_unique<Connection>();
        connections_[flow]->route = flow;
        ends_->Open(flow);
        return;
    }
    if (before >= IdleConnections::kUnused) {
        Connect(flow, before == IdleConnections::kUnused || !spec_.handshake || Answers(flow));
        ScheduleWrite(flow, written_bytes);
        return;
    }
    connections_[flow] = std::move(connections_[before]);
    Connection &connection = *connections_[flow];
    connection.acknowledged = connection.over = false;
    connection.receiver->Continue(flow);
    SendNote(flow);
    const uint32_t idle_rtos = IdleRtos(before, now_ns(), connection.sender->rto_ns());
    connection.sender->Continue(flow, spec.size_bytes, written_bytes, idle_rtos);
    ScheduleWrite(flow, written_bytes);
}

void Network::Connect(uint32_t flow, bool at_once)
{
    const FlowSpec &spec = spec_.flows[flow];
    Host &src = host_of(spec.src);
    Host &dst = host_of(spec.dst);
    if (src.connections == kMaxConnections) {
        Fail("node " + std::to_string(spec.src) + " has no port left for flow " + std::to_string(flow) +
             ": on ns-3 a " + "host may have " + std::to_string(kMaxConnections) +
             " connections at a time; start fewer flows, or use datapath=packetsim");
        return;
    }
    ++src.connections;
    auto &connection = connections_[flow];
    connection = std::make_unique<Connection>();
    connection->route = flow;
    const Transport &transport = *transports_[spec.stack];
    connection->sender = transport.Sender(*this, flow, src.ns3_node, src.tcp);
    connection->receiver = transport.Receiver(*this, flow, dst.ns3_node, dst.tcp);
    connection->sender->Bind();
    Address local;
    connection->sender->GetSockName(local);
    const Address from = InetSocketAddress(src.address, InetSocketAddress::ConvertFrom(local).GetPort());
    const Address to = InetSocketAddress(dst.address, kServerPort);
    connection->receiver->Await(to, from, at_once);
    if (at_once) {
        SendNote(flow);
    }
    connection->sender->Open(from, to, spec.size_bytes, WrittenBytes(flow, spec.start_ns), at_once);
}

void Network::EndFlow(uint32_t flow)
{
    End(flow, now_ns());
    // Freed later, because the socket is still being used, and has events of its own at this instant.
    Schedule(now_ns() + 1, EventKind::kOver, flow);
    if (idle_.kept()) {
        idle_.Add(spec_.flows[flow], flow);
    }
}

void Network::Close(uint32_t flow)
{
    --live_;
    auto &connection = connections_[flow];
    if (idle_.kept()) {
        if (connection) { // no other flow has taken it
            connection->over = true;
        }
        return;
    }
    if (!connection->sender) {
        ends_->Close(flow);
        connection = nullptr;
        return;
    }
    connection->sender->Shut();
    connection->receiver->Shut();
    connection = nullptr;
    --host_of(spec_.flows[flow].src).connections;
}

bool Network::Holds(uint32_t flow, uint64_t offset_bytes) const
{
    const Frame *frame = connections_[flow]->queue.list.front();
    while (frame != nullptr && frame->offset_bytes != offset_bytes) {
        frame = frame->behind;
    }
    return frame != nullptr;
}

void Network::Received(uint32_t flow, uint64_t total)
{
    if (records_[flow].finish_ns >= 0) {
        return;
    }
    if (Feeds(flow)) {
        Feed(*this, flow, total);
    }
    if (total == spec_.flows[flow].size_bytes) {
        Finish(flow, now_ns());
        Arm(*this);
    }
}

void Network::Acknowledged(uint32_t flow)
{
    Connection &connection = *connections_[flow];
    if (connection.acknowledged) {
        return;
    }
    connection.acknowledged = true;
    if (connection.queue.list.empty()) {
        EndFlow(flow);
    }
}

void Network::Fail(const std::string &message)
{
    fault_ = fault_.empty() ? message : fault_;
    if (!fault_.empty()) {
        Simulator::Stop();
    }
}

uint64_t Network::Schedule(int64_t time_ns, EventKind kind, uint32_t index)
{
    Simulator::Schedule(TimeStep(time_ns - now_ns()), &Network::Handle, this, kind, index, ++order_);
    return order_;
}

void Network::Handle(EventKind kind, uint32_t index, uint64_t number)
{
    switch (kind) {
    case EventKind::kTransmit:
        return switches_.Transmitted(index, number);
    case EventKind::kWire:
        return nic(index).WireFree();
    case EventKind::kTokens:
        return nic(index).Tokens(number);
    case EventKind::kOver:
        return Close(index);
    case EventKind::kFlow:
        return StartDue(*this);
    case EventKind::kLimits:
        return ApplyLimits();
    case EventKind::kGate:
        return gates_->Alarm(index, now_ns());
    case EventKind::kLeave:
        return gates_->Leave(index);
    case EventKind::kProgram:
        return switches_.ProgramTimer(index);
    case EventKind::kMessageTimer:
        return ends_->Timer(index, number);
    case EventKind::kTurn:
        return ends_->Turn(index);
    default:
        return; // packetsim's own
    }
}

int64_t Network::Transmit(uint32_t port, Frame *frame, int64_t start_ps)
{
    Link &link = links_[port];
    link.free_ps = start_ps + link.wire.SerialisationPs(frame->ip_bytes);
    frame->link = port;
    Simulator::Schedule(TimeStep(link.wire.ArrivalNs(link.free_ps) - now_ns()), Ptr<EventImpl>(frame));
    return link.free_ps;
}

void Network::Arrive(Frame *frame)
{
    const uint32_t node = links_[frame->link].wire.to;
    const FlowSpec &spec = spec_.flows[frame->flow];
    const uint32_t dst = frame->to_receiver ? spec.dst : spec.src;
    ++frame->hops;
    if (node != dst) {
        if (const uint32_t port = links_[frame->link].seen_by; port != kNoPort) {
            switches_.Reverse(port, frame);
        }
        switches_.Forward(Way(frame, node), frame);
        return;
    }
    if (frame->of_ends) {
        return ends_->Arrived(frame);
    }
    if (frame->signal.kind != NCC_CC_SIGNAL_NONE) {
        const Connection *connection = connections_[frame->flow].get();
        if (connection && connection->sender && !connection->over) {
            connection->sender->Signal(frame->signal);
        }
        Release(frame);
        return;
    }
    if (frame->to_receiver) {
        HeardOf(frame->flow, now_ns());
    }
    if (frame->message) {
        if (!frame->to_receiver) {
            gates_->Arrived(frame->grant, now_ns());
        }
        Drop(frame);
        return;
    }
    Connection *connection = connections_[frame->flow].get();
    if (connection == nullptr || connection->over) { // a duplicate of delivered data
        Release(frame);
        return;
    }
    if (frame->to_receiver) {
        if (frame->marked && frame->has_payload()) {
            CameMarked(frame->flow);
        }
        connection->receiver->Receive(frame);
    } else {
        if (frame->lowered) {
            WriteWindow(*frame);
        }
        connection->sender->Receive(frame);
    }
}

void Network::Step(const double *limits_bps)
{
    if (!LiveSimulation::Owned()) {
        throw std::runtime_error("this process was forked from the one that owns the ns-3 simulation: start workers "
                                 "with 'spawn' or 'forkserver'");
    }
    Stepped::Step(limits_bps);
}

void Network::RunUntil(int64_t end_ns)
{
    Simulator::Stop(TimeStep(end_ns - now_ns()));
    Simulator::Run();
}

Network::Window Network::SenderWindow(uint32_t flow) const
{
    const auto &connection = connections_.at(flow);
    if (!connection || connection->over) {
        return {};
    }
    if (!connection->sender) {
        return {};
    }
    const HostSocket &sender = *connection->sender;
    return {sender.cwnd_bytes(), sender.ssthresh_bytes(), sender.una_bytes() - sender.earlier_bytes()};
}

} // namespace ncc
