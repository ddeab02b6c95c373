// SPDX-License-Identifier: GPL-2.0-only
// Flows with a message transport (transport.h). Their ends are in native/message_ends.h.
#pragma once

#include "frame.h"

#include <cstdint>
#include <memory>

namespace ncc
{

class Messages
{
  public:
    explicit Messages(Network &network);
    ~Messages();

    void Open(uint32_t flow);
    void Close(uint32_t flow);
    void Arrived(Frame *frame); // it has come to its host
    void Send(uint32_t flow);   // its queue may have room

    // Events
    void Timer(uint32_t flow, uint64_t number);
    void Turn(uint32_t host);

  private:
    struct Ends;

    Network &network_;
    std::unique_ptr<Ends> ends_;
};

} // namespace ncc
