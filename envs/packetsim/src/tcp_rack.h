// SPDX-License-Identifier: BSD-3-Clause
// Marks of the window's packets, sacked, lost and sent again, by RACK (RFC 8985 section 6) as Linux 6.18 implements it:
// a packet is lost if one sent later has arrived, and a reordering window has passed. While no packet has a mark, which
// is almost always, no function looks at single packets.
#pragma once

#include "tcp_scoreboard.h"

#include <algorithm>
#include <cstdint>

namespace ncc::packetsim
{

// Information that an ACK brings.
struct AckNews {
    bool advanced = false;        // the cumulative ACK moved
    bool sacked = false;          // packets were newly sacked
    bool original = false;        // a packet that was sent once, before the last timeout or loss, has arrived
    bool resent = false;          // the cumulative ACK covers packets that were sent again
    bool duplicate = false;       // DSACK (RFC 2883): a packet arrived twice
    bool duplicate_probe = false; // the packet that arrived twice was the loss probe
    // Time of sending of the first packet that was sent once and is newly acknowledged, or newly sacked; -1: none
    int64_t first_ns = -1, first_sack_ns = -1;
};

class TcpRack
{
  public:
    TcpRack(Connection &connection, const TcpConfig &config, TcpScoreboard &board, int64_t now_ns)
        : s_(connection.sender), r_(*connection.sender.modern), config_(config), board_(board), now_ns_(now_ns)
    {
    }

    // Takes SACK blocks. `number` is the cumulative ACK that came with them.
    void Update(const SackBlocks &blocks, uint32_t number, AckNews &news)
    {
        const uint32_t highest_before = s_.highest_sack;
        uint32_t first = 0;
        if (blocks.n > 0 && IsDuplicate(blocks, number)) {
            Duplicate(blocks.blocks[0], news);
            first = 1;
        }
        for (uint32_t i = first; i < blocks.n; ++i) {
            const uint32_t end = std::min(blocks.blocks[i].end, s_.nxt);
            for (uint32_t at = std::max(blocks.blocks[i].first, s_.una); at < end;) {
                if (const uint32_t seen_end = board_.SeenEnd(at); seen_end > at) {
                    at = seen_end;
                } else {
                    Sack(at++, highest_before, news);
                }
            }
        }
        std::copy(blocks.blocks + first, blocks.blocks + blocks.n, s_.seen);
        std::fill(s_.seen + (blocks.n - first), std::end(s_.seen), SackBlocks::Block{0, 0});
    }

    // Handles a cumulative ACK beyond una, with `number` the first missing packet.
    void Advance(uint32_t number, AckNews &news)
    {
        news.advanced = true;
        if ((s_.sacked_bytes | s_.lost_bytes | s_.repaired_bytes) == 0 && s_.highest_sack == kNone) {
            const uint64_t sent = s_.sent[s_.una];
            Acknowledged(number - 1, s_.sent[number - 1]);
            news.resent = ((sent | s_.sent[number - 1]) & Sent::kAmbiguous) != 0;
            news.original = !news.resent && s_.una < s_.recover;
            news.first_ns = static_cast<int64_t>(sent >> Sent::kTimeShift);
            s_.una = number;
            return;
        }
        for (; s_.una != number; ++s_.una) {
            const uint64_t sent = s_.sent[s_.una];
            const uint32_t bytes = board_.PayloadBytes(s_.una);
            s_.sacked_bytes -= sent & Sent::kSacked ? bytes : 0;
            s_.repaired_bytes -= sent & Sent::kRepaired ? bytes : 0;
            s_.lost_bytes -= sent & Sent::kLost ? bytes : 0;
            s_.unrepaired -= (sent & (Sent::kLost | Sent::kRepaired)) == Sent::kLost;
            if (!(sent & Sent::kSacked)) {
                Acknowledged(s_.una, sent);
            }
            if (sent & Sent::kAmbiguous) {
                news.resent = true;
            } else if (!(sent & Sent::kSacked)) {
                news.first_ns = news.first_ns >= 0 ? news.first_ns : static_cast<int64_t>(sent >> Sent::kTimeShift);
                news.original |= s_.una < s_.recover;
                r_.reordering |= s_.highest_sack != kNone && s_.una < s_.highest_sack;
            }
        }
        if (s_.highest_sack != kNone && s_.highest_sack < s_.una) {
            s_.highest_sack = kNone;
        }
    }

    // Adapts the reordering window to DSACKs, once per round trip (section 6.2 step 4).
    void AdaptWindow()
    {
        constexpr uint8_t kMaxSteps = 255, kPersist = 16; // recoveries
        r_.duplicate_seen &= s_.una >= r_.adapted_until;
        if (r_.duplicate_seen) {
            r_.window_steps = static_cast<uint8_t>(std::min<unsigned>(r_.window_steps + 1U, kMaxSteps));
            r_.duplicate_seen = false;
            r_.adapted_until = s_.nxt;
            r_.persist = kPersist;
        } else if (r_.persist == 0) {
            r_.window_steps = 1;
        }
    }

    // Finds losses if something newly arrived (section 6.2 step 5). Returns how long to wait for packets that may yet
    // arrive; 0: none.
    int64_t FindLost(bool always)
    {
        if (!r_.advanced && !always) {
            return 0;
        }
        r_.advanced = false;
        const int64_t window_ns = WindowNs();
        int64_t wait_ns = 0;
        bool settled = true; // all packets so far are sacked or lost
        for (uint32_t number = std::max(s_.lost_below, s_.una); number != s_.nxt; ++number) {
            const uint64_t sent = s_.sent[number];
            if (!(sent & (Sent::kSacked | Sent::kLost | Sent::kRepaired))) {
                const auto sent_ns = static_cast<int64_t>(sent >> Sent::kTimeShift);
                if (!SentBeforeLatest(number, sent_ns)) {
                    break; // later packets were sent later still
                }
                const int64_t left_ns = sent_ns + r_.rtt_ns + window_ns - now_ns_;
                if (left_ns <= 0) {
                    Lose(number);
                } else {
                    wait_ns = std::max(wait_ns, left_ns);
                    settled = false;
                }
            }
            if (settled) {
                s_.lost_below = number + 1;
            }
        }
        for (; r_.resent_first != r_.resent_end; ++r_.resent_first) {
            const auto number = static_cast<uint32_t>(r_.resent[kWords * r_.resent_first]);
            const auto sent_ns = static_cast<int64_t>(r_.resent[kWords * r_.resent_first + 1]);
            const uint64_t sent = number >= s_.una ? s_.sent[number] : 0;
            if (!(sent & Sent::kRepaired) || static_cast<int64_t>(sent >> Sent::kTimeShift) != sent_ns) {
                continue; // it has arrived, was found lost, or was sent once more
            }
            const int64_t left_ns = sent_ns + r_.rtt_ns + window_ns - now_ns_;
            if (!SentBeforeLatest(number, sent_ns)) {
                break;
            }
            if (left_ns > 0) {
                wait_ns = std::max(wait_ns, left_ns);
                break;
            }
            Lose(number);
        }
        return wait_ns;
    }

    // Marks packets as lost after a timeout: the first, and those sent longer ago than the last RTT (section 6.3).
    void LoseOld()
    {
        for (uint32_t number = s_.una; number != s_.nxt; ++number) {
            const uint64_t sent = s_.sent[number];
            const auto sent_ns = static_cast<int64_t>(sent >> Sent::kTimeShift);
            if (!(sent & Sent::kSacked) && (number == s_.una || sent_ns + r_.rtt_ns <= now_ns_)) {
                Lose(number);
            }
        }
    }

    // Undoes the marking of packets as lost.
    void Forgive()
    {
        for (uint32_t number = s_.una; number != s_.nxt; ++number) {
            s_.sent[number] &= ~Sent::kLost;
        }
        s_.lost_bytes = s_.unrepaired = 0;
        s_.lost_below = s_.una;
        r_.advanced = true;
    }

    // Notes that a packet was sent again.
    void Resent(TcpRings &rings, uint32_t number)
    {
        r_.resent.Reserve(rings, kWords * r_.resent_first, kWords * r_.resent_end + kWords - 1);
        r_.resent[kWords * r_.resent_end] = number;
        r_.resent[kWords * r_.resent_end + 1] = static_cast<uint64_t>(now_ns_);
        ++r_.resent_end;
    }

  private:
    static constexpr uint32_t kWords = 2;

    bool SentBeforeLatest(uint32_t number, int64_t sent_ns) const
    {
        return r_.sent_ns > sent_ns || (r_.sent_ns == sent_ns && r_.number > number);
    }

    // RFC 2883 section 4: the first block is below the cumulative ACK, or within the second block.
    static bool IsDuplicate(const SackBlocks &blocks, uint32_t number)
    {
        const SackBlocks::Block &block = blocks.blocks[0];
        const SackBlocks::Block &other = blocks.blocks[1];
        return block.end <= number || (blocks.n > 1 && other.first <= block.first && block.end <= other.end);
    }

    void Duplicate(const SackBlocks::Block &block, AckNews &news)
    {
        news.duplicate = true;
        news.duplicate_probe = r_.probe_end != kNone && r_.probe_end == block.end;
        if (r_.undo_possible && r_.undo_resent > 0 && block.end > r_.undo_from) {
            --r_.undo_resent;
        }
        r_.duplicate_seen |= r_.reordering && !news.duplicate_probe;
    }

    void Sack(uint32_t number, uint32_t highest_before, AckNews &news)
    {
        uint64_t &sent = s_.sent[number];
        if (sent & Sent::kSacked) {
            return;
        }
        news.sacked = true;
        Acknowledged(number, sent);
        const uint32_t bytes = board_.PayloadBytes(number);
        s_.repaired_bytes -= sent & Sent::kRepaired ? bytes : 0;
        s_.lost_bytes -= sent & Sent::kLost ? bytes : 0;
        s_.unrepaired -= (sent & (Sent::kLost | Sent::kRepaired)) == Sent::kLost;
        if (!(sent & Sent::kAmbiguous)) {
            r_.reordering |= highest_before != kNone && number < highest_before;
            news.original |= number < s_.recover;
            news.first_sack_ns =
                news.first_sack_ns >= 0 ? news.first_sack_ns : static_cast<int64_t>(sent >> Sent::kTimeShift);
        }
        sent = (sent & ~(Sent::kLost | Sent::kRepaired)) | Sent::kSacked;
        s_.sacked_bytes += bytes;
        if (config_.needs_rate) {
            s_.rate.Delivered(number, bytes);
        }
        s_.highest_sack = s_.highest_sack == kNone ? number : std::max(s_.highest_sack, number);
    }

    // Section 6.2 steps 1 and 2: the packet sent last among those that have arrived.
    void Acknowledged(uint32_t number, uint64_t sent)
    {
        const auto sent_ns = static_cast<int64_t>(sent >> Sent::kTimeShift);
        const int64_t rtt_ns = now_ns_ - sent_ns;
        if ((sent & Sent::kAmbiguous) && rtt_ns < s_.min_rtt_ns) {
            return; // an earlier transmission has arrived
        }
        r_.advanced = true;
        r_.rtt_ns = rtt_ns;
        if (sent_ns > r_.sent_ns || (sent_ns == r_.sent_ns && number > r_.number)) {
            r_.sent_ns = sent_ns;
            r_.number = number;
        }
    }

    // Section 6.2 step 4. Without reordering so far, three sacked packets or a recovery make it 0.
    int64_t WindowNs() const
    {
        const bool repairing = s_.state == CongestionState::kRecovery || s_.state == CongestionState::kLoss;
        const uint64_t fewer_bytes = (config_.dup_ack_pkts - 1ULL) * config_.mss_bytes; // the last packet may be short
        if (!r_.reordering && (repairing || s_.sacked_bytes > fewer_bytes)) {
            return 0;
        }
        return std::min(s_.min_rtt_ns / 4 * r_.window_steps, s_.srtt_ns);
    }

    void Lose(uint32_t number)
    {
        r_.lost_again |= (s_.sent[number] & Sent::kRepaired) != 0;
        ++r_.found_lost;
        board_.Lose(number);
    }

    TcpSender &s_;
    TcpModern &r_;
    const TcpConfig &config_;
    TcpScoreboard &board_;
    int64_t now_ns_;
};

} // namespace ncc::packetsim
