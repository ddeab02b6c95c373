// SPDX-License-Identifier: GPL-2.0-only
// Messages beside TCP: between receivers and their senders (gates.h), and a switch's signals.
#include "network.h"

namespace ncc
{

using namespace ns3;

void Network::BuildGates()
{
    if (!spec_.receivers) {
        return;
    }
    gates_ = std::make_unique<Gates>(
        spec_,
        [this](uint32_t flow) {
            return std::make_pair(views_[flow].known_bytes, connections_[flow]->receiver->received_bytes());
        },
        [this](uint32_t gate, int64_t time_ns) { Schedule(time_ns, EventKind::kGate, gate); },
        [this](uint32_t flow) { connections_[flow]->sender->Wake(); },
        [this](uint32_t place, int64_t time_ns) { Schedule(time_ns, EventKind::kLeave, place); },
        [this](uint32_t flow, uint32_t place) { Message(flow, false, place); });
}

// Sends a note of a flow that begins without a SYN to its receiver, or a grant to its sender.
void Network::Message(uint32_t flow, bool to_receiver, uint32_t grant)
{
    if (!gates_ || gates_->instant()) {
        return;
    }
    Frame *frame = Bare(flow, Gates::kMessageBytes);
    frame->route = connections_[flow]->route;
    frame->to_receiver = to_receiver;
    frame->message = true;
    frame->grant = grant;
    ++messages_;
    if (to_receiver) {
        gates_->Noted(flow, now_ns());
    }
    const FlowSpec &spec = spec_.flows[flow];
    host_of(to_receiver ? spec.src : spec.dst).nic->Send(frame);
}

Frame *Network::Bare(uint32_t flow, uint32_t ip_bytes)
{
    Frame *frame = pool_.Take();
    frame->network = this;
    frame->flow = frame->route = flow;
    frame->to_receiver = frame->message = false;
    frame->offset_bytes = 0;
    frame->ip_bytes = ip_bytes;
    frame->payload_bytes = 0;
    frame->retransmission = frame->ecn_capable = frame->marked = frame->window_reduced = false;
    frame->fin = frame->syn_ack = frame->has_window = frame->lowered = false;
    frame->prio = 0;
    frame->rank = 0;
    return frame;
}

void Network::Drop(Frame *frame)
{
    if (frame->message && !frame->to_receiver) {
        gates_->Lost(frame->grant);
    }
    Release(frame);
}

std::vector<Gates::Edge> Network::Edges() const
{
    return gates_ ? gates_->Edges(now_ns()) : std::vector<Gates::Edge>{};
}

} // namespace ncc
