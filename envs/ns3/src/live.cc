// SPDX-License-Identifier: GPL-2.0-only
#include "live.h"

#include "ns3/simulator.h"

#include <stdexcept>

#include <unistd.h>

namespace ncc
{

namespace
{

pid_t live_in = 0; // process that owns the live simulation; 0: there is none

} // namespace

LiveSimulation::LiveSimulation()
{
    if (live_in == getpid()) {
        throw std::runtime_error("ns-3 holds one simulation per process and another one is live; close() it first, or "
                                 "run each simulation in a process of its own");
    }
    if (live_in != 0) {
        throw std::runtime_error("this process was forked from one with a live ns-3 simulation; start workers with "
                                 "'spawn' or 'forkserver', or close() the simulation before forking");
    }
    live_in = getpid();
}

LiveSimulation::~LiveSimulation()
{
    if (Owned()) {
        ns3::Simulator::Destroy();
        live_in = 0;
    }
}

bool LiveSimulation::Owned() { return live_in == getpid(); }

} // namespace ncc
