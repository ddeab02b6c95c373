// SPDX-License-Identifier: GPL-2.0-only
#include "cc_ops.h"

#include "controllers.h"
#include "socket.h"

#include <algorithm>
#include <limits>

namespace ncc
{

using ns3::Ptr;
using ns3::TcpSocketState;

CcOps::CcOps(const Controller &controller, HostSocket &socket, const ncc_cc_conn &conn, bool proportional)
    : controller_(controller), socket_(socket), conn_(conn),
      proportional_(proportional && (controller.ops->needs & NCC_CC_RATE) == 0)
{
}

std::string CcOps::GetName() const { return controller_.ops->name; }

void CcOps::Apply(Ptr<TcpSocketState> tcb)
{
    if (!Obeyable(conn_, out_)) {
        socket_.ControllerFault(DecisionFault(*controller_.ops, conn_, out_));
        out_.cwnd_bytes = conn_.mss_bytes; // the run has failed; keep values valid for ns-3 until it stops
        out_.pacing_bytes_per_s = 0;
    }
    constexpr ncc_u64 kMax = std::numeric_limits<uint32_t>::max(); // ns-3's width
    tcb->m_cWnd = static_cast<uint32_t>(std::min(out_.cwnd_bytes, kMax));
    tcb->m_cWndInfl = tcb->m_cWnd;
    tcb->m_ssThresh = static_cast<uint32_t>(std::min(out_.ssthresh_bytes, kMax));
    tcb->m_pacing = out_.pacing_bytes_per_s > 0;
    if (tcb->m_pacing) {
        tcb->m_paceInitialWindow = true;
        tcb->m_pacingRate = ns3::DataRate(8 * out_.pacing_bytes_per_s);
    }
    if (const int64_t delay_ns = ControlDelayNs(*controller_.ops, out_); delay_ns > 0) {
        socket_.ArmControl(ns3::TimeStep(delay_ns));
    }
    out_.timer_ns = 0;
}

uint32_t CcOps::GetSsThresh(Ptr<const TcpSocketState> tcb, uint32_t) { return tcb->m_ssThresh; }

void CcOps::IncreaseWindow(Ptr<TcpSocketState>, uint32_t) {}

void CcOps::CongestionStateSet(Ptr<TcpSocketState> tcb, TcpSocketState::TcpCongState_t state)
{
    if (state == TcpSocketState::CA_OPEN && !started_) { // the handshake is done, nothing is sent
        started_ = true;
        controller_.ops->init(state_, controller_.params.data(), &conn_, &out_);
        Apply(tcb);
    } else if (state == TcpSocketState::CA_RECOVERY) {
        if (!marked_) {
            ncc_prr_begin(&prr_, tcb->m_cWnd);
        }
        window_bytes_ = tcb->m_cWnd;
        marked_ = false;
        OnLoss(tcb);
        if (proportional_ && socket_.timed()) { // one packet counts as delivered, as in Linux
            window_bytes_ = static_cast<uint32_t>(ncc_prr_window(&prr_, socket_.Event(0).inflight_bytes, tcb->m_cWnd,
                                                                 conn_.mss_bytes, conn_.mss_bytes, 0));
            tcb->m_cWnd = window_bytes_;
        }
    }
}

void CcOps::OnLoss(Ptr<TcpSocketState> tcb)
{
    const ncc_cc_event event = socket_.Event(NCC_CC_ACK_IN_RECOVERY);
    controller_.ops->on_loss(state_, controller_.params.data(), &conn_, &event, &out_);
    Apply(tcb);
}

void CcOps::CongControl(Ptr<TcpSocketState> tcb, const ns3::TcpRateOps::TcpRateConnection &,
                        const ns3::TcpRateOps::TcpRateSample &)
{
    const ncc_cc_event event = socket_.AckEvent();
    const auto before_bytes = static_cast<uint32_t>(out_.cwnd_bytes);
    const uint32_t window_bytes = tcb->m_cWnd;
    controller_.ops->on_ack(state_, controller_.params.data(), &conn_, &event, &out_);
    Apply(tcb);
    if (proportional_) {
        Reduce(tcb, event, before_bytes, window_bytes);
    }
}

// Holds the window between its value and the controller's, in a fast recovery and for a round trip after the controller
// has answered ECN-Echo.
void CcOps::Reduce(Ptr<TcpSocketState> tcb, const ncc_cc_event &event, uint32_t target_before, uint32_t window_before)
{
    const auto state = tcb->m_congState.Get();
    const bool recovery = state == TcpSocketState::CA_RECOVERY;
    const bool repairing = recovery || state == TcpSocketState::CA_LOSS;
    marked_ = marked_ && !repairing && event.una_bytes <= marked_until_;
    if (!marked_ && !repairing && (event.flags & NCC_CC_ACK_ECE) != 0 && tcb->m_cWnd < target_before) {
        marked_ = true;
        marked_until_ = event.nxt_bytes;
        window_bytes_ = window_before;
        ncc_prr_begin(&prr_, window_before);
    }
    if (!marked_ && !recovery) {
        return;
    }
    if (event.delivered_bytes > 0) {
        const ncc_u32 flags = event.acked_bytes > 0 && !socket_.more_lost() ? NCC_PRR_ADVANCED : 0;
        window_bytes_ = static_cast<uint32_t>(
            ncc_prr_window(&prr_, event.inflight_bytes, tcb->m_cWnd, event.delivered_bytes, conn_.mss_bytes, flags));
    }
    tcb->m_cWnd = window_bytes_;
}

void CcOps::OnTimeout(Ptr<TcpSocketState> tcb)
{
    ncc_cc_event event = socket_.Event(NCC_CC_ACK_IN_RECOVERY);
    event.inflight_bytes = 0; // everything sent counts as lost
    marked_ = false;
    controller_.ops->on_timeout(state_, controller_.params.data(), &conn_, &event, &out_);
    Apply(tcb);
}

void CcOps::OnRestart(Ptr<TcpSocketState> tcb, ncc_u32 idle_rtos)
{
    ncc_cc_event event = socket_.Event(0);
    event.idle_rtos = idle_rtos;
    controller_.ops->on_restart(state_, controller_.params.data(), &conn_, &event, &out_);
    Apply(tcb);
    marked_ = marked_ && idle_rtos == 0;
    Keep(tcb);
}

void CcOps::Keep(Ptr<TcpSocketState> tcb)
{
    if (proportional_ && (marked_ || tcb->m_congState.Get() == TcpSocketState::CA_RECOVERY)) {
        tcb->m_cWnd = window_bytes_;
    }
}

void CcOps::OnSignal(Ptr<TcpSocketState> tcb, const ncc_cc_event &event, const ncc_cc_signal &signal)
{
    controller_.ops->on_signal(state_, controller_.params.data(), &conn_, &event, &signal, &out_);
    Apply(tcb);
    Keep(tcb);
}

void CcOps::OnTimer(Ptr<TcpSocketState> tcb, const ncc_cc_event &event)
{
    controller_.ops->on_timer(state_, controller_.params.data(), &conn_, &event, &out_);
    Apply(tcb);
    Keep(tcb);
}

Ptr<ns3::TcpCongestionOps> CcOps::Fork() { return ns3::CopyObject<CcOps>(this); }

} // namespace ncc
