// SPDX-License-Identifier: GPL-2.0-only
// The way of a packet from a switch on.
#include "network.h"

#include "ns3/simulator.h"

namespace ncc
{

using namespace ns3;

uint32_t Network::Way(const Frame &frame, uint32_t node)
{
    const FlowSpec &spec = spec_.flows[frame.flow];
    const uint32_t dst = frame.to_receiver ? spec.dst : spec.src;
    if (frame.signal.kind != NCC_CC_SIGNAL_NONE) { // it does not begin where its connection's packets do
        return routes_.Port(node, dst, frame.route);
    }
    if (spec_.sprayed) {
        return routes_.InTurn(node, dst);
    }
    if (router_.chooses()) {
        return router_.Port(routes_, node, dst, Simulator::Now().GetTimeStep(), SeenFrame(frame));
    }
    return spec_.symmetric && !frame.to_receiver ? routes_.PortBack(node, spec.src, spec.dst, frame.route)
                                                 : routes_.Port(node, dst, frame.route);
}

} // namespace ncc
