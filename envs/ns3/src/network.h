// SPDX-License-Identifier: GPL-2.0-only
// A simulation: hosts with ns-3's TCP, switches, flows, and their measurements.
#pragma once

#include "live.h"
#include "message.h"
#include "nic.h"
#include "port.h"
#include "run.h"
#include "socket.h"
#include "spec.h"
#include "stepped.h"
#include "switches.h"
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

class Network : public Run, public Stepped<Network>
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
    using Stepped::Retag;
    using Stepped::Tell;

    int64_t now_ns() const { return ns3::Simulator::Now().GetTimeStep(); }
    Run &run() { return *this; }
    const Run &run() const { return *this; }
    const std::string &fault() const { return fault_; } // empty: none
    void RunUntil(int64_t end_ns);
    using HostNic = Nic<Network, FramePool>;
    HostNic &nic(uint32_t node) { return *host_of(node).nic; }
    Switches<Network, Port> &switches() { return switches_; }

    // Window of a live sender; zeros if the flow is not live.
    struct Window {
        uint64_t cwnd_bytes, ssthresh_bytes, una_bytes;
    };
    Window SenderWindow(uint32_t flow) const;

    void StartFlow(uint32_t flow); // called by `Run`

    // Called by sockets
    void Outgoing(const Label &label)
    {
        label_ = label;
        labelled_ = true;
    }
    // Removes an unused label, in case ns-3 has sent nothing, so that the next packet does not get it.
    void NothingOutgoing() { labelled_ = false; }
    bool QueueHasRoom(uint32_t flow) const { return connections_[flow]->queue.HasRoom(spec_); }
    bool HasRoom(uint32_t flow) const { return QueueHasRoom(flow) && Passes(flow, now_ns()); }
    Frame *Bare(uint32_t flow, uint32_t ip_bytes); // without a packet
    bool Holds(uint32_t flow, uint64_t offset_bytes) const;
    void Learn(uint32_t flow); // the window, what is acknowledged or what is written has changed
    void Received(uint32_t flow, uint64_t total);
    void Acknowledged(uint32_t flow);
    bool Live(uint32_t flow) const { return connections_[flow] && !connections_[flow]->over; }
    void Fail(const std::string &message);

    // Rate of the link of a flow's sender, bytes/s.
    uint64_t line_bytes_per_s(uint32_t flow) { return links_[nic(spec_.flows[flow].src).port()].wire.BytesPerS(); }

    // Called by the gates of receivers
    uint64_t ReceivedBytes(uint32_t flow) const { return connections_[flow]->receiver->received_bytes(); }
    void Wake(uint32_t flow) { connections_[flow]->sender->Wake(); }
    void Written(uint32_t flow, uint64_t bytes); // its application has written more
    void SendMessage(uint32_t flow, bool to_receiver, uint32_t place);

    void Arrive(Frame *frame);
    void Release(Frame *frame) { pool_.Release(frame); }

    // Called by NICs, which call connections by their flows
    FramePool &packets() { return pool_; }
    uint64_t Schedule(int64_t time_ns, EventKind kind, uint32_t index); // returns a number of its own, not 0
    const Network &connections() const { return *this; }
    Network &connections() { return *this; }
    bool Limited(const Frame &frame) const { return spec_.flows[frame.flow].limited[frame.to_receiver ? 0 : 1]; }
    FlowQueue<FramePool> &queue(uint32_t flow) { return connections_[flow]->queue; }
    uint32_t flow_of(uint32_t slot) const { return slot; }
    uint32_t slot_of(uint32_t flow) const { return flow; }
    // Puts a frame on a link at `start_ps`; returns the time at which the link is free again.
    int64_t Transmit(uint32_t port, Frame *frame, int64_t start_ps);
    void LeftHost(Frame *frame); // its transmission has begun
    void QueueShrank(uint32_t flow);

    // Called by switches
    Link &link(uint32_t port) { return links_[port]; }
    ncc_sw_packet Describe(const Frame *frame) const;
    void Drop(Frame *frame);
    void JoinLater(uint32_t port, Frame *frame, int64_t delay_ns);
    void SendSignal(uint32_t port, const Frame *about, ncc_cc_signal signal); // to the sender of a frame
    void WriteHop(Frame *frame, const ncc_cc_hop &hop);
    void LowerWindow(Frame *frame, uint64_t window_bytes);
    void SendPause(uint32_t port, bool on);

  private:
    struct Connection {
        ns3::Ptr<HostSocket> sender, receiver; // null with a message transport
        FlowQueue<FramePool> queue;
        uint32_t route = 0; // its first flow
        bool acknowledged = false;
        bool over = false; // idle until another flow takes it; late duplicates are ignored
    };
    struct Host {
        uint32_t node = 0;
        ns3::Ptr<ns3::Node> ns3_node;
        ns3::Ptr<ns3::TcpL4Protocol> tcp;
        ns3::Ipv4Address address;
        std::unique_ptr<HostNic> nic;
        uint32_t connections = 0; // connections from this host that are not freed
    };

    void BuildHosts();
    void BuildLinks();
    void SetSwitchFields(Frame &frame) const; // sets the header fields that tags and programs read
    void Handle(EventKind kind, uint32_t index, uint64_t number);
    static void WriteWindow(Frame &frame);
    void ScheduleWrite(uint32_t flow, uint64_t written_bytes); // schedules the next piece, if there is one
    void Write(uint32_t flow, uint64_t written_bytes);
    void Connect(uint32_t flow, bool at_once); // opens a connection
    void EndFlow(uint32_t flow);               // all of it is acknowledged, and its queue is empty
    void Close(uint32_t flow);
    void SendNote(uint32_t flow);              // to the receiver of a flow that begins without a SYN
    uint32_t Way(Frame *frame, uint32_t node); // port of this switch that it takes
    void Send(uint32_t host, ns3::Ptr<ns3::Packet> packet);
    Host &host_of(uint32_t node) { return hosts_[host_index_[node]]; }

    LiveSimulation live_simulation_;                     // declared first, so that it is destroyed last
    std::vector<std::unique_ptr<Transport>> transports_; // by FlowSpec::stack
    FramePool pool_;
    std::vector<Host> hosts_;
    std::vector<uint32_t> host_index_; // by node
    std::vector<Link> links_;          // by directed port
    Switches<Network, Port> switches_;
    std::unique_ptr<Messages> ends_;                       // null if no flow has a message transport
    std::vector<std::unique_ptr<Connection>> connections_; // index: flow, or the last flow of an idle one
    Label label_;
    bool labelled_ = false;
    uint64_t order_ = 0;       // events so far
    bool see_windows_ = false; // programs see receive windows
    std::string fault_;
};

} // namespace ncc
