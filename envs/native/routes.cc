// SPDX-License-Identifier: BSD-3-Clause
#include "routes.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace ncc
{

Routes::Routes(const Spec &spec) : seed_(spec.seed * 0x9e3779b97f4a7c15ULL)
{
    constexpr uint32_t kFar = std::numeric_limits<uint32_t>::max();
    const size_t n = spec.is_host.size();
    std::vector<uint32_t> hosts;
    host_index_.assign(n, kFar);
    for (uint32_t node = 0; node < n; ++node) {
        if (spec.is_host[node]) {
            host_index_[node] = static_cast<uint32_t>(hosts.size());
            hosts.push_back(node);
        }
    }
    n_hosts_ = hosts.size();
    table_.resize(n * n_hosts_);
    turns_.resize(spec.sprayed ? table_.size() : 0);

    struct Edge {
        uint32_t port, peer;
    };
    std::vector<std::vector<Edge>> out(n);
    for (uint32_t i = 0; i < spec.links.size(); ++i) {
        out[spec.links[i].a].push_back({2 * i, spec.links[i].b});
        out[spec.links[i].b].push_back({2 * i + 1, spec.links[i].a});
        to_.insert(to_.end(), {spec.links[i].b, spec.links[i].a});
    }
    std::vector<uint32_t> distance(n), frontier, reached;
    for (uint32_t dst : hosts) {
        distance.assign(n, kFar);
        distance[dst] = 0;
        frontier = {dst};
        for (uint32_t hops = 1; !frontier.empty(); ++hops) {
            reached.clear();
            for (uint32_t node : frontier) {
                if (node != dst && spec.is_host[node]) {
                    continue; // hosts do not forward
                }
                for (const Edge &edge : out[node]) {
                    if (distance[edge.peer] == kFar) {
                        distance[edge.peer] = hops;
                        reached.push_back(edge.peer);
                    }
                }
            }
            frontier.swap(reached);
        }
        for (uint32_t node = 0; node < n; ++node) {
            if (node == dst || distance[node] == kFar) {
                continue;
            }
            Choice &choice = table_[node * n_hosts_ + host_index_[dst]];
            choice.first = static_cast<uint32_t>(ports_.size());
            for (const Edge &edge : out[node]) {
                const bool transit = edge.peer == dst || !spec.is_host[edge.peer];
                if (transit && distance[edge.peer] != kFar && distance[edge.peer] + 1 == distance[node]) {
                    ports_.push_back(edge.port);
                }
            }
            choice.count = static_cast<uint32_t>(ports_.size()) - choice.first;
        }
    }
}

namespace
{

// Share of a link in the RTT of a full packet and its bare ACK.
double LinkRttNs(const Spec &spec, uint32_t port)
{
    constexpr uint32_t kHeaderBytes = 40;
    const LinkSpec &link = spec.links[port / 2];
    const uint32_t bytes = spec.mtu_bytes + kHeaderBytes + 2 * spec.frame_overhead_bytes;
    return 2.0 * static_cast<double>(link.delay_ns) + bytes * 8e9 / link.rate_bps;
}

} // namespace

int64_t Routes::BaseRttNs(const Spec &spec, uint32_t src, uint32_t dst) const
{
    double ns = 0;
    for (uint32_t node = src; node != dst;) {
        const uint32_t port = Port(node, dst, 0);
        ns += LinkRttNs(spec, port);
        node = to_[port];
    }
    return static_cast<int64_t>(ns);
}

int64_t Routes::LongestRttNs(const Spec &spec) const
{
    constexpr double kUnknown = -1;
    double longest = 0;
    std::vector<double> from(spec.is_host.size());
    std::vector<uint32_t> way;
    for (uint32_t dst = 0; dst < from.size(); ++dst) {
        if (!spec.is_host[dst]) {
            continue;
        }
        from.assign(from.size(), kUnknown);
        from[dst] = 0;
        for (uint32_t src = 0; src < from.size(); ++src) {
            if (!spec.is_host[src] || (src != dst && !Reaches(src, dst))) {
                continue;
            }
            uint32_t node = src;
            for (way.clear(); from[node] == kUnknown; node = to_[way.back()]) {
                way.push_back(Port(node, dst, 0));
            }
            double ns = from[node];
            for (; !way.empty(); way.pop_back()) {
                ns += LinkRttNs(spec, way.back());
                from[spec.node_of(way.back())] = ns;
            }
            longest = std::max(longest, ns);
        }
    }
    return static_cast<int64_t>(longest);
}

} // namespace ncc
