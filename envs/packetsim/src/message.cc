// SPDX-License-Identifier: BSD-3-Clause
#include "message.h"

#include "network.h"

#include "message_ends.h"
#include "shaped.h"

namespace ncc::packetsim
{

namespace
{

// The network as message ends see it.
struct Host {
    Network &network;
    Flows &flows;

    int64_t now_ns() const { return network.now_ns(); }
    uint64_t Schedule(int64_t time_ns, EventKind kind, uint32_t index)
    {
        return network.Schedule(time_ns, kind, index);
    }
    Run &run() { return flows; }
    uint32_t slot_of(uint32_t flow) const { return flows.connections().slot_of(flow); }
    uint64_t line_bytes_per_s(uint32_t node) { return network.link(network.nic(node).port()).wire.BytesPerS(); }
    uint64_t shaped_bytes_per_s(uint32_t node) { return network.nic(node).shaped_bytes_per_s(); }
    bool HasRoom(uint32_t slot) const { return flows.HasRoom(slot); }
    bool Holds(uint32_t slot, uint32_t number) const { return flows.Holds(slot, number); }
    uint32_t AtHost(uint32_t slot) const { return flows.connections().queue(slot).list.size(); }
    void Received(uint32_t slot) { flows.Received(slot); }
    void Acknowledged(uint32_t slot) { flows.Acknowledged(slot); }

    uint32_t Make(const MessageFlow &flow, const ncc_tp_packet &content, Kind kind, uint32_t ip_bytes)
    {
        const uint32_t place = flows.Make(flow.slot, kind, ip_bytes);
        Packet &packet = network.packets().header(place);
        packet.number = content.number;
        packet.sack = flows.connections().extras().Take();
        packet.prio = static_cast<uint8_t>(content.prio);
        packet.message = true;
        flows.connections().extras()[packet.sack].content = content;
        return place;
    }
    void SendData(const MessageFlow &flow, const ncc_tp_packet &content)
    {
        const uint32_t payload_bytes = flow.PayloadBytes(content.number);
        const uint32_t place = Make(flow, content, Kind::kData, payload_bytes + kHeaderBytes);
        Packet &packet = network.packets().header(place);
        packet.window = (content.flags & NCC_TP_EXPENDABLE) != 0 ? kExpendable : 0;
        packet.ecn_capable = (content.flags & NCC_TP_ECT) != 0;
        packet.retransmission = (content.flags & NCC_TP_AGAIN) != 0;
        packet.fin = content.number + 1 == flow.pkts;
        flows.Tag(packet, flow.flow, static_cast<uint64_t>(content.number) * flow.mss_bytes, payload_bytes);
        flows.Send(place);
    }
    void SendWord(const MessageFlow &flow, const ncc_tp_packet &content, bool to_receiver, uint8_t marks)
    {
        const Kind kind = to_receiver ? Kind::kWordToReceiver : Kind::kWordToSender;
        const uint32_t place = Make(flow, content, kind, NCC_TP_SAY_BYTES);
        network.packets().header(place).window = marks;
        if ((marks & kInShaped) == 0) {
            flows.Send(place);
            return;
        }
        const Connection &connection = flows.connections()[flow.slot];
        network.nic(to_receiver ? connection.src : connection.dst).SendShaped(place);
    }
};

} // namespace

struct Messages::Ends : MessageEnds<Host> {
    using MessageEnds::MessageEnds;
};

Messages::Messages(Network &network, Flows &flows)
    : flows_(flows), ends_(std::make_unique<Ends>(Host{network, flows}, flows.routes()))
{
}

Messages::~Messages() = default;

void Messages::Open(uint32_t slot) { ends_->Open(flows_.connections().flow_of(slot), slot); }

void Messages::Close(uint32_t slot) { ends_->Close(slot); }

void Messages::Deliver(const Packet &packet)
{
    if (flows_.connections()[packet.connection].over) {
        return;
    }
    ncc_tp_packet content = flows_.connections().extras()[packet.sack].content;
    content.flags |= FlagsOnArrival(packet.trimmed, packet.marked);
    if (packet.marked && packet.has_payload()) {
        flows_.CameMarked(flows_.connections().flow_of(packet.connection));
    }
    packet.to_receiver() ? ends_->ToReceiver(packet.connection, content) : ends_->ToSender(packet.connection, content);
}

void Messages::Send(uint32_t slot) { ends_->Send(slot); }

void Messages::Timer(uint32_t slot, uint64_t word) { ends_->Timer(slot, word); }

void Messages::Turn(uint32_t host) { ends_->Turn(host); }

} // namespace ncc::packetsim

namespace ncc
{

template void Switches<packetsim::Network, packetsim::Port>::JoinShaped(uint32_t, uint32_t);
template void Switches<packetsim::Network, packetsim::Port>::ServeShaped(uint32_t);
template void Switches<packetsim::Network, packetsim::Port>::TransmittedShaped(uint32_t, uint64_t);
template void Nic<packetsim::Network, packetsim::PacketPool>::SendShaped(uint32_t);
template bool Nic<packetsim::Network, packetsim::PacketPool>::ServeShaped();

} // namespace ncc
