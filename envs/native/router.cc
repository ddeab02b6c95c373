// SPDX-License-Identifier: BSD-3-Clause
#include "router.h"

namespace ncc
{

Router::Router(const Spec &spec)
{
    for (uint32_t port = 0; port < 2 * spec.links.size(); ++port) {
        const int32_t list = spec.queue_of(port).programs;
        for (size_t k = 0; list >= 0 && k < spec.programs.at(static_cast<size_t>(list)).size(); ++k) {
            const ProgramSpec &program = spec.programs[static_cast<size_t>(list)][k];
            const ncc_sw_ops &ops = FindProgram(program.name);
            if (ops.route == nullptr) {
                continue;
            }
            of_.resize(spec.is_host.size());
            const uint32_t node = spec.node_of(port);
            of_[node] = {&ops, ControllerParams(ops, program.params), std::vector<uint64_t>((ops.node_bytes + 7) / 8),
                         Mix(spec.seed ^ static_cast<uint64_t>(node) << 32)};
        }
    }
}

uint32_t Router::Port(const Routes &routes, uint32_t node, uint32_t dst, int64_t now_ns, const ncc_sw_packet &packet)
{
    const Routes::Ways ways = routes.Equal(node, dst);
    Choosing &own = of_[node];
    if (ways.count == 1 || own.ops == nullptr) {
        return routes.Port(node, dst, packet.flow);
    }
    // Drawn from the packet, so that two packets that arrive at the same instant draw the same in either order.
    const uint64_t draw = Mix(own.seed ^ Mix(static_cast<uint64_t>(now_ns) << 1 | (packet.flags & NCC_SW_TO_RECEIVER)));
    const ncc_sw_ways seen{static_cast<ncc_u64>(now_ns), ways.count,
                           static_cast<ncc_u32>(Mix(draw ^ packet.flow) >> 32)};
    return ways.ports[own.ops->route(own.state.data(), own.params.data(), &seen, &packet) % ways.count];
}

} // namespace ncc
