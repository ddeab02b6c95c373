// SPDX-License-Identifier: BSD-3-Clause
// Flows and their connections: they begin, send, receive and end.
#pragma once

#include "connections.h"
#include "event.h"
#include "message.h"
#include "timer.h"

#include "run.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace ncc::packetsim
{

class Network;

void TcpWritten(Network &network, uint32_t slot); // tcp.cc

class Flows : public Run
{
  public:
    // Throws std::invalid_argument for flows without a path or with too many packets.
    Flows(const Spec &spec, Network &network);

    Connections &connections() { return connections_; }
    const Connections &connections() const { return connections_; }
    Gates &gates() { return *gates_; }
    Messages &messages() { return *ends_; } // only if a flow has a message transport
    uint64_t sent() const { return sent_; } // packets

    // Events
    void StartFlows() { StartDue(*this); }
    void Write(uint32_t slot); // another piece of its flow, and schedules the next
    void Expire(TimerKind kind, const Event &event);
    void Close(uint32_t slot);
    void Deliver(const Packet &packet); // it has come to its host

    // Called by TCP
    ncc_cc_conn Conn(uint32_t slot); // constants of a connection, for its controller
    // Makes a packet of a connection (kNone: of none), without SACK blocks and otherwise zero, and returns its place in
    // the pool. The caller fills it in at that place.
    uint32_t Make(uint32_t slot, Kind kind, uint32_t ip_bytes);
    void Send(uint32_t place);                  // from its host
    bool HasRoom(uint32_t slot) const;          // for one more packet
    void SendNote(uint32_t slot);               // to the receiver of a flow that begins without a SYN
    bool Holds(uint32_t slot, uint32_t number); // a packet that has not left its host
    void Came(uint32_t slot);                   // more of a flow that feeds another, in order
    void Received(uint32_t slot);               // all of its flow
    void Acknowledged(uint32_t slot);           // all of its flow

    // Called by NICs
    void LeftHost(uint32_t place); // its transmission has begun
    void QueueShrank(uint32_t slot);

    // Called by switches
    // Next port of a packet that has come to this node, if its path does not fix the port; kNone: there is none.
    uint32_t ChoosePort(uint32_t place, uint32_t node);
    uint32_t WayBack(uint32_t node, uint32_t slot) const; // port to a flow's sender
    void Forget(const Packet &packet)                     // it has arrived or was dropped
    {
        if (packet.kind == Kind::kGrant) [[unlikely]] {
            gates_->Lost(packet.sack);
        }
        connections_.Forget(packet);
    }

    // For tests and studies: data packets that have left their hosts.
    struct SentPacket {
        int64_t time_ns;
        uint32_t flow, number;
    };
    void RecordSent() { record_sent_ = true; }
    const std::vector<SentPacket> &sent_packets() const { return sent_packets_; }

    // Called by `Run`, by flows
    int64_t now_ns() const;
    void StartFlow(uint32_t flow);
    uint64_t ReceivedBytes(uint32_t flow) const; // payload, with what lies beyond a gap; a packet is missing
    void Wake(uint32_t flow);
    bool Live(uint32_t flow) const { return connections_.slot_of(flow) != kNone; }
    void Written(uint32_t flow, uint64_t) { TcpWritten(network_, connections_.slot_of(flow)); }
    void SendMessage(uint32_t flow, bool to_receiver, uint32_t place);
    uint64_t Schedule(int64_t time_ns, EventKind kind, uint32_t index);

  private:
    void ChoosePath(uint32_t slot, const FlowSpec &flow);
    void End(uint32_t slot); // all of its flow is acknowledged, and its queue is empty

    Network &network_;
    Connections connections_;
    std::unique_ptr<Messages> ends_;
    bool record_sent_ = false;
    uint64_t sent_ = 0;
    std::vector<SentPacket> sent_packets_;
};

// TCP's side (tcp.cc).
void TcpOpen(Network &network, uint32_t slot, uint32_t before); // `before`: IdleConnections::Take
void TcpReceive(Network &network, uint32_t slot, const Packet &packet);
void TcpExpired(Network &network, uint32_t slot, TimerKind kind);
void TcpRoom(Network &network, uint32_t slot);
void TcpHeadLeft(Network &network, uint32_t slot);
void TcpSignal(Network &network, uint32_t slot, const ncc_cc_signal &signal);
void TcpClose(Network &network, uint32_t slot);

} // namespace ncc::packetsim
