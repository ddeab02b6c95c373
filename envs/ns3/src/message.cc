// SPDX-License-Identifier: GPL-2.0-only
#include "message.h"

#include "network.h"

#include "message_ends.h"
#include "shaped.h"

namespace ncc
{

namespace
{

constexpr uint32_t kHeaderBytes = 40; // IP and TCP without options

// The network as message ends see it.
struct EndsHost {
    Network &network;

    int64_t now_ns() const { return network.now_ns(); }
    uint64_t Schedule(int64_t time_ns, EventKind kind, uint32_t index)
    {
        return network.Schedule(time_ns, kind, index);
    }
    Run &run() { return network; }
    static uint32_t slot_of(uint32_t flow) { return flow; }
    uint64_t line_bytes_per_s(uint32_t node) { return network.link(network.nic(node).port()).wire.BytesPerS(); }
    uint64_t shaped_bytes_per_s(uint32_t node) { return network.nic(node).shaped_bytes_per_s(); }
    bool HasRoom(uint32_t flow) const { return network.HasRoom(flow); }
    bool Holds(uint32_t flow, uint32_t number) const
    {
        return network.Holds(flow, static_cast<uint64_t>(number) * network.spec().mss_bytes());
    }
    uint32_t AtHost(uint32_t flow) const { return network.connections().queue(flow).list.size(); }
    void Received(uint32_t flow) { network.Received(flow, network.spec().flows[flow].size_bytes); }
    void Acknowledged(uint32_t flow) { network.Acknowledged(flow); }

    Frame *Made(const MessageFlow &flow, const ncc_tp_packet &content, bool to_receiver, uint32_t ip_bytes)
    {
        Frame *frame = network.Bare(flow.flow, ip_bytes);
        frame->to_receiver = to_receiver;
        frame->offset_bytes = static_cast<uint64_t>(content.number) * flow.mss_bytes;
        frame->prio = static_cast<uint8_t>(content.prio);
        frame->of_ends = true;
        frame->content = content;
        return frame;
    }
    void SendData(const MessageFlow &flow, const ncc_tp_packet &content)
    {
        const uint32_t payload_bytes = flow.PayloadBytes(content.number);
        Frame *frame = Made(flow, content, true, payload_bytes + kHeaderBytes);
        frame->payload_bytes = payload_bytes;
        frame->marks = (content.flags & NCC_TP_EXPENDABLE) != 0 ? kExpendable : 0;
        frame->ecn_capable = (content.flags & NCC_TP_ECT) != 0;
        frame->retransmission = (content.flags & NCC_TP_AGAIN) != 0;
        frame->fin = content.number + 1 == flow.pkts;
        network.Tag(*frame, flow.flow, frame->offset_bytes, payload_bytes);
        network.nic(network.spec().flows[flow.flow].src).Send(frame);
    }
    void SendWord(const MessageFlow &flow, const ncc_tp_packet &content, bool to_receiver, uint8_t marks)
    {
        Frame *frame = Made(flow, content, to_receiver, NCC_TP_SAY_BYTES);
        frame->marks = marks;
        const FlowSpec &spec = network.spec().flows[flow.flow];
        auto &nic = network.nic(to_receiver ? spec.src : spec.dst);
        frame->shaped() ? nic.SendShaped(frame) : nic.Send(frame);
    }
};

} // namespace

struct Messages::Ends : MessageEnds<EndsHost> {
    using MessageEnds::MessageEnds;
};

Messages::Messages(Network &network)
    : network_(network), ends_(std::make_unique<Ends>(EndsHost{network}, network.run().routes()))
{
}

Messages::~Messages() = default;

void Messages::Open(uint32_t flow) { ends_->Open(flow, flow); }

void Messages::Close(uint32_t flow) { ends_->Close(flow); }

void Messages::Arrived(Frame *frame)
{
    const uint32_t flow = frame->flow;
    const bool live = network_.Live(flow), to_receiver = frame->to_receiver;
    const bool marked_data = frame->marked && frame->has_payload();
    ncc_tp_packet content = frame->content;
    content.flags |= FlagsOnArrival(frame->trimmed, frame->marked);
    network_.Release(frame); // an answer can reuse it
    if (!live) {
        return;
    }
    if (marked_data) {
        network_.CameMarked(flow);
    }
    to_receiver ? ends_->ToReceiver(flow, content) : ends_->ToSender(flow, content);
}

void Messages::Send(uint32_t flow) { ends_->Send(flow); }

void Messages::Timer(uint32_t flow, uint64_t number) { ends_->Timer(flow, number); }

void Messages::Turn(uint32_t host) { ends_->Turn(host); }

template void Switches<Network, Port>::JoinShaped(uint32_t, Frame *);
template void Switches<Network, Port>::ServeShaped(uint32_t);
template void Switches<Network, Port>::TransmittedShaped(uint32_t, uint64_t);
template void Nic<Network, FramePool>::SendShaped(Frame *);
template bool Nic<Network, FramePool>::ServeShaped();

} // namespace ncc
