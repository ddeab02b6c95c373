// SPDX-License-Identifier: BSD-3-Clause
// Measures the signals of an epoch, which ncc/core/signals.py explains.
#include "network.h"

#include <stdexcept>

namespace ncc::packetsim
{

void Network::Measure(const HostColumns &hosts, const UplinkColumns &uplinks)
{
    const auto view_of = [this](uint32_t slot) -> const FlowView & { return views_[connections_[slot].flow]; };
    const auto held = [this](uint32_t slot) { return gates_ && gates_->Held(connections_[slot].flow, now_ns_); };
    for (size_t i = 0; i < spec_.agents.size(); ++i) {
        Host &host = hosts_[host_index_[spec_.agents[i]]];
        MeasureHost(hosts, i, host, host.nic->limit_bps(), host.nic->limited_bytes(), host.live, view_of, held, now_ns_,
                    spec_.period_ns);
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
        return switches_.Advanced(port).totals(now_ns_);
    }
    const LinkSpec &link = spec_.links[port / 2];
    return hosts_[host_index_[port % 2 == 0 ? link.a : link.b]].nic->totals();
}

Network::Window Network::SenderWindow(uint32_t flow) const
{
    const uint32_t slot = slot_of_flow_.at(flow);
    if (slot == kNone) {
        return {};
    }
    const TcpSender &sender = connections_[slot].sender;
    return {sender.cwnd_bytes, sender.ssthresh_bytes, static_cast<uint64_t>(sender.una) * mss_bytes_};
}

Network::Audit Network::Count() const
{
    Audit audit{sent_, arrived_, dropped_, 0, joining_, past_, scheduler_.size()};
    for (const Host &host : hosts_) {
        audit.in_hosts += host.nic ? host.nic->waiting_pkts() : 0;
    }
    for (size_t i = 0; i < links_.size(); ++i) {
        audit.on_links += links_[i].packets.size() + switches_.port(static_cast<uint32_t>(i)).held_pkts();
    }
    return audit;
}

} // namespace ncc::packetsim
