// SPDX-License-Identifier: BSD-3-Clause
#include "nic.h"

#include "network.h"

#include <algorithm>

namespace ncc::packetsim
{

namespace
{

void Append(PacketPool &pool, FlowQueue &queue, uint32_t place)
{
    queue.packets.PushBack(pool, place);
    queue.bytes += pool[place].packet.ip_bytes;
}

uint32_t RemoveHead(PacketPool &pool, FlowQueue &queue)
{
    const uint32_t place = queue.packets.PopFront(pool);
    queue.bytes -= pool[place].packet.ip_bytes;
    return place;
}

} // namespace

void Nic::SetLimit(Network &network, double bps)
{
    if (bps == bucket_.limit_bps()) {
        return;
    }
    bucket_.SetLimit(bps, network.now_ns());
    if (token_word_ != 0) {
        token_word_ = 0;
        ServeAt(network, 0);
    }
}

void Nic::Send(Network &network, const Packet &packet)
{
    const int64_t now_ns = network.now_ns();
    PacketPool &pool = network.pool();
    const uint32_t place = pool.Take(packet);
    pool[place].joined_ns = now_ns;
    const bool limited = network.limited(packet);
    const bool idle = waiting_pkts() == 0 && !wire_pending_ && !paused_ && free_ps_ <= now_ns * kPsPerNs;
    if (idle && (!limited || bucket_.WaitNs(packet.ip_bytes, now_ns) == 0)) {
        Transmit(network, place, limited, now_ns);
        network.Left(packet, now_ns, now_ns);
        return;
    }
    queue_bytes_ += packet.ip_bytes;
    totals_.queue_max_bytes = std::max(totals_.queue_max_bytes, queue_bytes_);
    if (packet.kind == Kind::kData) {
        Append(pool, network.connection(packet.connection).queue, place);
        ++data_pkts_;
        unlimited_pkts_ += !limited;
        if (order_) {
            order_->Joined(network.connection(packet.connection).flow);
        } else {
            turns_.push_back(packet.connection);
        }
    } else {
        Append(pool, control_[limited], place);
    }
    if (token_word_ != 0 && (packet.kind != Kind::kData || !limited)) {
        // A data packet waits for tokens, but a control packet is smaller, and one without a limit needs none.
        token_word_ = 0;
        ServeAt(network, 0);
    }
    if (!wire_pending_ && token_word_ == 0) {
        ServeAt(network, 0);
    }
}

void Nic::Pause(Network &network, bool on)
{
    paused_ = on;
    if (!on && waiting_pkts() > 0 && !wire_pending_ && token_word_ == 0) {
        ServeAt(network, 0);
    }
}

void Nic::ServeAt(Network &network, int64_t delay_ns)
{
    const int64_t now_ns = network.now_ns();
    if (free_ps_ > now_ns * kPsPerNs) { // nothing can be sent before the wire is free
        if (!wire_pending_) {
            wire_pending_ = true;
            network.Schedule((free_ps_ + kPsPerNs - 1) / kPsPerNs, EventKind::kWire, host_);
        }
        return;
    }
    token_word_ = network.Schedule(now_ns + delay_ns, EventKind::kTokens, host_);
}

uint32_t Nic::NextFlow(Network &network, int64_t now_ns)
{
    return order_ ? network.slot_of(order_->Next(now_ns)) : turns_.front();
}

uint32_t Nic::NextUnlimited(Network &network, int64_t now_ns)
{
    if (order_) {
        return network.slot_of(order_->NextUnlimited(now_ns));
    }
    return *std::find_if(turns_.begin(), turns_.end(),
                         [&](uint32_t slot) { return !network.connection(slot).limited[0]; });
}

Nic::Turn Nic::Next(Network &network, int64_t now_ns)
{
    if (!control_[0].packets.empty()) {
        return {&control_[0], kNone, false};
    }
    Turn turn{&control_[1], kNone, true};
    if (control_[1].packets.empty()) {
        const uint32_t slot = NextFlow(network, now_ns);
        Connection &connection = network.connection(slot);
        turn = {&connection.queue, slot, connection.limited[0]};
    }
    if (turn.limited) {
        const Packet &head = network.pool()[turn.queue->packets.front()].packet;
        turn.wait_ns = bucket_.WaitNs(head.ip_bytes, now_ns);
    }
    if (turn.wait_ns > 0 && unlimited_pkts_ > 0) {
        const uint32_t slot = NextUnlimited(network, now_ns);
        return {&network.connection(slot).queue, slot, false};
    }
    return turn;
}

void Nic::Serve(Network &network)
{
    if (waiting_pkts() == 0 || paused_) {
        return;
    }
    const int64_t now_ns = network.now_ns();
    const Turn turn = Next(network, now_ns);
    if (turn.wait_ns > 0) {
        ServeAt(network, turn.wait_ns);
        return;
    }
    PacketPool &pool = network.pool();
    const InFlight &head = pool[turn.queue->packets.front()];
    const int64_t joined_ns = head.joined_ns;
    const Packet packet = head.packet;
    queue_bytes_ -= packet.ip_bytes;
    const uint32_t place = RemoveHead(pool, *turn.queue);
    const bool data = turn.slot != kNone;
    if (data) {
        --data_pkts_;
        unlimited_pkts_ -= !turn.limited;
        if (order_) {
            order_->Left(network.connection(turn.slot).flow);
        } else {
            turns_.erase(std::find(turns_.begin(), turns_.end(), turn.slot)); // usually the first
        }
    }
    Transmit(network, place, turn.limited, now_ns);
    network.Left(packet, joined_ns, now_ns);
    if (data) {
        network.Drained(turn.slot); // TCP may hand down more
    }
    if (waiting_pkts() > 0 && !wire_pending_) {
        ServeAt(network, 0);
    }
}

void Nic::Transmit(Network &network, uint32_t place, bool limited, int64_t now_ns)
{
    InFlight &entry = network.pool()[place];
    const uint32_t ip_bytes = entry.packet.ip_bytes;
    if (limited) {
        bucket_.Take(ip_bytes);
        limited_bytes_ += ip_bytes;
    }
    ++totals_.tx_pkts;
    totals_.tx_bytes += ip_bytes;
    totals_.delay_ns += now_ns - entry.joined_ns;
    Link &link = network.link(port_);
    link.Transmit(entry, Wire::StartPs(free_ps_, now_ns));
    free_ps_ = link.free_ps;
    network.OnLink(port_, place);
}

} // namespace ncc::packetsim
