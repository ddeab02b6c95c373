// SPDX-License-Identifier: BSD-3-Clause
// A simulation: hosts, switches, flows, the events that move packets between them, and all measurements. It has no
// global state: a process can have any number of them, each used by one thread at a time.
#pragma once

#include "connection.h"
#include "link.h"
#include "port.h"
#include "scheduler.h"
#include "tcp_config.h"
#include "tcp_rings.h"
#include "timer.h"

#include "gates.h"
#include "idle_connections.h"
#include "knows.h"
#include "measure.h"
#include "nic.h"
#include "order.h"
#include "records.h"
#include "router.h"
#include "routes.h"
#include "spec.h"
#include "switches.h"
#include "tags.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ncc::packetsim
{

class Network
{
  public:
    // Throws std::invalid_argument for flows without a path or with too many packets, or more parts than can be
    // numbered.
    explicit Network(const Spec &spec);
    ~Network();
    Network(const Network &) = delete;
    Network &operator=(const Network &) = delete;

    // Runs one period with these limits, by agent. Throws std::runtime_error if a controller or flow has failed.
    void Step(const double *limits_bps);
    void Measure(const HostColumns &hosts, const UplinkColumns &uplinks);
    // Messages that receivers send when the limits of the next step take effect.
    void Tell(std::vector<Grant> grants) { gates_->Tell(std::move(grants), now_ns_); }
    std::vector<Gates::Edge> Edges() const; // none without receivers' control
    uint64_t messages() const { return messages_; }

    int64_t now_ns() const { return now_ns_; }
    int64_t epoch() const { return epoch_; }
    int64_t flows_started() const { return static_cast<int64_t>(next_flow_); }
    int64_t flows_finished() const { return finished_; }
    const Spec &spec() const { return spec_; }
    const std::vector<FlowRecord> &records() const { return records_; }
    PortTotals PortRecord(uint32_t port); // up to date

    // For tests and studies.
    void Plan(uint32_t port, const PlannedFault &fault) { switches_.SwitchPort(port).Plan(fault); }
    struct SentPacket {
        int64_t time_ns;
        uint32_t flow, number;
    };
    void RecordSent() { record_sent_ = true; }
    // Data packets that have left their hosts.
    const std::vector<SentPacket> &sent_packets() const { return sent_packets_; }
    struct Window {
        uint64_t cwnd_bytes, ssthresh_bytes, una_bytes;
    };
    Window SenderWindow(uint32_t flow) const; // zeros if the flow is not live
    size_t live_connections() const { return live_; }
    uint64_t events() const { return events_; }
    // Places of all packets ever sent: sent = arrived + dropped + in hosts + on links.
    struct Audit {
        uint64_t sent, arrived, dropped, in_hosts, on_links, events_in_the_past, scheduled;
    };
    Audit Count() const;
    const Switches<Network, Port> &switches() const { return switches_; }

    // Called by TCP and NICs
    const TcpConfig &tcp(uint32_t slot) const { return tcp_[connections_[slot].stack]; }
    // Constants of a connection, for its controller.
    ncc_cc_conn Conn(uint32_t slot) const;
    TcpRings &rings() { return rings_; }
    Connection &connection(uint32_t slot) { return connections_[slot]; }
    uint32_t slot_of(uint32_t flow) const { return slot_of_flow_[flow]; }
    uint64_t size_bytes(uint32_t slot) const { return spec_.flows[connections_[slot].flow].size_bytes; }
    uint64_t written_bytes(uint32_t slot) const
    {
        return WrittenBytes(spec_, spec_.flows[connections_[slot].flow], now_ns_);
    }
    uint32_t packets(uint32_t slot) const { return connections_[slot].packets; }
    uint32_t payload_bytes(uint32_t slot, uint32_t number) const
    {
        const Connection &c = connections_[slot];
        return number + 1 < c.packets ? mss_bytes_ : c.last_bytes;
    }
    void Send(const Packet &packet)
    {
        Connection &c = connections_[packet.connection];
        ++c.in_network;
        ++sent_;
        hosts_[packet.to_receiver() ? c.src_host : c.dst_host].nic->Send(pool_.Take(packet));
    }
    // Gives a data packet the class and the rank that its host's stack has for it.
    void Tag(Packet &packet, uint64_t offset_bytes, uint32_t payload_bytes) const
    {
        if (tags_) {
            const ncc_tag_out tag =
                tags_->Of(views_[connections_[packet.connection].flow], offset_bytes, payload_bytes);
            packet.prio = static_cast<uint8_t>(std::min<ncc_u32>(tag.prio, NCC_SW_CLASSES - 1));
            packet.rank = tag.rank;
        }
    }
    bool QueueHasRoom(uint32_t slot) const { return connections_[slot].queue.HasRoom(spec_); }
    bool HasRoom(uint32_t slot) const
    {
        return QueueHasRoom(slot) && (!gates_ || gates_->Passes(connections_[slot].flow, now_ns_));
    }
    // Most that a sender may have without an ACK, beside what TCP decides.
    uint32_t ClampBytes(uint32_t slot, uint32_t window_bytes) const
    {
        return gates_ ? gates_->WindowBytes(connections_[slot].flow, window_bytes) : window_bytes;
    }
    void SentData(uint32_t slot, uint32_t ip_bytes)
    {
        if (gates_) {
            gates_->Sent(connections_[slot].flow, ip_bytes);
        }
    }
    void Note(uint32_t slot);                    // a flow begins without a SYN
    [[gnu::noinline]] void Heard(uint32_t slot); // the first packet of a flow has come
    bool Holds(uint32_t slot, uint32_t number);
    void Arm(Timer &timer, TimerKind kind, uint32_t slot, int64_t delay_ns);
    uint32_t TakeSack();
    SackBlocks &sack(uint32_t index) { return sacks_[index]; }
    const Telemetry &telemetry(uint32_t index) const { return telemetry_[index]; }
    void KeepTelemetry(uint32_t &kept, uint32_t of); // copies that of a packet to a place that belongs to the receiver
    void Delivered(uint32_t slot, uint64_t bytes)
    {
        const Connection &c = connections_[slot];
        hosts_[c.src_host].goodput_bytes += static_cast<int64_t>(bytes);
        views_[c.flow].delivered_bytes += bytes;
    }
    // The window, what is acknowledged or what is written has changed.
    void Learn(uint32_t slot, uint64_t acked_bytes, uint64_t cwnd_bytes)
    {
        const uint32_t flow = connections_[slot].flow;
        knowledge_.Learn(spec_.flows[flow], views_[flow], now_ns_, acked_bytes, cwnd_bytes);
    }
    void Received(uint32_t slot);
    void Acknowledged(uint32_t slot);
    void RttSample(uint32_t slot, int64_t ns)
    {
        const Connection &c = connections_[slot];
        records_[c.flow].AddRtt(ns);
        hosts_[c.src_host].AddRtt(ns);
    }
    // RTOs since data of a connection last left its host, as its controller is told.
    uint32_t IdleRtos(uint32_t slot, int64_t rto_ns) const
    {
        return ncc::IdleRtos(spec_, now_ns_ - views_[connections_[slot].flow].last_left_ns, rto_ns);
    }
    void TimedOut(uint32_t slot) { ++records_[connections_[slot].flow].timeouts; }
    void Fail(const std::string &message)
    {
        fault_ = failed_ ? fault_ : message;
        failed_ = true;
    }

    uint64_t Schedule(int64_t time_ns, EventKind kind, uint32_t index)
    {
        const uint64_t word = EventWord(++order_, kind, index);
        past_ += time_ns < now_ns_;
        scheduler_.Push({time_ns, word});
        return word;
    }

    // Called by NICs
    PacketPool &packets() { return pool_; }
    bool Limited(uint32_t place)
    {
        const Packet &packet = pool_[place].packet;
        return connections_[packet.connection].limited[packet.way()];
    }
    FlowQueue<PacketPool> &queue(uint32_t slot) { return connections_[slot].queue; }
    uint32_t SlotOf(uint32_t place) { return pool_[place].packet.connection; }
    uint32_t FlowOf(uint32_t slot) const { return connections_[slot].flow; }
    // Puts a packet on a link at `start_ps`; returns the time at which the link is free again.
    int64_t Transmit(uint32_t port, uint32_t place, int64_t start_ps)
    {
        links_[port].Transmit(pool_[place], start_ps);
        OnLink(port, place);
        return links_[port].free_ps;
    }
    void LeftHost(uint32_t place); // its transmission has begun
    void QueueShrank(uint32_t slot);

    // Called by switches
    static constexpr uint32_t kNoLink = kMaxIndex;
    Link &link(uint32_t port) { return links_[port]; }
    ncc_sw_packet Describe(uint32_t place) const;
    void Drop(uint32_t place);
    void JoinLater(uint32_t port, uint32_t place, int64_t delay_ns);
    void SendSignal(uint32_t port, uint32_t slot, const ncc_cc_signal &signal); // to the sender of a connection
    void WriteHop(uint32_t place, const ncc_cc_hop &hop);
    void LowerWindow(uint32_t place, uint64_t window_bytes);
    void SendPause(uint32_t port, bool on);

    // Adds a packet to a link after its transmitter took it; its arrival becomes an event once all earlier packets
    // have arrived.
    void OnLink(uint32_t port, uint32_t place)
    {
        const Packet &packet = pool_[place].packet;
        OnLink(port, place,
               packet.kind == Kind::kSignal ? AfterSignal(links_[port])
                                            : paths_[packet.connection].ports[packet.way()][packet.hop]);
    }
    void OnLink(uint32_t port, uint32_t place, uint32_t next_port)
    {
        Link &link = links_[port];
        InFlight &entry = pool_[place];
        entry.word = EventWord(++order_, EventKind::kArrival, port);
        entry.next_port = next_port;
        if (link.packets.empty()) {
            scheduler_.Push({entry.arrival_ns, entry.word});
        }
        link.packets.PushBack(pool_, place);
    }

  private:
    struct Host : HostEpoch {
        std::unique_ptr<Nic<Network, PacketPool>> nic;
        std::vector<uint32_t> live; // connections of flows that have arrived and are not delivered
    };

    void BuildParts();
    void CheckFlows();
    void BuildGates();
    void StartRtts();
    void Handle(const Event &event);
    void Arrive(uint32_t port);
    uint32_t Asked(uint32_t node, uint32_t place); // port of a packet at this switch (programs.cc)
    // A signal asks each switch for its way, as it does not begin where its connection's packets do.
    uint32_t AfterSignal(const Link &link) const { return spec_.is_host[link.wire.to] ? kNone : kAsk; }
    uint32_t WayBack(uint32_t node, uint32_t slot); // port to a flow's sender
    uint32_t TakeTelemetry();
    void DropTelemetry(uint32_t index);
    void Paused(uint32_t port, uint32_t place); // takes a pause frame for this port
    void Deliver(uint32_t place);
    void Expire(TimerKind kind, uint32_t slot, const Event &event);
    void StartFlows(); // starts the flows due now, and schedules the next
    void StartFlow(uint32_t flow);
    void Write(uint32_t slot); // another piece of its flow, and schedules the next
    void ChoosePath(uint32_t slot, const FlowSpec &flow);
    void Done(uint32_t slot);
    void Over(uint32_t slot);
    void Release(uint32_t slot);
    void Gone(const Packet &packet); // called when a packet has arrived or was dropped
    void ApplyLimits();
    [[gnu::noinline]] void Hear(const Packet &message);
    uint64_t ReceivedBytes(uint32_t slot) const;
    void Message(uint32_t slot, Kind kind, uint32_t grant);
    Timer &TimerOf(TimerKind kind, uint32_t slot);

    Spec spec_;
    std::vector<TcpConfig> tcp_; // by FlowSpec::stack
    TcpRings rings_;
    Routes routes_;
    Router router_;
    uint32_t mss_bytes_;

    // Used by every event
    Scheduler scheduler_;
    int64_t now_ns_ = 0;
    uint64_t order_ = 0;
    std::vector<Link> links_; // by directed port
    std::vector<Connection> connections_;
    std::vector<Path> paths_; // by connection
    std::vector<FlowView> views_;
    Knowledge knowledge_;
    std::vector<FlowRecord> records_;
    std::vector<Host> hosts_;
    PacketPool pool_;
    Switches<Network, Port> switches_;

    std::unique_ptr<Tags> tags_; // null: none
    std::vector<SackBlocks> sacks_;
    std::vector<Telemetry> telemetry_;
    std::vector<uint32_t> free_sacks_, free_telemetry_, free_slots_;
    IdleConnections idle_; // slots of idle connections
    std::vector<uint32_t> host_index_, slot_of_flow_;
    std::vector<double> limits_;
    std::vector<PortTotals> uplinks_before_;
    size_t next_flow_ = 0, live_ = 0;
    int64_t finished_ = 0, epoch_ = 0;
    uint64_t events_ = 0, sent_ = 0, arrived_ = 0, dropped_ = 0, past_ = 0, joining_ = 0;
    bool failed_ = false, record_sent_ = false;
    std::vector<SentPacket> sent_packets_;
    std::unique_ptr<Gates> gates_; // null without receivers' control
    uint64_t messages_ = 0;
    std::string fault_;
};

// TCP's side (tcp.cc).
void TcpOpen(Network &network, uint32_t slot, uint32_t before); // `before`: IdleConnections::Take
void TcpReceive(Network &network, uint32_t slot, const Packet &packet);
void TcpExpired(Network &network, uint32_t slot, TimerKind kind);
void TcpRoom(Network &network, uint32_t slot);
void TcpWritten(Network &network, uint32_t slot);
void TcpHeadLeft(Network &network, uint32_t slot);
void TcpSignal(Network &network, uint32_t slot, const ncc_cc_signal &signal);
void TcpClose(Network &network, uint32_t slot);

} // namespace ncc::packetsim
