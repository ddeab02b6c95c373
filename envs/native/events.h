// SPDX-License-Identifier: BSD-3-Clause
// Kinds of events. packetsim has all of them, ns-3 those that do not belong to TCP.
#pragma once

#include <cstdint>

namespace ncc
{

enum class EventKind : uint8_t {
    kArrival,    // packetsim: the head of a link's FIFO is at the far end; index: directed port
    kTransmit,   // a port that holds packets has sent one; index: directed port
    kWire,       // a host's wire is free; index: host
    kTokens,     // a host's bucket holds the next packet; index: host
    kRetransmit, // packetsim; index: connection, also for the next three
    kDelayedAck,
    kPace,
    kControl, // the controller's timer
    kJoin,    // a packet joins its port: a switch's signal, or one that a test has delayed; index: place in the pool
    kOver,    // a flow is acknowledged and its queue is empty; index: connection
    kFlow,    // the next flow arrives
    kLimits,  // new rate limits take effect
    kWrite,   // an application writes another piece of a flow; index: connection
    kGate,    // flows that wait at a gate may send; index: gate
    kLeave,   // a receiver's message leaves; index: its place (Gates)
    kProgram, // the timer of a program of a port; index: its number
    kMessageTimer, // a timer of a flow with a message transport; index: connection
    kTurn,         // a host serves its incoming flows (transport.h); index: its number by stacks and nodes
};

} // namespace ncc
