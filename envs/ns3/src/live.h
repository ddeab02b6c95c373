// SPDX-License-Identifier: GPL-2.0-only
// ns-3 has one clock, one event list and one node list per process: two simulations at once abort the process.
#pragma once

namespace ncc
{

// Lock on the one simulation of this process; its destructor destroys ns-3's state.
class LiveSimulation
{
  public:
    // Throws std::runtime_error if this process has another, or was forked from a process that had one.
    LiveSimulation();
    ~LiveSimulation();
    LiveSimulation(const LiveSimulation &) = delete;
    LiveSimulation &operator=(const LiveSimulation &) = delete;

    // False in a forked copy, whose ns-3 objects belong to the parent's simulation.
    static bool Owned();
};

} // namespace ncc
