// SPDX-License-Identifier: BSD-3-Clause
// Recovery as hosts have it today: losses are found by time (RACK) and by probing the tail (TLP, both RFC 8985), the
// window shrinks in proportion to what arrives (PRR, RFC 6937), and a spurious timeout is undone (F-RTO, RFC 5682;
// DSACK, RFC 3708). Where the RFCs leave a choice, it follows Linux 6.18, with which it is compared step by step.
//
// Known differences from Linux: no TCP timestamps, so none of the undoing that needs them; a retransmission is one
// packet; the receive window never shrinks.
#include "tcp_sending_end.h"

namespace ncc::packetsim
{

void TcpSendingEnd::ModernAck(const Packet &packet)
{
    TcpModern &r = s_.modern;
    TcpRack rack(connection_, config_, board_, network_.now_ns());
    const uint64_t pipe_before = board_.PipeBytes();
    const uint32_t una_before = s_.una, number = packet.number;
    r.found_lost = 0;
    r.lost_again = r.new_data_first = false;
    if (config_.needs_rate) {
        s_.rate.estimator().BeginAck(network_.now_ns(), s_.lost_bytes);
    }
    AckNews news;
    if (packet.sack != kNone) {
        rack.Update(network_.sack(packet.sack), number, news);
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
    if (packet.echo && normal && !config_.needs_rate && r.window_bytes < window_before) {
        ncc_prr_begin(&r.prr, cwnd_before);
        s_.state = CongestionState::kReduced;
        s_.recover = s_.nxt;
        s_.cwr_due = config_.ecn == NCC_CC_ECN_CLASSIC;
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
        network_.Acknowledged(slot_);
    }
}

// Changes the state after an ACK that may mean a loss, and finds losses (tcp_fastretrans_alert).
TcpSendingEnd::Send TcpSendingEnd::Judge(const AckNews &news, bool &timer_set)
{
    TcpModern &r = s_.modern;
    if (s_.state == CongestionState::kReduced && s_.una > s_.recover) { // beyond: CWR has reached the receiver
        s_.state = CongestionState::kOpen;
    } else if (s_.state == CongestionState::kRecovery && s_.una >= s_.recover) {
        if (MayUndo()) {
            Undo(false);
        } else if (r.persist > 0) {
            --r.persist;
        }
        s_.state = CongestionState::kOpen;
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
    TcpModern &r = s_.modern;
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
            if (news.sacked || !news.advanced) { // step 3a: the loss was real
                r.spurious_possible = false;
            }
        } else if (news.advanced && !recovered) { // step 2b
            s_.recover = s_.nxt;
            return Send::kNew;
        }
    }
    if (recovered) {
        s_.state = CongestionState::kOpen;
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
        ncc_prr_begin(&s_.modern.prr, s_.cwnd_bytes);
        s_.recover = s_.nxt;
        s_.cwr_due = config_.ecn == NCC_CC_ECN_CLASSIC;
        s_.modern.probe_end = kNone;
    }
    s_.state = CongestionState::kRecovery;
    TellLoss();
}

void TcpSendingEnd::TellLoss()
{
    const ncc_cc_event event = Event(NCC_CC_ACK_IN_RECOVERY);
    ncc_cc_out out{};
    config_.ops->on_loss(s_.controller, config_.params, &config_.conn, &event, &out);
    Apply(out);
}

// Keeps what a needless reduction takes back.
void TcpSendingEnd::Remember(bool restore)
{
    TcpModern &r = s_.modern;
    r.undo_possible = true;
    r.undo_resent = s_.repaired_bytes > 0 ? static_cast<int32_t>((s_.repaired_bytes - 1) / config_.mss_bytes + 1) : -1;
    r.undo_window_bytes = restore ? r.window_bytes : 0;
    if (restore) {
        std::copy(std::begin(s_.controller), std::end(s_.controller), r.undo_controller);
    }
}

void TcpSendingEnd::Undo(bool forgive)
{
    TcpModern &r = s_.modern;
    if (forgive) {
        TcpRack(connection_, config_, board_, network_.now_ns()).Forgive();
    }
    if (r.undo_window_bytes > 0) {
        std::copy(std::begin(r.undo_controller), std::end(r.undo_controller), s_.controller);
        r.window_bytes = std::max(r.window_bytes, r.undo_window_bytes);
        s_.cwnd_bytes = r.window_bytes;
        s_.cwr_due = false;
    }
    ++r.undone;
    r.undo_possible = false;
    r.advanced = true;
}

// RFC 8985 section 7.4.2: a probe that repaired the tail hid a loss, for which the window shrinks.
void TcpSendingEnd::ProbeAnswered(const AckNews &news, uint32_t number)
{
    TcpModern &r = s_.modern;
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

void TcpSendingEnd::Expired()
{
    switch (s_.modern.waiting) {
    case Waiting::kTimeout:
        ModernTimeout();
        return;
    case Waiting::kProbe:
        SendProbe();
        return;
    case Waiting::kReordering:
        ReorderingExpired();
        return;
    }
}

// tcp_rack_reo_timeout
void TcpSendingEnd::ReorderingExpired()
{
    const uint64_t pipe_before = board_.PipeBytes();
    s_.modern.waiting = Waiting::kReordering;
    TcpRack(connection_, config_, board_, network_.now_ns()).FindLost(true);
    if (board_.PipeBytes() != pipe_before) {
        if (s_.state != CongestionState::kRecovery) {
            EnterModernRecovery();
            if (Reducing()) {
                s_.cwnd_bytes =
                    static_cast<uint32_t>(ncc_prr_window(&s_.modern.prr, board_.PipeBytes(), s_.modern.window_bytes,
                                                         config_.mss_bytes, config_.mss_bytes, 0));
            }
        }
        SendModern();
    }
    if (s_.modern.waiting != Waiting::kTimeout) {
        RearmTimeout();
    }
}

// RFC 6298 rules 5.4 to 5.6 and RFC 8985 section 6.3 (tcp_enter_loss).
void TcpSendingEnd::ModernTimeout()
{
    TcpModern &r = s_.modern;
    if (s_.una == s_.nxt) {
        return;
    }
    network_.TimedOut(slot_);
    const bool first = s_.state < CongestionState::kRecovery;
    TcpRack(connection_, config_, board_, network_.now_ns()).LoseOld();
    if (first || s_.una >= s_.recover || (s_.state == CongestionState::kLoss && r.timeouts == 0)) {
        Remember(true);
    }
    r.spurious_possible = first || r.timeouts > 0;
    r.new_data_first = false;
    ++r.timeouts;
    s_.state = CongestionState::kLoss;
    s_.recover = s_.nxt;
    s_.cwr_due = config_.ecn == NCC_CC_ECN_CLASSIC;
    r.probe_end = kNone;
    s_.rto_ns = std::min(2 * s_.rto_ns, kMaxRtoNs);
    s_.pace.Cancel();
    const ncc_cc_event event = Event(NCC_CC_ACK_IN_RECOVERY);
    ncc_cc_out out{};
    config_.ops->on_timeout(s_.controller, config_.params, &config_.conn, &event, &out);
    Apply(out);
    SendData(s_.una);
    Arm(Waiting::kTimeout, s_.rto_ns);
}

// RFC 8985 section 7.3: new data if there is any, whatever the window, otherwise the last packet again.
void TcpSendingEnd::SendProbe()
{
    TcpModern &r = s_.modern;
    uint32_t number = 0;
    if (r.probe_end == kNone && s_.una != s_.nxt) {
        const bool fresh = NextPacket(number);
        number = fresh ? number : s_.nxt - 1;
        if (fresh || !network_.Holds(slot_, number)) {
            SendData(number);
            ++r.probes;
            r.probe_resent = !fresh;
            r.probe_end = s_.nxt;
            r.waiting = Waiting::kTimeout; // so that the timeout is counted from now
        }
    }
    RearmTimeout();
}

// Sends packets that are lost, then new ones, as window, host and pacing allow.
void TcpSendingEnd::SendModern()
{
    const bool idle = s_.una == s_.nxt;
    const uint32_t nxt_before = s_.nxt;
    while (s_.una != connection_.packets) {
        const uint64_t pipe_bytes = board_.PipeBytes();
        if (pipe_bytes >= s_.cwnd_bytes) {
            break;
        }
        if (!network_.HasRoom(slot_)) {
            s_.held_back = true;
            break;
        }
        if (s_.pacing_bytes_per_s > 0 && s_.pace.on()) {
            break;
        }
        uint32_t number = 0;
        if ((s_.modern.new_data_first || !board_.FirstLost(number)) && !NextPacket(number)) {
            break;
        }
        // Silly window avoidance: send no part of a packet, unless no more data is left.
        if (s_.cwnd_bytes - pipe_bytes <
            std::min<uint64_t>(config_.mss_bytes, s_.offered_bytes - OffsetBytes(number))) {
            break;
        }
        SendData(number);
        if (number == s_.una && number < nxt_before && s_.modern.waiting != Waiting::kReordering) {
            Arm(Waiting::kTimeout, s_.rto_ns);
        }
    }
    if (s_.nxt != nxt_before) {
        if (idle || s_.modern.waiting == Waiting::kProbe) {
            RearmTimeout();
        }
        ArmProbe(false);
    }
    NoteUse(s_.nxt != nxt_before);
}

// Notes how far the window was used in this round (tcp_cwnd_validate).
void TcpSendingEnd::NoteUse(bool sent)
{
    TcpModern &r = s_.modern;
    const bool stopped = board_.PipeBytes() + config_.mss_bytes > s_.cwnd_bytes;
    const uint32_t out_pkts = s_.nxt - s_.una;
    if ((sent || stopped) && (s_.una >= r.use_round_end || stopped || (!r.window_used && out_pkts > r.most_pkts))) {
        r.window_used = stopped;
        r.most_pkts = out_pkts;
        r.use_round_end = s_.nxt;
    }
}

// True if the window was used, in slow start by half (tcp_is_cwnd_limited).
bool TcpSendingEnd::WindowUsed() const
{
    const TcpModern &r = s_.modern;
    const bool slow_start = s_.cwnd_bytes < s_.ssthresh_bytes;
    return r.window_used || (slow_start && s_.cwnd_bytes < 2ULL * r.most_pkts * config_.mss_bytes);
}

// Sets the timer. With a tick, it fires with the tick at or after the time that Linux computes in jiffies.
void TcpSendingEnd::Arm(Waiting waiting, int64_t delay_ns)
{
    s_.modern.waiting = waiting;
    if (const int64_t tick_ns = config_.timer_tick_ns; tick_ns > 0) {
        const int64_t now_ns = network_.now_ns();
        const int64_t ticks = now_ns / tick_ns + (delay_ns + tick_ns - 1) / tick_ns;
        delay_ns = ticks * tick_ns - now_ns;
    }
    network_.Arm(s_.retransmit, TimerKind::kRetransmit, slot_, delay_ns);
}

int64_t TcpSendingEnd::UntilTimeoutNs() const
{
    return static_cast<int64_t>(s_.sent[s_.una] >> Sent::kTimeShift) + s_.rto_ns - network_.now_ns();
}

// Sets the timer for the timeout. What another timer has waited already counts.
void TcpSendingEnd::RearmTimeout()
{
    if (s_.una == s_.nxt) {
        s_.retransmit.Cancel();
        return;
    }
    constexpr int64_t kLeastNs = 1000;
    const bool waited = s_.modern.waiting != Waiting::kTimeout;
    Arm(Waiting::kTimeout, waited ? std::max(UntilTimeoutNs(), kLeastNs) : s_.rto_ns);
}

// RFC 8985 section 7.2: sets the timer for a loss probe. `advanced`: the timeout would start now as well. Returns false
// if losses are being repaired.
bool TcpSendingEnd::ArmProbe(bool advanced)
{
    if (s_.una == s_.nxt || (s_.state != CongestionState::kOpen && s_.state != CongestionState::kReduced)) {
        return false;
    }
    int64_t delay_ns = config_.initial_rto_ns;
    if (s_.min_rtt_ns > 0) { // one packet alone may wait for a delayed ACK
        delay_ns = 2 * s_.srtt_ns + (s_.nxt - s_.una == 1 ? config_.min_rto_ns : config_.timer_slack_ns);
    }
    const int64_t timeout_ns = advanced ? s_.rto_ns : UntilTimeoutNs();
    if (timeout_ns > 0) {
        delay_ns = std::min(delay_ns, timeout_ns);
    }
    Arm(Waiting::kProbe, delay_ns);
    return true;
}

// Adds an RTT sample to mean and deviation, as tcp_rtt_estimator in Linux: the deviation is the largest of a round
// trip, falls slowly, and does not rise fast when RTTs fall.
void TcpSendingEnd::AddDeviation(int64_t ns)
{
    TcpModern &r = s_.modern;
    if (s_.min_rtt_ns == 0) {
        s_.srtt_ns = ns;
        r.deviation_ns = ns / 2;
        s_.rttvar_ns = r.max_deviation_ns = std::max(4 * r.deviation_ns, config_.min_rto_ns);
        r.rtt_round = s_.nxt;
        return;
    }
    int64_t error_ns = ns - s_.srtt_ns;
    s_.srtt_ns += error_ns >> 3;
    if (error_ns < 0) {
        error_ns = -error_ns - r.deviation_ns;
        error_ns = error_ns > 0 ? error_ns >> 3 : error_ns;
    } else {
        error_ns -= r.deviation_ns;
    }
    r.deviation_ns += error_ns >> 2;
    if (4 * r.deviation_ns > r.max_deviation_ns) {
        r.max_deviation_ns = 4 * r.deviation_ns;
        s_.rttvar_ns = std::max(s_.rttvar_ns, r.max_deviation_ns);
    }
    if (s_.una > r.rtt_round) {
        if (r.max_deviation_ns < s_.rttvar_ns) {
            s_.rttvar_ns -= (s_.rttvar_ns - r.max_deviation_ns) >> 2;
        }
        r.rtt_round = s_.nxt;
        r.max_deviation_ns = config_.min_rto_ns;
    }
}

} // namespace ncc::packetsim
