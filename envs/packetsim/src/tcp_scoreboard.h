// SPDX-License-Identifier: BSD-3-Clause
// Marks of the window's packets, sacked, lost and repaired, by RFC 6675 as ns-3 3.44 implements it. While no packet has
// a mark, which is almost always, no function looks at single packets.
#pragma once

#include "connection.h"

#include <algorithm>
#include <cstdint>

namespace ncc::packetsim
{

class TcpScoreboard
{
  public:
    TcpScoreboard(Connection &connection, const TcpConfig &config)
        : s_(connection.sender), config_(config), packets_(connection.packets), last_bytes_(connection.last_bytes)
    {
    }

    uint32_t PayloadBytes(uint32_t number) const { return number + 1 == packets_ ? last_bytes_ : config_.mss_bytes; }

    // Returns the "pipe" of RFC 6675. As in ns-3, a repaired packet counts until it is acknowledged, even if sacked.
    uint64_t PipeBytes() const
    {
        uint64_t bytes = static_cast<uint64_t>(s_.nxt - s_.una) * config_.mss_bytes;
        if (s_.nxt == packets_ && s_.una != packets_) {
            bytes -= config_.mss_bytes - last_bytes_;
        }
        return bytes - s_.sacked_bytes - s_.lost_bytes + s_.repaired_bytes;
    }

    // Takes SACK blocks; returns true if they contain packets that were not known to have arrived.
    bool Update(const SackBlocks &blocks)
    {
        bool news = false;
        for (uint32_t i = 0; i < blocks.n; ++i) {
            const SackBlocks::Block &block = blocks.blocks[i];
            const uint32_t end = std::min(block.end, s_.nxt);
            for (uint32_t number = std::max(block.first, s_.una); number < end;) {
                if (const uint32_t seen_end = SeenEnd(number); seen_end > number) {
                    number = seen_end;
                } else {
                    news |= Sack(number++);
                }
            }
        }
        std::copy(blocks.blocks, blocks.blocks + blocks.n, s_.seen);
        std::fill(s_.seen + blocks.n, std::end(s_.seen), SackBlocks::Block{0, 0});
        if (news) {
            FindLost();
        }
        return news;
    }

    // Handles a cumulative ACK, with `number` the first missing packet.
    void Discard(uint32_t number)
    {
        if ((s_.sacked_bytes | s_.lost_bytes | s_.repaired_bytes) == 0) {
            s_.una = number;
            return;
        }
        for (; s_.una != number; ++s_.una) {
            const uint64_t sent = s_.sent[s_.una];
            const uint32_t bytes = PayloadBytes(s_.una);
            s_.sacked_bytes -= sent & Sent::kSacked ? bytes : 0;
            s_.repaired_bytes -= sent & Sent::kRepaired ? bytes : 0;
            s_.lost_bytes -= sent & Sent::kLost ? bytes : 0;
            s_.unrepaired -= (sent & (Sent::kLost | Sent::kRepaired)) == Sent::kLost;
        }
        if (s_.highest_sack != kNone && s_.highest_sack <= s_.una) {
            s_.highest_sack = kNone;
        }
        if (s_.una != s_.nxt && s_.sent[s_.una] & Sent::kSacked) { // a wrong guess (no SACK): another arrived
            LoseHead();
            GuessSack();
        }
    }

    // Returns IsLost (RFC 6675) of the first unacknowledged packet.
    bool HeadLost() const { return s_.highest_sack != kNone && s_.una < s_.highest_sack && Head() & Sent::kLost; }
    bool HeadRepaired() const { return (Head() & (Sent::kSacked | Sent::kRepaired)) == Sent::kRepaired; }

    void LoseHead()
    {
        if (s_.una != s_.nxt) {
            Lose(s_.una);
        }
    }

    // True for a packet that is out, as far as the sender knows.
    bool Out(uint32_t number) const
    {
        if (number < s_.una || number >= s_.nxt) {
            return false;
        }
        const uint64_t marks = s_.sent[number] & (Sent::kSacked | Sent::kLost | Sent::kRepaired);
        return marks != Sent::kLost && !(marks & Sent::kSacked);
    }

    void Lose(uint32_t number)
    {
        uint64_t &sent = s_.sent[number];
        const uint32_t bytes = PayloadBytes(number);
        s_.sacked_bytes -= sent & Sent::kSacked ? bytes : 0;
        s_.repaired_bytes -= sent & Sent::kRepaired ? bytes : 0;
        s_.lost_bytes += sent & Sent::kLost ? 0 : bytes;
        s_.unrepaired += (sent & (Sent::kLost | Sent::kRepaired)) != Sent::kLost;
        sent = (sent & ~(Sent::kSacked | Sent::kRepaired)) | Sent::kLost;
        s_.repair_from = std::min(s_.repair_from, number);
    }

    // Marks all outstanding packets as lost after a timeout, except those that the receiver is known to have; guesses
    // do not count.
    void LoseAll()
    {
        s_.lost_bytes = s_.repaired_bytes = s_.unrepaired = 0;
        if (!config_.sack) {
            s_.sacked_bytes = 0;
            s_.highest_sack = kNone;
        }
        for (uint32_t number = s_.una; number != s_.nxt; ++number) {
            uint64_t &sent = s_.sent[number];
            sent &= ~(Sent::kRepaired | (config_.sack ? 0 : Sent::kSacked));
            if (!(sent & Sent::kSacked)) {
                sent |= Sent::kLost;
                s_.lost_bytes += PayloadBytes(number);
                ++s_.unrepaired;
            }
        }
        s_.lost_below = s_.nxt;
        s_.repair_from = s_.una;
    }

    // Handles a duplicate ACK without SACK: some packet has arrived, probably the first after those guessed before.
    void GuessSack()
    {
        const uint32_t guessed = (s_.sacked_bytes + config_.mss_bytes - 1) / config_.mss_bytes;
        const uint32_t number = s_.una + 1 + guessed;
        if (number < s_.nxt) {
            s_.sent[number] |= Sent::kSacked;
            s_.sacked_bytes += PayloadBytes(number);
            s_.highest_sack = number;
        }
    }

    void Repaired(uint32_t number)
    {
        uint64_t &sent = s_.sent[number];
        if (!(sent & Sent::kRepaired)) {
            s_.repaired_bytes += PayloadBytes(number);
            s_.unrepaired -= (sent & Sent::kLost) != 0;
        }
        sent |= Sent::kRepaired | Sent::kAmbiguous;
    }

    // Finds the first packet that is lost and not sent again.
    bool FirstLost(uint32_t &number)
    {
        if (s_.unrepaired == 0) {
            return false;
        }
        s_.repair_from = std::max(s_.repair_from, s_.una);
        while ((s_.sent[s_.repair_from] & (Sent::kLost | Sent::kRepaired)) != Sent::kLost) {
            ++s_.repair_from;
        }
        number = s_.repair_from;
        return true;
    }

    // RFC 6675 NextSeg, rule 1.
    bool NextLost(uint32_t &number) { return FirstLost(number) && number < RepairEnd(); }

    // Finds the first packet that is neither sacked nor sent again (rule 3).
    bool NextRescue(uint32_t &number)
    {
        s_.rescue_from = std::max(s_.rescue_from, s_.una);
        while (s_.rescue_from != s_.nxt && s_.sent[s_.rescue_from] & (Sent::kSacked | Sent::kRepaired)) {
            ++s_.rescue_from;
        }
        number = s_.rescue_from;
        return number < RepairEnd();
    }

    // Returns the end of the last ACK's block with `number`, 0 if there is none. Such packets are sacked already.
    uint32_t SeenEnd(uint32_t number) const
    {
        for (const SackBlocks::Block &block : s_.seen) {
            if (block.first <= number && number < block.end) {
                return block.end;
            }
        }
        return 0;
    }

  private:
    // Bound of rules 1 and 3: the highest sacked packet (1.b), as in ns-3 after a timeout too.
    uint32_t RepairEnd() const { return config_.sack && s_.highest_sack != kNone ? s_.highest_sack : s_.nxt; }

    uint64_t Head() const { return s_.una == s_.nxt ? 0 : s_.sent[s_.una]; }

    bool Sack(uint32_t number)
    {
        uint64_t &sent = s_.sent[number];
        if (sent & Sent::kSacked) {
            return false;
        }
        const uint32_t bytes = PayloadBytes(number);
        if (sent & Sent::kLost) {
            s_.lost_bytes -= bytes;
            s_.unrepaired -= !(sent & Sent::kRepaired);
        }
        sent = (sent & ~Sent::kLost) | Sent::kSacked;
        s_.sacked_bytes += bytes;
        if (config_.needs_rate) {
            s_.rate.Delivered(number, bytes);
        }
        if (s_.highest_sack == kNone || s_.highest_sack <= number + 1) { // "+ 1": ns-3 compares with the packet's end
            s_.highest_sack = number;
        }
        return true;
    }

    // Marks packets with `dup_ack_pkts` sacked packets above them as lost.
    void FindLost()
    {
        uint32_t number = s_.highest_sack;
        for (uint32_t sacked = 0; number > s_.una; --number) {
            sacked += (s_.sent[number] & Sent::kSacked) != 0;
            if (sacked >= config_.dup_ack_pkts) {
                break;
            }
        }
        if (number <= s_.una) {
            return;
        }
        const uint32_t from = std::max(s_.lost_below, s_.una);
        for (uint32_t below = from; below < number; ++below) {
            uint64_t &sent = s_.sent[below];
            if (!(sent & (Sent::kSacked | Sent::kLost))) {
                sent |= Sent::kLost;
                s_.lost_bytes += PayloadBytes(below);
                s_.unrepaired += !(sent & Sent::kRepaired);
                s_.repair_from = std::min(s_.repair_from, below);
            }
        }
        s_.lost_below = std::max(s_.lost_below, number);
    }

    TcpSender &s_;
    const TcpConfig &config_;
    uint32_t packets_, last_bytes_;
};

} // namespace ncc::packetsim
