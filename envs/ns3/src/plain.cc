// SPDX-License-Identifier: GPL-2.0-only
#include "plain.h"

#include "live.h"
#include "routes.h"
#include "transport.h"

#include "ns3/boolean.h"
#include "ns3/config.h"
#include "ns3/data-rate.h"
#include "ns3/double.h"
#include "ns3/inet-socket-address.h"
#include "ns3/internet-stack-helper.h"
#include "ns3/ipv4-address-helper.h"
#include "ns3/ipv4-static-routing-helper.h"
#include "ns3/point-to-point-helper.h"
#include "ns3/point-to-point-net-device.h"
#include "ns3/queue-disc.h"
#include "ns3/queue-size.h"
#include "ns3/simulator.h"
#include "ns3/string.h"
#include "ns3/tcp-socket-factory.h"
#include "ns3/traffic-control-helper.h"
#include "ns3/uinteger.h"

#include <algorithm>
#include <ctime>
#include <map>
#include <stdexcept>

namespace ncc
{

using namespace ns3;

namespace
{

constexpr uint16_t kServerPort = 5000;

double CpuSeconds()
{
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

class Program
{
  public:
    explicit Program(const Spec &spec) : spec_(spec), routes_(spec) { result_.finish_ns.assign(spec.flows.size(), -1); }

    PlainResult Run(int64_t stop_ns)
    {
        Build();
        for (uint32_t flow = 0; flow < spec_.flows.size(); ++flow) {
            Simulator::Schedule(TimeStep(spec_.flows[flow].start_ns), &Program::Start, this, flow);
        }
        Simulator::Stop(TimeStep(stop_ns));
        const double before = CpuSeconds();
        Simulator::Run();
        result_.cpu_s = CpuSeconds() - before;
        Collect();
        return std::move(result_);
    }

  private:
    void Build();
    void Mark(const LinkSpec &link, uint32_t end, uint32_t port, Ptr<NetDevice> device);
    void AddRoutes();
    void Collect();
    void Start(uint32_t flow);
    void Fill(uint32_t flow, Ptr<Socket> socket, uint32_t available);
    void Accept(Ptr<Socket> socket, const Address &from);
    void Take(uint32_t flow, Ptr<Socket> socket);

    const Spec &spec_;
    Routes routes_;
    PlainResult result_;
    NodeContainer nodes_;
    std::vector<Ipv4Address> address_;  // address of a host, by node
    std::vector<uint32_t> interface_;   // interface at its own end, by directed port
    std::vector<Ipv4Address> gateway_;  // address of the far end, by directed port
    std::vector<Ptr<QueueDisc>> discs_; // by directed port; null at host ends
    std::vector<Ptr<Socket>> listeners_, senders_;
    std::vector<uint64_t> unsent_, received_;
    std::map<Address, uint32_t> flow_of_; // flow by the sender's address and port
    size_t finished_ = 0;
};

void Program::Build()
{
    const size_t n_ports = 2 * spec_.links.size();
    nodes_.Create(static_cast<uint32_t>(spec_.is_host.size()));
    InternetStackHelper stack;
    stack.SetIpv6StackInstall(false);
    stack.SetRoutingHelper(Ipv4StaticRoutingHelper());
    stack.Install(nodes_);
    address_.resize(spec_.is_host.size());
    interface_.resize(n_ports);
    gateway_.resize(n_ports);
    discs_.resize(n_ports);
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.252");
    for (uint32_t i = 0; i < spec_.links.size(); ++i) {
        const LinkSpec &link = spec_.links[i];
        PointToPointHelper wire;
        wire.SetDeviceAttribute("DataRate", DataRateValue(DataRate(static_cast<uint64_t>(link.rate_bps))));
        wire.SetDeviceAttribute("Mtu", UintegerValue(spec_.mtu_bytes));
        wire.SetChannelAttribute("Delay", TimeValue(NanoSeconds(static_cast<uint64_t>(link.delay_ns))));
        wire.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("100000p"));
        NetDeviceContainer devices = wire.Install(nodes_.Get(link.a), nodes_.Get(link.b));
        for (uint32_t end = 0; end < 2; ++end) {
            if (link.queue[end].buffer_bytes >= 0) {
                Mark(link, end, 2 * i + end, devices.Get(end));
            }
        }
        const Ipv4InterfaceContainer interfaces = addresses.Assign(devices);
        addresses.NewNetwork();
        for (uint32_t end = 0; end < 2; ++end) {
            const uint32_t node = end == 0 ? link.a : link.b;
            interface_[2 * i + end] = interfaces.Get(end).second;
            gateway_[2 * i + end] = interfaces.GetAddress(1 - end);
            if (spec_.is_host[node]) {
                address_[node] = interfaces.GetAddress(end);
                TrafficControlHelper().Uninstall(devices.Get(end)); // no queue disc above a host's device
            }
        }
    }
    AddRoutes();
    for (uint32_t node = 0; node < spec_.is_host.size(); ++node) {
        if (spec_.is_host[node]) {
            Ptr<Socket> listener = Socket::CreateSocket(nodes_.Get(node), TcpSocketFactory::GetTypeId());
            listener->Bind(InetSocketAddress(Ipv4Address::GetAny(), kServerPort));
            listener->Listen();
            listener->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address &>(),
                                        MakeCallback(&Program::Accept, this));
            listeners_.push_back(listener);
        }
    }
    for (const FlowSpec &flow : spec_.flows) {
        unsent_.push_back(flow.size_bytes);
    }
    received_.assign(spec_.flows.size(), 0);
    senders_.resize(spec_.flows.size());
}

// Sets RED up as a step: no averaging, both thresholds at K, marking instead of dropping. The device below holds only
// one packet; otherwise the disc would almost always be empty.
void Program::Mark(const LinkSpec &link, uint32_t end, uint32_t port, Ptr<NetDevice> device)
{
    DynamicCast<PointToPointNetDevice>(device)->GetQueue()->SetMaxSize(QueueSize("1p"));
    const auto size = static_cast<uint32_t>(link.queue[end].buffer_bytes);
    const bool marks = link.queue[end].threshold_bytes > 0;
    const double threshold =
        static_cast<double>(marks ? link.queue[end].threshold_bytes : link.queue[end].buffer_bytes);
    TrafficControlHelper control;
    control.SetRootQueueDisc(
        "ns3::RedQueueDisc", "UseEcn", BooleanValue(marks), "UseHardDrop", BooleanValue(false), "Gentle",
        BooleanValue(false), "QW", DoubleValue(1), "MinTh", DoubleValue(threshold), "MaxTh", DoubleValue(threshold),
        "MaxSize", QueueSizeValue(QueueSize(QueueSizeUnit::BYTES, size)), "MeanPktSize", UintegerValue(spec_.mtu_bytes),
        "LinkBandwidth", DataRateValue(DataRate(static_cast<uint64_t>(link.rate_bps))), "LinkDelay",
        TimeValue(NanoSeconds(static_cast<uint64_t>(link.delay_ns))));
    discs_[port] = control.Install(device).Get(0);
}

// Makes the port with most hosts behind it a switch's default route, as look-up time is linear in the static routes.
void Program::AddRoutes()
{
    Ipv4StaticRoutingHelper helper;
    for (uint32_t node = 0; node < spec_.is_host.size(); ++node) {
        Ptr<Ipv4StaticRouting> table = helper.GetStaticRouting(nodes_.Get(node)->GetObject<Ipv4>());
        std::map<uint32_t, std::vector<uint32_t>> behind;
        for (uint32_t host = 0; host < spec_.is_host.size(); ++host) {
            if (spec_.is_host[host] && host != node && routes_.Reaches(node, host)) {
                behind[routes_.Port(node, host, 0)].push_back(host);
            }
        }
        uint32_t best = behind.begin()->first;
        for (const auto &[port, hosts] : behind) {
            best = hosts.size() > behind[best].size() ? port : best;
        }
        for (const auto &[port, hosts] : behind) {
            if (port == best) {
                table->SetDefaultRoute(gateway_[port], interface_[port]);
                continue;
            }
            for (uint32_t host : hosts) {
                table->AddHostRouteTo(address_[host], gateway_[port], interface_[port]);
            }
        }
    }
}

void Program::Start(uint32_t flow)
{
    const FlowSpec &spec = spec_.flows[flow];
    Ptr<Socket> socket = Socket::CreateSocket(nodes_.Get(spec.src), TcpSocketFactory::GetTypeId());
    socket->Bind();
    Address local;
    socket->GetSockName(local);
    flow_of_[InetSocketAddress(address_[spec.src], InetSocketAddress::ConvertFrom(local).GetPort())] = flow;
    socket->SetSendCallback(
        Callback<void, Ptr<Socket>, uint32_t>([this, flow](Ptr<Socket> s, uint32_t n) { Fill(flow, s, n); }));
    socket->Connect(InetSocketAddress(address_[spec.dst], kServerPort));
    socket->ShutdownRecv();
    senders_[flow] = socket;
}

void Program::Fill(uint32_t flow, Ptr<Socket> socket, uint32_t available)
{
    constexpr uint64_t kChunk = 65536;
    const uint64_t chunk = std::min(unsent_[flow], kChunk);
    if (chunk == 0 || available < chunk) {
        return;
    }
    const uint64_t bytes = std::min<uint64_t>(unsent_[flow], available);
    if (socket->Send(Create<Packet>(static_cast<uint32_t>(bytes))) > 0) {
        unsent_[flow] -= bytes;
    }
}

void Program::Accept(Ptr<Socket> socket, const Address &from)
{
    const uint32_t flow = flow_of_.at(from);
    socket->SetRecvCallback(Callback<void, Ptr<Socket>>([this, flow](Ptr<Socket> s) { Take(flow, s); }));
}

void Program::Take(uint32_t flow, Ptr<Socket> socket)
{
    while (Ptr<Packet> packet = socket->Recv()) {
        if (packet->GetSize() == 0) {
            break;
        }
        received_[flow] += packet->GetSize();
    }
    if (received_[flow] != spec_.flows[flow].size_bytes || result_.finish_ns[flow] >= 0) {
        return;
    }
    result_.finish_ns[flow] = Simulator::Now().GetTimeStep();
    senders_[flow]->Close(); // once its last bytes are acknowledged
    senders_[flow] = nullptr;
    socket->Close();
    if (++finished_ == spec_.flows.size()) {
        Simulator::Stop();
    }
}

void Program::Collect()
{
    for (const Ptr<QueueDisc> &disc : discs_) {
        result_.dropped_pkts.push_back(disc ? disc->GetStats().nTotalDroppedPackets : 0);
        result_.marked_pkts.push_back(disc ? disc->GetStats().nTotalMarkedPackets : 0);
    }
}

} // namespace

PlainResult RunPlain(const Spec &spec, int64_t stop_ns)
{
    TypeId type;
    if (spec.transport.rfind("ns3::", 0) != 0 || !TypeId::LookupByNameFailSafe(spec.transport, &type)) {
        throw std::invalid_argument("a plain ns-3 program takes a transport of ns-3's own, not " + spec.transport);
    }
    RefuseRttNoise(spec, spec.transport);
    const LiveSimulation live;
    SetDefaults(spec);
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(type));
    Config::SetDefault("ns3::TcpSocketBase::MaxSegLifetime", DoubleValue(1e-3)); // frees closed sockets soon
    return Program(spec).Run(stop_ns);
}

} // namespace ncc
