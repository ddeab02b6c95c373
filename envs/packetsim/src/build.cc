// SPDX-License-Identifier: BSD-3-Clause
// Builds a network from its spec.
#include "network.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace ncc::packetsim
{

namespace
{

// Makes a scheduler wide enough for a packet's way over most links, with slots as short as its events are dense.
Scheduler MakeScheduler(const Spec &spec)
{
    constexpr double kMaxNearNs = 200e3; // a WAN's delay is for the heap
    double events_per_ns = 0, near_ns = 0;
    for (const LinkSpec &link : spec.links) {
        const double packet_ns = (spec.mtu_bytes + spec.frame_overhead_bytes) * 8e9 / link.rate_bps;
        events_per_ns += 2 * 2 / packet_ns; // both ways; packets have half the full size on average
        near_ns = std::max(near_ns, std::min(packet_ns + static_cast<double>(link.delay_ns), kMaxNearNs));
    }
    return {events_per_ns, static_cast<int64_t>(near_ns)};
}

} // namespace

Network::Network(const Spec &spec)
    : spec_(spec), routes_(spec_), router_(spec_), mss_bytes_(spec.mss_bytes()), scheduler_(MakeScheduler(spec_)),
      knowledge_(spec_), switches_(*this, spec_), idle_(spec_)
{
    if (2 * spec_.links.size() > kMaxIndex) {
        throw std::invalid_argument("more than " + std::to_string(kMaxIndex / 2) + " links");
    }
    for (size_t stack = 0; stack <= spec_.stacks.size(); ++stack) {
        tcp_.push_back(MakeTcpConfig(spec_, stack));
    }
    BuildParts();
    CheckFlows();
    BuildGates();
    switches_.StartPrograms();
    StartRtts();
    limits_.assign(spec_.agents.size(), std::numeric_limits<double>::infinity());
    uplinks_before_.resize(spec_.uplinks.size());
    for (uint32_t port : spec_.uplinks) {
        switches_.port(port).MeasureQueue();
    }
    if (!spec_.flows.empty()) {
        Schedule(spec_.flows[0].start_ns, EventKind::kFlow, 0);
    }
}

Network::~Network() = default;

void Network::BuildParts()
{
    host_index_.assign(spec_.is_host.size(), kNone);
    for (uint32_t node = 0; node < spec_.is_host.size(); ++node) {
        if (spec_.is_host[node]) {
            host_index_[node] = static_cast<uint32_t>(hosts_.size());
            hosts_.emplace_back();
        }
    }
    tags_ = Tags::Make(spec_.tags, spec_.tag_params);
    views_.reserve(spec_.flows.size());
    for (uint32_t port = 0; port < 2 * spec_.links.size(); ++port) {
        const LinkSpec &link = spec_.links[port / 2];
        const uint32_t from = port % 2 == 0 ? link.a : link.b;
        const uint32_t to = port % 2 == 0 ? link.b : link.a;
        links_.emplace_back(Wire(link.rate_bps, link.delay_ns, spec_.frame_overhead_bytes, to));
        if (spec_.is_host[from]) {
            const uint32_t host = host_index_[from];
            hosts_[host].nic = std::make_unique<Nic<Network, PacketPool>>(
                *this, host, port, spec_.bucket_bytes, MakeOrder(spec_.order, spec_.order_params, views_));
        }
    }
}

void Network::CheckFlows()
{
    constexpr uint64_t kMaxPackets = std::numeric_limits<uint32_t>::max() - 1;
    for (size_t i = 0; i < spec_.flows.size(); ++i) {
        const FlowSpec &flow = spec_.flows[i];
        if (!routes_.Reaches(flow.src, flow.dst) || !routes_.Reaches(flow.dst, flow.src)) {
            throw std::invalid_argument("no path between node " + std::to_string(flow.src) + " and node " +
                                        std::to_string(flow.dst));
        }
        uint32_t hops = 0;
        for (uint32_t node = flow.src; node != flow.dst; ++hops) {
            node = links_[routes_.Port(node, flow.dst, 0)].wire.to;
        }
        if (hops > kMaxHops) {
            throw std::invalid_argument("flow " + std::to_string(i) + " crosses " + std::to_string(hops) +
                                        " links; at most " + std::to_string(kMaxHops) + " are allowed");
        }
        if ((flow.size_bytes - 1) / mss_bytes_ >= kMaxPackets) {
            throw std::invalid_argument("flow " + std::to_string(i) + " has " + std::to_string(flow.size_bytes) +
                                        " bytes; at most " + std::to_string(kMaxPackets) + " packets of " +
                                        std::to_string(mss_bytes_) + " bytes are allowed");
        }
        views_.push_back(ViewOf(spec_, flow));
    }
    CheckConnections(spec_, kMaxIndex, kMaxIndex);
    records_.resize(spec_.flows.size());
    slot_of_flow_.assign(spec_.flows.size(), kNone);
}

// Sets the RTT that a host reports before its first sample: the base RTT of its longest path; without flows, of all.
void Network::StartRtts()
{
    for (const FlowSpec &flow : spec_.flows) {
        double &rtt_ns = hosts_[host_index_[flow.src]].rtt_mean_ns;
        rtt_ns = std::max(rtt_ns, static_cast<double>(routes_.BaseRttNs(spec_, flow.src, flow.dst)));
    }
    double longest_ns = 0;
    for (const Host &host : hosts_) {
        longest_ns = std::max(longest_ns, host.rtt_mean_ns);
    }
    for (Host &host : hosts_) {
        host.rtt_mean_ns = host.rtt_mean_ns > 0 ? host.rtt_mean_ns : longest_ns;
    }
}

} // namespace ncc::packetsim
