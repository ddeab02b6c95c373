// SPDX-License-Identifier: GPL-2.0-only
// Packets of ns-3's TCP on their way out of a host, as frames, and back into it.
#include "network.h"

#include "ns3/socket.h"
#include "ns3/tcp-header.h"

namespace ncc
{

using namespace ns3;

namespace
{

constexpr uint32_t kIpHeaderBytes = 20;
constexpr uint32_t kTcpHeaderBytes = 20;

} // namespace

void Network::Send(uint32_t host, Ptr<Packet> packet)
{
    if (!labelled_) { // a reset that ns-3 sends without its socket; it is ignored
        return;
    }
    labelled_ = false;
    Frame *frame = pool_.Take();
    frame->network = this;
    frame->flow = label_.flow;
    frame->route = connections_[label_.flow]->route;
    frame->to_receiver = label_.to_receiver;
    frame->offset_bytes = label_.offset_bytes;
    frame->retransmission = label_.retransmission;
    frame->ip_bytes = packet->GetSize() + kIpHeaderBytes;
    frame->payload_bytes = label_.data ? packet->GetSize() - kTcpHeaderBytes : 0;
    frame->ecn_capable = label_.ecn_capable && frame->payload_bytes > 0;
    frame->window_reduced = label_.window_reduced;
    frame->marked = frame->message = false;
    frame->trimmed = label_.trimmed;
    if (label_.tagged) {
        SocketIpTosTag tag;
        frame->ecn_capable = packet->RemovePacketTag(tag) && (tag.GetTos() & 3) != 0;
    }
    frame->packet = packet;
    const Connection &connection = *connections_[frame->flow];
    frame->reads_hops = frame->payload_bytes > 0 && connection.sender->needs(NCC_CC_HOPS);
    frame->ect1 = connection.sender->needs(NCC_CC_ECT1);
    if (!frame->to_receiver) {
        connection.receiver->GiveBack(frame->telemetry);
    }
    SetSwitchFields(*frame);
    if (frame->has_payload()) {
        SentData(frame->flow, frame->ip_bytes);
    }
    hosts_[host].nic->Send(frame);
}

void Network::LeftHost(Frame *frame)
{
    if (frame->payload_bytes == 0 || !frame->to_receiver) {
        return;
    }
    if (frame->of_ends) {
        frame->content.sent_ns = static_cast<ncc_u64>(now_ns());
        Left(frame->flow, frame->offset_bytes + frame->payload_bytes, frame->retransmission, now_ns());
        return;
    }
    HostSocket &sender = *connections_[frame->flow]->sender;
    const uint64_t end_bytes = frame->offset_bytes - sender.earlier_bytes() + frame->payload_bytes;
    Left(frame->flow, end_bytes, frame->retransmission, now_ns());
    if (frame->joined_ns < now_ns() && frame->offset_bytes == sender.una_bytes()) {
        sender.HeadLeft();
    }
}

void Network::QueueShrank(uint32_t flow)
{
    Connection &connection = *connections_[flow];
    if (!connection.acknowledged) {
        connection.sender ? connection.sender->Wake() : ends_->Send(flow);
    } else if (connection.queue.list.empty()) {
        EndFlow(flow);
    }
}

void Network::SetSwitchFields(Frame &frame) const
{
    frame.fin = frame.syn_ack = frame.has_window = frame.lowered = false;
    frame.prio = 0;
    frame.rank = 0;
    if (frame.payload_bytes > 0) {
        const uint64_t offset_bytes = frame.offset_bytes - connections_[frame.flow]->sender->earlier_bytes();
        frame.fin = offset_bytes + frame.payload_bytes == spec_.flows[frame.flow].size_bytes;
        Tag(frame, frame.flow, offset_bytes, frame.payload_bytes);
    } else if (see_windows_ && !frame.to_receiver) {
        TcpHeader header;
        frame.packet->PeekHeader(header);
        frame.has_window = true;
        frame.syn_ack = (header.GetFlags() & TcpHeader::SYN) != 0;
        frame.window = header.GetWindowSize();
        frame.window_shift = frame.syn_ack ? 0 : WindowShift(spec_.receive_buffer_bytes);
    }
}

void Network::WriteWindow(Frame &frame)
{
    TcpHeader header;
    frame.packet->RemoveHeader(header);
    header.SetWindowSize(frame.window);
    frame.packet->AddHeader(header);
}

} // namespace ncc
