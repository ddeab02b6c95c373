// SPDX-License-Identifier: GPL-2.0-only
// Writes of applications: pieces of a flow, the socket's send buffer, and the size that the host knows.
#include "knows.h"
#include "network.h"
#include "socket.h"

#include "ns3/simulator.h"
#include "ns3/tcp-tx-buffer.h"

#include <algorithm>

namespace ncc
{

using namespace ns3;

void Network::ScheduleWrite(uint32_t flow, uint64_t written_bytes)
{
    if (spec_.flows[flow].every_ns > 0 && written_bytes < spec_.flows[flow].size_bytes && fault_.empty()) {
        Simulator::Schedule(TimeStep(spec_.flows[flow].every_ns), &Network::Write, this, flow, written_bytes);
    }
}

void Network::Write(uint32_t flow, uint64_t written_bytes)
{
    const uint64_t now_bytes = WrittenBytes(flow, now_ns());
    Written(flow, now_bytes - written_bytes);
    ScheduleWrite(flow, now_bytes);
}

void Network::Written(uint32_t flow, uint64_t bytes)
{
    Learn(flow);
    HostSocket &sender = *connections_[flow]->sender;
    if (sender.WaitsForApplication()) {
        sender.Restart(IdleRtos(flow, now_ns(), sender.rto_ns()));
    }
    sender.Write(bytes);
}

void Network::Learn(uint32_t flow)
{
    const HostSocket &sender = *connections_[flow]->sender;
    Run::Learn(flow, now_ns(), sender.una_bytes() - sender.earlier_bytes(), sender.cwnd_bytes());
}

bool HostSocket::WaitsForApplication() const
{
    return m_state == ESTABLISHED && una_bytes_ > earlier_bytes_ && m_txBuffer->HeadSequence() == m_tcb->m_highTxMark &&
           m_txBuffer->SizeFromSequence(m_tcb->m_highTxMark) < m_tcb->m_segmentSize;
}

void HostSocket::Write(uint64_t bytes)
{
    unoffered_bytes_ += bytes;
    SetSendCallback(MakeCallback(&HostSocket::Offer, this));
    Offer(nullptr, GetTxAvailable());
    if (m_state == ESTABLISHED) {
        m_sendPendingDataEvent.Cancel(); // ns-3 would send 1 ns later
        SendPendingData(m_connected);
    }
}

void HostSocket::Offer(Ptr<Socket>, uint32_t available)
{
    // Only whole chunks are offered, because every call costs an event.
    const uint64_t chunk = std::min<uint64_t>(unoffered_bytes_, std::max<uint32_t>(GetSndBufSize() / 4, 1));
    if (chunk == 0 || available < chunk) {
        return;
    }
    const uint64_t bytes = std::min<uint64_t>(unoffered_bytes_, available);
    if (rate_ && m_connected) {
        const bool all_sent = m_txBuffer->SizeFromSequence(m_tcb->m_highTxMark) < m_tcb->m_segmentSize;
        const uint32_t pipe = m_txBuffer->BytesInFlight();
        if (all_sent && pipe < m_tcb->m_cWnd && m_txBuffer->GetLost() <= m_txBuffer->GetRetransmitsCount()) {
            rate_->estimator.AppLimited(pipe);
        }
    }
    if (Send(Create<Packet>(static_cast<uint32_t>(bytes)), 0) > 0) {
        unoffered_bytes_ -= bytes;
        if (unoffered_bytes_ == 0) {
            SetSendCallback(MakeNullCallback<void, Ptr<Socket>, uint32_t>());
        }
    }
}

} // namespace ncc
