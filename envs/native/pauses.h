// SPDX-License-Identifier: BSD-3-Clause
// Deadlock of ports that pause each other (PFC).
#pragma once

#include "spec.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ncc
{

constexpr int64_t kLongPauseNs = 10'000'000; // a pause this long may be a deadlock

// A port that has been paused for long, with what waits there.
struct PausedPort {
    uint32_t port;                                     // directed
    std::vector<std::pair<uint32_t, int64_t>> waiting; // link of arrival, bytes
};

// Returns the ports of a deadlock: none of them can send until another one of them does. A port is not among them if
// some of the bytes that keep it paused wait at a port outside. `ingress_bytes(link)`: all waiting bytes that came over
// a link.
template <typename IngressBytes>
std::vector<uint32_t> Deadlock(std::vector<PausedPort> stuck, IngressBytes ingress_bytes)
{
    for (size_t before = stuck.size() + 1; stuck.size() < before;) {
        before = stuck.size();
        std::unordered_map<uint32_t, int64_t> waits; // by link, at ports that are stuck
        for (const PausedPort &each : stuck) {
            for (const auto &[link, bytes] : each.waiting) {
                waits[link] += bytes;
            }
        }
        std::erase_if(stuck, [&](const PausedPort &each) { return waits[each.port] < ingress_bytes(each.port); });
    }
    std::vector<uint32_t> ports;
    for (const PausedPort &each : stuck) {
        ports.push_back(each.port);
    }
    return ports;
}

inline std::string DeadlockMessage(const std::vector<uint32_t> &ports)
{
    std::string names;
    for (const uint32_t port : ports) {
        names += (names.empty() ? "" : ", ") + std::to_string(port);
    }
    return "deadlock: ports " + names +
           " (Topology.port_name) have paused each other (PFC) and none can send; break the cycle of their "
           "links, or leave pfc out of programs";
}

} // namespace ncc
