// SPDX-License-Identifier: BSD-3-Clause
// Sending and timers of modern recovery (see tcp_modern.cc). One timer waits for a timeout, for the moment of a loss
// probe, or for packets that may be reordered, as in Linux.
#include "tcp_sending_end.h"

namespace ncc::packetsim
{

void TcpSendingEnd::Expired()
{
    switch (s_.modern->waiting) {
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

// Enters a recovery without an ACK that delivered anything: one packet counts as delivered.
void TcpSendingEnd::BeginRecovery()
{
    EnterModernRecovery();
    if (Reducing()) {
        s_.cwnd_bytes = static_cast<uint32_t>(ncc_prr_window(
            &s_.modern->prr, board_.PipeBytes(), s_.modern->window_bytes, config_.mss_bytes, config_.mss_bytes, 0));
    }
}

// tcp_rack_reo_timeout
void TcpSendingEnd::ReorderingExpired()
{
    const uint64_t pipe_before = board_.PipeBytes();
    s_.modern->waiting = Waiting::kReordering;
    TcpRack(connection_, config_, board_, network_.now_ns()).FindLost(true);
    if (board_.PipeBytes() != pipe_before) {
        if (s_.state != CongestionState::kRecovery) {
            BeginRecovery();
        }
        SendModern();
    }
    if (s_.modern->waiting != Waiting::kTimeout) {
        RearmTimeout();
    }
}

// RFC 6298 rules 5.4 to 5.6 and RFC 8985 section 6.3 (tcp_enter_loss).
void TcpSendingEnd::ModernTimeout()
{
    TcpModern &r = *s_.modern;
    if (s_.una == s_.nxt) {
        return;
    }
    network_.flows().TimedOut(connection_.flow);
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
    config_.ops->on_timeout(s_.controller, config_.params, &s_.conn, &event, &out);
    Apply(out);
    SendData(s_.una);
    Arm(Waiting::kTimeout, s_.rto_ns);
}

// RFC 8985 section 7.3: new data if there is any, whatever the window, otherwise the last packet again.
void TcpSendingEnd::SendProbe()
{
    TcpModern &r = *s_.modern;
    uint32_t number = 0;
    if (r.probe_end == kNone && s_.una != s_.nxt) {
        const bool fresh = NextPacket(number);
        number = fresh ? number : s_.nxt - 1;
        if (fresh || !network_.flows().Holds(slot_, number)) {
            SendData(number, true);
            r.probe_resent = !fresh;
            r.probe_end = s_.nxt;
            r.waiting = Waiting::kTimeout; // so that the timeout is counted from now
        }
    }
    RearmTimeout();
}

// Notes that a packet was sent again. A probe is none of the repairs that PRR and undoing count.
void TcpSendingEnd::ResentModern(uint32_t number, bool probe)
{
    constexpr uint64_t kFlags = (1ULL << Sent::kTimeShift) - 1;
    uint64_t &sent = s_.sent[number];
    sent = static_cast<uint64_t>(network_.now_ns()) << Sent::kTimeShift | (sent & kFlags) | Sent::kAmbiguous;
    if (!probe) {
        TcpRack(connection_, config_, board_, network_.now_ns()).Resent(network_.connections().rings(), number);
        s_.modern->undo_resent = std::max(s_.modern->undo_resent, 0) + 1;
    }
}

// Sends packets that are lost, then new ones, as window, host and pacing allow.
void TcpSendingEnd::SendModern()
{
    const bool idle = s_.una == s_.nxt;
    const uint32_t nxt_before = s_.nxt;
    while (s_.una != connection_.packets) {
        const uint64_t pipe_bytes = board_.PipeBytes();
        const uint32_t window_bytes = network_.flows().ClampBytes(connection_.flow, s_.cwnd_bytes);
        if (pipe_bytes >= window_bytes) {
            break;
        }
        if (!network_.flows().HasRoom(slot_)) {
            s_.held_back = true;
            break;
        }
        if (s_.pacing_bytes_per_s > 0 && s_.pace.on()) {
            break;
        }
        uint32_t number = 0;
        if ((s_.modern->new_data_first || !board_.FirstLost(number)) && !NextPacket(number)) {
            break;
        }
        // Silly window avoidance: send no part of a packet, unless no more data is left.
        if (window_bytes - pipe_bytes < std::min<uint64_t>(config_.mss_bytes, s_.offered_bytes - OffsetBytes(number))) {
            break;
        }
        SendData(number);
        if (number == s_.una && number < nxt_before && s_.modern->waiting != Waiting::kReordering) {
            Arm(Waiting::kTimeout, s_.rto_ns);
        }
    }
    if (s_.nxt != nxt_before) {
        const bool rearm = idle || s_.modern->waiting == Waiting::kProbe;
        if (!ArmProbe(false) && rearm) {
            RearmTimeout();
        }
    }
    const bool full = board_.PipeBytes() + config_.mss_bytes > s_.cwnd_bytes;
    s_.modern->use.Note(s_.nxt != nxt_before, full, s_.nxt - s_.una, s_.una, s_.nxt);
}

// Sets the timer. With a tick, it fires at one as Linux counts them: from the last tick, the delay in whole ticks. The
// timer for reordering never fires early, because it would find nothing.
void TcpSendingEnd::Arm(Waiting waiting, int64_t delay_ns)
{
    s_.modern->waiting = waiting;
    if (const int64_t tick_ns = config_.timer_tick_ns; tick_ns > 0) {
        const int64_t now_ns = network_.now_ns();
        const int64_t from_ns = waiting == Waiting::kReordering ? now_ns : now_ns / tick_ns * tick_ns;
        const int64_t ticks = (from_ns + delay_ns + tick_ns - 1) / tick_ns;
        delay_ns = ticks * tick_ns - now_ns;
    }
    network_.engine().Arm(s_.retransmit, TimerKind::kRetransmit, slot_, delay_ns);
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
    const bool waited = s_.modern->waiting != Waiting::kTimeout;
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
    TcpModern &r = *s_.modern;
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
