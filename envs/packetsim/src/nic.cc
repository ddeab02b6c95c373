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
    const bool idle = waiting_pkts() == 0 && !wire_pending_;
    if (idle && free_ps_ <= now_ns * kPsPerNs && bucket_.WaitNs(packet.ip_bytes, now_ns) == 0) {
        Transmit(network, place, now_ns);
        network.Left(packet, now_ns, now_ns);
        return;
    }
    queue_bytes_ += packet.ip_bytes;
    totals_.queue_max_bytes = std::max(totals_.queue_max_bytes, queue_bytes_);
    if (packet.kind == Kind::kData) {
        Append(pool, network.connection(packet.connection).queue, place);
        ++data_pkts_;
        if (order_) {
            order_->Joined(network.connection(packet.connection).flow);
        } else {
            turns_.push_back(packet.connection);
        }
    } else {
        Append(pool, control_, place);
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
    if (waiting_pkts() == 0) {
        return;
    }
    const bool control = !control_.packets.empty();
    const int64_t now_ns = network.now_ns();
    PacketPool &pool = network.pool();
    const uint32_t slot = control ? kNone : NextFlow(network, now_ns);
    FlowQueue &queue = control ? control_ : network.connection(slot).queue;
    const InFlight &head = pool[queue.packets.front()];
    const int64_t joined_ns = head.joined_ns;
    const Packet packet = head.packet;
    const int64_t wait_ns = bucket_.WaitNs(packet.ip_bytes, now_ns);
    if (wait_ns > 0) {
        ServeAt(network, wait_ns);
        return;
    }
    queue_bytes_ -= packet.ip_bytes;
    const uint32_t place = RemoveHead(pool, queue);
    if (!control) {
        --data_pkts_;
        if (order_) {
            order_->Left(network.connection(slot).flow);
        } else {
            turns_.pop_front();
        }
    }
    Transmit(network, place, now_ns);
    network.Left(packet, joined_ns, now_ns);
    if (!control) {
        network.Drained(slot); // TCP may hand down more
    }
    if (waiting_pkts() > 0 && !wire_pending_) {
        ServeAt(network, 0);
    }
}

void Nic::Transmit(Network &network, uint32_t place, int64_t now_ns)
{
    InFlight &entry = network.pool()[place];
    const uint32_t ip_bytes = entry.packet.ip_bytes;
    bucket_.Take(ip_bytes);
    ++totals_.tx_pkts;
    totals_.tx_bytes += ip_bytes;
    totals_.delay_ns += now_ns - entry.joined_ns;
    // Events fall on whole nanoseconds; back to back, the fraction of the last packet's end is carried on.
    const int64_t now_ps = now_ns * kPsPerNs;
    const int64_t start_ps = now_ps - free_ps_ < kPsPerNs ? free_ps_ : now_ps;
    Link &link = network.link(port_);
    link.Transmit(entry, start_ps);
    free_ps_ = link.free_ps;
    network.OnLink(port_, place);
}

} // namespace ncc::packetsim
