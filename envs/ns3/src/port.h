// SPDX-License-Identifier: GPL-2.0-only
// The egress port of a switch: a finite queue in front of a transmitter with exact speed.
#pragma once

#include "frame.h"

#include "port_base.h"
#include "wire.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

namespace ncc
{

// One direction of a link.
struct Link {
    Wire wire;
    int64_t free_ps = 0;        // time at which the transmitter has sent everything
    uint32_t seen_by = kNoPort; // the port back, if programs are to see what comes over this link
};

class Port : public PortBase<FramePool>
{
  public:
    using PortBase::PortBase;

    // Ports that share a buffer. Departures are computed late, so all of them are advanced.
    class Sharers
    {
      public:
        void Expect(uint32_t port, int64_t)
        {
            if (std::find(ports_.begin(), ports_.end(), port) == ports_.end()) {
                ports_.push_back(port);
            }
        }
        template <class Function>
        void Until(int64_t, Function advance) const
        {
            std::for_each(ports_.begin(), ports_.end(), advance);
        }

      private:
        std::vector<uint32_t> ports_;
    };

    // Updates totals, queue and its integral to `now`.
    void Advance(const FramePool &, const Link &, int64_t now_ns)
    {
        const int64_t now_ps = now_ns * kPsPerNs;
        while (!queue_.empty() && queue_.front().start_ps <= now_ps) {
            const Waiting head = queue_.front();
            queue_.pop_front();
            Leave(head.bytes, head.start_ps, head.joined_ns);
        }
        Integrate(now_ps);
    }

    // Takes an admitted frame, whose transmission starts at the time that is returned, in ps.
    int64_t Forward(FramePool &, const Link &link, Frame *frame, int64_t now_ns)
    {
        const int64_t now_ps = now_ns * kPsPerNs;
        frame->joined_ns = now_ns;
        if (link.free_ps <= now_ps) {
            Pass(*frame);
            return now_ps;
        }
        Join(frame->ip_bytes);
        queue_.push_back({now_ns, link.free_ps, frame->ip_bytes});
        return link.free_ps;
    }

    static int64_t NextDeparturePs(const Link &) { return 0; } // Sharers do without it

  private:
    struct Waiting {
        int64_t joined_ns, start_ps;
        uint32_t bytes;
    };

    std::deque<Waiting> queue_; // used by a FIFO
};

} // namespace ncc
