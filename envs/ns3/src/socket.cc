// SPDX-License-Identifier: GPL-2.0-only
#include "socket.h"

#include "network.h"

#include "ns3/inet-socket-address.h"
#include "ns3/simulator.h"
#include "ns3/tcp-header.h"
#include "ns3/tcp-rx-buffer.h"
#include "ns3/tcp-tx-buffer.h"
#include "ns3/tcp-tx-item.h"

#include <algorithm>

namespace ncc
{

using namespace ns3;

uint64_t Unwrap(SequenceNumber32 seq, uint64_t near)
{
    const auto low = seq.GetValue() - 1; // payload starts at sequence number 1
    return near + static_cast<int64_t>(static_cast<int32_t>(low - static_cast<uint32_t>(near)));
}

HostSocket::HostSocket(Network &network, uint32_t flow, bool sender, Echo echo, const RttNoise &rtt_noise)
    : network_(network), flow_(flow), sender_(sender), echo_(echo), rtt_noise_(rtt_noise),
      modern_(network.spec().modern)
{
    m_txBuffer->SetRWndCallback(MakeCallback(&HostSocket::OfferedBytes, this));
    if (modern_ && sender) {
        m_rateOps = CreateObject<ArrivalProbe>(*this);
    }
}

void RateProbe::SkbSent(TcpTxItem *item, bool)
{
    const SentRecord record = estimator.Sent(Simulator::Now().GetTimeStep(), idle);
    TcpTxItem::RateInformation &info = item->GetRateInformation();
    info.m_firstSent = TimeStep(static_cast<uint64_t>(record.first_sent_ns));
    info.m_deliveredTime = TimeStep(static_cast<uint64_t>(record.delivered_ns));
    info.m_delivered = record.delivered_bytes;
    info.m_isAppLimited = record.app_limited;
}

void RateProbe::SkbDelivered(TcpTxItem *item)
{
    socket_.Arrived(*item);
    TcpTxItem::RateInformation &info = item->GetRateInformation();
    if (info.m_deliveredTime == Time::Max()) { // counted already, when it was acknowledged selectively
        return;
    }
    estimator.Delivered({item->GetLastSent().GetTimeStep(), info.m_firstSent.GetTimeStep(),
                         info.m_deliveredTime.GetTimeStep(), info.m_delivered, info.m_isAppLimited},
                        item->GetSeqSize());
    info.m_deliveredTime = Time::Max();
    connection_.m_delivered = estimator.delivered_bytes();
}

void HostSocket::SetController(Ptr<CcOps> controller, bool needs_rate)
{
    controller_ = controller;
    if (needs_rate) {
        rate_ = CreateObject<RateProbe>(*this);
        m_rateOps = rate_;
    }
    SetCongestionControlAlgorithm(controller);
}

void HostSocket::SetTimeouts(Time min_rto, Time initial_rto)
{
    SetMinRto(min_rto);
    SetConnTimeout(initial_rto);
    SetPersistTimeout(initial_rto);
}

void HostSocket::Signal(const ncc_cc_signal &signal)
{
    if (Undelivered() && controller_ && controller_->needs(NCC_CC_SIGNALS)) { // ns-3's own hear nothing
        controller_->OnSignal(m_tcb, Event(InRecovery()), signal);
        SendPendingData(m_connected);
    }
}

void HostSocket::ArmControl(Time delay)
{
    control_event_.Cancel();
    control_event_ = Simulator::Schedule(delay, &HostSocket::ControlTimer, this);
}

void HostSocket::ControlTimer()
{
    if (Undelivered()) {
        controller_->OnTimer(m_tcb, Event(InRecovery()));
        SendPendingData(m_connected);
    }
}

void HostSocket::Shut()
{
    SetSendCallback(MakeNullCallback<void, Ptr<Socket>, uint32_t>());
    SetConnectCallback(MakeNullCallback<void, Ptr<Socket>>(), MakeNullCallback<void, Ptr<Socket>>());
    SetCloseCallbacks(MakeNullCallback<void, Ptr<Socket>>(), MakeNullCallback<void, Ptr<Socket>>());
    CancelAllTimers();
    probe_event_.Cancel();
    reordering_event_.Cancel();
    control_event_.Cancel();
    DeallocateEndPoint();
}

Ptr<TcpSocketBase> HostSocket::Fork()
{
    return this; // the listening socket becomes the connection, as each flow has its own
}

void HostSocket::Wake()
{
    if (held_back_) {
        held_back_ = false;
        SendPendingData(m_connected);
    }
}

void HostSocket::HeadLeft()
{
    if (m_retxEvent.IsPending()) { // it is not while a probe is due, before which no timeout counts
        m_retxEvent.Cancel();
        m_retxEvent = Simulator::Schedule(m_rto.Get(), &HostSocket::ReTxTimeout, this);
    }
}

uint32_t HostSocket::Window() const { return network_.ClampBytes(flow_, TcpSocketBase::Window()); }

uint64_t HostSocket::received_bytes() const { return received_bytes_ - earlier_bytes_ + m_tcb->m_rxBuffer->Size(); }

uint32_t HostSocket::AvailableWindow() const
{
    // Without SACK and limited transmit, nothing may be sent between the first duplicate ACK and the decision about a
    // loss (RFC 5681 before RFC 3042). ns-3 relies on that, and ends the process if data that pacing or the host's
    // queue had held back is sent now.
    if (m_tcb->m_congState == TcpSocketState::CA_DISORDER && !m_sackEnabled && !m_limitedTx) {
        return 0;
    }
    const uint32_t window = TcpSocketBase::AvailableWindow();
    if (window == 0 || network_.HasRoom(flow_)) {
        return window;
    }
    held_back_ = true;
    return 0;
}

uint32_t HostSocket::OfferedBytes() const
{
    const uint32_t window = m_rWnd, sent = m_tcb->m_highTxMark.Get() - m_txBuffer->HeadSequence();
    const uint32_t unsent = m_txBuffer->SizeFromSequence(m_tcb->m_highTxMark);
    const bool part = sent > 0 && window >= sent && window - sent < std::min(m_tcb->m_segmentSize, unsent);
    return part ? sent - 1 : window;
}

void HostSocket::Outgoing(uint64_t offset_bytes, bool retransmission, bool cwr, bool data)
{
    // RFC 3168 keeps retransmissions out of ECN; with DCTCP they take part, as in Linux.
    const bool ect = sender_ && (echo_ == Echo::kPrecise || (echo_ == Echo::kClassic && !retransmission));
    network_.Outgoing(
        {flow_, sender_, data, offset_bytes, retransmission, ect, cwr, echo_ == Echo::kNs3, telling_trimmed_});
}

uint32_t HostSocket::SendDataPacket(SequenceNumber32 seq, uint32_t max_size, bool with_ack)
{
    const uint64_t offset = Unwrap(seq, una_bytes_);
    const bool retransmission = seq < m_tcb->m_highTxMark.Get();
    const bool idle = m_txBuffer->HeadSequence() == m_tcb->m_highTxMark.Get();
    if (rate_) {
        rate_->idle = idle;
    }
    if (idle) {
        m_retxEvent.Cancel(); // nothing was outstanding: the timer starts at this packet (RFC 6298 5.1, 5.2)
    }
    Outgoing(offset, retransmission, cwr_due_ && !retransmission, true);
    if (cwr_due_ && !retransmission) {
        cwr_due_ = false;
        cwr_end_bytes_ = offset + 1;
    }
    const uint32_t sent_bytes = TcpSocketBase::SendDataPacket(seq, max_size, with_ack);
    network_.NothingOutgoing();
    if (modern_) {
        last_sent_bytes_ = retransmission ? last_sent_bytes_ : sent_bytes;
        if (controller_) {
            controller_->Sent(sent_bytes);
        }
        ArmProbe();
        NoteUse(true);
    }
    return sent_bytes;
}

void HostSocket::SendEmptyPacket(uint8_t flags)
{
    if (flags & TcpHeader::SYN) {
        if (sender_ && ++syns_ > 1) {
            network_.TimedOut(flow_);
        }
    } else if (!sender_ && ce_state_ && (flags & TcpHeader::ACK)) {
        flags |= TcpHeader::ECE;
    }
    Outgoing(telling_trimmed_ ? trimmed_bytes_ : 0, false, false, false);
    TcpSocketBase::SendEmptyPacket(flags);
    network_.NothingOutgoing();
}

void HostSocket::PersistTimeout()
{
    Outgoing(Unwrap(m_tcb->m_nextTxSequence, una_bytes_), true, false, true);
    TcpSocketBase::PersistTimeout();
    network_.NothingOutgoing();
}

void HostSocket::ReceivedAck(Ptr<Packet> packet, const TcpHeader &header)
{
    if (!sender_) { // the receiver has nothing in flight: only the payload matters
        if (packet->GetSize() > 0) {
            ReceivedData(packet, header);
        }
        return;
    }
    ece_ = header.GetFlags() & TcpHeader::ECE;
    una_before_ = una_bytes_;
    if (rate_) {
        rate_->estimator.BeginAck(Simulator::Now().GetTimeStep(), m_txBuffer->GetLost());
    }
    in_flight_before_ = BytesInFlight();
    lost_before_bytes_ = m_txBuffer->GetLost();
    if (modern_) { // in a recovery nothing waits for reordering (RFC 8985 section 6.2 step 4)
        m_txBuffer->SetDupAckThresh(m_tcb->m_congState == TcpSocketState::CA_RECOVERY ? 1 : m_retxThresh);
    }
    if (m_tcb->m_congState == TcpSocketState::CA_CWR && header.GetAckNumber() > m_recover) {
        m_dupAckCount = 0; // ns-3 counts duplicates in CWR, and aborts if the next one comes in state open
    }
    TcpSocketBase::ReceivedAck(packet, header);
    TakeDelivered();
    if (modern_) {
        ModernAck();
    }
    if (ece_ && echo_ == Echo::kClassic && una_bytes_ >= cwr_end_bytes_) {
        cwr_due_ = true; // once per window
    }
    network_.Learn(flow_);
    if (una_bytes_ == end_bytes_) {
        network_.Acknowledged(flow_);
    }
}

ncc_u64 HostSocket::TakeDelivered()
{
    una_bytes_ = Unwrap(m_txBuffer->HeadSequence(), una_bytes_);
    const uint64_t total = una_bytes_ + m_txBuffer->GetSacked();
    if (total <= delivered_bytes_) {
        return 0;
    }
    const ncc_u64 news = total - delivered_bytes_;
    delivered_bytes_ = total;
    network_.Delivered(flow_, news);
    return news;
}

ncc_cc_event HostSocket::Event(ncc_u32 flags) const
{
    ncc_cc_event event{};
    event.now_ns = static_cast<ncc_u64>(Simulator::Now().GetTimeStep());
    event.min_rtt_ns = static_cast<ncc_u64>(min_rtt_ns_);
    event.srtt_ns = min_rtt_ns_ > 0 ? static_cast<ncc_u64>(m_rtt->GetEstimate().GetTimeStep()) : 0;
    event.inflight_bytes = m_txBuffer->BytesInFlight();
    event.una_bytes = Unwrap(m_txBuffer->HeadSequence(), una_bytes_);
    event.nxt_bytes = Unwrap(m_tcb->m_highTxMark, una_bytes_);
    event.flags = flags;
    event.total_delivered_bytes = rate_ ? rate_->estimator.delivered_bytes() : 0;
    return event;
}

ncc_cc_event HostSocket::AckEvent()
{
    const ncc_u64 delivered = TakeDelivered();
    const bool kept_back = m_txBuffer->SizeFromSequence(m_tcb->m_highTxMark) > 0 &&
                           (m_pacingTimer.IsRunning() || !network_.QueueHasRoom(flow_));
    const bool full =
        modern_ ? use_.Enough(m_tcb->m_cWnd, m_tcb->m_ssThresh, m_tcb->m_segmentSize)
                : WindowUsed(in_flight_before_, m_tcb->m_cWnd, m_tcb->m_ssThresh, m_tcb->m_segmentSize, kept_back);
    ncc_cc_event event = Event((ece_ ? NCC_CC_ACK_ECE : 0) | InRecovery() | (full ? 0 : NCC_CC_ACK_APP_LIMITED));
    event.rtt_ns = static_cast<ncc_u64>(measured_rtt_ns_);
    event.delivered_bytes = delivered;
    event.acked_bytes = una_bytes_ - una_before_;
    if (rate_) {
        rate_->estimator.Fill(event, m_txBuffer->GetLost());
    }
    event.hops = hops_.data();
    event.n_hops = static_cast<ncc_u32>(hops_.size());
    return event;
}

void HostSocket::ReceivedData(Ptr<Packet> packet, const TcpHeader &header)
{
    if (echo_ == Echo::kPrecise) {
        if (ce_ != ce_state_) {
            if (m_delAckEvent.IsPending()) { // acknowledge earlier packets with their state
                SendEmptyPacket(TcpHeader::ACK);
            }
            ce_state_ = ce_;
            m_delAckCount = m_delAckMaxCount; // acknowledge this packet at once
        }
    } else if (echo_ == Echo::kClassic) {
        ce_state_ = ce_ || (ce_state_ && !cwr_);
    }
    TcpSocketBase::ReceivedData(packet, header);
    Ptr<TcpRxBuffer> buffer = m_tcb->m_rxBuffer;
    if (buffer->Available() > 0) {
        buffer->Extract(buffer->Available());
    }
    const uint64_t received = Unwrap(buffer->NextRxSequence(), received_bytes_);
    if (received > received_bytes_) {
        received_bytes_ = received;
        network_.Received(flow_, received - earlier_bytes_);
    }
}

void HostSocket::ReTxTimeout()
{
    if (m_state == CLOSED || m_state == TIME_WAIT || m_state == SYN_SENT || m_txBuffer->Size() == 0) {
        TcpSocketBase::ReTxTimeout();
        return;
    }
    // ns-3 arms this timer for unsent data too. If pacing or the host's queue holds that data back, they will release
    // it. Otherwise TCP itself holds it back (a window below one segment), and only the timeout below opens the window
    // again.
    const bool all_acknowledged = m_txBuffer->HeadSequence() == m_tcb->m_highTxMark.Get();
    if (all_acknowledged && (m_pacingTimer.IsRunning() || !network_.HasRoom(flow_))) {
        m_retxEvent = Simulator::Schedule(m_rto.Get(), &HostSocket::ReTxTimeout, this);
        return;
    }
    if (network_.Holds(flow_, una_bytes_)) { // as in Linux: data that has not left the host cannot be lost
        m_retxEvent = Simulator::Schedule(m_rto.Get(), &HostSocket::ReTxTimeout, this);
        return;
    }
    network_.TimedOut(flow_);
    TcpSocketBase::ReTxTimeout();
    if (controller_) {
        controller_->OnTimeout(m_tcb);
        SendPendingData(m_connected);
    }
}

void HostSocket::RttSample(int64_t ns)
{
    measured_rtt_ns_ = rtt_noise_.Measured(flow_, rtt_samples_++, ns);
    min_rtt_ns_ = min_rtt_ns_ == 0 ? measured_rtt_ns_ : std::min(min_rtt_ns_, measured_rtt_ns_);
    if (sender_) {
        network_.RttSample(flow_, ns);
    }
}

void HostSocket::GivenUp(Ptr<Socket>)
{
    network_.Fail("ns-3 gave up the connection of flow " + std::to_string(flow_) + " after too many timeouts");
}

void HostSocket::ControllerFault(const std::string &message)
{
    network_.Fail(message + " (flow " + std::to_string(flow_) + ")");
}

} // namespace ncc
