// SPDX-License-Identifier: GPL-2.0-only
// What switches.h asks of the network: the ways of frames, and what programs of ports (switch.h) do to them.
#include "network.h"

#include <algorithm>

namespace ncc
{

using namespace ns3;

ncc_sw_packet Network::Describe(const Frame *frame) const
{
    const uint32_t flags = SwitchFlags(frame->to_receiver, frame->syn_ack, frame->fin, frame->ecn_capable,
                                       frame->marked, frame->has_window) |
                           (frame->expendable() ? static_cast<uint32_t>(NCC_SW_EXPENDABLE) : 0U) |
                           (frame->ecn_capable && frame->ect1 ? static_cast<uint32_t>(NCC_SW_ECT1) : 0U);
    const ncc_u64 window_bytes = static_cast<ncc_u64>(frame->window) << frame->window_shift;
    const FlowSpec &spec = spec_.flows[frame->flow];
    return {frame->flow,
            frame->ip_bytes,
            frame->payload_bytes,
            flags,
            frame->hops,
            frame->prio,
            frame->rank,
            window_bytes,
            0,
            router_.tags() ? frame->rank : 0,
            router_.leaf(frame->to_receiver ? spec.src : spec.dst),
            router_.leaf(frame->to_receiver ? spec.dst : spec.src)};
}

uint32_t Network::Way(Frame *frame, uint32_t node)
{
    const FlowSpec &spec = spec_.flows[frame->flow];
    const uint32_t dst = frame->to_receiver ? spec.dst : spec.src;
    if (frame->signal.kind != NCC_CC_SIGNAL_NONE) { // it does not begin where its connection's packets do
        return routes_.Port(node, dst, frame->route);
    }
    if (spec_.sprayed) {
        return routes_.InTurn(node, dst);
    }
    if (spec_.by_entropy && frame->of_ends) {
        return routes_.Port(node, dst, Routes::Label(frame->flow, frame->content.entropy));
    }
    if (router_.chooses()) {
        ncc_sw_packet seen = Describe(frame);
        const uint32_t port = router_.Port(routes_, node, dst, now_ns(), seen);
        frame->rank = router_.tags() ? seen.tag : frame->rank;
        return port;
    }
    return spec_.symmetric && !frame->to_receiver ? routes_.PortBack(node, spec.src, spec.dst, frame->route)
                                                  : routes_.Port(node, dst, frame->route);
}

void Network::JoinLater(uint32_t port, Frame *frame, int64_t delay_ns)
{
    Simulator::Schedule(TimeStep(delay_ns), &Switches<Network, Port>::Join, &switches_, port, frame, NCC_PASS);
}

// The frame joins a port of this switch after what happens now.
void Network::SendSignal(uint32_t port, const Frame *about, ncc_cc_signal signal)
{
    Frame *frame = Bare(about->flow, NCC_SW_SIGNAL_BYTES);
    frame->signal = signal;
    frame->link = kNoPort;
    JoinLater(Way(frame, spec_.node_of(port)), frame, 0);
}

void Network::WriteHop(Frame *frame, const ncc_cc_hop &hop)
{
    if (frame->reads_hops && frame->telemetry.size() < NCC_CC_HOPS_MAX) {
        frame->telemetry.push_back(hop);
    }
}

void Network::LowerWindow(Frame *frame, uint64_t window_bytes)
{
    const uint16_t window = LoweredWindow(frame->window, window_bytes, frame->window_shift, spec_.mss_bytes());
    frame->lowered |= window != frame->window;
    frame->window = window;
}

void Network::SendPause(uint32_t port, bool on)
{
    Link &link = links_[port];
    link.free_ps = std::max(link.free_ps, now_ns() * kPsPerNs) + link.wire.SerialisationPs(NCC_SW_PAUSE_BYTES);
    Simulator::Schedule(TimeStep(link.wire.ArrivalNs(link.free_ps) - now_ns()), &Network::Paused, this, port ^ 1, on);
}

} // namespace ncc
