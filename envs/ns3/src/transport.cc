// SPDX-License-Identifier: GPL-2.0-only
#include "transport.h"

#include "network.h"
#include "socket.h"

#include "ns3/boolean.h"
#include "ns3/config.h"
#include "ns3/double.h"
#include "ns3/enum.h"
#include "ns3/global-value.h"
#include "ns3/nstime.h"
#include "ns3/rng-seed-manager.h"
#include "ns3/simulator.h"
#include "ns3/string.h"
#include "ns3/tcp-bbr.h"
#include "ns3/tcp-prr-recovery.h"
#include "ns3/tcp-recovery-ops.h"
#include "ns3/uinteger.h"

#include <limits>
#include <stdexcept>

namespace ncc
{

using namespace ns3;

namespace
{

bool IsNs3Control(const TypeId &type)
{
    if (!type.HasConstructor() || type.GetName().rfind("ns3::", 0) != 0) {
        return false;
    }
    return type.IsChildOf(TcpCongestionOps::GetTypeId());
}

} // namespace

std::vector<std::string> OwnTransports()
{
    std::vector<std::string> names;
    for (uint16_t i = 0; i < TypeId::GetRegisteredN(); ++i) {
        if (const TypeId type = TypeId::GetRegistered(i); IsNs3Control(type)) {
            names.push_back(type.GetName());
        }
    }
    return names;
}

Transport::Transport(const Spec &spec, size_t which) : echo_(Echo::kNs3), rtt_noise_(spec.seed, spec.rtt_noise_max_ns)
{
    const StackSpec stack = spec.stack(which);
    min_rto_ns_ = stack.min_rto_ns;
    initial_rto_ns_ = stack.initial_rto_ns;
    conn_.mss_bytes = spec.mss_bytes();
    conn_.init_cwnd_bytes = conn_.mss_bytes * stack.initial_window_pkts;
    if (const ncc_cc_ops *ops = FindController(stack.transport)) {
        controller_.ops = ops;
        controller_.params = ControllerParams(*ops, stack.params);
        echo_ = ops->ecn == NCC_CC_ECN_DCTCP     ? Echo::kPrecise
                : ops->ecn == NCC_CC_ECN_CLASSIC ? Echo::kClassic
                                                 : Echo::kNone;
        return;
    }
    TypeId type;
    if (!TypeId::LookupByNameFailSafe(stack.transport, &type) || !IsNs3Control(type)) {
        throw std::invalid_argument("no transport " + stack.transport);
    }
    RefuseRttNoise(spec, stack.transport);
    ns3_control_.SetTypeId(type);
    for (const auto &[name, given] : stack.params) {
        (name == "ecn" ? ns3_ecn_ : ns3_prr_) = given != 0;
    }
}

Ptr<HostSocket> Transport::Make(Network &network, uint32_t flow, bool sender, Ptr<Node> node,
                                Ptr<TcpL4Protocol> tcp) const
{
    Ptr<HostSocket> socket = CreateObject<HostSocket>(network, flow, sender, echo_, rtt_noise_);
    socket->SetNode(node);
    socket->SetTcp(tcp);
    Ptr<RttProbe> rtt = CreateObject<RttProbe>(*socket);
    rtt->SetAttribute("InitialEstimation", TimeValue(NanoSeconds(initial_rto_ns_)));
    rtt->Reset();
    socket->SetRtt(rtt);
    socket->SetTimeouts(NanoSeconds(min_rto_ns_), NanoSeconds(initial_rto_ns_));
    if (ns3_prr_) {
        socket->SetRecoveryAlgorithm(CreateObject<TcpPrrRecovery>());
    } else {
        socket->SetRecoveryAlgorithm(CreateObject<TcpClassicRecovery>());
    }
    if (controller_.ops == nullptr) {
        Ptr<TcpCongestionOps> control = ns3_control_.Create<TcpCongestionOps>();
        if (Ptr<TcpBbr> bbr = DynamicCast<TcpBbr>(control)) {
            bbr->SetStream(flow);
        }
        if (ns3_ecn_) {
            socket->SetUseEcn(TcpSocketState::On);
        }
        ns3_controls_.push_back(control);
        socket->SetCongestionControlAlgorithm(control);
    } else if (sender) {
        ncc_cc_conn conn = conn_;
        conn.line_bytes_per_s = network.line_bytes_per_s(flow);
        socket->SetController(CreateObject<CcOps>(controller_, *socket, conn, network.spec().modern),
                              (controller_.ops->needs & NCC_CC_RATE) != 0);
    } else {
        socket->SetCongestionControlAlgorithm(CreateObject<NoControl>());
    }
    return socket;
}

Ptr<HostSocket> Transport::Sender(Network &network, uint32_t flow, Ptr<Node> node, Ptr<TcpL4Protocol> tcp) const
{
    return Make(network, flow, true, node, tcp);
}

Ptr<HostSocket> Transport::Receiver(Network &network, uint32_t flow, Ptr<Node> node, Ptr<TcpL4Protocol> tcp) const
{
    return Make(network, flow, false, node, tcp);
}

void RefuseRttNoise(const Spec &spec, const std::string &transport)
{
    if (spec.rtt_noise_max_ns > 0) {
        throw std::invalid_argument(transport + " of ns-3 measures RTTs by itself: transport.rtt_noise_max_s must "
                                                "be 0, or the controller one of baselines/");
    }
}

void SetDefaults(const Spec &spec)
{
    RngSeedManager::SetSeed(1);
    RngSeedManager::SetRun(spec.seed);
    RngSeedManager::ResetNextStreamIndex();
    GlobalValue::Bind("ChecksumEnabled", BooleanValue(false));
    GlobalValue::Bind("SimulatorImplementationType", StringValue("ns3::DefaultSimulatorImpl"));
    GlobalValue::Bind("SchedulerType", TypeIdValue(TypeId::LookupByName("ns3::PriorityQueueScheduler")));

    auto set = [](const char *name, const AttributeValue &value) { Config::SetDefault(name, value); };
    set("ns3::TcpSocket::SegmentSize", UintegerValue(spec.mss_bytes()));
    set("ns3::TcpSocket::SndBufSize", UintegerValue(spec.send_buffer_bytes));
    set("ns3::TcpSocket::RcvBufSize", UintegerValue(spec.receive_buffer_bytes));
    set("ns3::TcpSocket::InitialCwnd", UintegerValue(spec.initial_window_pkts));
    set("ns3::TcpSocket::InitialSlowStartThreshold", UintegerValue(std::numeric_limits<uint32_t>::max()));
    set("ns3::TcpSocket::DelAckCount", UintegerValue(spec.delayed_ack_pkts));
    set("ns3::TcpSocket::DelAckTimeout", TimeValue(NanoSeconds(spec.delayed_ack_ns)));
    set("ns3::TcpSocket::TcpNoDelay", BooleanValue(true)); // the short last packet of a flow must not wait
    set("ns3::TcpSocket::ConnTimeout", TimeValue(NanoSeconds(spec.initial_rto_ns)));
    set("ns3::TcpSocket::ConnCount", UintegerValue(16));        // no flow is given up within a run
    set("ns3::TcpSocket::DataRetries", UintegerValue(1000000)); // (by default after 6 timeouts in a row)
    set("ns3::TcpSocket::PersistTimeout", TimeValue(NanoSeconds(spec.initial_rto_ns)));
    set("ns3::TcpSocketBase::Timestamp", BooleanValue(false)); // its clock ticks once per millisecond
    set("ns3::TcpSocketBase::WindowScaling", BooleanValue(true));
    set("ns3::TcpSocketBase::Sack", BooleanValue(spec.sack));
    set("ns3::TcpSocketBase::MaxWindowSize", UintegerValue(65535));
    set("ns3::TcpSocketBase::MaxSegLifetime", DoubleValue(120));
    set("ns3::TcpSocketBase::MinRto", TimeValue(NanoSeconds(spec.min_rto_ns)));
    set("ns3::TcpSocketBase::ClockGranularity", TimeValue(MicroSeconds(10)));
    set("ns3::TcpSocketBase::ReTxThreshold", UintegerValue(spec.dup_ack_pkts));
    set("ns3::TcpSocketBase::LimitedTransmit", BooleanValue(spec.limited_transmit));
    set("ns3::TcpSocketBase::UseEcn", EnumValue(TcpSocketState::Off));
    set("ns3::TcpSocketState::EnablePacing", BooleanValue(false));
    set("ns3::TcpSocketState::PaceInitialWindow", BooleanValue(false));
    set("ns3::TcpSocketState::MaxPacingRate", DataRateValue(DataRate(std::numeric_limits<uint64_t>::max())));
    set("ns3::TcpSocketState::PacingSsRatio", UintegerValue(200));
    set("ns3::TcpSocketState::PacingCaRatio", UintegerValue(120));
    set("ns3::RttEstimator::InitialEstimation", TimeValue(NanoSeconds(spec.initial_rto_ns)));
    set("ns3::RttMeanDeviation::Alpha", DoubleValue(0.125)); // RFC 6298
    set("ns3::RttMeanDeviation::Beta", DoubleValue(0.25));
    set("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName("ns3::TcpNewReno")));
    set("ns3::TcpL4Protocol::RecoveryType", TypeIdValue(TcpPrrRecovery::GetTypeId()));
    set("ns3::TcpL4Protocol::RttEstimatorType", TypeIdValue(RttMeanDeviation::GetTypeId()));
}

} // namespace ncc
