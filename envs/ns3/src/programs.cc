// SPDX-License-Identifier: GPL-2.0-only
// Programs of ports (switch.h): when they are called, and what becomes of what they say.
#include "port.h"

#include <algorithm>

namespace ncc
{

ncc_sw_packet SeenFrame(const Frame &frame)
{
    const uint32_t flags =
        SwitchFlags(frame.to_receiver, frame.syn_ack, frame.fin, frame.ecn_capable, frame.marked, frame.has_window);
    return {frame.flow, frame.ip_bytes, frame.payload_bytes, flags,
            frame.hops, frame.prio,     frame.rank,          static_cast<ncc_u64>(frame.window) << frame.window_shift};
}

ncc_sw_port Port::Seen(int64_t now_ns) const
{
    return {static_cast<ncc_u64>(now_ns),
            wire_.BytesPerS(),
            static_cast<ncc_u64>(size_bytes_),
            static_cast<ncc_u64>(queue_bytes_),
            static_cast<ncc_u64>(totals_.tx_bytes),
            static_cast<ncc_u64>(ingress_bytes_),
            mtu_bytes_,
            0};
}

void Port::StartPrograms(std::function<void(uint32_t, int64_t)> arm)
{
    if (programs_) {
        arm_ = std::move(arm);
        programs_->Init(Seen(0), arm_);
    }
}

void Port::ProgramTimer(uint32_t program, int64_t now_ns)
{
    if (programs_->Due(program, now_ns)) {
        Advance(now_ns);
        programs_->Expired(program, Seen(now_ns), arm_);
    }
}

ncc_verdict Port::Call(ncc_sw_needs hook, ncc_sw_packet &packet, ncc_verdict verdict, int64_t now_ns)
{
    return programs_->Packet(hook, Seen(now_ns), packet, verdict, arm_);
}

ncc_verdict Port::Programmed(Frame *frame, ncc_verdict verdict, bool planned, uint64_t &rank, int64_t now_ns)
{
    const bool full = held_ && held_->ranked && verdict == NCC_DROP && !planned; // others may make room
    ncc_sw_packet seen = SeenFrame(*frame);
    verdict = full ? NCC_PASS : verdict;
    if (programs_->need(NCC_SW_ENQUEUE)) {
        verdict = Call(NCC_SW_ENQUEUE, seen, verdict, now_ns);
        const ncc_cc_signal signal = programs_->TakeSignal();
        if (signal.kind != NCC_CC_SIGNAL_NONE && frame->payload_bytes > 0) {
            tell_(frame->flow, signal);
        }
    }
    rank = seen.rank;
    if (verdict == NCC_TRIM) {
        frame->ip_bytes = std::min<uint32_t>(frame->ip_bytes, NCC_SW_TRIM_BYTES);
        frame->payload_bytes = 0;
        frame->trimmed = true;
        frame->fin = false;
    }
    return !full || verdict == NCC_DROP || MakeRoom(frame->ip_bytes, rank) ? verdict : NCC_DROP;
}

bool Port::MakeRoom(uint32_t ip_bytes, uint64_t rank)
{
    while (queue_bytes_ + ip_bytes > size_bytes_) {
        if (!held_->by_rank.Above(rank)) {
            return false;
        }
        Frame *out = held_->by_rank.PushOut();
        queue_bytes_ -= out->ip_bytes;
        --held_->pkts;
        Count(*out, NCC_DROP);
        gone_(out);
    }
    return true;
}

void Port::Leaving(Frame *frame, int64_t now_ns)
{
    if (!programs_ || !programs_->need(NCC_SW_DEQUEUE)) {
        return;
    }
    ncc_sw_packet seen = SeenFrame(*frame);
    if (Call(NCC_SW_DEQUEUE, seen, NCC_PASS, now_ns) == NCC_MARK && !frame->marked) {
        frame->marked = true;
        ++totals_.marked_pkts;
    }
    const ncc_cc_hop hop = programs_->TakeHop();
    if (hop.rate_bytes_per_s != 0 && frame->payload_bytes > 0 && frame->reads_hops &&
        frame->telemetry.size() < NCC_CC_HOPS_MAX) {
        frame->telemetry.push_back(hop);
    }
}

int64_t Port::Ingress(int64_t bytes, int64_t now_ns)
{
    ingress_bytes_ += bytes;
    if (!pauses()) {
        return kNoPause;
    }
    Advance(now_ns);
    const ncc_sw_pause pause = programs_->Ingress(Seen(now_ns), arm_);
    if (pause == NCC_SW_AS_IT_WAS) {
        return kNoPause;
    }
    const bool on = pause == NCC_SW_PAUSE;
    totals_.paused_ns += on ? 0 : now_ns - pauses_at_ns_;
    pauses_at_ns_ = on ? now_ns : -1;
    free_ps_ = std::max(free_ps_, now_ns * kPsPerNs) + wire_.SerialisationPs(NCC_SW_PAUSE_BYTES);
    return wire_.ArrivalNs(free_ps_);
}

PausedPort Port::Paused() const
{
    PausedPort paused{id, {}};
    for (const std::deque<Frame *> &frames : held_->of) {
        for (const Frame *frame : frames) {
            if (frame->seen_by) {
                paused.waiting.emplace_back(frame->seen_by->id ^ 1, frame->ip_bytes);
            }
        }
    }
    return paused;
}

void Port::Reverse(Frame *frame, int64_t now_ns)
{
    if (!sees_reverse()) {
        return;
    }
    Advance(now_ns);
    ncc_sw_packet seen = SeenFrame(*frame);
    Call(NCC_SW_REVERSE, seen, NCC_PASS, now_ns);
    if (frame->has_window) {
        const uint16_t window = LoweredWindow(frame->window, seen.window_bytes, frame->window_shift, mtu_bytes_ - 40);
        frame->lowered |= window != frame->window;
        frame->window = window;
    }
}

} // namespace ncc
