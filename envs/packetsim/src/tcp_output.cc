// SPDX-License-Identifier: BSD-3-Clause
// Output of the sender: the handshake, and data as the controller, the receiver, pacing and the host allow.
#include "tcp_sending_end.h"

#include <string>

namespace ncc::packetsim
{

namespace
{

// Time in ns between a packet and the next at a pace, rounded as in ns-3: the quotient in seconds is cut off after 64
// binary digits, and then rounded to the nearest ns. So a half goes up if 64 digits hold the quotient, and else down.
int64_t PaceNs(uint64_t payload_bytes, uint64_t bytes_per_s)
{
    __extension__ typedef unsigned __int128 Fixed;
    const Fixed seconds = (Fixed{payload_bytes} << 64) / bytes_per_s;
    return static_cast<int64_t>((seconds * NCC_NS_PER_S + (Fixed{1} << 63)) >> 64);
}

} // namespace

void TcpSendingEnd::Syn()
{
    constexpr uint32_t kMaxDoublings = 16;
    s_.rto_ns = config_.initial_rto_ns << std::min(s_.syns, kMaxDoublings);
    ++s_.syns;
    network_.flows().Send(network_.flows().Make(slot_, Kind::kSyn, config_.syn_bytes));
    network_.engine().Arm(s_.retransmit, TimerKind::kRetransmit, slot_, s_.rto_ns);
}

void TcpSendingEnd::SynAck(const Packet &packet)
{
    if (s_.established) {
        return;
    }
    s_.retransmit.Cancel();
    s_.rwnd_bytes = packet.window;
    s_.rwnd_of_syn_ack = true;
    // Measured from the first SYN, even if this answers a later one, as in ns-3 (against RFC 6298 section 3).
    AddSample(network_.now_ns() - s_.syn_ns);
    Establish();
    network_.flows().Send(network_.flows().Make(slot_, Kind::kOpenAck, kHeaderBytes));
    SendPending();
}

void TcpSendingEnd::Establish()
{
    s_.established = true;
    ncc_cc_out out{};
    config_.ops->init(s_.controller, config_.params, &s_.conn, &out);
    Apply(out);
}

// Everything that belongs to the connection is inherited; what belongs to the flow, above all the numbers of its
// packets, begins anew.
void TcpSendingEnd::Continue(uint32_t before)
{
    const TcpSender &b = network_.connections()[before].sender;
    s_.conn = b.conn;
    s_.established = true;
    s_.state = b.state; // open, or reduced
    s_.cwnd_bytes = b.cwnd_bytes;
    s_.ssthresh_bytes = b.ssthresh_bytes;
    s_.rwnd_bytes = b.rwnd_bytes;
    s_.rto_ns = b.rto_ns;
    s_.srtt_ns = b.srtt_ns;
    s_.rttvar_ns = b.rttvar_ns;
    s_.min_rtt_ns = b.min_rtt_ns;
    s_.cwr_due = b.cwr_due;
    s_.pacing_bytes_per_s = b.pacing_bytes_per_s;
    std::copy(std::begin(b.controller), std::end(b.controller), s_.controller);
    s_.earlier_bytes = b.earlier_bytes + network_.run().spec().flows[network_.connections().flow_of(before)].size_bytes;
    s_.offered_bytes = std::min<uint64_t>(network_.flows().WrittenBytes(connection_.flow, network_.now_ns()),
                                          config_.send_buffer_bytes);
    if (config_.needs_rate) {
        s_.rate.Continue(b.rate);
    }
    if (config_.modern) {
        ContinueModern(*b.modern);
    }
    if (b.pace.on()) {
        network_.engine().Arm(s_.pace, TimerKind::kPace, slot_, b.pace.due_ns - network_.now_ns());
    }
    Restart(before);
    Learn();
    SendPending();
}

// Tells the controller that data is about to be sent again. `before`: connection whose flow sent last.
void TcpSendingEnd::Restart(uint32_t before)
{
    ncc_cc_event event = Event(0);
    event.idle_rtos = network_.flows().IdleRtos(network_.connections().flow_of(before), network_.now_ns(), s_.rto_ns);
    if (event.idle_rtos > 0) {
        s_.state = CongestionState::kOpen;
    }
    ncc_cc_out out{};
    config_.ops->on_restart(s_.controller, config_.params, &s_.conn, &event, &out);
    Apply(out);
}

void TcpSendingEnd::Refuse(const ncc_cc_out &out)
{
    network_.engine().Fail(DecisionFault(*config_.ops, s_.conn, out) + " (flow " + std::to_string(connection_.flow) +
                           ")");
}

void TcpSendingEnd::Signal(const ncc_cc_signal &signal)
{
    if ((config_.ops->needs & NCC_CC_SIGNALS) == 0 || !s_.established || s_.una == connection_.packets) {
        return;
    }
    const ncc_cc_event event = Event(InRecovery());
    ncc_cc_out out{};
    config_.ops->on_signal(s_.controller, config_.params, &s_.conn, &event, &signal, &out);
    Apply(out);
    SendPending();
}

void TcpSendingEnd::ControlTimer()
{
    if (s_.una == connection_.packets) {
        return;
    }
    const ncc_cc_event event = Event(InRecovery());
    ncc_cc_out out{};
    config_.ops->on_timer(s_.controller, config_.params, &s_.conn, &event, &out);
    Apply(out);
    SendPending();
}

void TcpSendingEnd::OfferMore(uint64_t missing_bytes)
{
    const uint64_t free_bytes = config_.send_buffer_bytes - (s_.offered_bytes - OffsetBytes(s_.una));
    const uint64_t chunk_bytes = std::min<uint64_t>(missing_bytes, std::max(config_.send_buffer_bytes / 4, 1U));
    if (free_bytes >= chunk_bytes) {
        const bool all_sent = s_.offered_bytes - OffsetBytes(s_.nxt) < config_.mss_bytes;
        if (config_.needs_rate && all_sent && board_.PipeBytes() < s_.cwnd_bytes &&
            s_.lost_bytes <= s_.repaired_bytes) {
            s_.rate.estimator().AppLimited(board_.PipeBytes());
        }
        s_.offered_bytes += std::min(missing_bytes, free_bytes);
    }
}

// Finds the next new packet if all of it is in the send buffer and the receiver has room.
bool TcpSendingEnd::NextPacket(uint32_t &number)
{
    if (s_.nxt == connection_.packets) {
        return false;
    }
    const uint64_t end_bytes = OffsetBytes(s_.nxt + 1);
    if (end_bytes > s_.offered_bytes || end_bytes - OffsetBytes(s_.una) > s_.rwnd_bytes) {
        return false;
    }
    number = s_.nxt;
    return true;
}

// RFC 6675 section 5, part C, with NextSeg's rules 1 to 3.
void TcpSendingEnd::SendPending()
{
    if (config_.modern) {
        SendModern();
        return;
    }
    if (s_.state == CongestionState::kDisorder && !config_.sack && !config_.limited_transmit) {
        return; // RFC 5681 without RFC 3042: wait for the meaning of the duplicate ACKs
    }
    while (s_.una != connection_.packets) {
        const uint32_t window_bytes =
            network_.flows().ClampBytes(connection_.flow, std::min(s_.rwnd_bytes, s_.cwnd_bytes));
        const uint64_t pipe_bytes = board_.PipeBytes();
        if (pipe_bytes >= window_bytes) {
            return;
        }
        if (!network_.flows().HasRoom(slot_)) {
            s_.held_back = true;
            return;
        }
        if (s_.pacing_bytes_per_s > 0 && s_.pace.on()) {
            return;
        }
        uint32_t number = 0;
        if (!board_.NextLost(number) && !NextPacket(number)) {
            const bool unsent = OffsetBytes(s_.nxt) < s_.offered_bytes;
            if (unsent || !config_.sack || s_.state != CongestionState::kRecovery || !board_.NextRescue(number)) {
                return;
            }
        }
        // Silly window avoidance: send no part of a packet, unless no more data is left.
        const uint64_t left_bytes = s_.offered_bytes - OffsetBytes(number);
        if (window_bytes - pipe_bytes < std::min<uint64_t>(config_.mss_bytes, left_bytes)) {
            return;
        }
        SendData(number);
    }
}

void TcpSendingEnd::SendData(uint32_t number, bool probe)
{
    const bool retransmission = number < s_.nxt;
    const uint32_t payload_bytes = board_.PayloadBytes(number);
    if (s_.una == s_.nxt && !config_.modern) {
        s_.retransmit.Cancel(); // nothing was outstanding: the timer starts at this packet (RFC 6298 5.1, 5.2)
    }
    if (config_.needs_rate) {
        s_.rate.Sent(network_.connections().rings(), number, s_.una, s_.nxt, network_.now_ns());
    }
    if (config_.modern && !probe) {
        s_.modern->prr.out_bytes += payload_bytes;
    }
    if (retransmission) {
        if (!probe) {
            board_.Repaired(number);
        }
        if (config_.modern) {
            ResentModern(number, probe);
        }
    } else {
        s_.sent.Reserve(network_.connections().rings(), s_.una, s_.nxt);
        s_.sent[number] = static_cast<uint64_t>(network_.now_ns()) << Sent::kTimeShift;
        ++s_.nxt;
    }
    const uint32_t place = network_.flows().Make(slot_, Kind::kData, payload_bytes + kHeaderBytes);
    Packet &packet = network_.packets().header(place);
    packet.number = number;
    // RFC 3168 keeps retransmissions out of ECN; with DCTCP they take part, as in Linux.
    packet.ecn_capable = config_.ecn == NCC_CC_ECN_DCTCP || (config_.ecn == NCC_CC_ECN_CLASSIC && !retransmission);
    packet.retransmission = retransmission;
    packet.fin = number + 1 == connection_.packets;
    network_.flows().Tag(packet, connection_.flow, OffsetBytes(number), payload_bytes);
    if (s_.cwr_due && !retransmission) {
        packet.window_reduced = true;
        s_.cwr_due = false;
        s_.cwr_end = number + 1;
    }
    if (s_.pacing_bytes_per_s > 0 && !s_.pace.on()) {
        network_.engine().Arm(s_.pace, TimerKind::kPace, slot_, PaceNs(payload_bytes, s_.pacing_bytes_per_s));
    }
    if (!s_.retransmit.on()) {
        if (config_.modern) {
            Arm(Waiting::kTimeout, s_.rto_ns);
        } else {
            network_.engine().Arm(s_.retransmit, TimerKind::kRetransmit, slot_, s_.rto_ns);
        }
    }
    network_.flows().SentData(connection_.flow, packet.ip_bytes);
    network_.flows().Send(place);
}

} // namespace ncc::packetsim
