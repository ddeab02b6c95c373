// SPDX-License-Identifier: BSD-3-Clause
// An independent check of every arriving packet and of TCP's reaction to it. It also loses packets.
#pragma once

#include "mix.h"
#include "network.h"
#include "random_case.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <stdexcept>
#include <vector>

namespace ncc::packetsim
{

void UnwatchedTcpReceive(Network &network, uint32_t slot, const Packet &packet); // TCP's: see CMakeLists.txt

// Ends a failed case.
inline void Require(bool holds, const char *what)
{
    if (!holds) {
        throw std::logic_error(what);
    }
}

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
    static inline thread_local Watch *current = nullptr;

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

void TcpReceive(Network &network, uint32_t slot, const Packet &packet)
{
    if (Watch::current == nullptr) {
        UnwatchedTcpReceive(network, slot, packet);
        return;
    }
    Watch::current->Receive(network, slot, packet);
}

inline void Watch::Receive(Network &network, uint32_t slot, const Packet &packet)
{
    const Connection &connection = network.connections()[slot];
    Require(connection.flow < shadows_.size() && network.connections().slot_of(connection.flow) == slot,
            "a packet of a flow long over");
    Shadow &shadow = shadows_[connection.flow];
    digest_ = Mix(digest_ ^ static_cast<uint64_t>(network.now_ns()));
    digest_ = Mix(digest_ ^ (static_cast<uint64_t>(packet.number) << 32 | connection.flow));
    digest_ = Mix(digest_ ^ (static_cast<uint64_t>(packet.kind) << 1 | packet.marked));
    CheckPools(network);
    if (packet.kind == Kind::kAck) {
        CheckAck(network, shadow, packet);
    }
    if (Lose(shadow, connection, packet)) {
        ++lost_;
        return;
    }
    if (packet.kind == Kind::kData) {
        Require(packet.number < connection.packets, "data beyond the end of its flow");
        const uint32_t payload_bytes = packet.number + 1 == connection.packets ? connection.last_bytes : mss_bytes_;
        const uint32_t whole_bytes = payload_bytes + 40;
        const uint32_t ip_bytes = packet.trimmed ? std::min<uint32_t>(whole_bytes, NCC_SW_TRIM_BYTES) : whole_bytes;
        Require(packet.ip_bytes == ip_bytes, "a packet of the wrong size");
        if (!packet.trimmed && packet.number >= shadow.next) {
            shadow.beyond.insert(packet.number);
        }
        while (!shadow.beyond.empty() && *shadow.beyond.begin() == shadow.next) {
            shadow.beyond.erase(shadow.beyond.begin());
            ++shadow.next;
        }
    }
    if (shadow.next == connection.packets && shadow.finish_ns < 0) {
        shadow.finish_ns = network.now_ns();
    }
    const uint32_t flow = connection.flow;
    UnwatchedTcpReceive(network, slot, packet);
    const Connection &after = network.connections()[slot];
    Require(after.receiver.next == shadow.next, "the receiver has not put in order exactly what has arrived");
    Require(after.receiver.held == shadow.beyond.size(), "the receiver does not hold exactly what is beyond the gap");
    Require(after.sender.una <= shadow.next, "the sender takes for acknowledged what has not arrived");
    Require(after.sender.una <= after.sender.nxt && after.sender.nxt <= after.packets,
            "una <= nxt <= end does not hold");
    Require(network.run().records()[flow].finish_ns == shadow.finish_ns, "a flow does not finish with its last byte");
}

inline void Watch::CheckAck(Network &network, const Shadow &shadow, const Packet &packet)
{
    Require(packet.number <= shadow.next, "an ACK of what has not arrived");
    if (packet.sack == kNone) {
        return;
    }
    const SackBlocks &blocks = network.connections().sacks()[packet.sack];
    Require(blocks.n + (blocks.trimmed != kNone) + (blocks.telemetry != kNone) >= 1 && blocks.n <= 4,
            "SACK blocks of the wrong number");
    Require(blocks.trimmed == kNone || blocks.trimmed >= packet.number, "a notice of a packet that has come");
    for (uint32_t i = 0; i < blocks.n; ++i) {
        const SackBlocks::Block &block = blocks.blocks[i];
        const SackBlocks::Block &second = blocks.blocks[1];
        const bool within = blocks.n > 1 && second.first <= block.first && block.end <= second.end;
        const bool duplicate = i == 0 && network.connections().tcp(packet.connection).modern &&
                               (block.end <= packet.number || within); // DSACK
        Require(block.first < block.end && (duplicate || block.first > packet.number),
                "a SACK block that is empty or acknowledged");
        for (uint32_t number = std::max(block.first, shadow.next); number < block.end; ++number) {
            Require(shadow.beyond.count(number) == 1, "a SACK block of what has not arrived");
        }
    }
}

inline bool Watch::Lose(Shadow &shadow, const Connection &connection, const Packet &packet)
{
    const auto kind = static_cast<size_t>(packet.kind);
    const bool last_ack = packet.kind == Kind::kAck && packet.number == connection.packets;
    const bool lost = shadow.arrivals[kind]++ < losses_.first[kind] ||
                      (last_ack && shadow.last_acks++ < losses_.last_acks) ||
                      (shadow.lost_in_a_row < losses_.in_a_row && random_.Chance(losses_.chance));
    shadow.lost_in_a_row = lost ? shadow.lost_in_a_row + 1 : 0;
    return lost;
}

inline void Watch::CheckPools(Network &network)
{
    const Spec &spec = network.run().spec();
    if (spec.pools.empty()) {
        return;
    }
    std::vector<uint64_t> used(spec.pools.size());
    for (uint32_t port = 0; port < 2 * spec.links.size(); ++port) {
        const QueueSpec &queue = spec.queue_of(port);
        if (queue.pool >= 0) {
            const int64_t beyond = network.switches().port(port).queue_bytes() - queue.buffer_bytes;
            used[static_cast<size_t>(queue.pool)] += static_cast<uint64_t>(std::max<int64_t>(beyond, 0));
        }
    }
    for (size_t i = 0; i < used.size(); ++i) {
        Require(used[i] == network.switches().pools()[i].used_bytes, "a pool's count is not what its ports hold of it");
        Require(used[i] <= static_cast<uint64_t>(spec.pools[i].size_bytes), "a pool holds more than its size");
    }
}

} // namespace ncc::packetsim
