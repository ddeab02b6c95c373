// SPDX-License-Identifier: BSD-3-Clause
#include "nic.h"

#include "network.h"

#include <algorithm>

namespace ncc::packetsim
{

namespace
{

void Append(PacketPool &pool, FlowQueue &queue, uint32_t node)
{
    if (queue.head == kNone) {
        queue.head = node;
    } else {
        pool[queue.tail].next = node;
    }
    queue.tail = node;
    queue.bytes += pool[node].packet.ip_bytes;
}

void RemoveHead(PacketPool &pool, FlowQueue &queue)
{
    const uint32_t node = queue.head;
    queue.head = pool[node].next;
    queue.bytes -= pool[node].packet.ip_bytes;
    pool.Release(node);
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
    const bool idle = control_.head == kNone && data_pkts_ == 0 && !wire_pending_;
    if (idle && free_ps_ <= now_ns * kPsPerNs && bucket_.WaitNs(packet.ip_bytes, now_ns) == 0) {
        Transmit(network, packet, now_ns, now_ns);
        network.Left(packet, now_ns, now_ns);
        return;
    }
    PacketPool &pool = network.pool();
    const uint32_t node = pool.Take(packet, now_ns);
    queue_bytes_ += packet.ip_bytes;
    totals_.queue_max_bytes = std::max(totals_.queue_max_bytes, queue_bytes_);
    if (packet.kind == Kind::kData) {
        Append(pool, network.connection(packet.connection).queue, node);
        ++data_pkts_;
        if (order_) {
            order_->Joined(network.connection(packet.connection).flow);
        } else {
            turns_.push_back(packet.connection);
        }
    } else {
        Append(pool, control_, node);
        if (token_word_ != 0) { // a data packet waits for its tokens; a small one may need none
            token_word_ = 0;
            ServeAt(network, 0);
        }
    }
    if (!wire_pending_ && token_word_ == 0) {
        ServeAt(network, 0);
    }
}

void Nic::ServeAt(Network &network, int64_t delay_ns)
{
    const int64_t now_ns = network.now_ns();
    if (free_ps_ > now_ns * kPsPerNs) { // nothing can go before the wire is free
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

void Nic::Serve(Network &network)
{
    const bool control = control_.head != kNone;
    if (!control && data_pkts_ == 0) {
        return;
    }
    const int64_t now_ns = network.now_ns();
    PacketPool &pool = network.pool();
    const uint32_t slot = control ? kNone : NextFlow(network, now_ns);
    FlowQueue &queue = control ? control_ : network.connection(slot).queue;
    const PacketPool::Node node = pool[queue.head];
    const int64_t wait_ns = bucket_.WaitNs(node.packet.ip_bytes, now_ns);
    if (wait_ns > 0) {
        ServeAt(network, wait_ns);
        return;
    }
    queue_bytes_ -= node.packet.ip_bytes;
    RemoveHead(pool, queue);
    if (!control) {
        --data_pkts_;
        if (order_) {
            order_->Left(network.connection(slot).flow);
        } else {
            turns_.pop_front();
        }
    }
    Transmit(network, node.packet, node.joined_ns, now_ns);
    network.Left(node.packet, node.joined_ns, now_ns);
    if (!control) {
        network.Drained(slot); // TCP may hand down more
    }
    if ((control_.head != kNone || data_pkts_ > 0) && !wire_pending_) {
        ServeAt(network, 0);
    }
}

void Nic::Transmit(Network &network, const Packet &packet, int64_t joined_ns, int64_t now_ns)
{
    bucket_.Take(packet.ip_bytes);
    ++totals_.tx_pkts;
    totals_.tx_bytes += packet.ip_bytes;
    totals_.delay_ns += now_ns - joined_ns;
    // Events fall on whole nanoseconds; back to back, the fraction of the last packet's end is carried on.
    const int64_t now_ps = now_ns * kPsPerNs;
    const int64_t start_ps = now_ps - free_ps_ < kPsPerNs ? free_ps_ : now_ps;
    Link &link = network.link(port_);
    InFlight &entry = link.PushBack();
    free_ps_ = start_ps + link.wire.SerialisationPs(packet.ip_bytes);
    entry.arrival_ns = link.wire.ArrivalNs(free_ps_);
    entry.start_ps = start_ps;
    entry.joined_ns = joined_ns;
    entry.packet = packet;
    network.OnLink(port_, entry);
}

} // namespace ncc::packetsim
