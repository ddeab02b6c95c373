// SPDX-License-Identifier: GPL-2.0-only
// Builds the parts of a network: hosts with ns-3's TCP, and the transmitter at each end of each link.
#include "network.h"

#include "ns3/ipv4-l3-protocol.h"
#include "ns3/ipv4-route.h"
#include "ns3/ipv4-routing-protocol.h"

#include <algorithm>

namespace ncc
{

using namespace ns3;

namespace
{

// The routing of a host, which has one route; ns-3's TCP only asks for its own address.
class OneRoute final : public Ipv4RoutingProtocol
{
  public:
    explicit OneRoute(Ipv4Address source) : route_(Create<Ipv4Route>()) { route_->SetSource(source); }
    Ptr<Ipv4Route> RouteOutput(Ptr<Packet>, const Ipv4Header &, Ptr<NetDevice>, Socket::SocketErrno &error) override
    {
        error = Socket::ERROR_NOTERROR;
        return route_;
    }
    bool RouteInput(Ptr<const Packet>, const Ipv4Header &, Ptr<const NetDevice>, const UnicastForwardCallback &,
                    const MulticastForwardCallback &, const LocalDeliverCallback &, const ErrorCallback &) override
    {
        return false;
    }
    void NotifyInterfaceUp(uint32_t) override {}
    void NotifyInterfaceDown(uint32_t) override {}
    void NotifyAddAddress(uint32_t, Ipv4InterfaceAddress) override {}
    void NotifyRemoveAddress(uint32_t, Ipv4InterfaceAddress) override {}
    void SetIpv4(Ptr<Ipv4>) override {}
    void PrintRoutingTable(Ptr<OutputStreamWrapper>, Time::Unit) const override {}

  private:
    Ptr<Ipv4Route> route_;
};

} // namespace

void Network::BuildHosts()
{
    const auto n_hosts = static_cast<size_t>(std::count(spec_.is_host.begin(), spec_.is_host.end(), 1));
    hosts_.resize(n_hosts);
    uint32_t index = 0;
    for (uint32_t node = 0; node < spec_.is_host.size(); ++node) {
        if (!spec_.is_host[node]) {
            continue;
        }
        Host &host = hosts_[index];
        host_index_[node] = index;
        host.node = node;
        host.address = Ipv4Address(0x0a000001U + index); // 10.0.0.0/8
        host.ns3_node = CreateObject<Node>();
        Ptr<Ipv4L3Protocol> ip = CreateObject<Ipv4L3Protocol>();
        host.ns3_node->AggregateObject(ip);
        ip->SetRoutingProtocol(CreateObject<OneRoute>(host.address));
        host.tcp = CreateObject<TcpL4Protocol>();
        host.ns3_node->AggregateObject(host.tcp);
        // Only one NIC is between TCP and the wire, without the cost of ARP, queue disc and forwarding.
        host.tcp->SetDownTarget(Callback<void, Ptr<Packet>, Ipv4Address, Ipv4Address, uint8_t, Ptr<Ipv4Route>>(
            [this, index](Ptr<Packet> packet, Ipv4Address, Ipv4Address, uint8_t, Ptr<Ipv4Route>) {
                Send(index, packet);
            }));
        ++index;
    }
}

void Network::BuildLinks()
{
    for (uint32_t port = 0; port < 2 * spec_.links.size(); ++port) {
        const LinkSpec &link = spec_.links[port / 2];
        const uint32_t from = spec_.node_of(port), to = spec_.node_of(port ^ 1);
        links_.push_back({Wire(link.rate_bps, link.delay_ns, spec_.frame_overhead_bytes, to)});
        if (spec_.is_host[from]) {
            host_of(from).nic = std::make_unique<HostNic>(*this, from, port, spec_.bucket_bytes,
                                                          FlowOrder::Make(spec_.order, spec_.order_params, views_));
            if (spec_.shaped_frac > 0) {
                host_of(from).nic->Shape(spec_, link.rate_bps, spec_.frame_overhead_bytes);
            }
        }
    }
}

} // namespace ncc
