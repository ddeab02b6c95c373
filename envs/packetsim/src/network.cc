// SPDX-License-Identifier: BSD-3-Clause
// Events that move packets.
#include "network.h"

#include <memory>

namespace ncc::packetsim
{

Network::Network(const Spec &spec)
    : engine_(spec), flows_(spec, *this), spec_(flows_.spec()), switches_(*this, spec_), nics_(spec_.is_host.size())
{
    for (uint32_t port = 0; port < engine_.links().size(); ++port) {
        if (const uint32_t node = spec_.node_of(port); spec_.is_host[node]) {
            nics_[node] = std::make_unique<HostNic>(*this, node, port, spec_.bucket_bytes,
                                                    FlowOrder::Make(spec_.order, spec_.order_params, flows_.views()));
            if (spec_.shaped_frac > 0) {
                nics_[node]->Shape(spec_, spec_.links[port / 2].rate_bps, spec_.frame_overhead_bytes);
            }
        }
    }
    switches_.StartPrograms();
    for (const uint32_t port : spec_.uplinks) {
        switches_.port(port).MeasureQueue();
    }
}

void Network::RunUntil(int64_t end_ns)
{
    engine_.CheckOrder();
    engine_.RunUntil(end_ns, [this](const Event &event) {
        if (KindOf(event.word) == EventKind::kArrival) [[likely]] {
            Arrive(IndexOf(event.word));
        } else if (KindOf(event.word) == EventKind::kWire) {
            nic(IndexOf(event.word)).WireFree();
        } else {
            Handle(event);
        }
    });
}

void Network::Handle(const Event &event)
{
    const uint32_t index = IndexOf(event.word);
    switch (KindOf(event.word)) {
    case EventKind::kArrival:
        return Arrive(index);
    case EventKind::kWire:
        return nic(index).WireFree();
    case EventKind::kTokens:
        return nic(index).Tokens(event.word);
    case EventKind::kTransmit:
        return switches_.Transmitted(index, event.word);
    case EventKind::kRetransmit:
        return flows_.Expire(TimerKind::kRetransmit, event);
    case EventKind::kDelayedAck:
        return flows_.Expire(TimerKind::kDelayedAck, event);
    case EventKind::kPace:
        return flows_.Expire(TimerKind::kPace, event);
    case EventKind::kControl:
        return flows_.Expire(TimerKind::kControl, event);
    case EventKind::kJoin:
        --joining_;
        return switches_.Join(engine_.packets()[index].next_port, index, NCC_PASS);
    case EventKind::kOver:
        return flows_.Close(index);
    case EventKind::kFlow:
        return flows_.StartFlows();
    case EventKind::kLimits:
        return ApplyLimits();
    case EventKind::kWrite:
        return flows_.Write(index);
    case EventKind::kGate:
        return flows_.gates().Alarm(index, now_ns());
    case EventKind::kLeave:
        return flows_.gates().Leave(index);
    case EventKind::kProgram:
        return switches_.ProgramTimer(index);
    case EventKind::kMessageTimer:
        return flows_.messages().Timer(index, event.word);
    case EventKind::kTurn:
        return flows_.messages().Turn(index);
    }
}

void Network::Arrive(uint32_t port)
{
    Link &link = engine_.link(port);
    if (link.waiting == link.packets.front()) { // the port must count it before it leaves the list
        switches_.Advanced(port);
    }
    const uint32_t place = engine_.TakeArrived(link);
    if (engine_.packets().slot(place) == kNone) [[unlikely]] {
        ++arrived_;
        engine_.packets().Release(place);
        Paused(port ^ 1, engine_.packets()[place].packet.number != 0);
        return;
    }
    if (link.seen_by != kNone) [[unlikely]] {
        switches_.Reverse(link.seen_by, place);
    }
    uint32_t next = engine_.packets()[place].next_port;
    if (next == kAsk) [[unlikely]] {
        next = flows_.ChoosePort(place, link.wire.to);
    }
    if (next != kNone) {
        switches_.Forward(next, place);
        return;
    }
    ++arrived_;
    const Packet packet = engine_.packets()[place].packet;
    engine_.packets().Release(place); // an answer can reuse the place
    flows_.Deliver(packet);
}

Network::Window Network::SenderWindow(uint32_t flow) const
{
    const uint32_t slot = flows_.connections().slot_of(flow);
    if (slot == kNone) {
        return {};
    }
    const TcpSender &sender = flows_.connections()[slot].sender;
    return {sender.cwnd_bytes, sender.ssthresh_bytes, static_cast<uint64_t>(sender.una) * spec_.mss_bytes()};
}

Network::Audit Network::Count() const
{
    Audit audit{flows_.sent(), arrived_, dropped_, 0, joining_, engine_.events_in_the_past(), engine_.scheduled()};
    for (const auto &nic : nics_) {
        audit.in_hosts += nic ? nic->waiting_pkts() + nic->shaped_pkts() : 0;
    }
    for (uint32_t port = 0; port < engine_.links().size(); ++port) {
        audit.on_links += engine_.links()[port].packets.size() + switches_.port(port).held_pkts() +
                          switches_.port(port).shaped_pkts();
    }
    return audit;
}

} // namespace ncc::packetsim
