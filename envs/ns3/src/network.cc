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
    : spec_(spec), routes_(spec_), router_(spec_), host_index_(spec.is_host.size(), kNoIndex), knowledge_(spec_),
      idle_(spec_)
{
    SetDefaults(spec_);
    for (size_t stack = 0; stack <= spec_.stacks.size(); ++stack) {
        transports_.push_back(std::make_unique<Transport>(spec_, stack));
    }
    for (const FlowSpec &flow : spec_.flows) {
        if (!routes_.Reaches(flow.src, flow.dst) || !routes_.Reaches(flow.dst, flow.src)) {
            throw std::invalid_argument("no path between node " + std::to_string(flow.src) + " and node " +
                                        std::to_string(flow.dst));
        }
    }
    CheckConnections(spec_, kNoIndex, kMaxConnections);
    BuildHosts();
    BuildPorts();
    views_.resize(spec_.flows.size());
    records_.resize(spec_.flows.size());
    connections_.resize(spec_.flows.size());
    nic_of_flow_.resize(spec_.flows.size());
    for (size_t i = 0; i < spec_.flows.size(); ++i) {
        const FlowSpec &flow = spec_.flows[i];
        views_[i] = ViewOf(spec_, flow);
        Host &host = host_of(flow.src);
        nic_of_flow_[i] = host.nic.get();
        // A host reports the base RTT of its longest path before the first sample.
        host.rtt_mean_ns =
            std::max(host.rtt_mean_ns, static_cast<double>(routes_.BaseRttNs(spec_, flow.src, flow.dst)));
    }
    double longest = 0;
    for (const Host &host : hosts_) {
        longest = std::max(longest, host.rtt_mean_ns);
    }
    for (Host &host : hosts_) {
        host.rtt_mean_ns = host.rtt_mean_ns > 0 ? host.rtt_mean_ns : longest;
    }
    BuildGates();
    tags_ = Tags::Make(spec_.tags, spec_.tag_params);
    StartPrograms();
    limits_.assign(spec_.agents.size(), std::numeric_limits<double>::infinity());
    uplinks_before_.resize(spec_.uplinks.size());
    if (!spec_.flows.empty()) {
        Simulator::Schedule(TimeStep(spec_.flows[0].start_ns), &Network::StartFlows, this);
    }
}

Network::~Network()
{
    if (!LiveSimulation::Owned()) { // a forked copy: leave the parent's ns-3 objects alone
        for (auto &connection : connections_) {
            static_cast<void>(connection.release());
        }
        for (Host &host : hosts_) {
            static_cast<void>(host.nic.release());
        }
        return;
    }
    for (auto &connection : connections_) {
        if (connection) {
            connection->sender->Shut();
            connection->receiver->Shut();
        }
    }
    connections_.clear();
    hosts_.clear();
}

void Network::StartFlows()
{
    const int64_t now = Simulator::Now().GetTimeStep();
    while (next_flow_ < spec_.flows.size() && spec_.flows[next_flow_].start_ns <= now && fault_.empty()) {
        StartFlow(static_cast<uint32_t>(next_flow_++));
    }
    if (next_flow_ < spec_.flows.size() && fault_.empty()) {
        Simulator::Schedule(TimeStep(spec_.flows[next_flow_].start_ns - now), &Network::StartFlows, this);
    }
}

void Network::StartFlow(uint32_t flow)
{
    const FlowSpec &spec = spec_.flows[flow];
    const uint32_t before = idle_.Take(spec);
    std::vector<uint32_t> &live = host_of(spec.src).live;
    const uint64_t written_bytes = WrittenBytes(spec_, spec, spec.start_ns);
    knowledge_.Began(spec, views_[flow]);
    if (gates_) {
        gates_->Open(flow, spec);
    }
    if (before >= IdleConnections::kUnused) {
        Connect(flow, before == IdleConnections::kUnused || !spec_.handshake);
        ScheduleWrite(flow, written_bytes);
        return;
    }
    connections_[flow] = std::move(connections_[before]);
    Connection &connection = *connections_[flow];
    connection.acknowledged = connection.over = false;
    connection.live_index = static_cast<uint32_t>(live.size());
    live.push_back(flow);
    ++live_;
    const int64_t idle_ns = Simulator::Now().GetTimeStep() - views_[before].last_left_ns;
    connection.receiver->Continue(flow);
    Message(flow, true, 0);
    const uint32_t idle_rtos = IdleRtos(spec_, idle_ns, connection.sender->rto_ns());
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
    ++live_;
    connection->route = flow;
    connection->live_index = static_cast<uint32_t>(src.live.size());
    src.live.push_back(flow);
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
        Message(flow, true, 0);
    }
    connection->sender->Open(from, to, spec.size_bytes, WrittenBytes(spec_, spec, spec.start_ns), at_once);
}

void Network::Done(uint32_t flow)
{
    knowledge_.Ended(spec_.flows[flow]);
    if (gates_) {
        gates_->Over(flow, Simulator::Now().GetTimeStep());
    }
    // Freed later, because the socket is still being used, and has events of its own at this instant.
    Simulator::Schedule(TimeStep(1), &Network::Reap, this, flow);
    if (idle_.kept()) {
        idle_.Add(spec_.flows[flow], flow);
    }
}

void Network::Reap(uint32_t flow)
{
    --live_;
    auto &connection = connections_[flow];
    if (idle_.kept()) {
        if (connection) { // no other flow has taken it
            connection->over = true;
        }
        return;
    }
    connection->sender->Shut();
    connection->receiver->Shut();
    connection = nullptr;
    --host_of(spec_.flows[flow].src).connections;
}

bool Network::Holds(uint32_t flow, uint64_t offset_bytes) const
{
    const auto &frames = connections_[flow]->queue.frames;
    return std::any_of(frames.begin(), frames.end(),
                       [=](const Frame *frame) { return frame->offset_bytes == offset_bytes; });
}

void Network::Delivered(uint32_t flow, uint64_t bytes, uint64_t total)
{
    host_of(spec_.flows[flow].src).goodput_bytes += static_cast<int64_t>(bytes);
    views_[flow].delivered_bytes = total;
}

void Network::Received(uint32_t flow, uint64_t total)
{
    FlowRecord &record = records_[flow];
    if (total != spec_.flows[flow].size_bytes || record.finish_ns >= 0) {
        return;
    }
    record.finish_ns = Simulator::Now().GetTimeStep();
    ++finished_;
    if (gates_) {
        gates_->Received(flow);
    }
    std::vector<uint32_t> &live = host_of(spec_.flows[flow].src).live;
    const uint32_t index = connections_[flow]->live_index;
    live[index] = live.back();
    connections_[live[index]]->live_index = index;
    live.pop_back();
}

void Network::Acknowledged(uint32_t flow)
{
    Connection &connection = *connections_[flow];
    if (connection.acknowledged) {
        return;
    }
    connection.acknowledged = true;
    if (connection.queue.frames.empty()) {
        Done(flow);
    }
}

void Network::RttSample(uint32_t flow, int64_t ns)
{
    records_[flow].AddRtt(ns);
    Host &host = host_of(spec_.flows[flow].src);
    host.AddRtt(ns);
}

void Network::Fail(const std::string &message)
{
    if (fault_.empty()) {
        fault_ = message;
    }
    Simulator::Stop();
}

void Network::Leave(const Port &port, Frame *frame, int64_t in_ns)
{
    frame->node = port.wire().to;
    frame->seen_by = port.seen_by;
    Simulator::Schedule(TimeStep(in_ns), Ptr<EventImpl>(frame));
}

void Network::Transmitted(Port *port)
{
    const int64_t now = Simulator::Now().GetTimeStep();
    if (port->paused()) {
        port->Serve(false);
        return;
    }
    if (port->free_ns() > now) { // a pause frame has taken its turn
        Simulator::Schedule(TimeStep(port->free_ns() - now), &Network::Transmitted, this, port);
        return;
    }
    const Port::Started next = port->Next(now);
    Port *came_by = next.frame->seen_by;
    const int64_t bytes = next.frame->ip_bytes;
    Leave(*port, next.frame, next.arrival_ns - now);
    if (port->held_pkts() > 0) {
        Simulator::Schedule(TimeStep(port->free_ns() - now), &Network::Transmitted, this, port);
    } else {
        port->Serve(false);
    }
    Ingress(came_by, -bytes);
}

void Network::Arrive(Frame *frame)
{
    const uint32_t node = frame->node;
    const FlowSpec &spec = spec_.flows[frame->flow];
    const uint32_t dst = frame->to_receiver ? spec.dst : spec.src;
    ++frame->hops;
    if (node != dst) {
        if (frame->seen_by) {
            frame->seen_by->Reverse(frame, Simulator::Now().GetTimeStep());
        }
        Forward(frame, node);
        return;
    }
    if (frame->signal.kind != NCC_CC_SIGNAL_NONE) {
        if (const Connection *connection = connections_[frame->flow].get(); connection && !connection->over) {
            connection->sender->Signal(frame->signal);
        }
        Release(frame);
        return;
    }
    if (gates_ && frame->to_receiver) {
        gates_->Heard(frame->flow, Simulator::Now().GetTimeStep());
    }
    if (frame->message) {
        if (!frame->to_receiver) {
            gates_->Arrived(frame->grant, Simulator::Now().GetTimeStep());
        }
        Forget(frame);
        return;
    }
    Connection *connection = connections_[frame->flow].get();
    if (connection == nullptr || connection->over) { // a duplicate of delivered data
        Release(frame);
        return;
    }
    if (frame->to_receiver) {
        records_[frame->flow].ce_pkts += frame->marked && frame->payload_bytes > 0;
        connection->receiver->Receive(frame);
    } else {
        if (frame->lowered) {
            WriteWindow(*frame);
        }
        connection->sender->Receive(frame);
    }
}

void Network::Forward(Frame *frame, uint32_t node)
{
    const int64_t now = Simulator::Now().GetTimeStep();
    Port &port = *ports_[Way(*frame, node)];
    const int64_t arrival = port.Enqueue(frame, now);
    if (arrival >= 0) {
        Leave(port, frame, arrival - now);
    } else if (arrival == Port::kDropped) {
        Forget(frame);
    } else {
        if (!port.serving() && !port.paused()) {
            port.Serve(true);
            Simulator::Schedule(TimeStep(port.free_ns() - now), &Network::Transmitted, this, &port);
        }
        Ingress(frame->seen_by, frame->ip_bytes);
    }
}

void Network::ApplyLimits()
{
    for (size_t i = 0; i < limits_.size(); ++i) {
        Nic &nic = *host_of(spec_.agents[i]).nic;
        if (nic.limit_bps() != limits_[i]) {
            nic.SetLimit(limits_[i]);
        }
    }
    if (gates_) {
        gates_->Send(Simulator::Now().GetTimeStep());
    }
}

void Network::Step(const double *limits_bps)
{
    if (!LiveSimulation::Owned()) {
        throw std::runtime_error("this process was forked from the one that owns the ns-3 simulation: start workers "
                                 "with 'spawn' or 'forkserver'");
    }
    if (!fault_.empty()) {
        throw std::runtime_error(fault_);
    }
    limits_.assign(limits_bps, limits_bps + limits_.size());
    if (spec_.latency_ns > 0) {
        Simulator::Schedule(TimeStep(spec_.latency_ns), &Network::ApplyLimits, this);
    } else {
        ApplyLimits();
    }
    const int64_t end_ns = (epoch_ + 1) * spec_.period_ns;
    Simulator::Stop(TimeStep(end_ns - now_ns_));
    Simulator::Run();
    if (pausing_ && fault_.empty()) {
        now_ns_ = end_ns;
        WatchPauses();
    }
    if (!fault_.empty()) {
        throw std::runtime_error(fault_);
    }
    now_ns_ = end_ns;
    ++epoch_;
}

} // namespace ncc
