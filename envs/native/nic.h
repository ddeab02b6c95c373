// SPDX-License-Identifier: BSD-3-Clause
// The sending side of a host below TCP: one queue per flow, an order among flows, a rate limit. For both simulators.
#pragma once

#include "events.h"
#include "order.h"
#include "packet_list.h"
#include "records.h"
#include "shaper.h"
#include "spec.h"
#include "token_bucket.h"
#include "turns.h"
#include "wire.h"

#include <algorithm>
#include <cstdint>
#include <memory>

namespace ncc
{

// Packets of one flow that TCP has handed down and that have not left the host yet.
template <class Packets>
struct FlowQueue {
    using Ref = typename Packets::Ref;

    void PushBack(Packets &packets, Ref ref)
    {
        list.PushBack(packets, ref);
        bytes += packets.header(ref).ip_bytes;
    }
    Ref PopFront(Packets &packets)
    {
        bytes -= packets.header(list.front()).ip_bytes;
        return list.PopFront(packets);
    }

    // True if TCP may hand down one more packet of the flow (Linux: TCP small queues).
    bool HasRoom(const Spec &spec) const { return bytes == 0 || bytes + spec.mtu_bytes <= spec.small_queue_bytes; }

    PacketList<Packets> list;
    uint64_t bytes = 0;
};

// The NIC of a host. A packet leaves when its transmission begins. Packets without payload go before data. Packets
// under the limit (FlowSpec::limited) take tokens from the bucket; while they wait, the others are sent. Nothing is
// ever dropped in these queues, because back-pressure bounds them (FlowQueue::HasRoom). ns-3 sends some repairs without
// asking for room, and these exceed the bound: the first repair of a fast recovery, and one on each partial ACK in it.
//
// The clock of a segment's RTT starts when TCP hands it down. An RTT sample therefore contains the wait in the flow's
// own queue (at most `small_queue_bytes` ahead of it, except for repairs) and the turns of other flows meanwhile, but
// not the time that data waits in TCP's send buffer.
//
// `Network` has the clock, the events, the packets, the link (`Transmit` returns the time at which it is free again, in
// ps) and the connections, which it numbers by slots.
template <class Network, class Packets>
class alignas(64) Nic
{
  public:
    using Ref = typename Packets::Ref;
    using Queue = FlowQueue<Packets>;

    // `port`: directed port by which the host sends. `order` null: first in, first out.
    Nic(Network &network, uint32_t host, uint32_t port, uint64_t bucket_bytes, std::unique_ptr<FlowOrder> order)
        : network_(network), host_(host), port_(port), order_(std::move(order)), bucket_(bucket_bytes)
    {
    }

    uint32_t port() const { return port_; }
    double limit_bps() const { return bucket_.limit_bps(); }
    const PortTotals &totals() const { return totals_; }
    int64_t limited_bytes() const { return limited_bytes_; } // IP packets sent under the limit
    uint64_t waiting_pkts() const { return waiting_pkts_; }

    // Adds a shaped queue. While it has tokens of its own, its packets leave before all others.
    // Its packets do not count against the rate limit, because a line full of control packets would use up the limit
    // and stop the data. A packet is dropped if the queue is full.
    void Shape(const ShapedSpec &spec, double line_bps, uint32_t overhead_bytes)
    {
        shaper_ = std::make_unique<Shaper<Packets>>(spec, line_bps, overhead_bytes);
    }
    uint64_t shaped_bytes_per_s() const { return shaper_ ? shaper_->bytes_per_s() : 0; }
    size_t shaped_pkts() const { return shaper_ ? shaper_->size() : 0; }
    void SendShaped(Ref ref); // in shaped.h

    // Sets the limit in bits of IP packets per second, > 0; infinity means no limit. It takes effect at once, also for
    // a packet that already waits for tokens.
    void SetLimit(double bps)
    {
        if (bps == bucket_.limit_bps()) {
            return;
        }
        bucket_.SetLimit(bps, network_.now_ns());
        if (token_word_ != 0) {
            token_word_ = 0;
            ServeAt(0);
        }
    }

    void Send(Ref ref)
    {
        const int64_t now_ns = network_.now_ns();
        network_.packets()[ref].joined_ns = now_ns;
        const auto &header = network_.packets().header(ref);
        const bool data = header.in_flow_queue(), limited = Limited(ref);
        const bool idle = waiting_pkts_ == 0 && !wire_pending_ && !paused_ && free_ps_ <= now_ns * kPsPerNs;
        if (idle && (!limited || bucket_.WaitNs(header.ip_bytes, now_ns) == 0)) {
            Transmit(ref, limited, now_ns);
            network_.LeftHost(ref);
            return;
        }
        ++waiting_pkts_;
        queue_bytes_ += header.ip_bytes;
        totals_.queue_max_bytes = std::max(totals_.queue_max_bytes, queue_bytes_);
        if (data) {
            const uint32_t slot = network_.packets().slot(ref);
            network_.connections().queue(slot).PushBack(network_.packets(), ref);
            unlimited_pkts_ += !limited;
            if (order_) {
                order_->Joined(network_.connections().flow_of(slot));
            } else {
                turns_.PushBack(slot);
            }
        } else {
            control_[limited].PushBack(network_.packets(), ref);
        }
        if (token_word_ != 0 && (!data || !limited)) {
            // A data packet waits for tokens, but a control packet is smaller, and one without a limit needs none.
            token_word_ = 0;
            ServeAt(0);
        }
        if (!wire_pending_ && token_word_ == 0) {
            ServeAt(0);
        }
    }

    void Pause(bool on) // obeys a pause frame (PFC)
    {
        paused_ = on;
        if (!on && waiting_pkts_ > 0 && !wire_pending_ && token_word_ == 0) {
            ServeAt(0);
        }
    }

    void WireFree() // event
    {
        wire_pending_ = false;
        Serve();
    }

    void Tokens(uint64_t word) // event; ignored unless it is the last one armed
    {
        if (word == token_word_) {
            token_word_ = 0;
            Serve();
        } else if (shaper_ && word == shaper_->word) {
            shaper_->word = 0;
            ServeShaped();
        }
    }

  private:
    // Queue whose oldest packet is sent next, and the time for which it must wait for tokens.
    struct Turn {
        Queue *queue;
        uint32_t slot; // kNoFlow: packets without payload
        bool limited;
        int64_t wait_ns = 0;
    };

    // Sends the next packet if the wire is free and there are tokens.
    void Serve()
    {
        if (shaper_ && ServeShaped()) [[unlikely]] {
            return;
        }
        if (waiting_pkts_ == 0 || paused_) {
            return;
        }
        const int64_t now_ns = network_.now_ns();
        const Turn turn = Next(now_ns);
        if (turn.wait_ns > 0) {
            ServeAt(turn.wait_ns);
            return;
        }
        const Ref ref = turn.queue->PopFront(network_.packets());
        --waiting_pkts_;
        queue_bytes_ -= network_.packets().header(ref).ip_bytes;
        const bool data = turn.slot != kNoFlow;
        if (data) {
            unlimited_pkts_ -= !turn.limited;
            if (order_) {
                order_->Left(network_.connections().flow_of(turn.slot));
            } else {
                turns_.Remove(turn.slot);
            }
        }
        Transmit(ref, turn.limited, now_ns);
        network_.LeftHost(ref);
        if (data) {
            network_.QueueShrank(turn.slot); // TCP may hand down more
        }
        if (waiting_pkts_ > 0 && !wire_pending_) {
            ServeAt(0);
        }
    }

    bool ServeShaped(); // in shaped.h

    Turn Next(int64_t now_ns)
    {
        if (!control_[0].list.empty()) {
            return {&control_[0], kNoFlow, false};
        }
        Turn turn{&control_[1], kNoFlow, true};
        if (control_[1].list.empty()) {
            turn.slot = order_ ? network_.connections().slot_of(order_->Next(now_ns)) : turns_.front();
            turn.queue = &network_.connections().queue(turn.slot);
            turn.limited = LimitedFlow(turn.slot);
        }
        if (turn.limited) {
            turn.wait_ns = bucket_.WaitNs(network_.packets().header(turn.queue->list.front()).ip_bytes, now_ns);
        }
        if (turn.wait_ns > 0 && unlimited_pkts_ > 0) {
            const uint32_t slot = NextUnlimited(now_ns);
            return {&network_.connections().queue(slot), slot, false};
        }
        return turn;
    }

    uint32_t NextUnlimited(int64_t now_ns)
    {
        if (order_) {
            return network_.connections().slot_of(order_->NextUnlimited(now_ns));
        }
        return turns_.First([this](uint32_t slot) { return !LimitedFlow(slot); });
    }

    bool Limited(Ref ref) { return network_.connections().Limited(network_.packets().header(ref)); }
    bool LimitedFlow(uint32_t slot) { return Limited(network_.connections().queue(slot).list.front()); }

    void Transmit(Ref ref, bool limited, int64_t now_ns)
    {
        const uint32_t ip_bytes = network_.packets().header(ref).ip_bytes;
        if (limited) {
            bucket_.Take(ip_bytes);
            limited_bytes_ += ip_bytes;
        }
        ++totals_.tx_pkts;
        totals_.tx_bytes += ip_bytes;
        totals_.delay_ns += now_ns - network_.packets()[ref].joined_ns;
        free_ps_ = network_.Transmit(port_, ref, Wire::StartPs(free_ps_, now_ns));
    }

    void ServeAt(int64_t delay_ns)
    {
        const int64_t now_ns = network_.now_ns();
        if (free_ps_ > now_ns * kPsPerNs) { // nothing can be sent before the wire is free
            if (!wire_pending_) {
                wire_pending_ = true;
                network_.Schedule((free_ps_ + kPsPerNs - 1) / kPsPerNs, EventKind::kWire, host_);
            }
            return;
        }
        token_word_ = network_.Schedule(now_ns + delay_ns, EventKind::kTokens, host_);
    }

    Network &network_;
    uint32_t host_, port_;
    uint32_t waiting_pkts_ = 0, unlimited_pkts_ = 0; // all packets; data without a limit
    bool wire_pending_ = false, paused_ = false;
    int64_t free_ps_ = 0;     // time at which the wire has sent everything
    uint64_t token_word_ = 0; // what `Schedule` returned for the event that waits for tokens; 0: none
    int64_t queue_bytes_ = 0;
    std::unique_ptr<FlowOrder> order_;
    PortTotals totals_;
    Turns turns_;      // order of data packets, only if `order_` is null
    Queue control_[2]; // not under the limit; under it
    int64_t limited_bytes_ = 0;
    std::unique_ptr<Shaper<Packets>> shaper_; // null: none
    TokenBucket bucket_;
};

} // namespace ncc
