// SPDX-License-Identifier: GPL-2.0-only
// A simulation: hosts with ns-3's TCP, switches, flows, and their measurements.
#pragma once

#include "gates.h"
#include "idle_connections.h"
#include "knows.h"
#include "live.h"
#include "measure.h"
#include "nic.h"
#include "order.h"
#include "port.h"
#include "records.h"
#include "router.h"
#include "routes.h"
#include "socket.h"
#include "spec.h"
#include "switches.h"
#include "tags.h"
#include "transport.h"

#include "ns3/ipv4-address.h"
#include "ns3/node.h"
#include "ns3/simulator.h"
#include "ns3/tcp-l4-protocol.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace ncc
{

// Description of the packet that a socket is about to hand down.
struct Label {
    uint32_t flow = 0;
    bool to_receiver = true;
    bool data = false;         // carries payload, after a TCP header without options
    uint64_t offset_bytes = 0; // in the connection
    bool retransmission = false;
    bool ecn_capable = false;
    bool window_reduced = false;
    bool tagged = false;  // ns-3 put the ECN field into a packet tag
    bool trimmed = false; // as in Frame
};

class Network
{
  public:
    // Throws std::runtime_error while another simulation lives in this process (ns-3 has one clock and one event list),
    // std::invalid_argument for flows without a path.
    explicit Network(const Spec &spec);
    ~Network();
    Network(const Network &) = delete;
    Network &operator=(const Network &) = delete;

    // Runs one period with these limits, by agent. Throws std::runtime_error if a controller or flow has failed.
    void Step(const double *limits_bps);
    void Measure(const HostColumns &hosts, const UplinkColumns &uplinks);
    // Messages that receivers send when the limits of the next step take effect.
    void Tell(std::vector<Grant> grants) { gates_->Tell(std::move(grants), now_ns()); }
    std::vector<Gates::Edge> Edges() const; // none without receivers' control
    uint64_t messages() const { return messages_; }

    int64_t now_ns() const { return ns3::Simulator::Now().GetTimeStep(); }
    int64_t epoch() const { return epoch_; }
    int64_t flows_started() const { return static_cast<int64_t>(next_flow_); }
    int64_t flows_finished() const { return finished_; }
    const Spec &spec() const { return spec_; }
    const std::vector<FlowRecord> &records() const { return records_; }
    PortTotals PortRecord(uint32_t port); // up to date

    // For tests and studies.
    void Plan(uint32_t port, const PlannedFault &fault) { switches_.SwitchPort(port).Plan(fault); }
    // Window of a live sender; zeros if the flow is not live.
    struct Window {
        uint64_t cwnd_bytes, ssthresh_bytes, una_bytes;
    };
    Window SenderWindow(uint32_t flow) const;
    size_t live_connections() const { return live_; }

    // Called by sockets
    void Outgoing(const Label &label)
    {
        label_ = label;
        labelled_ = true;
    }
    // Removes an unused label, in case ns-3 has sent nothing, so that the next packet does not get it.
    void NothingOutgoing() { labelled_ = false; }
    bool QueueHasRoom(uint32_t flow) const { return connections_[flow]->queue.HasRoom(spec_); }
    bool HasRoom(uint32_t flow) const { return QueueHasRoom(flow) && (!gates_ || gates_->Passes(flow, now_ns())); }
    // Most that a sender may have without an ACK, beside what TCP decides.
    uint32_t ClampBytes(uint32_t flow, uint32_t window_bytes) const
    {
        return gates_ ? gates_->WindowBytes(flow, window_bytes) : window_bytes;
    }
    bool Holds(uint32_t flow, uint64_t offset_bytes) const;
    void Delivered(uint32_t flow, uint64_t bytes, uint64_t total);
    void Learn(uint32_t flow); // the window, what is acknowledged or what is written has changed
    void Received(uint32_t flow, uint64_t total);
    void Acknowledged(uint32_t flow);
    void RttSample(uint32_t flow, int64_t ns);
    void TimedOut(uint32_t flow) { ++records_[flow].timeouts; }
    void Fail(const std::string &message);

    // Rate of the link of a flow's sender, bytes/s.
    uint64_t line_bytes_per_s(uint32_t flow)
    {
        return links_[host_of(spec_.flows[flow].src).nic->port()].wire.BytesPerS();
    }
    void Arrive(Frame *frame);
    void Release(Frame *frame) { pool_.Release(frame); }

    // Called by NICs, which call connections by their flows
    FramePool &packets() { return pool_; }
    uint64_t Schedule(int64_t time_ns, EventKind kind, uint32_t index); // returns a number of its own, not 0
    bool Limited(const Frame *frame) const { return spec_.flows[frame->flow].limited[frame->to_receiver ? 0 : 1]; }
    FlowQueue<FramePool> &queue(uint32_t flow) { return connections_[flow]->queue; }
    uint32_t SlotOf(const Frame *frame) const { return frame->flow; }
    uint32_t FlowOf(uint32_t slot) const { return slot; }
    uint32_t slot_of(uint32_t flow) const { return flow; }
    // Puts a frame on a link at `start_ps`; returns the time at which the link is free again.
    int64_t Transmit(uint32_t port, Frame *frame, int64_t start_ps);
    void LeftHost(const Frame *frame); // its transmission has begun
    void QueueShrank(uint32_t flow);

    // Called by switches
    static constexpr uint32_t kNoLink = kNoPort;
    Link &link(uint32_t port) { return links_[port]; }
    ncc_sw_packet Describe(const Frame *frame) const;
    void Drop(Frame *frame);
    void JoinLater(uint32_t port, Frame *frame, int64_t delay_ns);
    void SendSignal(uint32_t port, uint32_t flow, ncc_cc_signal signal); // to the flow's sender
    void WriteHop(Frame *frame, const ncc_cc_hop &hop);
    void LowerWindow(Frame *frame, uint64_t window_bytes);
    void SendPause(uint32_t port, bool on);

  private:
    struct Connection {
        ns3::Ptr<HostSocket> sender, receiver;
        FlowQueue<FramePool> queue;
        uint32_t live_index = 0; // index in its host's list of live flows
        uint32_t route = 0;      // its first flow
        bool acknowledged = false;
        bool over = false; // idle until another flow takes it; late duplicates are ignored
    };
    struct Host : HostEpoch {
        uint32_t node = 0;
        ns3::Ptr<ns3::Node> ns3_node;
        ns3::Ptr<ns3::TcpL4Protocol> tcp;
        ns3::Ipv4Address address;
        std::unique_ptr<Nic<Network, FramePool>> nic;
        std::vector<uint32_t> live; // flows that have arrived and are not delivered
        uint32_t connections = 0;   // connections from this host that are not freed
    };

    void BuildHosts();
    void BuildLinks();
    void BuildGates();
    void SetSwitchFields(Frame &frame) const; // what tags and programs need of it
    void Handle(EventKind kind, uint32_t index, uint64_t number);
    static void WriteWindow(Frame &frame);
    void StartFlows(); // starts the flows due now, and schedules the next
    void StartFlow(uint32_t flow);
    void ScheduleWrite(uint32_t flow, uint64_t written_bytes); // schedules the next piece, if there is one
    void Write(uint32_t flow, uint64_t written_bytes);
    void Connect(uint32_t flow, bool at_once); // opens a connection
    void Done(uint32_t flow);
    void Reap(uint32_t flow);
    void ApplyLimits();
    void Message(uint32_t flow, bool to_receiver, uint32_t grant);
    uint32_t Way(const Frame *frame, uint32_t node); // port of this switch that it takes
    Frame *Bare(uint32_t flow, uint32_t ip_bytes);   // without a packet
    void Send(uint32_t host, ns3::Ptr<ns3::Packet> packet);
    void Paused(uint32_t port, bool on); // takes a pause frame for this port
    Host &host_of(uint32_t node) { return hosts_[host_index_[node]]; }

    LiveSimulation live_simulation_; // declared first, so that it is destroyed last
    Spec spec_;
    std::vector<std::unique_ptr<Transport>> transports_; // by FlowSpec::stack
    Routes routes_;
    Router router_;
    FramePool pool_;
    std::vector<Host> hosts_;
    std::vector<uint32_t> host_index_; // by node
    std::vector<Link> links_;          // by directed port
    Switches<Network, Port> switches_;
    std::vector<FlowView> views_;
    Knowledge knowledge_;
    std::vector<FlowRecord> records_;
    std::vector<std::unique_ptr<Connection>> connections_; // index: flow, or the last flow of an idle one
    IdleConnections idle_;
    std::vector<double> limits_;
    std::vector<PortTotals> uplinks_before_;
    Label label_;
    bool labelled_ = false;
    size_t next_flow_ = 0, live_ = 0;
    int64_t finished_ = 0, epoch_ = 0;
    uint64_t order_ = 0;           // events so far
    std::unique_ptr<Tags> tags_;   // null: none
    bool see_windows_ = false;     // programs see receive windows
    std::unique_ptr<Gates> gates_; // null without receivers' control
    uint64_t messages_ = 0;
    std::string fault_;
};

} // namespace ncc
