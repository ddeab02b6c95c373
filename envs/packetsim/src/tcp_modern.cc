// SPDX-License-Identifier: BSD-3-Clause
// Recovery as hosts have it today: losses are found by time (RACK) and by probing the tail (TLP, both RFC 8985), the
// window shrinks in proportion to what arrives (PRR, RFC 6937), and a spurious timeout is undone (F-RTO, RFC 5682;
// DSACK, RFC 2883). Where the RFCs leave a choice, it follows Linux 6.18, with which it is compared step by step.
//
// Known differences from Linux: no TCP timestamps, so none of the undoing that needs them; a retransmission is one
// packet; the receive window never shrinks.
#include "tcp_sending_end.h"

namespace ncc::packetsim
{

void TcpSendingEnd::ModernAck(const Packet &packet)
{
    TcpModern &r = *s_.modern;
    TcpRack rack(connection_, config_, board_, network_.now_ns());
    const uint64_t pipe_before = board_.PipeBytes();
    const uint32_t una_before = s_.una, number = packet.number;
    r.found_lost = 0;
    r.lost_again = r.new_data_first = false;
    if (config_.needs_rate) {
        s_.rate.estimator().BeginAck(network_.now_ns(), s_.lost_bytes);
    }
    AckNews news;
    if (packet.echo) {
        r.undo_window_bytes = 0; // there is congestion, even if the losses were spurious
    }
    if (packet.sack != kNone) {
        rack.Update(network_.connections().sacks()[packet.sack], number, news);
    }
    if (number > s_.una) {
        for (uint32_t acked = s_.una; config_.needs_rate && acked != number; ++acked) {
            s_.rate.Delivered(acked, board_.PayloadBytes(acked));
        }
        rack.Advance(number, news);
        r.timeouts = 0;
    }
    const int64_t sample_from_ns = news.first_ns >= 0 && !news.resent ? news.first_ns : news.first_sack_ns;
    if (sample_from_ns >= 0) {
        measured_rtt_ns_ = AddSample(network_.now_ns() - sample_from_ns);
    }
    // The timer starts again with progress, and if what was sacked had been sent before the first missing packet was
    // last sent.
    bool arm = news.advanced;
    if (!arm && news.first_sack_ns >= 0) {
        arm = news.first_sack_ns < static_cast<int64_t>(s_.sent[s_.una] >> Sent::kTimeShift);
    }
    rack.AdaptWindow();
    if (r.probe_end != kNone) {
        ProbeAnswered(news, number);
    }
    Send send = Send::kNothing;
    if (!news.advanced || news.sacked || news.duplicate || packet.echo || s_.state != CongestionState::kOpen) {
        bool timer_set = false;
        send = Judge(news, timer_set);
        r.undo_window_bytes = packet.echo ? 0 : r.undo_window_bytes; // also that of a recovery that began now
        arm &= !timer_set;
    }
    if (s_.una == s_.nxt) {
        s_.retransmit.Cancel();
    } else if (arm && !ArmProbe(true)) {
        RearmTimeout();
    }
    if (news.advanced && s_.una != connection_.packets) {
        Offer();
    }

    const uint32_t window_before = r.window_bytes, cwnd_before = s_.cwnd_bytes;
    const uint64_t delivered_bytes = Decide(packet, pipe_before, una_before);
    const bool normal = s_.state == CongestionState::kOpen || s_.state == CongestionState::kDisorder;
    if (packet.echo && normal && config_.ecn == NCC_CC_ECN_CLASSIC) {
        s_.cwr_due = true; // also at the smallest window, or the receiver would echo for ever
    }
    if (packet.echo && normal && !config_.needs_rate && r.window_bytes < window_before) {
        ncc_prr_begin(&r.prr, cwnd_before);
        s_.state = CongestionState::kReduced;
        s_.recover = s_.nxt;
        r.probe_end = kNone;
        r.undo_possible = false;
    }
    if (Reducing() && delivered_bytes > 0) {
        const ncc_u32 flags = news.advanced && r.found_lost == 0 ? NCC_PRR_ADVANCED : 0;
        s_.cwnd_bytes = static_cast<uint32_t>(
            ncc_prr_window(&r.prr, board_.PipeBytes(), r.window_bytes, delivered_bytes, config_.mss_bytes, flags));
    }

    r.new_data_first = send != Send::kLost && s_.state == CongestionState::kLoss;
    SendModern();
    if (send == Send::kNew && s_.nxt <= s_.recover) { // no new data could be sent: repair (RFC 5682 step 2b)
        r.spurious_possible = r.new_data_first = false;
        SendModern();
    }
    if (s_.una == connection_.packets) {
        network_.flows().Acknowledged(slot_);
    }
}

// Inherits the state of an earlier flow on the connection, whose packets are all acknowledged. DSACKs that are still
// under way are lost on it: a reduction that they would show to be needless stays, and an unanswered probe repaired
// nothing.
void TcpSendingEnd::ContinueModern(const TcpModern &before)
{
    s_.modern = std::make_unique<TcpModern>();
    TcpModern &r = *s_.modern;
    r.sent_ns = before.sent_ns;
    r.rtt_ns = before.rtt_ns;
    r.reordering = before.reordering;
    r.duplicate_seen = before.duplicate_seen;
    r.window_steps = before.window_steps;
    r.persist = before.persist;
    r.use = before.use;
    r.use.round_end = 0;
    r.window_bytes = before.window_bytes;
    r.prr = before.prr;
    r.deviation_ns = before.deviation_ns;
    r.max_deviation_ns = before.max_deviation_ns;
}

// Changes the state after an ACK that may mean a loss, and finds losses (tcp_fastretrans_alert).
TcpSendingEnd::Send TcpSendingEnd::Judge(const AckNews &news, bool &timer_set)
{
    TcpModern &r = *s_.modern;
    if (s_.state == CongestionState::kReduced && s_.una > s_.recover) { // beyond: CWR has reached the receiver
        s_.state = CongestionState::kOpen;
    } else if (s_.state == CongestionState::kRecovery && s_.una >= s_.recover) {
        RecoveryOver();
    }
    if (s_.state == CongestionState::kLoss) {
        const Send send = JudgeTimeout(news);
        timer_set = FindLost();
        if (s_.state != CongestionState::kOpen && !r.lost_again) {
            return send;
        }
    } else {
        if (s_.state != CongestionState::kReduced && MayUndo()) {
            r.persist = static_cast<uint8_t>(std::min<unsigned>(r.persist + 1U, 16));
            Undo(false);
            s_.state = CongestionState::kDisorder;
        }
        timer_set = FindLost();
        if (s_.state == CongestionState::kRecovery) {
            return Send::kLost;
        }
    }
    if (s_.lost_bytes == 0) {
        KeepOpen();
        return Send::kNothing;
    }
    EnterModernRecovery();
    return Send::kLost;
}

void TcpSendingEnd::RecoveryOver()
{
    if (MayUndo()) {
        Undo(false);
    } else if (s_.modern->persist > 0) {
        --s_.modern->persist;
    }
    s_.state = CongestionState::kOpen;
}

void TcpSendingEnd::KeepOpen()
{
    if (s_.state == CongestionState::kReduced) {
        return;
    }
    const bool doubt = (s_.sacked_bytes | s_.lost_bytes | s_.repaired_bytes) != 0;
    const CongestionState state = doubt ? CongestionState::kDisorder : CongestionState::kOpen;
    if (state != s_.state) {
        s_.state = state;
        s_.recover = s_.nxt;
    }
}

// F-RTO with SACK (RFC 5682 section 3.1) and the end of a recovery after a timeout (tcp_process_loss).
TcpSendingEnd::Send TcpSendingEnd::JudgeTimeout(const AckNews &news)
{
    TcpModern &r = *s_.modern;
    const bool recovered = s_.una >= s_.recover;
    const bool needless = news.advanced && MayUndo();
    if (needless || (r.spurious_possible && news.original)) { // step 3b
        Undo(true);
        r.timeouts = 0;
        s_.state = CongestionState::kOpen;
        return Send::kNothing;
    }
    if (r.spurious_possible) {
        if (s_.nxt > s_.recover) {
            if (news.sacked || (!news.advanced && !news.duplicate)) { // step 3a: the loss was real
                r.spurious_possible = false;
            }
        } else if (news.advanced && !recovered) { // step 2b
            s_.recover = s_.nxt;
            return Send::kNew;
        }
    }
    if (recovered) {
        RecoveryOver();
        return Send::kNothing;
    }
    return Send::kLost;
}

// Finds losses. Returns true if the timer now waits for packets that may be reordered.
bool TcpSendingEnd::FindLost()
{
    if (s_.una == s_.nxt) {
        return false;
    }
    TcpRack rack(connection_, config_, board_, network_.now_ns());
    const int64_t wait_ns = rack.FindLost(false);
    if (wait_ns > 0) {
        Arm(Waiting::kReordering, wait_ns + config_.timer_slack_ns);
    }
    return wait_ns > 0;
}

// tcp_enter_recovery. In a reduction by ECN, PRR goes on.
void TcpSendingEnd::EnterModernRecovery()
{
    const bool reduced = s_.state == CongestionState::kReduced;
    Remember(!reduced);
    if (!reduced) {
        ncc_prr_begin(&s_.modern->prr, s_.cwnd_bytes);
        s_.recover = s_.nxt;
        s_.cwr_due = config_.ecn == NCC_CC_ECN_CLASSIC;
        s_.modern->probe_end = kNone;
    }
    s_.state = CongestionState::kRecovery;
    TellLoss();
}

void TcpSendingEnd::TellLoss()
{
    const ncc_cc_event event = Event(NCC_CC_ACK_IN_RECOVERY);
    ncc_cc_out out{};
    config_.ops->on_loss(s_.controller, config_.params, &s_.conn, &event, &out);
    Apply(out);
}

// Stores the state that is restored if the reduction was needless.
void TcpSendingEnd::Remember(bool restore)
{
    TcpModern &r = *s_.modern;
    r.undo_possible = true;
    r.undo_from = s_.una;
    r.undo_resent = s_.repaired_bytes > 0 ? static_cast<int32_t>((s_.repaired_bytes - 1) / config_.mss_bytes + 1) : -1;
    r.undo_window_bytes = restore ? r.window_bytes : 0;
    if (restore) {
        std::copy(std::begin(s_.controller), std::end(s_.controller), r.undo_controller);
    }
}

void TcpSendingEnd::Undo(bool forgive)
{
    TcpModern &r = *s_.modern;
    if (forgive) {
        TcpRack(connection_, config_, board_, network_.now_ns()).Forgive();
    }
    if (r.undo_window_bytes >= r.window_bytes) { // otherwise it has grown beyond that since
        std::copy(std::begin(r.undo_controller), std::end(r.undo_controller), s_.controller);
        s_.cwnd_bytes = r.window_bytes = r.undo_window_bytes;
        s_.cwr_due = false;
    }
    r.undo_possible = false;
    r.advanced = true;
}

// RFC 8985 section 7.4.2: a probe that repaired the tail hid a loss, for which the window shrinks.
void TcpSendingEnd::ProbeAnswered(const AckNews &news, uint32_t number)
{
    TcpModern &r = *s_.modern;
    if (number < r.probe_end) {
        return;
    }
    const bool pure_duplicate = !news.advanced && !news.sacked;
    if (!r.probe_resent || news.duplicate_probe || (number == r.probe_end && pure_duplicate)) {
        r.probe_end = kNone;
    } else if (number > r.probe_end) {
        r.probe_end = kNone;
        s_.recover = s_.nxt;
        s_.cwr_due = config_.ecn == NCC_CC_ECN_CLASSIC;
        TellLoss();
        KeepOpen();
    }
}

} // namespace ncc::packetsim
