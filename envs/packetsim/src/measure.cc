// SPDX-License-Identifier: BSD-3-Clause
// What an epoch was like: see ncc/core/measurement.py for the meaning of each column.
#include "network.h"

#include <stdexcept>

namespace ncc::packetsim
{

void Network::Measure(const HostColumns &out, const UpperColumns &upper)
{
    const double period_s = static_cast<double>(spec_.period_ns) * 1e-9;
    for (size_t i = 0; i < spec_.agents.size(); ++i) {
        Host &host = hosts_[host_index_[spec_.agents[i]]];
        const int64_t tx_bytes = host.nic->totals().tx_bytes;
        out.rate_limit_bps[i] = host.nic->limit_bps();
        out.throughput_bps[i] = static_cast<double>(tx_bytes - host.tx_bytes_before) * 8 / period_s;
        out.goodput_bps[i] = static_cast<double>(host.goodput_bytes) * 8 / period_s;
        if (host.rtt_samples > 0) {
            host.rtt_mean_ns = host.rtt_sum_ns / static_cast<double>(host.rtt_samples);
        }
        out.rtt_s[i] = host.rtt_mean_ns * 1e-9;
        out.rtt_samples[i] = host.rtt_samples;
        int64_t wait_ns = 0, queued_flows = 0;
        uint64_t queued_bytes = 0;
        for (uint32_t slot : host.live) {
            const FlowView &view = views_[connections_[slot].flow];
            if (view.left_bytes < view.size_bytes) {
                wait_ns += now_ns_ - view.last_left_ns;
                queued_bytes += view.size_bytes - view.left_bytes;
                ++queued_flows;
            }
        }
        out.wait_s[i] = static_cast<double>(wait_ns) * 1e-9;
        out.queued_bytes[i] = static_cast<double>(queued_bytes);
        out.queued_flows[i] = queued_flows;
        out.active_flows[i] = static_cast<int64_t>(host.live.size());
        host.tx_bytes_before = tx_bytes;
        host.goodput_bytes = host.rtt_samples = 0;
        host.rtt_sum_ns = 0;
    }
    for (size_t i = 0; i < spec_.upper_ports.size(); ++i) {
        Port &port = ports_[spec_.upper_ports[i]];
        const PortTotals now = PortRecord(spec_.upper_ports[i]);
        PortTotals &before = upper_before_[i];
        const int64_t sent = now.tx_pkts - before.tx_pkts;
        upper.throughput_bps[i] = static_cast<double>(now.tx_bytes - before.tx_bytes) * 8 / period_s;
        upper.queue_bytes[i] = static_cast<double>(port.queue_bytes());
        upper.queue_mean_bytes[i] = port.TakeQueueIntegral() / static_cast<double>(spec_.period_ns);
        upper.queue_delay_s[i] =
            sent > 0 ? static_cast<double>(now.delay_ns - before.delay_ns) * 1e-9 / static_cast<double>(sent) : 0;
        upper.marked_pkts[i] = now.marked_pkts - before.marked_pkts;
        upper.dropped_pkts[i] = now.dropped_pkts - before.dropped_pkts;
        before = now;
    }
}

PortTotals Network::PortRecord(uint32_t port)
{
    if (ports_[port].at_switch()) {
        ports_[port].Advance(pool_, links_[port], now_ns_);
        return ports_[port].totals();
    }
    const LinkSpec &link = spec_.links[port / 2];
    return hosts_[host_index_[port % 2 == 0 ? link.a : link.b]].nic->totals();
}

Port &Network::SwitchPort(uint32_t port)
{
    if (port >= ports_.size() || !ports_[port].at_switch()) {
        throw std::invalid_argument("port " + std::to_string(port) + " is not a switch port");
    }
    return ports_[port];
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
    Audit audit{sent_, arrived_, dropped_, 0, 0, past_, scheduler_.size()};
    for (const Host &host : hosts_) {
        audit.in_hosts += host.nic ? host.nic->waiting_pkts() : 0;
    }
    for (size_t i = 0; i < links_.size(); ++i) {
        audit.on_links += links_[i].packets.size() + ports_[i].waiting_pkts();
    }
    return audit;
}

} // namespace ncc::packetsim
