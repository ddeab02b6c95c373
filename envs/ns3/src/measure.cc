// SPDX-License-Identifier: GPL-2.0-only
// Measures the signals of an epoch, which ncc/core/signals.py explains.
#include "network.h"

#include <stdexcept>

namespace ncc
{

void Network::Measure(const HostColumns &hosts, const UplinkColumns &uplinks)
{
    MeasureHosts(hosts, now_ns(), [this](uint32_t node) -> HostNic & { return *host_of(node).nic; });
    MeasureUplinks(uplinks, switches_, [this](uint32_t port) { return PortRecord(port); });
}

PortTotals Network::PortRecord(uint32_t port)
{
    if (switches_.port(port).at_switch()) {
        return switches_.Advanced(port).totals(now_ns());
    }
    const LinkSpec &link = spec_.links[port / 2];
    return host_of(port % 2 == 0 ? link.a : link.b).nic->totals();
}

Network::Window Network::SenderWindow(uint32_t flow) const
{
    const auto &connection = connections_.at(flow);
    if (!connection || connection->over) {
        return {};
    }
    const HostSocket &sender = *connection->sender;
    return {sender.cwnd_bytes(), sender.ssthresh_bytes(), sender.una_bytes() - sender.earlier_bytes()};
}

} // namespace ncc
