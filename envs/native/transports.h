// SPDX-License-Identifier: BSD-3-Clause
// The message transports (transport.h) by name, and what hosts and ports see of their packets.
#pragma once

#include "spec.h"

extern "C" {
#include "transport.h"
}

#include <cstdint>
#include <string>

namespace ncc
{

// Returns the message transport of that name, or null.
const ncc_tp_ops *FindTransport(const std::string &name);

// True if a stack of the run has one.
bool HasMessages(const Spec &spec);

// Marks of packets that hosts and ports look at.
enum MessageMark : uint8_t {
    kExpendable = 1, // the first to be dropped
    kInShaped = 2,   // a control packet that waits in the shaped queue
    kBehind = 4,     // a control packet that waits in its flow's own queue at its host, as data does
};

} // namespace ncc
