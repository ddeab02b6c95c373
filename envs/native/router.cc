// SPDX-License-Identifier: BSD-3-Clause
#include "router.h"

#include <array>
#include <utility>

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
            if ((ops.needs & NCC_SW_TAGS) != 0 && !tags()) {
                Number(spec);
            }
        }
    }
}

// Numbers the leaves in the order of their first links to hosts.
void Router::Number(const Spec &spec)
{
    leaves_.resize(spec.is_host.size());
    routing_.resize(2 * spec.links.size());
    rates_.resize(2 * spec.links.size());
    std::vector<uint32_t> number(spec.is_host.size(), UINT32_MAX);
    uint32_t leaves = 0;
    for (const LinkSpec &link : spec.links) {
        for (const auto &[host, leaf] : {std::pair{link.a, link.b}, std::pair{link.b, link.a}}) {
            if (spec.is_host[host] != 0) {
                number[leaf] = number[leaf] == UINT32_MAX ? leaves++ : number[leaf];
                leaves_[host] = number[leaf];
            }
        }
    }
}

void Router::Bind(uint32_t port, Programs::Routing routing, uint64_t bytes_per_s)
{
    if (tags()) {
        routing_[port] = routing;
        rates_[port] = bytes_per_s;
    }
}

uint32_t Router::Port(const Routes &routes, uint32_t node, uint32_t dst, int64_t now_ns, ncc_sw_packet &packet)
{
    const Routes::Ways ways = routes.Equal(node, dst);
    Choosing &own = of_[node];
    const bool tagging = own.ops != nullptr && (own.ops->needs & NCC_SW_TAGS) != 0;
    if ((ways.count == 1 && !tagging) || own.ops == nullptr) {
        return routes.Port(node, dst, packet.flow);
    }
    // Drawn from the packet, so that two packets that arrive at the same instant draw the same in either order.
    const uint64_t draw = Mix(own.seed ^ Mix(static_cast<uint64_t>(now_ns) << 1 | (packet.flags & NCC_SW_TO_RECEIVER)));
    std::array<void *, NCC_SW_WAYS> states;
    std::array<ncc_u64, NCC_SW_WAYS> rates;
    for (uint32_t i = 0; tagging && i < ways.count && i < NCC_SW_WAYS; ++i) {
        const Programs::Routing &there = routing_[ways.ports[i]];
        states[i] = there.ops == own.ops ? there.state : nullptr;
        rates[i] = rates_[ways.ports[i]];
    }
    const ncc_sw_ways seen{static_cast<ncc_u64>(now_ns), ways.count,
                           static_cast<ncc_u32>(Mix(draw ^ packet.flow) >> 32), states.data(), rates.data()};
    return ways.ports[own.ops->route(own.state.data(), own.params.data(), &seen, &packet) % ways.count];
}

} // namespace ncc
