// SPDX-License-Identifier: BSD-3-Clause
// A simulation: hosts, switches, flows, the events that move packets between them, and all measurements. It has no
// global state: a process can have any number of them, each used by one thread at a time.
#pragma once

#include "engine.h"
#include "port.h"
#include "transport.h"

#include "nic.h"
#include "switches.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace ncc::packetsim
{

class Network
{
  public:
    // Throws std::invalid_argument for flows without a path or with too many packets, or more parts than can be
    // numbered.
    explicit Network(const Spec &spec);
    Network(const Network &) = delete;
    Network &operator=(const Network &) = delete;

    // Runs one period with these limits, by agent. Throws std::runtime_error if a controller or flow has failed.
    void Step(const double *limits_bps);
    void Measure(const HostColumns &hosts, const UplinkColumns &uplinks);
    void Tell(std::vector<Grant> grants) { transport_.Tell(std::move(grants), now_ns()); }

    int64_t now_ns() const { return engine_.now_ns(); }
    int64_t epoch() const { return epoch_; }
    const Run &run() const { return transport_; }
    PortTotals PortRecord(uint32_t port); // up to date

    // For tests and studies.
    void Plan(uint32_t port, const PlannedFault &fault) { switches_.SwitchPort(port).Plan(fault); }
    struct Window {
        uint64_t cwnd_bytes, ssthresh_bytes, una_bytes;
    };
    Window SenderWindow(uint32_t flow) const; // zeros if the flow is not live
    // Places of all packets ever sent: sent = arrived + dropped + in hosts + on links.
    struct Audit {
        uint64_t sent, arrived, dropped, in_hosts, on_links, events_in_the_past, scheduled;
    };
    Audit Count() const;

    using HostNic = Nic<Engine, Transport, PacketPool>;
    using PortSwitches = Switches<Engine, Network, Port>;
    Engine &engine() { return engine_; }
    const Engine &engine() const { return engine_; }
    Transport &transport() { return transport_; }
    Connections &connections() { return transport_.connections(); }
    const PortSwitches &switches() const { return switches_; }
    HostNic &nic(uint32_t node) { return *nics_[node]; }

    // Called by switches
    ncc_sw_packet Describe(uint32_t place);
    void Drop(uint32_t place);
    void JoinLater(uint32_t port, uint32_t place, int64_t delay_ns);
    void SendSignal(uint32_t port, uint32_t about, const ncc_cc_signal &signal); // to the sender of a packet
    void WriteHop(uint32_t place, const ncc_cc_hop &hop);
    void LowerWindow(uint32_t place, uint64_t window_bytes);
    void SendPause(uint32_t port, bool on);

  private:
    void Handle(const Event &event);
    void Arrive(uint32_t port);
    void Pause(uint32_t port, bool on); // a pause frame has come for this port
    void ApplyLimits();
    uint32_t NodeOf(uint32_t port) const { return engine_.links()[port ^ 1].wire.to; }

    Engine engine_;
    Transport transport_;
    const Spec &spec_;
    PortSwitches switches_;
    std::vector<std::unique_ptr<HostNic>> nics_; // by node; null: a switch
    std::vector<double> limits_bps_;
    int64_t epoch_ = 0;
    uint64_t arrived_ = 0, dropped_ = 0, joining_ = 0;
};

} // namespace ncc::packetsim
