// SPDX-License-Identifier: BSD-3-Clause
// The sending end's functions, an object made for each event of a connection from the state in TcpSender. Where the
// RFCs leave a choice, it follows ns-3 3.44, with which this engine is compared packet for packet.
#pragma once

#include "network.h"
#include "tcp_rack.h"
#include "tcp_scoreboard.h"

#include "controllers.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace ncc::packetsim
{

class TcpSendingEnd
{
  public:
    TcpSendingEnd(Network &network, uint32_t slot)
        : network_(network), config_(network.connections().tcp(slot)), connection_(network.connections()[slot]),
          s_(connection_.sender), board_(connection_, config_), slot_(slot)
    {
    }

    // Begins with a handshake.
    void Open()
    {
        Begin();
        s_.syn_ns = network_.now_ns();
        Syn();
    }

    // Begins on a connection that is open and has not been used.
    void OpenAtOnce()
    {
        Begin();
        s_.rwnd_bytes = config_.receive_buffer_bytes >> config_.window_shift << config_.window_shift;
        Establish();
        SendPending();
    }

    // Begins on the connection of an earlier flow, which is all acknowledged.
    void Continue(uint32_t before);

    void Receive(const Packet &packet)
    {
        if (packet.kind == Kind::kSynAck) {
            SynAck(packet);
        } else if (s_.una != connection_.packets && packet.number >= s_.una) {
            Ack(packet);
            Learn();
        }
        if (packet.sack != kNone && network_.connections().sacks()[packet.sack].trimmed != kNone) [[unlikely]] {
            Trimmed(network_.connections().sacks()[packet.sack].trimmed);
        }
    }

    void RetransmitExpired()
    {
        if (!s_.established) {
            network_.flows().TimedOut(connection_.flow);
            Syn();
            return;
        }
        if (s_.una == s_.nxt && OffsetBytes(s_.nxt) == s_.offered_bytes) {
            return; // the application has written no more
        }
        // The timer also runs while nothing is outstanding. If pacing or the host's queue holds data back, they will
        // release it, and data that has not left the host cannot be lost.
        const bool held_back = s_.una == s_.nxt && (s_.pace.on() || !network_.flows().HasRoom(slot_));
        if (held_back || network_.flows().Holds(slot_, s_.una)) {
            network_.engine().Arm(s_.retransmit, TimerKind::kRetransmit, slot_, s_.rto_ns);
            return;
        }
        if (config_.modern) {
            Expired();
        } else {
            Timeout();
        }
    }

    void SendPending();

    void Room()
    {
        if (s_.held_back) {
            s_.held_back = false;
            SendPending();
        }
    }

    void Written()
    {
        Learn();
        const bool all_sent = s_.offered_bytes < OffsetBytes(s_.nxt) + config_.mss_bytes;
        if (s_.established && s_.una > 0 && s_.una == s_.nxt && all_sent) {
            Restart(slot_); // the application had no more
        }
        Offer();
        if (s_.established) {
            SendPending();
        }
    }

    void HeadLeft()
    {
        if (s_.retransmit.on() && (!config_.modern || s_.modern->waiting == Waiting::kTimeout)) {
            network_.engine().Arm(s_.retransmit, TimerKind::kRetransmit, slot_, s_.rto_ns);
        }
    }

    // Handle a signal of a switch, and the controller's own timer.
    void Signal(const ncc_cc_signal &signal);
    void ControlTimer();

    void Close()
    {
        s_.control.Cancel();
        s_.retransmit.Cancel(); // but not pacing, for which the connection's next flow waits
        s_.sent.Release(network_.connections().rings());
        s_.rate.Release(network_.connections().rings());
        if (s_.modern != nullptr) {
            s_.modern->resent.Release(network_.connections().rings());
        }
    }

  private:
    void Begin()
    {
        if (config_.modern) {
            s_.modern = std::make_unique<TcpModern>();
        }
        s_.conn = network_.flows().Conn(slot_);
        s_.srtt_ns = config_.initial_rto_ns; // until there is a sample
        SetRto();
        s_.offered_bytes = std::min<uint64_t>(network_.flows().WrittenBytes(connection_.flow, network_.now_ns()),
                                              config_.send_buffer_bytes);
    }
    void Learn()
    {
        if (config_.backlog) {
            network_.flows().Learn(connection_.flow, network_.now_ns(), OffsetBytes(s_.una), s_.cwnd_bytes);
        }
    }
    void Restart(uint32_t before);
    void Syn();
    void SynAck(const Packet &packet);
    void Establish();
    void Ack(const Packet &packet);
    void Sample(uint32_t number);
    void DupAck();
    void EnterRecovery();
    [[gnu::noinline]] void Trimmed(uint32_t number);
    void Advanced(bool duplicate);
    void NewAck(bool restart_timer);
    void Offer() // lets the application fill the send buffer by quarters
    {
        const uint64_t missing_bytes =
            network_.flows().WrittenBytes(connection_.flow, network_.now_ns()) - s_.offered_bytes;
        if (missing_bytes > 0) {
            OfferMore(missing_bytes);
        }
    }
    [[gnu::noinline]] void OfferMore(uint64_t missing_bytes);
    void Timeout();
    bool NextPacket(uint32_t &number);
    void SendData(uint32_t number, bool probe = false);
    ncc_cc_event Event(ncc_u32 flags) const
    {
        ncc_cc_event event{};
        event.now_ns = static_cast<ncc_u64>(network_.now_ns());
        event.min_rtt_ns = static_cast<ncc_u64>(s_.min_rtt_ns);
        event.srtt_ns = s_.min_rtt_ns > 0 ? static_cast<ncc_u64>(s_.srtt_ns) : 0;
        event.inflight_bytes = board_.PipeBytes();
        event.una_bytes = s_.earlier_bytes + OffsetBytes(s_.una);
        event.nxt_bytes = s_.earlier_bytes + OffsetBytes(s_.nxt);
        event.flags = flags;
        if (config_.needs_rate) {
            event.total_delivered_bytes = s_.rate.estimator().delivered_bytes();
        }
        return event;
    }
    uint64_t Decide(const Packet &packet, uint64_t pipe_before, uint32_t una_before);

    void Apply(const ncc_cc_out &out)
    {
        ncc_u64 cwnd_bytes = out.cwnd_bytes, pacing_bytes_per_s = out.pacing_bytes_per_s;
        if (!Obeyable(s_.conn, out)) [[unlikely]] {
            Refuse(out);
            cwnd_bytes = config_.mss_bytes;
            pacing_bytes_per_s = 0;
        }
        constexpr ncc_u64 kMax = std::numeric_limits<uint32_t>::max(); // the send buffer is far smaller
        const auto window_bytes = static_cast<uint32_t>(std::min(cwnd_bytes, kMax));
        if (config_.modern) {
            s_.modern->window_bytes = window_bytes;
        }
        if (!config_.modern || !Reducing()) {
            s_.cwnd_bytes = window_bytes;
        }
        s_.ssthresh_bytes = static_cast<uint32_t>(std::min(out.ssthresh_bytes, kMax));
        s_.pacing_bytes_per_s = pacing_bytes_per_s;
        if (const int64_t delay_ns = ControlDelayNs(*config_.ops, out); delay_ns > 0) {
            network_.engine().Arm(s_.control, TimerKind::kControl, slot_, delay_ns);
        }
    }
    [[gnu::noinline]] void Refuse(const ncc_cc_out &out); // ends the run
    ncc_u32 InRecovery() const
    {
        const bool repairing = s_.state == CongestionState::kRecovery || s_.state == CongestionState::kLoss;
        return repairing ? NCC_CC_ACK_IN_RECOVERY : 0;
    }

    // tcp_modern.cc
    enum class Send : uint8_t { kNothing, kLost, kNew }; // kind of packets to send first after an ACK
    [[gnu::noinline]] void ModernAck(const Packet &packet);
    Send Judge(const AckNews &news, bool &timer_set);
    Send JudgeTimeout(const AckNews &news);
    void KeepOpen();
    void ContinueModern(const TcpModern &before);
    bool FindLost();
    void RecoveryOver();
    void EnterModernRecovery();
    void BeginRecovery();
    void Remember(bool restore);
    bool MayUndo() const { return s_.modern->undo_possible && s_.modern->undo_resent == 0; }
    void Undo(bool forgive);
    void ProbeAnswered(const AckNews &news, uint32_t number);
    void TellLoss();
    [[gnu::noinline]] void Expired();
    void ReorderingExpired();
    void ModernTimeout();
    void SendProbe();
    [[gnu::noinline]] void SendModern();
    [[gnu::noinline]] void ResentModern(uint32_t number, bool probe);
    void RearmTimeout();
    bool ArmProbe(bool advanced);
    void Arm(Waiting waiting, int64_t delay_ns);
    int64_t UntilTimeoutNs() const;
    [[gnu::noinline]] void AddDeviation(int64_t ns);

    // True while the window shrinks by PRR. Controllers that set a rate set their window themselves, as in Linux.
    bool Reducing() const
    {
        return !config_.needs_rate && (s_.state == CongestionState::kReduced || s_.state == CongestionState::kRecovery);
    }

    uint64_t OffsetBytes(uint32_t number) const
    {
        const uint64_t bytes = static_cast<uint64_t>(number) * config_.mss_bytes;
        return number == connection_.packets ? bytes - (config_.mss_bytes - connection_.last_bytes) : bytes;
    }

    // RFC 6298 rules 2.3 and 2.4
    void SetRto()
    {
        if (config_.modern) {
            s_.rto_ns =
                s_.min_rtt_ns == 0 ? config_.initial_rto_ns : ModernRtoNs(s_.srtt_ns, s_.rttvar_ns, config_.min_rto_ns);
            return;
        }
        s_.rto_ns = std::max(s_.srtt_ns + std::max(kClockGranularityNs, 4 * s_.rttvar_ns), config_.min_rto_ns);
    }

    // Adds an RTT sample; returns the sample that the controller gets.
    int64_t AddSample(int64_t ns)
    {
        const int64_t measured_ns = config_.rtt_noise.Measured(connection_.flow, s_.rtt_samples++, ns);
        if (config_.modern) {
            AddDeviation(ns);
            s_.min_rtt_ns = s_.min_rtt_ns == 0 ? measured_ns : std::min(s_.min_rtt_ns, measured_ns);
        } else if (s_.min_rtt_ns == 0) {
            s_.srtt_ns = ns;
            s_.rttvar_ns = ns / 2;
            s_.min_rtt_ns = measured_ns;
        } else { // in integers, rounded down
            const int64_t error = ns - s_.srtt_ns;
            s_.srtt_ns = ((s_.srtt_ns << 3) + error) >> 3;
            s_.rttvar_ns = ((s_.rttvar_ns << 2) + (error < 0 ? -error : error) - s_.rttvar_ns) >> 2;
            s_.min_rtt_ns = std::min(s_.min_rtt_ns, measured_ns);
        }
        SetRto();
        network_.flows().RttSample(connection_.flow, ns);
        return measured_ns;
    }

    Network &network_;
    const TcpConfig &config_;
    Connection &connection_;
    TcpSender &s_;
    TcpScoreboard board_;
    uint32_t slot_;
    // State of the current ACK
    int64_t measured_rtt_ns_ = 0; // RTT sample; 0: none
};

// Reports an ACK to the controller. Returns the payload that it delivered.
[[gnu::always_inline]] inline uint64_t TcpSendingEnd::Decide(const Packet &packet, uint64_t pipe_before,
                                                             uint32_t una_before)
{
    const uint64_t delivered_bytes = OffsetBytes(s_.una) + s_.sacked_bytes;
    const bool kept_back =
        OffsetBytes(s_.nxt) < s_.offered_bytes && (s_.pace.on() || !connection_.queue.HasRoom(network_.run().spec()));
    const bool full = config_.modern
                          ? s_.modern->use.Enough(s_.cwnd_bytes, s_.ssthresh_bytes, config_.mss_bytes)
                          : WindowUsed(pipe_before, s_.cwnd_bytes, s_.ssthresh_bytes, config_.mss_bytes, kept_back);
    ncc_cc_event event = Event((packet.echo ? NCC_CC_ACK_ECE : 0) | InRecovery() | (full ? 0 : NCC_CC_ACK_APP_LIMITED));
    event.rtt_ns = static_cast<ncc_u64>(measured_rtt_ns_);
    if (delivered_bytes > s_.delivered_bytes) { // guessed arrivals (no SACK) may be taken back
        event.delivered_bytes = delivered_bytes - s_.delivered_bytes;
        s_.delivered_bytes = delivered_bytes;
        network_.flows().Delivered(connection_.flow, event.delivered_bytes);
    }
    event.acked_bytes = OffsetBytes(s_.una) - OffsetBytes(una_before);
    if (config_.needs_rate) {
        s_.rate.estimator().Fill(event, s_.lost_bytes);
    }
    if (packet.sack != kNone && network_.connections().sacks()[packet.sack].telemetry != kNone) [[unlikely]] {
        const Telemetry &written =
            network_.connections().telemetry()[network_.connections().sacks()[packet.sack].telemetry];
        event.hops = written.hops;
        event.n_hops = written.n;
    }
    ncc_cc_out out{};
    config_.ops->on_ack(s_.controller, config_.params, &s_.conn, &event, &out);
    Apply(out);
    return event.delivered_bytes;
}

} // namespace ncc::packetsim
