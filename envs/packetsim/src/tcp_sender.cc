// SPDX-License-Identifier: BSD-3-Clause
// The sending end: what may go when, and how losses are found and repaired (RFC 6675; without SACK, RFC 6582). Where
// the RFCs leave a choice it is that of ns-3 3.44, with which this engine is compared packet for packet.
#include "network.h"
#include "tcp_scoreboard.h"

#include "controllers.h"

#include <algorithm>
#include <limits>
#include <string>

namespace ncc::packetsim
{

namespace
{

class TcpSendingEnd
{
  public:
    TcpSendingEnd(Network &network, uint32_t slot)
        : network_(network), config_(network.tcp()), connection_(network.connection(slot)), s_(connection_.sender),
          board_(connection_, config_), slot_(slot)
    {
    }

    void Open()
    {
        s_.srtt_ns = config_.initial_rto_ns; // until there is a sample
        SetRto();
        s_.offered_bytes = std::min<uint64_t>(network_.size_bytes(slot_), config_.send_buffer_bytes);
        if (config_.handshake) {
            s_.syn_ns = network_.now_ns();
            Syn();
            return;
        }
        s_.rwnd_bytes = config_.receive_buffer_bytes >> config_.window_shift << config_.window_shift;
        Establish();
        SendPending();
    }

    void Receive(const Packet &packet)
    {
        if (packet.kind == Kind::kSynAck) {
            SynAck(packet);
        } else if (s_.una != connection_.packets && packet.number >= s_.una) {
            Ack(packet);
        }
    }

    void RetransmitExpired()
    {
        if (!s_.established) {
            network_.TimedOut(slot_);
            Syn();
            return;
        }
        // The timer also runs while nothing is outstanding. Pacing or the host's queue may hold data back, and they
        // will let it go; and what has not left the host cannot be lost.
        const bool held_back = s_.una == s_.nxt && (s_.pace.on() || !network_.HasRoom(slot_));
        if (held_back || network_.Holds(slot_, s_.una)) {
            network_.Arm(s_.retransmit, TimerKind::kRetransmit, slot_, s_.rto_ns);
            return;
        }
        Timeout();
    }

    void SendPending();

    void Room()
    {
        if (s_.held_back) {
            s_.held_back = false;
            SendPending();
        }
    }

    void HeadLeft()
    {
        if (s_.retransmit.on()) {
            network_.Arm(s_.retransmit, TimerKind::kRetransmit, slot_, s_.rto_ns);
        }
    }

    void Close()
    {
        s_.retransmit.Cancel();
        s_.pace.Cancel();
        s_.sent.Release(network_.rings());
    }

  private:
    void Syn();
    void SynAck(const Packet &packet);
    void Establish();
    void Ack(const Packet &packet);
    void Sample(uint32_t number);
    void DupAck();
    void EnterRecovery();
    void Advanced(bool duplicate);
    void NewAck(bool restart_timer);
    void Offer();
    void Timeout();
    bool NextPacket(uint32_t &number);
    void SendData(uint32_t number);
    ncc_cc_event Event(ncc_u32 flags) const;
    void Apply(const ncc_cc_out &out);

    uint64_t OffsetBytes(uint32_t number) const
    {
        const uint64_t bytes = static_cast<uint64_t>(number) * config_.mss_bytes;
        return number == connection_.packets ? bytes - (config_.mss_bytes - connection_.last_bytes) : bytes;
    }

    // RFC 6298 rules 2.3 and 2.4
    void SetRto()
    {
        s_.rto_ns = std::max(s_.srtt_ns + std::max(kClockGranularityNs, 4 * s_.rttvar_ns), config_.min_rto_ns);
    }

    void AddSample(int64_t ns)
    {
        if (s_.min_rtt_ns == 0) {
            s_.srtt_ns = ns;
            s_.rttvar_ns = ns / 2;
            s_.min_rtt_ns = ns;
        } else { // in integers, rounded down
            const int64_t error = ns - s_.srtt_ns;
            s_.srtt_ns = ((s_.srtt_ns << 3) + error) >> 3;
            s_.rttvar_ns = ((s_.rttvar_ns << 2) + (error < 0 ? -error : error) - s_.rttvar_ns) >> 2;
            s_.min_rtt_ns = std::min(s_.min_rtt_ns, ns);
        }
        SetRto();
        network_.RttSample(slot_, ns);
    }

    Network &network_;
    const TcpConfig &config_;
    Connection &connection_;
    TcpSender &s_;
    TcpScoreboard board_;
    uint32_t slot_;
    // Of the ACK being processed
    int64_t sample_ns_ = 0;
};

void TcpSendingEnd::Syn()
{
    constexpr uint32_t kMaxDoublings = 16;
    s_.rto_ns = config_.initial_rto_ns << std::min(s_.syns, kMaxDoublings);
    ++s_.syns;
    Packet packet{};
    packet.connection = slot_;
    packet.sack = kNone;
    packet.ip_bytes = static_cast<uint16_t>(config_.syn_bytes);
    packet.kind = Kind::kSyn;
    network_.Send(packet);
    network_.Arm(s_.retransmit, TimerKind::kRetransmit, slot_, s_.rto_ns);
}

void TcpSendingEnd::SynAck(const Packet &packet)
{
    if (s_.established) {
        return;
    }
    s_.retransmit.Cancel();
    s_.rwnd_bytes = packet.window;
    // From the first SYN, also if it is the answer to a later one: so ns-3, against RFC 6298 section 3.
    AddSample(network_.now_ns() - s_.syn_ns);
    Establish();
    Packet ack{};
    ack.connection = slot_;
    ack.sack = kNone;
    ack.ip_bytes = kHeaderBytes;
    ack.kind = Kind::kOpenAck;
    network_.Send(ack);
    SendPending();
}

void TcpSendingEnd::Establish()
{
    s_.established = true;
    ncc_cc_out out{};
    config_.ops->init(s_.controller, config_.params, &config_.conn, &out);
    Apply(out);
}

void TcpSendingEnd::Apply(const ncc_cc_out &out)
{
    ncc_u64 cwnd_bytes = out.cwnd_bytes;
    if (cwnd_bytes < config_.mss_bytes || cwnd_bytes > NCC_CC_CWND_MAX) {
        network_.Fail(WindowFault(*config_.ops, config_.conn, cwnd_bytes) + " (flow " +
                      std::to_string(connection_.flow) + ")");
        cwnd_bytes = config_.mss_bytes;
    }
    constexpr ncc_u64 kMax = std::numeric_limits<uint32_t>::max(); // the send buffer is far below
    s_.cwnd_bytes = static_cast<uint32_t>(std::min(cwnd_bytes, kMax));
    s_.ssthresh_bytes = static_cast<uint32_t>(std::min(out.ssthresh_bytes, kMax));
    s_.pacing_bytes_per_s = out.pacing_bytes_per_s;
}

ncc_cc_event TcpSendingEnd::Event(ncc_u32 flags) const
{
    ncc_cc_event event{};
    event.now_ns = static_cast<ncc_u64>(network_.now_ns());
    event.min_rtt_ns = static_cast<ncc_u64>(s_.min_rtt_ns);
    event.srtt_ns = s_.min_rtt_ns > 0 ? static_cast<ncc_u64>(s_.srtt_ns) : 0;
    event.inflight_bytes = board_.PipeBytes();
    event.una_bytes = OffsetBytes(s_.una);
    event.nxt_bytes = OffsetBytes(s_.nxt);
    event.flags = flags;
    return event;
}

// The oldest packet that the ACK covers is the sample: a delayed ACK's wait is part of it.
void TcpSendingEnd::Sample(uint32_t number)
{
    const uint32_t oldest = std::max(s_.una, s_.rtt_from);
    if (number <= oldest) {
        return;
    }
    const uint64_t sent = s_.sent[oldest];
    if (!(sent & Sent::kAmbiguous)) {
        sample_ns_ = network_.now_ns() - static_cast<int64_t>(sent >> Sent::kTimeShift);
        AddSample(sample_ns_);
    }
}

void TcpSendingEnd::Ack(const Packet &packet)
{
    const uint32_t number = packet.number;
    Sample(number);
    const uint32_t rwnd_bytes = static_cast<uint32_t>(packet.window) << config_.window_shift;
    if (number > s_.una || rwnd_bytes > s_.rwnd_bytes) {
        s_.rwnd_bytes = rwnd_bytes;
    }
    const uint64_t pipe_before = board_.PipeBytes();
    const uint32_t una_before = s_.una;
    bool duplicate = packet.sack != kNone && board_.Update(network_.sack(packet.sack));
    if (number > s_.una) {
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

    const uint64_t delivered_bytes = OffsetBytes(s_.una) + s_.sacked_bytes;
    const bool repairing = s_.state == CongestionState::kRecovery || s_.state == CongestionState::kLoss;
    const bool full = pipe_before + config_.mss_bytes > s_.cwnd_bytes;
    ncc_cc_event event = Event((packet.echo ? NCC_CC_ACK_ECE : 0) | (repairing ? NCC_CC_ACK_IN_RECOVERY : 0) |
                               (full ? 0 : NCC_CC_ACK_APP_LIMITED));
    event.rtt_ns = static_cast<ncc_u64>(sample_ns_);
    if (delivered_bytes > s_.delivered_bytes) { // guesses of what has arrived (no SACK) may be taken back
        event.delivered_bytes = delivered_bytes - s_.delivered_bytes;
        s_.delivered_bytes = delivered_bytes;
        network_.Delivered(slot_, event.delivered_bytes);
    }
    event.acked_bytes = event.una_bytes - OffsetBytes(una_before);
    ncc_cc_out out{};
    config_.ops->on_ack(s_.controller, config_.params, &config_.conn, &event, &out);
    Apply(out);

    SendPending();
    if (packet.echo && config_.ecn == NCC_CC_ECN_CLASSIC && s_.una > s_.cwr_packet) {
        s_.cwr_due = true; // once per window
    }
    if (s_.una == connection_.packets) {
        network_.Acknowledged(slot_);
    }
}

// RFC 6675 section 5, third paragraph to step 3.
void TcpSendingEnd::DupAck()
{
    switch (s_.state) {
    case CongestionState::kLoss: // it may be the answer to a repair that was not needed
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
    config_.ops->on_loss(s_.controller, config_.params, &config_.conn, &event, &out);
    Apply(out);
    s_.state = CongestionState::kRecovery;
    SendData(s_.una);
}

// The cumulative ACK has moved.
void TcpSendingEnd::Advanced(bool duplicate)
{
    if (!duplicate) {
        s_.dup_acks = 0;
    }
    if (s_.una < s_.recover && s_.state == CongestionState::kRecovery) { // a partial ACK: the next hole
        if (!config_.sack) {
            board_.LoseHead();
        }
        const bool short_packet = s_.una + 1 == connection_.packets && connection_.last_bytes < config_.mss_bytes;
        if (!board_.HeadRepaired() || short_packet) {
            uint32_t next = 0;
            SendData(board_.NextLost(next) || NextPacket(next) ? next : s_.una);
        }
        NewAck(s_.first_partial_ack); // RFC 6582: the timer restarts with the first one only
        s_.first_partial_ack = false;
        return;
    }
    if (s_.una < s_.recover && s_.state == CongestionState::kLoss) {
        NewAck(true);
        return;
    }
    switch (s_.state) {
    case CongestionState::kOpen:
        break;
    case CongestionState::kDisorder:
        if (!duplicate) {
            s_.state = CongestionState::kOpen;
        }
        break;
    case CongestionState::kRecovery:
        s_.dup_acks = 0;
        s_.cwnd_bytes = s_.ssthresh_bytes;
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
}

void TcpSendingEnd::NewAck(bool restart_timer)
{
    if (s_.una == connection_.packets) {
        s_.retransmit.Cancel();
        return;
    }
    if (restart_timer) { // RFC 6298 rule 5.3
        SetRto();
        network_.Arm(s_.retransmit, TimerKind::kRetransmit, slot_, s_.rto_ns);
    }
    Offer();
}

// The application fills the send buffer by quarters.
void TcpSendingEnd::Offer()
{
    const uint64_t missing_bytes = network_.size_bytes(slot_) - s_.offered_bytes;
    if (missing_bytes == 0) {
        return;
    }
    const uint64_t free_bytes = config_.send_buffer_bytes - (s_.offered_bytes - OffsetBytes(s_.una));
    const uint64_t chunk_bytes = std::min<uint64_t>(missing_bytes, std::max(config_.send_buffer_bytes / 4, 1U));
    if (free_bytes >= chunk_bytes) {
        s_.offered_bytes += std::min(missing_bytes, free_bytes);
    }
}

// RFC 6298 rules 5.4 to 5.6, RFC 6675 section 5.1.
void TcpSendingEnd::Timeout()
{
    network_.TimedOut(slot_);
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
    event.inflight_bytes = 0; // everything sent is deemed lost
    ncc_cc_out out{};
    config_.ops->on_timeout(s_.controller, config_.params, &config_.conn, &event, &out);
    Apply(out);
    SendPending();
}

// New data, if there is any in the send buffer and the receiver has room: a whole packet always.
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
    if (s_.state == CongestionState::kDisorder && !config_.sack && !config_.limited_transmit) {
        return; // RFC 5681 without RFC 3042: first it must be known what the duplicate ACKs mean
    }
    while (s_.una != connection_.packets) {
        const uint32_t window_bytes = std::min(s_.rwnd_bytes, s_.cwnd_bytes);
        const uint64_t pipe_bytes = board_.PipeBytes();
        if (pipe_bytes >= window_bytes) {
            return;
        }
        if (!network_.HasRoom(slot_)) {
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
        // Silly window: no part of a packet, unless it is all there is.
        const uint64_t left_bytes = s_.offered_bytes - OffsetBytes(number);
        if (window_bytes - pipe_bytes < std::min<uint64_t>(config_.mss_bytes, left_bytes)) {
            return;
        }
        SendData(number);
    }
}

void TcpSendingEnd::SendData(uint32_t number)
{
    const bool retransmission = number < s_.nxt;
    const uint32_t payload_bytes = board_.PayloadBytes(number);
    if (s_.una == s_.nxt) {
        s_.retransmit.Cancel(); // nothing was outstanding: the timer counts from this packet (RFC 6298 5.1, 5.2)
    }
    if (retransmission) {
        board_.Repaired(number);
    } else {
        s_.sent.Reserve(network_.rings(), s_.una, s_.nxt);
        s_.sent[number] = static_cast<uint64_t>(network_.now_ns()) << Sent::kTimeShift;
        ++s_.nxt;
    }
    Packet packet{};
    packet.connection = slot_;
    packet.number = number;
    packet.sack = kNone;
    packet.ip_bytes = static_cast<uint16_t>(payload_bytes + kHeaderBytes);
    packet.kind = Kind::kData;
    // RFC 3168 keeps retransmissions out of ECN; with DCTCP they take part, as in Linux.
    packet.ecn_capable = config_.ecn == NCC_CC_ECN_DCTCP || (config_.ecn == NCC_CC_ECN_CLASSIC && !retransmission);
    packet.retransmission = retransmission;
    if (s_.cwr_due && !retransmission) {
        packet.window_reduced = true;
        s_.cwr_due = false;
        s_.cwr_packet = number;
    }
    if (s_.pacing_bytes_per_s > 0 && !s_.pace.on()) {
        const uint64_t delay_ns = (payload_bytes * NCC_NS_PER_S + s_.pacing_bytes_per_s / 2) / s_.pacing_bytes_per_s;
        network_.Arm(s_.pace, TimerKind::kPace, slot_, static_cast<int64_t>(delay_ns));
    }
    if (!s_.retransmit.on()) {
        network_.Arm(s_.retransmit, TimerKind::kRetransmit, slot_, s_.rto_ns);
    }
    network_.Send(packet);
}

} // namespace

void TcpReceiverOpen(Network &network, uint32_t slot);
void TcpReceiverReceive(Network &network, uint32_t slot, const Packet &packet);
void TcpReceiverExpired(Network &network, uint32_t slot);

void TcpOpen(Network &network, uint32_t slot)
{
    if (!network.tcp().handshake) {
        TcpReceiverOpen(network, slot);
    }
    TcpSendingEnd(network, slot).Open();
}

void TcpReceive(Network &network, uint32_t slot, const Packet &packet)
{
    if (packet.to_receiver()) {
        TcpReceiverReceive(network, slot, packet);
    } else {
        TcpSendingEnd(network, slot).Receive(packet);
    }
}

void TcpExpired(Network &network, uint32_t slot, TimerKind kind)
{
    switch (kind) {
    case TimerKind::kRetransmit:
        TcpSendingEnd(network, slot).RetransmitExpired();
        return;
    case TimerKind::kDelayedAck:
        TcpReceiverExpired(network, slot);
        return;
    case TimerKind::kPace:
        TcpSendingEnd(network, slot).SendPending();
        return;
    }
}

void TcpRoom(Network &network, uint32_t slot) { TcpSendingEnd(network, slot).Room(); }

void TcpHeadLeft(Network &network, uint32_t slot) { TcpSendingEnd(network, slot).HeadLeft(); }

void TcpClose(Network &network, uint32_t slot)
{
    TcpSendingEnd(network, slot).Close();
    TcpReceiver &receiver = network.connection(slot).receiver;
    receiver.delayed_ack.Cancel();
    receiver.holds.Release(network.rings());
}

} // namespace ncc::packetsim
