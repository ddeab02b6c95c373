// SPDX-License-Identifier: GPL-2.0-only
// Transports, and ns-3's process-wide settings for one of them.
#pragma once

#include "cc_ops.h"
#include "controllers.h"
#include "rtt_noise.h"
#include "spec.h"

#include "ns3/object-factory.h"
#include "ns3/tcp-l4-protocol.h"

#include <string>
#include <vector>

namespace ncc
{

class Network;
enum class Echo;

// Lists ns-3's own congestion controls (`ns3::TcpCubic`).
std::vector<std::string> OwnTransports();

// Factory of the sockets of both ends of a flow.
class Transport
{
  public:
    // `stack`: as in FlowSpec. Call SetDefaults first.
    Transport(const Spec &spec, size_t stack);

    ns3::Ptr<HostSocket> Sender(Network &network, uint32_t flow, ns3::Ptr<ns3::Node> node,
                                ns3::Ptr<ns3::TcpL4Protocol> tcp) const;
    ns3::Ptr<HostSocket> Receiver(Network &network, uint32_t flow, ns3::Ptr<ns3::Node> node,
                                  ns3::Ptr<ns3::TcpL4Protocol> tcp) const;

  private:
    ns3::Ptr<HostSocket> Make(Network &network, uint32_t flow, bool sender, ns3::Ptr<ns3::Node> node,
                              ns3::Ptr<ns3::TcpL4Protocol> tcp) const;

    Controller controller_; // ops is null for one of ns-3's own
    int64_t min_rto_ns_, initial_rto_ns_;
    ns3::ObjectFactory ns3_control_;
    bool ns3_ecn_ = false;
    bool ns3_prr_ = true;
    ncc_cc_conn conn_;
    Echo echo_;
    RttNoise rtt_noise_;
    // Some of ns-3's controls (TcpWestwoodPlus) leave events behind that use them, so they are kept for the whole run.
    mutable std::vector<ns3::Ptr<ns3::TcpCongestionOps>> ns3_controls_;
};

// Throws std::invalid_argument if the spec has RTT noise, which ns-3's own congestion controls cannot be given.
void RefuseRttNoise(const Spec &spec, const std::string &transport);

// Sets every ns-3 default that a run depends on, because they belong to the process and outlive a simulation.
void SetDefaults(const Spec &spec);

} // namespace ncc
