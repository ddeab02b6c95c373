// SPDX-License-Identifier: BSD-3-Clause
// The clock, the events, and the packets on links.
#pragma once

#include "link.h"
#include "scheduler.h"
#include "timer.h"

#include "spec.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ncc::packetsim
{

class Engine
{
  public:
    // Throws std::invalid_argument for more links than can be numbered.
    explicit Engine(const Spec &spec);

    int64_t now_ns() const { return now_ns_; }
    uint64_t events() const { return events_; }
    uint64_t events_in_the_past() const { return past_; }
    size_t scheduled() const { return scheduler_.size(); }
    PacketPool &packets() { return pool_; }
    Link &link(uint32_t port) { return links_[port]; }
    const std::vector<Link> &links() const { return links_; }

    // Stops the run, unless the message is empty. Only the first message counts.
    void Fail(const std::string &message)
    {
        fault_ = failed_ ? fault_ : message;
        failed_ = !fault_.empty();
    }
    bool failed() const { return failed_; }
    const std::string &fault() const { return fault_; } // empty: none

    uint64_t Schedule(int64_t time_ns, EventKind kind, uint32_t index)
    {
        const uint64_t word = EventWord(++order_, kind, index);
        past_ += time_ns < now_ns_;
        scheduler_.Push({time_ns, word});
        return word;
    }
    void Arm(Timer &timer, TimerKind kind, uint32_t slot, int64_t delay_ns)
    {
        timer.due_ns = now_ns_ + delay_ns;
        timer.order = ++order_;
        if (timer.queued_ns > timer.due_ns) [[unlikely]] { // otherwise the queued event will find the new time
            Queue(timer, kind, slot);
        }
    }
    // Returns true if a timer is due by the event that has come for it, and switches it off.
    bool Expire(Timer &timer, const Event &event);

    // Calls handle(event) for every event before `end_ns`, until the run fails. Events that are scheduled meanwhile for
    // exactly the end belong to the next call.
    template <class Handle>
    void RunUntil(int64_t end_ns, Handle handle)
    {
        constexpr uint64_t kMany = 1000; // events in a period that are enough to measure their density
        const uint64_t events_before = events_;
        const auto period_ns = static_cast<double>(end_ns - now_ns_);
        const Event end{end_ns, EventWord(++order_, EventKind::kArrival, 0)};
        Event event;
        while (!failed() && scheduler_.PopBefore(end, event)) {
            now_ns_ = event.time_ns;
            ++events_;
            handle(event);
        }
        if (!failed()) {
            now_ns_ = end_ns;
        }
        if (const uint64_t handled = events_ - events_before; handled > kMany && period_ns > 0) {
            scheduler_.Tune(static_cast<double>(handled) / period_ns);
        }
    }
    // Fails if events could not be counted for another period.
    void CheckOrder();

    // Puts a packet on a link at `start_ps`; returns the time at which the link is free again.
    // The packet's arrival becomes an event once all earlier packets have arrived.
    [[gnu::always_inline]] int64_t Transmit(uint32_t port, uint32_t place, int64_t start_ps)
    {
        Link &link = links_[port];
        InFlight &entry = pool_[place];
        link.Transmit(entry, start_ps);
        entry.word = EventWord(++order_, EventKind::kArrival, port);
        if (link.packets.empty()) {
            scheduler_.Push({entry.arrival_ns, entry.word});
        }
        link.packets.PushBack(pool_, place);
        return link.free_ps;
    }
    // Takes the packet whose arrival is an event now, and makes the next one's an event.
    uint32_t TakeArrived(Link &link)
    {
        const uint32_t place = link.packets.PopFront(pool_);
        if (!link.packets.empty()) {
            const InFlight &head = pool_[link.packets.front()];
            scheduler_.Push({head.arrival_ns, head.word});
        }
        return place;
    }

  private:
    [[gnu::noinline]] void Queue(Timer &timer, TimerKind kind, uint32_t slot);

    Scheduler scheduler_;
    int64_t now_ns_ = 0;
    uint64_t order_ = 0;
    std::vector<Link> links_; // by directed port
    PacketPool pool_;
    uint64_t events_ = 0, past_ = 0;
    bool failed_ = false;
    std::string fault_;
};

} // namespace ncc::packetsim
