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
    const bool limited = Limited(*frame);
    const bool idle = !Waits() && !wire_pending_ && !paused_ && free_ps_ <= now_ns * kPsPerNs;
    if (idle && (!limited || bucket_.WaitNs(frame->ip_bytes, now_ns) == 0)) {
        Transmit(frame, limited, now_ns);
        network_.Left(*frame, now_ns);
        return;
    }
    queue_bytes_ += frame->ip_bytes;
    totals_.queue_max_bytes = std::max(totals_.queue_max_bytes, queue_bytes_);
    if (frame->payload_bytes == 0) {
        control_[limited].push_back(frame);
    } else {
        FlowQueue &queue = network_.queue(frame->flow);
        queue.frames.push_back(frame);
        queue.bytes += frame->ip_bytes;
        ++data_frames_;
        unlimited_frames_ += !limited;
        order_->Joined(frame->flow);
    }
    if (token_event_.IsPending() && (frame->payload_bytes == 0 || !limited)) {
        // A data packet waits for tokens, but a control packet is smaller, and one without a limit needs none.
        token_event_.Cancel();
        ServeAt(0);
    }
    if (!wire_pending_ && !token_event_.IsPending()) {
        ServeAt(0);
    }
}

void Nic::Pause(bool on)
{
    paused_ = on;
    if (!on && Waits() && !wire_pending_ && !token_event_.IsPending()) {
        ServeAt(0);
    }
}

void Nic::ServeAt(int64_t delay_ns)
{
    if (free_ps_ > Now() * kPsPerNs) { // nothing can be sent before the wire is free
        if (!wire_pending_) {
            wire_pending_ = true;
            const int64_t free_ns = (free_ps_ + kPsPerNs - 1) / kPsPerNs;
            ns3::Simulator::Schedule(ns3::TimeStep(free_ns - Now()), wire_free_);
        }
        return;
    }
    token_event_ = ns3::Simulator::Schedule(ns3::TimeStep(delay_ns), &Nic::Serve, this);
}

bool Nic::Limited(const Frame &frame) const { return network_.flow(frame.flow).limited[frame.to_receiver ? 0 : 1]; }

Nic::Turn Nic::Next(int64_t now_ns)
{
    if (!control_[0].empty()) {
        return {&control_[0], false};
    }
    Turn turn{&control_[1], true};
    if (control_[1].empty()) {
        turn.frames = &network_.queue(order_->Next(now_ns)).frames;
        turn.limited = Limited(*turn.frames->front());
    }
    if (turn.limited) {
        turn.wait_ns = bucket_.WaitNs(turn.frames->front()->ip_bytes, now_ns);
    }
    if (turn.wait_ns > 0 && unlimited_frames_ > 0) {
        return {&network_.queue(order_->NextUnlimited(now_ns)).frames, false};
    }
    return turn;
}

void Nic::Serve()
{
    if (!Waits() || paused_) {
        return;
    }
    const int64_t now_ns = Now();
    const Turn turn = Next(now_ns);
    if (turn.wait_ns > 0) {
        ServeAt(turn.wait_ns);
        return;
    }
    Frame *frame = turn.frames->front();
    turn.frames->pop_front();
    queue_bytes_ -= frame->ip_bytes;
    if (frame->payload_bytes > 0) {
        network_.queue(frame->flow).bytes -= frame->ip_bytes;
        --data_frames_;
        unlimited_frames_ -= !turn.limited;
        order_->Left(frame->flow);
    }
    Transmit(frame, turn.limited, now_ns);
    network_.Left(*frame, now_ns);
    if (frame->payload_bytes > 0) {
        network_.Drained(frame->flow); // TCP may hand down more
    }
    if (Waits() && !wire_pending_) {
        ServeAt(0);
    }
}

void Nic::Transmit(Frame *frame, bool limited, int64_t now_ns)
{
    if (limited) {
        bucket_.Take(frame->ip_bytes);
        limited_bytes_ += frame->ip_bytes;
    }
    ++totals_.tx_pkts;
    totals_.tx_bytes += frame->ip_bytes;
    totals_.delay_ns += now_ns - frame->joined_ns;
    free_ps_ = Wire::StartPs(free_ps_, now_ns) + wire_.SerialisationPs(frame->ip_bytes);
    const int64_t arrival_ns = wire_.ArrivalNs(free_ps_);
    frame->node = wire_.to;
    frame->seen_by = seen_by;
    ns3::Simulator::Schedule(ns3::TimeStep(arrival_ns - now_ns), ns3::Ptr<ns3::EventImpl>(frame));
}

} // namespace ncc
