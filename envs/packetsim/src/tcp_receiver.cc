// SPDX-License-Identifier: BSD-3-Clause
// The receiving end, which acknowledges data and echoes congestion marks. It acknowledges at once if RFC 5681 section
// 4.2 asks for it, otherwise with the second packet or after a while. Where RFCs leave a choice, it follows ns-3 3.44.
#include "network.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace ncc::packetsim
{

namespace
{

class TcpReceivingEnd
{
  public:
    TcpReceivingEnd(Network &network, uint32_t slot)
        : network_(network), config_(network.connections().tcp(slot)), connection_(network.connections()[slot]),
          r_(connection_.receiver), slot_(slot)
    {
    }

    void Receive(const Packet &packet)
    {
        if (packet.kind == Kind::kSyn) {
            if (r_.state == TcpReceiver::State::kListen) {
                // Answered after all other events of this nanosecond, as in ns-3, for flows that start together.
                r_.state = TcpReceiver::State::kSynReceived;
                network_.flows().HeardOf(connection_.flow, network_.now_ns());
                network_.engine().Arm(r_.delayed_ack, TimerKind::kDelayedAck, slot_, 0);
            } else if (r_.state == TcpReceiver::State::kSynReceived) {
                SynAck();
            }
            return;
        }
        if (packet.trimmed) [[unlikely]] {
            network_.flows().HeardOf(connection_.flow, network_.now_ns());
            if (r_.state == TcpReceiver::State::kEstablished) {
                Ack(0, packet.number >= r_.next ? packet.number : kNone);
            }
            return;
        }
        if (r_.state != TcpReceiver::State::kEstablished) { // data has the same effect as the ACK, which may be lost
            r_.delayed_ack.Cancel();
            Establish();
        }
        if (packet.kind == Kind::kData) {
            Data(packet);
        }
    }

    void Establish()
    {
        r_.state = TcpReceiver::State::kEstablished;
        r_.unacked = config_.delayed_ack_pkts; // the first packet is acknowledged at once
    }

    void SynAck()
    {
        constexpr unsigned kMaxDoublings = 16;
        const unsigned doublings = std::min<unsigned>(r_.syn_acks, kMaxDoublings);
        r_.syn_acks = static_cast<uint8_t>(doublings + 1);
        const uint32_t place = network_.flows().Make(slot_, Kind::kSynAck, config_.syn_bytes);
        network_.packets().header(place).window =
            static_cast<uint16_t>(std::min(config_.receive_buffer_bytes, kMaxUnscaledWindow));
        network_.flows().Send(place);
        if (!r_.delayed_ack.on()) {
            network_.engine().Arm(r_.delayed_ack, TimerKind::kDelayedAck, slot_, config_.initial_rto_ns << doublings);
        }
    }

    // `fresh_pkts` were put in order by the packet that causes this ACK; the application has not read them yet.
    // `trimmed`: the missing packet that came without its payload, or kNone.
    void Ack(uint32_t fresh_pkts, uint32_t trimmed = kNone)
    {
        r_.delayed_ack.Cancel();
        r_.unacked = 0;
        const uint32_t place = network_.flows().Make(slot_, Kind::kAck, kHeaderBytes);
        Packet &packet = network_.packets().header(place);
        packet.number = r_.next;
        packet.echo = r_.echo;
        packet.window = Window(fresh_pkts);
        const bool duplicate = config_.modern && r_.duplicate != kNone;
        if (config_.sack && (r_.blocks.n > 0 || duplicate)) {
            packet.sack = network_.connections().sacks().Take();
            SackBlocks &blocks = network_.connections().sacks()[packet.sack];
            blocks = r_.blocks;
            if (duplicate) { // DSACK: the first block (RFC 2883 section 4)
                blocks.n = std::min(blocks.n, 3U) + 1;
                std::copy_n(r_.blocks.blocks, blocks.n - 1, blocks.blocks + 1);
                blocks.blocks[0] = {r_.duplicate, r_.duplicate + 1};
                r_.duplicate = kNone;
            }
            packet.ip_bytes = static_cast<uint16_t>(kHeaderBytes + 4 + 8 * blocks.n);
        }
        if ((config_.sack && trimmed != kNone) || r_.telemetry != kNone) {
            packet.sack = packet.sack == kNone ? network_.connections().sacks().Take() : packet.sack;
            network_.connections().sacks()[packet.sack].trimmed = config_.sack ? trimmed : kNone;
            network_.connections().sacks()[packet.sack].telemetry = std::exchange(r_.telemetry, kNone);
        }
        network_.flows().Send(place);
    }

  private:
    uint16_t Window(uint32_t fresh_pkts) const
    {
        uint64_t fresh_bytes = static_cast<uint64_t>(fresh_pkts) * config_.mss_bytes;
        if (fresh_pkts > 0 && r_.next == connection_.packets) {
            fresh_bytes -= config_.mss_bytes - connection_.last_bytes;
        }
        const auto free_bytes = static_cast<uint32_t>(config_.receive_buffer_bytes - fresh_bytes);
        // Never below one packet; otherwise the sender would wait for a window update that does not come.
        const uint32_t least = ((config_.mss_bytes - 1) >> config_.window_shift) + 1;
        return static_cast<uint16_t>(std::clamp(free_bytes >> config_.window_shift, least, kMaxUnscaledWindow));
    }

    [[gnu::always_inline]] void Data(const Packet &packet)
    {
        if (r_.next == 0) [[unlikely]] { // the receiver may not know of the flow yet
            network_.flows().HeardOf(connection_.flow, network_.now_ns());
        }
        if (packet.sack != kNone) [[unlikely]] {
            Slots<Telemetry> &telemetry = network_.connections().telemetry();
            r_.telemetry = r_.telemetry == kNone ? telemetry.Take() : r_.telemetry;
            telemetry[r_.telemetry] = telemetry[packet.sack];
        }
        if (packet.number < r_.next) {
            r_.duplicate = packet.number;
        }
        if (packet.number + 1 < r_.next) { // an old duplicate is outside the window and only causes an ACK
            Ack(0);
            return;
        }
        Echo(packet);
        if (packet.number > r_.next) {
            Hold(packet.number);
            Ack(0);
            return;
        }
        if (packet.number < r_.next) {
            Ack(0);
            return;
        }
        ++r_.next;
        if (r_.held > 0) {
            const uint32_t before = r_.next;
            TakeHeld();
            Forget();
            Ack(r_.next - before + 1); // there is a gap, or it was closed
        } else if (++r_.unacked >= config_.delayed_ack_pkts) {
            Ack(1);
        } else if (!r_.delayed_ack.on()) {
            network_.engine().Arm(r_.delayed_ack, TimerKind::kDelayedAck, slot_, config_.delayed_ack_ns);
        }
        if (connection_.feeds) [[unlikely]] {
            network_.flows().Came(slot_);
        }
        if (r_.next == connection_.packets) {
            network_.flows().Received(slot_);
        }
    }

    void Echo(const Packet &packet)
    {
        if (config_.ecn == NCC_CC_ECN_DCTCP) {
            if (packet.marked != r_.echo) {
                if (r_.delayed_ack.on()) { // acknowledge earlier packets with their state
                    Ack(0);
                }
                r_.echo = packet.marked;
                r_.unacked = config_.delayed_ack_pkts; // acknowledge this packet at once
            }
        } else if (config_.ecn == NCC_CC_ECN_CLASSIC) {
            r_.echo = packet.marked || (r_.echo && !packet.window_reduced);
        }
    }

    // Stores a packet beyond a gap.
    void Hold(uint32_t number)
    {
        r_.holds.Reserve(network_.connections().rings(), r_.next / 64, number / 64 + 1);
        uint64_t &word = r_.holds[number / 64];
        const uint64_t bit = 1ULL << number % 64;
        if (word & bit) {
            r_.duplicate = number;
            return;
        }
        word |= bit;
        ++r_.held;
        Report(number);
    }

    // Takes the stored packets that are now in order.
    void TakeHeld()
    {
        while (r_.held > 0) {
            uint64_t &word = r_.holds[r_.next / 64];
            const unsigned offset = r_.next % 64;
            const auto run = static_cast<uint32_t>(std::countr_one(word >> offset));
            if (run == 0) {
                return;
            }
            word &= ~((run == 64 ? ~0ULL : (1ULL << run) - 1) << offset);
            r_.next += run;
            r_.held -= run;
            if (run + offset < 64) {
                return;
            }
        }
    }

    // Updates the SACK blocks (RFC 2018 section 4): the block with the newest packet first, then those reported most
    // recently. As in ns-3, a block that has dropped out of the list is not reported again when a packet joins it.
    void Report(uint32_t number)
    {
        SackBlocks::Block block{number, number + 1};
        SackBlocks &blocks = r_.blocks;
        uint32_t kept = 0;
        for (uint32_t i = 0; i < blocks.n; ++i) {
            const SackBlocks::Block other = blocks.blocks[i];
            if (other.end == block.first) {
                block.first = other.first;
            } else if (other.first == block.end) {
                block.end = other.end;
            } else {
                blocks.blocks[kept++] = other;
            }
        }
        kept = std::min(kept, 3U);
        std::copy_backward(blocks.blocks, blocks.blocks + kept, blocks.blocks + kept + 1);
        blocks.blocks[0] = block;
        blocks.n = kept + 1;
    }

    // Removes blocks that are now in order.
    void Forget()
    {
        SackBlocks &blocks = r_.blocks;
        const auto *end = std::remove_if(blocks.blocks, blocks.blocks + blocks.n,
                                         [this](const SackBlocks::Block &block) { return block.end <= r_.next; });
        blocks.n = static_cast<uint32_t>(end - blocks.blocks);
    }

    Network &network_;
    const TcpConfig &config_;
    Connection &connection_;
    TcpReceiver &r_;
    uint32_t slot_;
};

} // namespace

void TcpReceiverOpen(Network &network, uint32_t slot) { TcpReceivingEnd(network, slot).Establish(); }

void TcpReceiverReceive(Network &network, uint32_t slot, const Packet &packet)
{
    TcpReceivingEnd(network, slot).Receive(packet);
}

void TcpReceiverExpired(Network &network, uint32_t slot)
{
    TcpReceivingEnd end(network, slot);
    if (network.connections()[slot].receiver.state == TcpReceiver::State::kSynReceived) {
        end.SynAck();
    } else {
        end.Ack(0);
    }
}

} // namespace ncc::packetsim
