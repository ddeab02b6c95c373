// SPDX-License-Identifier: GPL-2.0-only
// A controller of baselines/ as one of ns-3's congestion controls.
#pragma once

extern "C" {
#include "cc.h"
#include "prr.h"
}

#include "ns3/tcp-congestion-ops.h"

#include <string>
#include <vector>

namespace ncc
{

class HostSocket;

struct Controller {
    const ncc_cc_ops *ops = nullptr;
    std::vector<ncc_u64> params; // in the order of the header's table
};

// ns-3 asks a congestion control for thresholds and increments. This one answers with the controller's decisions, and
// calls the controller at the events of cc.h: connection up, every ACK, start of a recovery. The socket calls
// `OnTimeout` and `OnRestart`.
class CcOps final : public ns3::TcpCongestionOps
{
  public:
    // `proportional`: the window shrinks to the controller's by PRR (prr.h).
    CcOps(const Controller &controller, HostSocket &socket, const ncc_cc_conn &conn, bool proportional);

    void OnTimeout(ns3::Ptr<ns3::TcpSocketState> tcb);
    void OnLoss(ns3::Ptr<ns3::TcpSocketState> tcb);
    void OnSignal(ns3::Ptr<ns3::TcpSocketState> tcb, const ncc_cc_event &event, const ncc_cc_signal &signal);
    void OnTimer(ns3::Ptr<ns3::TcpSocketState> tcb, const ncc_cc_event &event);
    bool needs(ncc_u32 what) const { return (controller_.ops->needs & what) != 0; }
    void Sent(uint32_t bytes) { prr_.out_bytes += bytes; }
    void OnRestart(ns3::Ptr<ns3::TcpSocketState> tcb, ncc_u32 idle_rtos);

    std::string GetName() const override;
    uint32_t GetSsThresh(ns3::Ptr<const ns3::TcpSocketState> tcb, uint32_t in_flight) override;
    void IncreaseWindow(ns3::Ptr<ns3::TcpSocketState> tcb, uint32_t segments) override;
    void CongestionStateSet(ns3::Ptr<ns3::TcpSocketState> tcb, ns3::TcpSocketState::TcpCongState_t state) override;
    bool HasCongControl() const override { return true; }
    void CongControl(ns3::Ptr<ns3::TcpSocketState> tcb, const ns3::TcpRateOps::TcpRateConnection &connection,
                     const ns3::TcpRateOps::TcpRateSample &sample) override;
    ns3::Ptr<ns3::TcpCongestionOps> Fork() override;

  private:
    void Apply(ns3::Ptr<ns3::TcpSocketState> tcb);
    void Keep(ns3::Ptr<ns3::TcpSocketState> tcb); // the window while it shrinks by PRR
    void Reduce(ns3::Ptr<ns3::TcpSocketState> tcb, const ncc_cc_event &event, uint32_t target_before,
                uint32_t window_before);

    const Controller &controller_;
    HostSocket &socket_;
    ncc_cc_conn conn_;
    bool proportional_;
    ncc_cc_out out_{};
    bool started_ = false;
    // State of the proportional reduction, with modern recovery
    ncc_prr prr_{};
    bool marked_ = false;       // the window shrinks because of ECN ...
    uint64_t marked_until_ = 0; // ... until more than this is acknowledged
    uint32_t window_bytes_ = 0; // window in force, while out_ is the target
    alignas(8) unsigned char state_[NCC_CC_SIM_STATE_MAX] = {};
};

// Congestion control of the receiving end, which sends no data.
class NoControl final : public ns3::TcpCongestionOps
{
  public:
    std::string GetName() const override { return "none"; }
    uint32_t GetSsThresh(ns3::Ptr<const ns3::TcpSocketState> tcb, uint32_t) override { return tcb->m_ssThresh; }
    void IncreaseWindow(ns3::Ptr<ns3::TcpSocketState>, uint32_t) override {}
    ns3::Ptr<ns3::TcpCongestionOps> Fork() override { return ns3::CopyObject<NoControl>(this); }
};

} // namespace ncc
