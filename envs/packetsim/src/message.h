// SPDX-License-Identifier: BSD-3-Clause
// Flows with a message transport (transport.h). Their ends are in native/message_ends.h.
#pragma once

#include "packet.h"

#include <cstdint>
#include <memory>

namespace ncc::packetsim
{

class Network;
class Flows;

class Messages
{
  public:
    Messages(Network &network, Flows &flows);
    ~Messages();

    void Open(uint32_t slot);
    void Close(uint32_t slot);
    void Deliver(const Packet &packet); // it has come to its host
    void Send(uint32_t slot);           // its queue may have room

    // Events
    void Timer(uint32_t slot, uint64_t word);
    void Turn(uint32_t host);

  private:
    struct Ends;

    Flows &flows_;
    std::unique_ptr<Ends> ends_;
};

} // namespace ncc::packetsim
