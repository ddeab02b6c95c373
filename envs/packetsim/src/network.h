// SPDX-License-Identifier: BSD-3-Clause
// A simulation: hosts, switches, flows, the events that move packets between them, and all measurements. It has no
// global state: a process can have any number of them, each used by one thread at a time.
#pragma once

#include "engine.h"
#include "flows.h"
#include "port.h"

#include "nic.h"
#include "stepped.h"
#include "switches.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ncc::packetsim
{

class Network : public Stepped<Network>
{
  public:
    // Throws std::invalid_argument for flows without a path or with too many packets, or more parts than can be
    // numbered.
    explicit Network(const Spec &spec);
    Network(const Network &) = delete;
    Network &operator=(const Network &) = delete;

    int64_t now_ns() const { return engine_.now_ns(); }
    Run &run() { return flows_; }
    const Run &run() const { return flows_; }
    void Fail(const std::string &message) { engine_.Fail(message); }
    const std::string &fault() const { return engine_.fault(); }
    void RunUntil(int64_t end_ns);
    void Handle(const Event &event); // for who runs the engine itself

    // For tests and studies.
    struct Window {
        uint64_t cwnd_bytes, ssthresh_bytes, una_bytes;
    };
    Window SenderWindow(uint32_t flow) const; // zeros if the flow is not live
    // Places of all packets ever sent: sent = arrived + dropped + in hosts + on links.
    struct Audit {
        uint64_t sent, arrived, dropped, in_hosts, on_links, events_in_the_past, scheduled;
    };
    Audit Count() const;

    using HostNic = Nic<Network, PacketPool>;
    using PortSwitches = Switches<Network, Port>;
    Engine &engine() { return engine_; }
    const Engine &engine() const { return engine_; }
    Flows &flows() { return flows_; }
    Connections &connections() { return flows_.connections(); }
    PortSwitches &switches() { return switches_; }
    const PortSwitches &switches() const { return switches_; }
    HostNic &nic(uint32_t node) { return *nics_[node]; }

    // Called by switches and NICs
    PacketPool &packets() { return engine_.packets(); }
    Link &link(uint32_t port) { return engine_.link(port); }
    uint64_t Schedule(int64_t time_ns, EventKind kind, uint32_t index)
    {
        return engine_.Schedule(time_ns, kind, index);
    }
    [[gnu::always_inline]] int64_t Transmit(uint32_t port, uint32_t place, int64_t start_ps)
    {
        InFlight &entry = packets()[place];
        entry.next_port = connections().NextPort(entry.packet); // now, as at its arrival everything would wait for it
        ++entry.packet.hop;
        return engine_.Transmit(port, place, start_ps);
    }
    void LeftHost(uint32_t place) { flows_.LeftHost(place); }
    void QueueShrank(uint32_t slot) { flows_.QueueShrank(slot); }
    ncc_sw_packet Describe(uint32_t place);
    void Drop(uint32_t place);
    void JoinLater(uint32_t port, uint32_t place, int64_t delay_ns);
    void SendSignal(uint32_t port, uint32_t about, const ncc_cc_signal &signal); // to the sender of a packet
    void WriteHop(uint32_t place, const ncc_cc_hop &hop);
    void LowerWindow(uint32_t place, uint64_t window_bytes);
    void SendPause(uint32_t port, bool on);

  private:
    void Arrive(uint32_t port);
    bool Ect1(const Packet &packet); // it carries ECT(1)

    Engine engine_;
    Flows flows_;
    const Spec &spec_;
    PortSwitches switches_;
    std::vector<std::unique_ptr<HostNic>> nics_; // by node; null: a switch
    uint64_t arrived_ = 0, dropped_ = 0, joining_ = 0;
};

} // namespace ncc::packetsim
