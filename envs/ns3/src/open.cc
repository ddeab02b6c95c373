// SPDX-License-Identifier: GPL-2.0-only
// The beginning of a flow at its two sockets: connections with and without a handshake, and those of earlier flows.
#include "network.h"
#include "socket.h"

#include "ns3/inet-socket-address.h"
#include "ns3/ipv4-end-point.h"
#include "ns3/tcp-rx-buffer.h"
#include "ns3/tcp-tx-buffer.h"

#include <algorithm>

namespace ncc
{

using namespace ns3;

void HostSocket::Open(const Address &local, const Address &peer, uint64_t size_bytes, uint64_t written_bytes,
                      bool at_once)
{
    local_ = local;
    peer_ = peer;
    end_bytes_ = size_bytes;
    unoffered_bytes_ = written_bytes;
    ShutdownRecv();
    SetConnectCallback(MakeNullCallback<void, Ptr<Socket>>(), MakeCallback(&HostSocket::GivenUp, this));
    SetCloseCallbacks(MakeNullCallback<void, Ptr<Socket>>(), MakeCallback(&HostSocket::GivenUp, this));
    if (at_once) {
        const InetSocketAddress to = InetSocketAddress::ConvertFrom(peer);
        m_endPoint->SetPeer(to.GetIpv4(), to.GetPort());
        SetupEndpoint();
        m_rtt->Reset();
        const Time estimate = m_rtt->GetEstimate(); // without a sample, the initial RTO
        m_rto = modern_ ? estimate : Max(estimate + m_clockGranularity, m_minRto);
        Establish();
        OfferAndSend();
        return;
    }
    Connect(peer);
    SetSendCallback(MakeCallback(&HostSocket::Offer, this));
    Offer(nullptr, GetTxAvailable());
}

void HostSocket::Await(const Address &local, const Address &peer, bool at_once)
{
    local_ = local;
    peer_ = peer;
    ShutdownRecv(); // no application: data is taken out as it comes
    if (!at_once) {
        Listen();
        return;
    }
    const InetSocketAddress from = InetSocketAddress::ConvertFrom(peer), to = InetSocketAddress::ConvertFrom(local);
    m_endPoint = m_tcp->Allocate(GetBoundNetDevice(), to.GetIpv4(), to.GetPort(), from.GetIpv4(), from.GetPort());
    m_tcp->AddSocket(this);
    SetupCallback();
    Establish();
    m_connected = true;
}

// Sets everything as after a handshake, but for the RTT.
void HostSocket::Establish()
{
    constexpr uint32_t kFirst = 1; // number of the first byte
    m_dataRetrCount = m_dataRetries;
    m_tcb->m_cWnd = m_tcb->m_cWndInfl = GetInitialCwnd() * GetSegSize();
    m_tcb->m_ssThresh = GetInitialSSThresh();
    m_tcb->m_ecnState =
        m_tcb->m_useEcn == TcpSocketState::Off ? TcpSocketState::ECN_DISABLED : TcpSocketState::ECN_IDLE;
    m_txBuffer->SetSackEnabled(m_sackEnabled);
    m_sndWindShift = m_rcvWindShift = CalculateWScale();
    m_rWnd = GetRcvBufSize() >> m_sndWindShift << m_sndWindShift;
    m_tcb->m_rxBuffer->SetNextRxSequence(SequenceNumber32(kFirst));
    m_tcb->m_nextTxSequence = m_tcb->m_highTxMark = SequenceNumber32(kFirst);
    m_txBuffer->SetHeadSequence(SequenceNumber32(kFirst));
    m_highRxAckMark = m_highRxMark = SequenceNumber32(kFirst);
    m_delAckCount = m_delAckMaxCount; // the first packet is acknowledged at once
    m_congestionControl->CongestionStateSet(m_tcb, TcpSocketState::CA_OPEN);
    m_tcb->m_congState = TcpSocketState::CA_OPEN;
    m_state = ESTABLISHED;
}

void HostSocket::Continue(uint32_t flow)
{
    flow_ = flow;
    earlier_bytes_ = received_bytes_;
}

void HostSocket::Continue(uint32_t flow, uint64_t size_bytes, uint64_t written_bytes, uint32_t idle_rtos)
{
    flow_ = flow;
    earlier_bytes_ = end_bytes_;
    end_bytes_ += size_bytes;
    unoffered_bytes_ = written_bytes;
    rtt_samples_ = 0;
    probe_end_bytes_ = 0; // an unanswered probe repaired nothing
    if (rate_) {
        rate_->estimator.AppLimited(0);
    }
    Restart(idle_rtos);
    network_.Learn(flow_);
    OfferAndSend();
}

void HostSocket::Restart(uint32_t idle_rtos)
{
    if (controller_) {
        controller_->OnRestart(m_tcb, idle_rtos);
    } else if (idle_rtos > 0 && !m_congestionControl->HasCongControl()) { // as in Linux' tcp_cwnd_restart
        const uint32_t window = m_tcb->m_cWnd, initial = GetInitialCwnd() * GetSegSize();
        m_congestionControl->CwndEvent(m_tcb, TcpSocketState::CA_EVENT_CWND_RESTART);
        m_tcb->m_ssThresh = std::max<uint32_t>(m_tcb->m_ssThresh, window / 2 + window / 4);
        m_tcb->m_cWnd = std::max(idle_rtos < 32 ? window >> idle_rtos : 0, std::min(initial, window));
        m_tcb->m_cWndInfl = m_tcb->m_cWnd;
    }
}

void HostSocket::OfferAndSend()
{
    m_connected = false; // the flow's beginning is not a pause of the application
    SetSendCallback(MakeCallback(&HostSocket::Offer, this));
    Offer(nullptr, GetTxAvailable());
    m_connected = true;
    m_sendPendingDataEvent.Cancel(); // ns-3 would send 1 ns later
    SendPendingData(m_connected);
}

} // namespace ncc
