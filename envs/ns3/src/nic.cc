// SPDX-License-Identifier: GPL-2.0-only
#include "nic.h"

#include "network.h"

#include <algorithm>

namespace ncc
{

namespace
{

int64_t Now() { return ns3::Simulator::Now().GetTimeStep(); }

} // namespace

void Nic::WireFree::Notify()
{
    nic->wire_pending_ = false;
    nic->Serve();
}

Nic::Nic(Network &network, const Wire &wire, uint64_t bucket_bytes, uint64_t small_queue_bytes, uint32_t mtu_bytes,
         std::unique_ptr<FlowOrder> order)
    : network_(network), wire_(wire), order_(std::move(order)), small_queue_bytes_(small_queue_bytes),
      mtu_bytes_(mtu_bytes), wire_free_(ns3::Create<WireFree>()), bucket_(bucket_bytes)
{
    wire_free_->nic = this;
}

Nic::~Nic() { token_event_.Cancel(); }

void Nic::SetLimit(double bps)
{
    bucket_.SetLimit(bps, Now());
    if (token_event_.IsPending()) {
        token_event_.Cancel();
        ServeAt(0);
    }
}

void Nic::Send(Frame *frame)
{
    const int64_t now_ns = Now();
    frame->joined_ns = now_ns;
    const bool idle = control_.empty() && data_frames_ == 0 && !wire_pending_;
    if (idle && free_ps_ <= now_ns * kPsPerNs && bucket_.WaitNs(frame->ip_bytes, now_ns) == 0) {
        Transmit(frame, now_ns);
        network_.Left(*frame, now_ns);
        return;
    }
    queue_bytes_ += frame->ip_bytes;
    totals_.queue_max_bytes = std::max(totals_.queue_max_bytes, queue_bytes_);
    if (frame->payload_bytes == 0) {
        control_.push_back(frame);
        if (token_event_.IsPending()) { // a data packet waits for its tokens; a small one may need none
            token_event_.Cancel();
            ServeAt(0);
        }
    } else {
        FlowQueue &queue = network_.queue(frame->flow);
        queue.frames.push_back(frame);
        queue.bytes += frame->ip_bytes;
        ++data_frames_;
        order_->Joined(frame->flow);
    }
    if (!wire_pending_ && !token_event_.IsPending()) {
        ServeAt(0);
    }
}

void Nic::ServeAt(int64_t delay_ns)
{
    if (free_ps_ > Now() * kPsPerNs) { // nothing can go before the wire is free
        if (!wire_pending_) {
            wire_pending_ = true;
            const int64_t free_ns = (free_ps_ + kPsPerNs - 1) / kPsPerNs;
            ns3::Simulator::Schedule(ns3::TimeStep(free_ns - Now()), wire_free_);
        }
        return;
    }
    token_event_ = ns3::Simulator::Schedule(ns3::TimeStep(delay_ns), &Nic::Serve, this);
}

Frame *Nic::Head(int64_t now_ns)
{
    if (!control_.empty()) {
        return control_.front();
    }
    return network_.queue(order_->Next(now_ns)).frames.front();
}

void Nic::Serve()
{
    if (control_.empty() && data_frames_ == 0) {
        return;
    }
    const int64_t now_ns = Now();
    Frame *frame = Head(now_ns);
    const int64_t wait_ns = bucket_.WaitNs(frame->ip_bytes, now_ns);
    if (wait_ns > 0) {
        ServeAt(wait_ns);
        return;
    }
    queue_bytes_ -= frame->ip_bytes;
    if (frame->payload_bytes == 0) {
        control_.pop_front();
    } else {
        FlowQueue &queue = network_.queue(frame->flow);
        queue.frames.pop_front();
        queue.bytes -= frame->ip_bytes;
        --data_frames_;
        order_->Left(frame->flow);
    }
    Transmit(frame, now_ns);
    network_.Left(*frame, now_ns);
    if (frame->payload_bytes > 0) {
        network_.Drained(frame->flow); // TCP may hand down more
    }
    if ((!control_.empty() || data_frames_ > 0) && !wire_pending_) {
        ServeAt(0);
    }
}

void Nic::Transmit(Frame *frame, int64_t now_ns)
{
    bucket_.Take(frame->ip_bytes);
    ++totals_.tx_pkts;
    totals_.tx_bytes += frame->ip_bytes;
    totals_.delay_ns += now_ns - frame->joined_ns;
    // Events fall on whole nanoseconds; back to back, the fraction of the last packet's end is carried on.
    const int64_t now_ps = now_ns * kPsPerNs;
    const int64_t start_ps = now_ps - free_ps_ < kPsPerNs ? free_ps_ : now_ps;
    free_ps_ = start_ps + wire_.SerialisationPs(frame->ip_bytes);
    const int64_t arrival_ns = wire_.ArrivalNs(free_ps_);
    frame->node = wire_.to;
    ns3::Simulator::Schedule(ns3::TimeStep(arrival_ns - now_ns), ns3::Ptr<ns3::EventImpl>(frame));
}

} // namespace ncc
