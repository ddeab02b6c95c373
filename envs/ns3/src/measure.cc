// SPDX-License-Identifier: GPL-2.0-only
// Measures the signals of an epoch, which ncc/core/signals.py explains.
#include "network.h"

#include <stdexcept>

namespace ncc
{

void Network::Measure(const HostColumns &hosts, const UplinkColumns &uplinks)
{
    const auto view_of = [this](uint32_t flow) -> const FlowView & { return views_[flow]; };
    const auto held = [this](uint32_t flow) { return gates_ && gates_->Held(flow, now_ns()); };
    for (size_t i = 0; i < spec_.agents.size(); ++i) {
        Host &host = host_of(spec_.agents[i]);
        MeasureHost(hosts, i, host, host.nic->limit_bps(), host.nic->limited_bytes(), host.live, view_of, held,
                    now_ns(), spec_.period_ns);
    }
    for (size_t i = 0; i < spec_.uplinks.size(); ++i) {
        Port &port = switches_.Advanced(spec_.uplinks[i]);
        const PortTotals now = PortRecord(spec_.uplinks[i]);
        MeasureUplink(uplinks, i, now, uplinks_before_[i], port.queue_bytes(), port.TakeQueueIntegral(),
                      spec_.period_ns);
    }
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
