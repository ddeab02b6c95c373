// SPDX-License-Identifier: GPL-2.0-only
// Modern recovery of a sender: loss probes, the time after which a packet counts as lost, and the minimum RTO (RFC
// 8985, as in Linux; packetsim has it in full).
#include "network.h"
#include "socket.h"

#include "ns3/simulator.h"
#include "ns3/tcp-header.h"
#include "ns3/tcp-tx-buffer.h"
#include "ns3/tcp-tx-item.h"

#include <algorithm>

namespace ncc
{

using namespace ns3;

void ArrivalProbe::SkbDelivered(TcpTxItem *item)
{
    socket_.Arrived(*item);
    TcpRateLinux::SkbDelivered(item);
}

// RFC 8985 section 6.2 step 2. An ambiguous sample of a retransmission counts unless it is below the minimum RTT.
void HostSocket::Arrived(TcpTxItem &item)
{
    if (item.GetRateInformation().m_deliveredTime == Time::Max()) { // has arrived before
        return;
    }
    const int64_t sent_ns = item.GetLastSent().GetTimeStep();
    const int64_t rtt_ns = Simulator::Now().GetTimeStep() - sent_ns;
    if (!item.IsRetrans() || rtt_ns >= min_rtt_ns_) {
        newest_sent_ns_ = std::max(newest_sent_ns_, sent_ns);
        rack_rtt_ns_ = rtt_ns; // also of an older one, as in Linux
    }
}

void HostSocket::ModernAck()
{
    ProbeAnswered(una_bytes_ > una_before_);
    ArmReordering();
    NoteUse(false);
}

void HostSocket::NoteUse(bool sent)
{
    const uint32_t mss_bytes = m_tcb->m_segmentSize, out_bytes = m_tcb->m_highTxMark - m_txBuffer->HeadSequence();
    const bool full = m_txBuffer->BytesInFlight() + mss_bytes > m_tcb->m_cWnd;
    use_.Note(sent, full, (out_bytes + mss_bytes - 1) / mss_bytes, una_bytes_, Unwrap(m_tcb->m_highTxMark, una_bytes_));
}

// RFC 8985 section 6.2 step 5, for the first missing packet: it may have been overtaken for a quarter of the RTT.
void HostSocket::ArmReordering()
{
    reordering_event_.Cancel();
    if (m_tcb->m_congState != TcpSocketState::CA_DISORDER || m_history.empty() || m_history.front().retx ||
        m_history.front().seq != m_txBuffer->HeadSequence()) {
        return;
    }
    const int64_t sent_ns = m_history.front().time.GetTimeStep();
    if (sent_ns > newest_sent_ns_) {
        return;
    }
    const int64_t due_ns = sent_ns + rack_rtt_ns_ + min_rtt_ns_ / 4;
    const int64_t wait_ns = due_ns - Simulator::Now().GetTimeStep();
    if (wait_ns <= 0) {
        ReorderingOver();
        return;
    }
    reordering_event_ =
        Simulator::Schedule(NanoSeconds(wait_ns + network_.spec().timer_slack_ns), &HostSocket::ReorderingOver, this);
}

void HostSocket::ReorderingOver()
{
    if (m_tcb->m_congState == TcpSocketState::CA_DISORDER) {
        m_txBuffer->SetDupAckThresh(1);
        timed_ = true;
        EnterRecovery(0);
        timed_ = false;
        SendPendingData(m_connected);
    }
}

void HostSocket::SetRto()
{
    if (min_rtt_ns_ > 0) {
        m_rto = NanoSeconds(ModernRtoNs(m_rtt->GetEstimate().GetNanoSeconds(),
                                        4 * m_rtt->GetVariation().GetNanoSeconds(), m_minRto.GetNanoSeconds()));
    }
}

void HostSocket::NewAck(const SequenceNumber32 &ack, bool reset_rto)
{
    TcpSocketBase::NewAck(ack, reset_rto);
    if (modern_ && reset_rto) {
        SetRto();
        HeadLeft();
    }
}

bool HostSocket::more_lost() const { return m_txBuffer->GetLost() > lost_before_bytes_; }

// RFC 8985 section 7.2: sets the timer for a probe in place of the timeout's, which starts when the probe is sent. None
// while anything is selectively acknowledged: ns-3 ends a recovery also then, and ends the process if such a packet,
// which the last one may be, is sent again.
void HostSocket::ArmProbe()
{
    probe_event_.Cancel();
    const SequenceNumber32 end = m_tcb->m_highTxMark;
    if (m_tcb->m_congState != TcpSocketState::CA_OPEN || m_txBuffer->GetSacked() > 0 || probe_end_bytes_ > 0 ||
        m_txBuffer->HeadSequence() == end) {
        if (!m_retxEvent.IsPending() && m_txBuffer->HeadSequence() != end) {
            m_retxEvent = Simulator::Schedule(m_rto.Get(), &HostSocket::ReTxTimeout, this);
        }
        return;
    }
    SetRto(); // nothing has timed out since the last ACK
    const Spec &spec = network_.spec();
    const bool alone = end - m_txBuffer->HeadSequence() <= static_cast<int32_t>(m_tcb->m_segmentSize);
    Time delay = m_cnTimeout; // the initial RTO
    if (min_rtt_ns_ > 0) {    // one packet alone may wait for a delayed ACK
        delay = 2 * m_rtt->GetEstimate() + (alone ? m_minRto : NanoSeconds(spec.timer_slack_ns));
    }
    probe_event_ = Simulator::Schedule(Min(delay, m_rto.Get()), &HostSocket::Probe, this);
    m_retxEvent.Cancel();
}

// RFC 8985 section 7.3: new data if there is any, whatever the window, otherwise the last packet again.
void HostSocket::Probe()
{
    const SequenceNumber32 end = m_tcb->m_highTxMark;
    m_retxEvent = Simulator::Schedule(m_rto.Get(), &HostSocket::ReTxTimeout, this);
    const uint32_t new_bytes = std::min(m_txBuffer->SizeFromSequence(end), m_tcb->m_segmentSize);
    const bool fresh = new_bytes > 0 && m_highRxAckMark + SequenceNumber32(m_rWnd) >= end + SequenceNumber32(new_bytes);
    const SequenceNumber32 seq = fresh ? end : end - static_cast<int32_t>(last_sent_bytes_);
    if (!network_.Holds(flow_, una_bytes_) && !network_.Holds(flow_, Unwrap(seq, una_bytes_))) {
        probe_resent_ = !fresh;
        probe_end_bytes_ = Unwrap(end, una_bytes_) + (fresh ? new_bytes : 0);
        SendDataPacket(seq, fresh ? new_bytes : last_sent_bytes_, true);
    }
}

// RFC 8985 section 7.4.2: a probe that repaired the tail hid a loss, for which the window shrinks. Without DSACK, a
// needless probe shows by a duplicate ACK only.
void HostSocket::ProbeAnswered(bool advanced)
{
    const bool open = m_tcb->m_congState == TcpSocketState::CA_OPEN;
    if (probe_end_bytes_ > 0 && una_bytes_ >= probe_end_bytes_) {
        if (probe_resent_ && open && controller_ && una_bytes_ > probe_end_bytes_) {
            controller_->OnLoss(m_tcb);
            probe_end_bytes_ = 0;
        } else if (!probe_resent_ || !advanced) {
            probe_end_bytes_ = 0;
        }
    }
    if (!open) {
        probe_end_bytes_ = 0;
    }
    ArmProbe();
}

} // namespace ncc
