// SPDX-License-Identifier: BSD-3-Clause
// An independent check of every arriving packet and of TCP's reaction to it. It also loses packets.
#pragma once

#include "network.h"
#include "random_case.h"

#include <cstdint>
#include <set>
#include <vector>

namespace ncc::packetsim
{

class Watch
{
  public:
    explicit Watch(const RandomCase &of)
        : losses_(of.losses), random_(of.spec.seed + 1), shadows_(of.spec.flows.size()),
          mss_bytes_(of.spec.mtu_bytes - 40)
    {
    }

    // Called in place of TCP's own function.
    void Receive(Network &network, uint32_t slot, const Packet &packet);
    // Checks the queues that share pools; this must hold at any time.
    static void CheckPools(Network &network);
    // Digest of all packets that have arrived, and of their times.
    uint64_t digest() const { return digest_; }
    uint32_t lost() const { return lost_; }

    // Watch of the network that this thread steps; null: packets are not checked.
    static thread_local Watch *current;

  private:
    // Packets that the receiver must have: all below `next`, and these beyond.
    struct Shadow {
        uint32_t next = 0;
        std::set<uint32_t> beyond;
        int64_t finish_ns = -1;
        uint32_t lost_in_a_row = 0, last_acks = 0;
        std::array<uint32_t, 5> arrivals = {};
    };

    bool Lose(Shadow &shadow, const Connection &connection, const Packet &packet);
    void CheckAck(Network &network, const Shadow &shadow, const Packet &packet);

    const Losses losses_;
    Random random_;
    std::vector<Shadow> shadows_; // by flow
    uint32_t mss_bytes_;
    uint64_t digest_ = 0;
    uint32_t lost_ = 0;
};

} // namespace ncc::packetsim
