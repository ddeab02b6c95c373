// SPDX-License-Identifier: BSD-3-Clause
// Effects of ACKs and timeouts: RTT samples, and finding and repairing losses (RFC 6675; without SACK, RFC 6582).
#include "tcp_sending_end.h"

namespace ncc::packetsim
{

// Takes an RTT sample of the oldest packet that the ACK covers, which includes the wait of a delayed ACK.
void TcpSendingEnd::Sample(uint32_t number)
{
    const uint32_t oldest = std::max(s_.una, s_.rtt_from);
    if (number <= oldest) {
        return;
    }
    const uint64_t sent = s_.sent[oldest];
    if (!(sent & Sent::kAmbiguous)) {
        measured_rtt_ns_ = AddSample(network_.now_ns() - static_cast<int64_t>(sent >> Sent::kTimeShift));
    }
}

void TcpSendingEnd::Ack(const Packet &packet)
{
    const uint32_t number = packet.number;
    const uint32_t rwnd_bytes = static_cast<uint32_t>(packet.window) << config_.window_shift;
    if (number > s_.una || rwnd_bytes > s_.rwnd_bytes || s_.rwnd_of_syn_ack) {
        s_.rwnd_bytes = rwnd_bytes;
        s_.rwnd_of_syn_ack = false;
    }
    if (config_.modern) {
        ModernAck(packet);
        return;
    }
    Sample(number);
    const uint64_t pipe_before = board_.PipeBytes();
    const uint32_t una_before = s_.una;
    if (config_.needs_rate) {
        s_.rate.estimator().BeginAck(network_.now_ns(), s_.lost_bytes);
    }
    bool duplicate = packet.sack != kNone && board_.Update(network_.connections().sacks()[packet.sack]);
    if (number > s_.una) {
        for (uint32_t acked = s_.una; config_.needs_rate && acked != number; ++acked) {
            s_.rate.Delivered(acked, board_.PayloadBytes(acked));
        }
        board_.Discard(number);
    }
    if (!config_.sack) {
        duplicate = number == una_before && number < s_.nxt;
    }
    if (duplicate) {
        DupAck();
    }
    if (number > una_before) {
        Advanced(duplicate);
    }

    Decide(packet, pipe_before, una_before);
    SendPending();
    if (packet.echo && config_.ecn == NCC_CC_ECN_CLASSIC && s_.una >= s_.cwr_end) {
        s_.cwr_due = true; // once per window
    }
    if (s_.una == connection_.packets) {
        network_.flows().Acknowledged(slot_);
    }
}

// RFC 6675 section 5, third paragraph to step 3.
void TcpSendingEnd::DupAck()
{
    switch (s_.state) {
    case CongestionState::kReduced: // modern recovery only
    case CongestionState::kLoss:    // may be the answer to an unnecessary repair
        return;
    case CongestionState::kRecovery:
        if (!config_.sack) {
            board_.GuessSack();
        }
        return;
    case CongestionState::kOpen:
        s_.state = CongestionState::kDisorder;
        break;
    case CongestionState::kDisorder:
        break;
    }
    ++s_.dup_acks;
    const bool enough = s_.dup_acks == config_.dup_ack_pkts && (s_.una >= s_.recover || !s_.recover_active);
    if (enough || board_.HeadLost()) {
        EnterRecovery();
    } else if (!config_.sack && config_.limited_transmit) {
        board_.GuessSack(); // RFC 3042; with SACK, the pipe has room for it anyway
    }
}

// RFC 6675 section 5, step 4.
void TcpSendingEnd::EnterRecovery()
{
    if (!config_.sack) {
        board_.GuessSack();
        board_.LoseHead();
    } else if (!board_.HeadLost()) {
        board_.LoseHead();
    }
    s_.recover = s_.nxt;
    s_.recover_active = true;
    s_.rescue_from = s_.una;
    const ncc_cc_event event = Event(NCC_CC_ACK_IN_RECOVERY);
    ncc_cc_out out{};
    config_.ops->on_loss(s_.controller, config_.params, &s_.conn, &event, &out);
    Apply(out);
    s_.state = CongestionState::kRecovery;
    SendData(s_.una);
}

// A packet arrived without its payload (switch.h): it is lost, even if later packets are not acknowledged.
void TcpSendingEnd::Trimmed(uint32_t number)
{
    if (!board_.Out(number)) {
        return;
    }
    board_.Lose(number);
    const bool begins = s_.state < CongestionState::kRecovery;
    if (begins && !config_.modern) {
        EnterRecovery();
    } else if (begins) {
        BeginRecovery();
    }
    SendPending();
    if (config_.modern && s_.modern->waiting != Waiting::kTimeout) {
        RearmTimeout();
    }
}

// Handles a cumulative ACK that has moved.
void TcpSendingEnd::Advanced(bool duplicate)
{
    if (!duplicate) {
        s_.dup_acks = 0;
    }
    if (s_.una < s_.recover && s_.state == CongestionState::kRecovery) { // a partial ACK shows the next hole
        if (!config_.sack) {
            board_.LoseHead();
        }
        const bool short_packet = s_.una + 1 == connection_.packets && connection_.last_bytes < config_.mss_bytes;
        if (!board_.HeadRepaired() || short_packet) {
            uint32_t next = 0;
            SendData(board_.NextLost(next) || NextPacket(next) ? next : s_.una);
        }
        NewAck(s_.first_partial_ack); // RFC 6582: only the first one restarts the timer
        s_.first_partial_ack = false;
        return;
    }
    if (s_.una < s_.recover && s_.state == CongestionState::kLoss) {
        NewAck(true);
        return;
    }
    bool recovered = false;
    switch (s_.state) {
    case CongestionState::kOpen:
    case CongestionState::kReduced:
        break;
    case CongestionState::kDisorder:
        if (!duplicate) {
            s_.state = CongestionState::kOpen;
        }
        break;
    case CongestionState::kRecovery:
        s_.dup_acks = 0;
        recovered = true;
        [[fallthrough]];
    case CongestionState::kLoss:
        s_.first_partial_ack = true;
        s_.state = CongestionState::kOpen;
        break;
    }
    if (s_.una >= s_.recover) {
        s_.recover_active = false;
    }
    if (s_.state == CongestionState::kOpen) {
        NewAck(true);
    }
    if (recovered) { // until the controller decides; the application has already sent
        s_.cwnd_bytes = s_.ssthresh_bytes;
    }
}

void TcpSendingEnd::NewAck(bool restart_timer)
{
    if (restart_timer) { // RFC 6298 rule 5.3
        SetRto();
    }
    if (s_.una == connection_.packets) {
        s_.retransmit.Cancel();
        return;
    }
    if (restart_timer) {
        network_.engine().Arm(s_.retransmit, TimerKind::kRetransmit, slot_, s_.rto_ns);
    }
    Offer();
}

// RFC 6298 rules 5.4 to 5.6, RFC 6675 section 5.1.
void TcpSendingEnd::Timeout()
{
    network_.flows().TimedOut(connection_.flow);
    s_.dup_acks = 0;
    board_.LoseAll();
    s_.recover = s_.nxt;
    s_.recover_active = true;
    s_.rto_ns = std::min(2 * s_.rto_ns, kMaxRtoNs);
    s_.rtt_from = s_.nxt;
    s_.state = CongestionState::kLoss;
    s_.cwnd_bytes = config_.mss_bytes;
    s_.pace.Cancel();
    SendPending();
    ncc_cc_event event = Event(NCC_CC_ACK_IN_RECOVERY);
    event.inflight_bytes = 0; // everything sent counts as lost
    ncc_cc_out out{};
    config_.ops->on_timeout(s_.controller, config_.params, &s_.conn, &event, &out);
    Apply(out);
    SendPending();
}

} // namespace ncc::packetsim
