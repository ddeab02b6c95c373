// SPDX-License-Identifier: BSD-3-Clause
#include "engine.h"

#include <algorithm>
#include <stdexcept>

namespace ncc::packetsim
{

namespace
{

// Makes a scheduler wide enough for a packet's way over most links, with slots as short as its events are dense.
Scheduler MakeScheduler(const Spec &spec)
{
    constexpr double kMaxNearNs = 200e3; // a WAN's delay is for the heap
    double events_per_ns = 0, near_ns = 0;
    for (const LinkSpec &link : spec.links) {
        const double packet_ns = (spec.mtu_bytes + spec.frame_overhead_bytes) * 8e9 / link.rate_bps;
        events_per_ns += 2 * 2 / packet_ns; // both ways; packets have half the full size on average
        near_ns = std::max(near_ns, std::min(packet_ns + static_cast<double>(link.delay_ns), kMaxNearNs));
    }
    return {events_per_ns, static_cast<int64_t>(near_ns)};
}

} // namespace

Engine::Engine(const Spec &spec) : scheduler_(MakeScheduler(spec))
{
    if (2 * spec.links.size() > kMaxIndex) {
        throw std::invalid_argument("more than " + std::to_string(kMaxIndex / 2) + " links");
    }
    for (const LinkSpec &link : spec.links) {
        for (const uint32_t to : {link.b, link.a}) {
            links_.emplace_back(Wire(link.rate_bps, link.delay_ns, spec.frame_overhead_bytes, to));
        }
    }
}

void Engine::CheckOrder()
{
    constexpr uint64_t kMaxOrder = 1ULL << (64 - kIndexBits - kKindBits - 1); // far more than one period needs
    if (order_ > kMaxOrder) {
        Fail("more than " + std::to_string(kMaxOrder) + " events, which is as far as they can be counted");
    }
}

void Engine::Queue(Timer &timer, TimerKind kind, uint32_t slot)
{
    constexpr EventKind kEvents[] = {EventKind::kRetransmit, EventKind::kDelayedAck, EventKind::kPace,
                                     EventKind::kControl};
    const uint64_t word = EventWord(timer.order, kEvents[static_cast<size_t>(kind)], slot);
    past_ += timer.due_ns < now_ns_;
    scheduler_.Push({timer.due_ns, word});
    timer.queued_ns = timer.due_ns;
    timer.queued_word = word;
}

bool Engine::Expire(Timer &timer, const Event &event)
{
    if (event.word != timer.queued_word) { // belongs to an earlier flow, or an earlier event replaced it
        return false;
    }
    const uint64_t word = EventWord(timer.order, KindOf(event.word), IndexOf(event.word));
    if (timer.on() && word != event.word) {
        timer.queued_ns = timer.due_ns;
        timer.queued_word = word;
        scheduler_.Push({timer.queued_ns, timer.queued_word});
        return false;
    }
    timer.queued_ns = Timer::kOff;
    timer.queued_word = 0;
    const bool due = timer.on();
    timer.Cancel();
    return due;
}

} // namespace ncc::packetsim
