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

void Network::BuildPorts()
{
    pools_.reserve(spec_.pools.size()); // ports point to them
    for (const PoolSpec &pool : spec_.pools) {
        pools_.emplace_back(pool);
    }
    ports_.resize(2 * spec_.links.size());
    for (size_t i = 0; i < spec_.links.size(); ++i) {
        const LinkSpec &link = spec_.links[i];
        for (int end = 0; end < 2; ++end) {
            const uint32_t from = end == 0 ? link.a : link.b;
            const uint32_t to = end == 0 ? link.b : link.a;
            const Wire wire(link.rate_bps, link.delay_ns, spec_.frame_overhead_bytes, to);
            if (spec_.is_host[from]) {
                host_of(from).nic =
                    std::make_unique<Nic>(*this, wire, spec_.bucket_bytes, spec_.small_queue_bytes, spec_.mtu_bytes,
                                          MakeOrder(spec_.order, spec_.order_params, views_));
            } else {
                const QueueSpec &queue = link.queue[end];
                const auto id = static_cast<uint32_t>(2 * i) + static_cast<uint32_t>(end);
                SharedPool *pool = queue.pool < 0 ? nullptr : &pools_.at(static_cast<size_t>(queue.pool));
                static const std::vector<ProgramSpec> kNoPrograms;
                const auto &programs =
                    queue.programs < 0 ? kNoPrograms : spec_.programs.at(static_cast<size_t>(queue.programs));
                const bool pausable = PausesBy(spec_, link.queue[1 - end]);
                ports_[id] = std::make_unique<Port>(
                    wire, queue, programs, pool, PortSeed(spec_.seed, id), spec_.mtu_bytes, pausable,
                    [this](Frame *frame) {
                        Ingress(frame->seen_by, -static_cast<int64_t>(frame->ip_bytes));
                        Forget(frame);
                    },
                    [this, from](uint32_t flow, ncc_cc_signal signal) { Signal(from, flow, signal); });
                ports_[id]->id = id;
                if (pool) {
                    pool->ports.push_back(ports_[id].get());
                }
            }
        }
    }
}

void Network::StartPrograms()
{
    for (size_t id = 0; id < ports_.size(); ++id) {
        Port *port = ports_[id].get();
        if (port == nullptr) {
            continue;
        }
        port->StartPrograms([port](uint32_t program, int64_t in_ns) {
            const int64_t due_ns = Simulator::Now().GetTimeStep() + in_ns;
            Simulator::Schedule(TimeStep(in_ns), &Port::ProgramTimer, port, program, due_ns);
        });
        see_windows_ |= port->sees_reverse();
        pausing_ |= port->pauses();
    }
    for (size_t id = 0; id < ports_.size(); ++id) {
        Port *port = ports_[id].get();
        if (port == nullptr || (!port->sees_reverse() && !pausing_)) { // PFC counts what comes over every link
            continue;
        }
        if (Port *other = ports_[id ^ 1].get()) {
            other->seen_by = port;
        } else { // the other end is a host's
            const LinkSpec &link = spec_.links[id / 2];
            host_of(id % 2 == 0 ? link.b : link.a).nic->seen_by = port;
        }
    }
}

} // namespace ncc
