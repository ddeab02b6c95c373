// SPDX-License-Identifier: BSD-3-Clause
// Events that move packets.
#include "network.h"

#include <algorithm>
#include <stdexcept>

namespace ncc::packetsim
{

void Network::Step(const double *limits_bps)
{
    constexpr uint64_t kMaxOrder = 1ULL << (64 - kIndexBits - kKindBits - 1); // far more than one period needs
    if (order_ > kMaxOrder) {
        Fail("more than " + std::to_string(kMaxOrder) + " events, which is as far as they can be counted");
    }
    if (failed_) {
        throw std::runtime_error(fault_);
    }
    limits_.assign(limits_bps, limits_bps + limits_.size());
    if (spec_.latency_ns > 0) {
        Schedule(now_ns_ + spec_.latency_ns, EventKind::kLimits, 0);
    } else {
        ApplyLimits();
    }
    const int64_t end_ns = (epoch_ + 1) * spec_.period_ns;
    // Events that are scheduled from here on for exactly the end belong to the next epoch.
    const Event end{end_ns, EventWord(++order_, EventKind::kArrival, 0)};
    while (!scheduler_.empty() && !failed_) {
        const Event event = scheduler_.top();
        if (!(event < end)) {
            break;
        }
        scheduler_.Pop();
        now_ns_ = event.time_ns;
        ++events_;
        Handle(event);
    }
    if (!failed_) {
        now_ns_ = end_ns;
        if (const std::string deadlock = switches_.Deadlock(); !deadlock.empty()) {
            Fail(deadlock);
        }
    }
    if (failed_) {
        throw std::runtime_error(fault_);
    }
    ++epoch_;
}

void Network::Handle(const Event &event)
{
    const uint32_t index = IndexOf(event.word);
    switch (KindOf(event.word)) {
    case EventKind::kArrival:
        Arrive(index);
        return;
    case EventKind::kWire:
        hosts_[index].nic->WireFree();
        return;
    case EventKind::kTokens:
        hosts_[index].nic->Tokens(event.word);
        return;
    case EventKind::kTransmit:
        switches_.Transmitted(index);
        return;
    case EventKind::kRetransmit:
        Expire(TimerKind::kRetransmit, index, event);
        return;
    case EventKind::kDelayedAck:
        Expire(TimerKind::kDelayedAck, index, event);
        return;
    case EventKind::kPace:
        Expire(TimerKind::kPace, index, event);
        return;
    case EventKind::kControl:
        Expire(TimerKind::kControl, index, event);
        return;
    case EventKind::kJoin:
        --joining_;
        switches_.Join(pool_[index].next_port, index, NCC_PASS);
        return;
    case EventKind::kOver:
        Over(index);
        return;
    case EventKind::kFlow:
        StartFlows();
        return;
    case EventKind::kLimits:
        ApplyLimits();
        return;
    case EventKind::kWrite:
        Write(index);
        return;
    case EventKind::kGate:
        gates_->Alarm(index, now_ns_);
        return;
    case EventKind::kLeave:
        gates_->Leave(index);
        return;
    case EventKind::kProgram:
        switches_.ProgramTimer(index);
        return;
    }
}

void Network::Arrive(uint32_t port)
{
    Link &link = links_[port];
    if (link.waiting == link.packets.front()) { // the port must count it before it leaves the list
        switches_.Advanced(port);
    }
    const uint32_t place = link.packets.PopFront(pool_);
    if (!link.packets.empty()) {
        const InFlight &head = pool_[link.packets.front()];
        scheduler_.Push({head.arrival_ns, head.word});
    }
    InFlight &entry = pool_[place];
    ++entry.packet.hop;
    const uint32_t next = entry.next_port;
    const bool pause = entry.packet.connection == kNone;
    if (link.seen_by != kNone && !pause) [[unlikely]] {
        switches_.Reverse(link.seen_by, place);
    }
    if (next < kAsk) {
        switches_.Forward(next, place);
    } else if (next == kNone) {
        Deliver(place);
    } else if (pause) {
        Paused(port ^ 1, place);
    } else {
        switches_.Forward(Asked(link.wire.to, place), place);
    }
}

void Network::Deliver(uint32_t place)
{
    ++arrived_;
    const Packet packet = pool_[place].packet;
    pool_.Release(place); // an answer can reuse the place
    Connection &connection = connections_[packet.connection];
    if (packet.kind > Kind::kData) [[unlikely]] {
        Hear(packet);
    } else if (!connection.over) {
        if (packet.marked && packet.has_payload()) {
            ++records_[connection.flow].ce_pkts;
        }
        TcpReceive(*this, packet.connection, packet);
    }
    Gone(packet);
}

void Network::Gone(const Packet &packet)
{
    if (packet.sack != kNone) {
        if (packet.kind == Kind::kGrant) {
            gates_->Lost(packet.sack);
        } else if (packet.kind == Kind::kData) {
            DropTelemetry(packet.sack);
        } else {
            DropTelemetry(sacks_[packet.sack].telemetry);
            free_sacks_.push_back(packet.sack);
        }
    }
    Release(packet.connection);
}

uint32_t Network::TakeSack()
{
    if (free_sacks_.empty()) {
        sacks_.emplace_back();
        return static_cast<uint32_t>(sacks_.size() - 1);
    }
    const uint32_t index = free_sacks_.back();
    free_sacks_.pop_back();
    sacks_[index].n = 0;
    sacks_[index].trimmed = sacks_[index].telemetry = kNone;
    return index;
}

void Network::Arm(Timer &timer, TimerKind kind, uint32_t slot, int64_t delay_ns)
{
    timer.due_ns = now_ns_ + delay_ns;
    timer.order = ++order_;
    if (timer.queued_ns <= timer.due_ns) {
        return; // the queued event will find the new time
    }
    constexpr EventKind kEvents[] = {EventKind::kRetransmit, EventKind::kDelayedAck, EventKind::kPace,
                                     EventKind::kControl};
    const uint64_t word = EventWord(timer.order, kEvents[static_cast<size_t>(kind)], slot);
    past_ += delay_ns < 0;
    scheduler_.Push({timer.due_ns, word});
    timer.queued_ns = timer.due_ns;
    timer.queued_word = word;
}

Timer &Network::TimerOf(TimerKind kind, uint32_t slot)
{
    Connection &connection = connections_[slot];
    switch (kind) {
    case TimerKind::kRetransmit:
        return connection.sender.retransmit;
    case TimerKind::kDelayedAck:
        return connection.receiver.delayed_ack;
    case TimerKind::kControl:
        return connection.sender.control;
    case TimerKind::kPace:
        break;
    }
    return connection.sender.pace;
}

void Network::Expire(TimerKind kind, uint32_t slot, const Event &event)
{
    Timer &timer = TimerOf(kind, slot);
    if (event.word != timer.queued_word) { // belongs to an earlier flow, or an earlier event replaced it
        return;
    }
    if (timer.on() && EventWord(timer.order, KindOf(event.word), slot) != event.word) {
        timer.queued_ns = timer.due_ns;
        timer.queued_word = EventWord(timer.order, KindOf(event.word), slot);
        scheduler_.Push({timer.queued_ns, timer.queued_word});
        return;
    }
    timer.queued_ns = Timer::kOff;
    timer.queued_word = 0;
    if (timer.on()) {
        timer.Cancel();
        TcpExpired(*this, slot, kind);
    }
}

void Network::Acknowledged(uint32_t slot)
{
    Connection &connection = connections_[slot];
    connection.acknowledged = true;
    if (connection.queue.bytes == 0) {
        Done(slot);
    }
}

void Network::QueueShrank(uint32_t slot)
{
    const Connection &connection = connections_[slot];
    if (!connection.acknowledged) {
        TcpRoom(*this, slot);
    } else if (connection.queue.bytes == 0) {
        Done(slot);
    }
}

void Network::Release(uint32_t slot)
{
    Connection &connection = connections_[slot];
    if (--connection.in_network == 0 && connection.over) {
        free_slots_.push_back(slot);
    }
}

void Network::LeftHost(uint32_t place)
{
    const Packet &packet = pool_[place].packet;
    if (packet.kind != Kind::kData) {
        return;
    }
    const Connection &connection = connections_[packet.connection];
    if (record_sent_) {
        sent_packets_.push_back({now_ns_, connection.flow, packet.number});
    }
    FlowRecord &record = records_[connection.flow];
    ++record.sent_pkts;
    record.retransmitted_pkts += packet.retransmission;
    const uint64_t end_bytes =
        static_cast<uint64_t>(packet.number) * mss_bytes_ + payload_bytes(packet.connection, packet.number);
    views_[connection.flow].Left(end_bytes, now_ns_);
    if (pool_[place].joined_ns < now_ns_ && packet.number == connection.sender.una) {
        TcpHeadLeft(*this, packet.connection);
    }
}

bool Network::Holds(uint32_t slot, uint32_t number)
{
    for (uint32_t place = connections_[slot].queue.list.front(); place != kNone; place = pool_[place].behind) {
        if (pool_[place].packet.number == number) {
            return true;
        }
    }
    return false;
}

void Network::ApplyLimits()
{
    for (size_t i = 0; i < limits_.size(); ++i) {
        hosts_[host_index_[spec_.agents[i]]].nic->SetLimit(limits_[i]);
    }
    if (gates_) {
        gates_->Send(now_ns_);
    }
}

} // namespace ncc::packetsim
