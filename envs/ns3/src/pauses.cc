// SPDX-License-Identifier: GPL-2.0-only
// Ports that pause each other (PFC).
#include "network.h"

namespace ncc
{

using namespace ns3;

void Network::Ingress(Port *came_by, int64_t bytes)
{
    if (came_by == nullptr || !pausing_) {
        return;
    }
    const int64_t now = Simulator::Now().GetTimeStep();
    const int64_t arrival = came_by->Ingress(bytes, now);
    if (arrival != Port::kNoPause) {
        Simulator::Schedule(TimeStep(arrival - now), &Network::Paused, this, came_by->id ^ 1, came_by->pauses_now());
    }
}

void Network::Paused(uint32_t id, bool on)
{
    Port *port = ports_[id].get();
    if (port == nullptr) {
        const LinkSpec &link = spec_.links[id / 2];
        host_of(id % 2 == 0 ? link.a : link.b).nic->Pause(on);
        return;
    }
    const int64_t now = Simulator::Now().GetTimeStep();
    port->Pause(on, now);
    if (!on && port->held_pkts() > 0 && !port->serving()) {
        port->Serve(true);
        Simulator::Schedule(TimeStep(std::max(port->free_ns() - now, int64_t{0})), &Network::Transmitted, this, port);
    }
}

void Network::WatchPauses()
{
    std::vector<PausedPort> stuck;
    for (const auto &port : ports_) {
        if (port && ports_[port->id ^ 1] && port->LongPaused(*ports_[port->id ^ 1], now_ns_)) {
            stuck.push_back(port->Paused());
        }
    }
    const std::vector<uint32_t> ports =
        Deadlock(std::move(stuck), [this](uint32_t link) { return ports_[link ^ 1]->ingress_bytes(); });
    if (!ports.empty()) {
        Fail(DeadlockMessage(ports));
    }
}

} // namespace ncc
