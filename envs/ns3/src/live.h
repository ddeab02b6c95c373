// SPDX-License-Identifier: GPL-2.0-only
// ns-3 has one clock, one event list and one node list per process: two simulations at once abort the process.
#pragma once

namespace ncc
{

// Held by whatever runs a simulation; destroys ns-3's state at the end.
class LiveSimulation
{
  public:
    // Throws std::runtime_error while another one lives here, or lived in the process that this one was forked from.
    LiveSimulation();
    ~LiveSimulation();
    LiveSimulation(const LiveSimulation &) = delete;
    LiveSimulation &operator=(const LiveSimulation &) = delete;

    // False in a forked copy, whose ns-3 objects belong to the parent's simulation.
    static bool Owned();
};

} // namespace ncc
