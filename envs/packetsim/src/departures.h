// SPDX-License-Identifier: BSD-3-Clause
// Departure times of packets from the ports that share a buffer, so that only ports with departures are updated when
// one of them needs to know how full the buffer is.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace ncc::packetsim
{

// Contains a port at most once, from its first waiting packet on, with a time not after its next departure.
class Departures
{
  public:
    // Adds a port, whose first waiting packet leaves at `at_ps`; has no effect if the port is here already.
    void Expect(uint32_t port, int64_t at_ps)
    {
        if (port >= here_.size()) {
            here_.resize(port + 1);
        }
        if (!here_[port]) {
            here_[port] = true;
            next_.emplace(at_ps, port);
        }
    }

    // Calls advance(port) for every port due by now. It must return the departure time of that port's next waiting
    // packet if that is after `now`, or `kNever`.
    template <class Function>
    void Until(int64_t now_ps, Function advance)
    {
        while (!next_.empty() && next_.top().first <= now_ps) {
            const uint32_t port = next_.top().second;
            next_.pop();
            const int64_t at_ps = advance(port);
            here_[port] = at_ps != kNever;
            if (here_[port]) {
                next_.emplace(at_ps, port);
            }
        }
    }

    static constexpr int64_t kNever = INT64_MAX;

  private:
    using Entry = std::pair<int64_t, uint32_t>; // picoseconds, port
    std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> next_;
    std::vector<bool> here_; // by port
};

} // namespace ncc::packetsim
