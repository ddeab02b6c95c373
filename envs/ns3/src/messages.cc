// SPDX-License-Identifier: GPL-2.0-only
// Messages beside TCP: between receivers and their senders (gates.h), and a switch's signals.
#include "network.h"

namespace ncc
{

using namespace ns3;

void Network::SendMessage(uint32_t flow, bool to_receiver, uint32_t place)
{
    Frame *frame = Bare(flow, Gates::kMessageBytes);
    frame->route = connections_[flow]->route;
    frame->to_receiver = to_receiver;
    frame->message = true;
    frame->grant = place;
    ++messages_;
    const FlowSpec &spec = spec_.flows[flow];
    nic(to_receiver ? spec.src : spec.dst).Send(frame);
}

void Network::SendNote(uint32_t flow)
{
    const bool answers = Answers(flow);
    if (answers) { // its receiver has asked for it, and the query says when it may begin
        HeardOf(flow, now_ns());
    }
    if (gates_ && !gates_->instant() && gates_->Opens(flow, now_ns(), answers)) {
        SendMessage(flow, true, 0);
    }
}

Frame *Network::Bare(uint32_t flow, uint32_t ip_bytes)
{
    Frame *frame = pool_.Take();
    frame->network = this;
    frame->flow = frame->route = flow;
    frame->to_receiver = frame->message = frame->reads_hops = frame->ect1 = false;
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

} // namespace ncc
