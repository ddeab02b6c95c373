// SPDX-License-Identifier: BSD-3-Clause
// The steps of a simulation, its limits and its measurements, for both simulators.
#pragma once

#include "events.h"
#include "gates.h"
#include "measure.h"
#include "port_base.h"
#include "records.h"
#include "spec.h"

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ncc
{

// `Network` derives from it. It has `run()` and `switches()`, the `nic` of a host by its node, the clock and the events
// (`RunUntil` stops early after a `Fail`, and `fault` is empty without one).
template <class Network>
class Stepped
{
    Network &network() { return static_cast<Network &>(*this); }
    auto &nic_at(uint32_t port) { return network().nic(network().run().spec().node_of(port)); }

  public:
    // Runs one period with these limits, by agent. Throws std::runtime_error if a controller or flow has failed.
    void Step(const double *limits_bps)
    {
        Step(limits_bps, [this](int64_t end_ns) { network().RunUntil(end_ns); });
    }
    // The same, to watch what happens within the period: `run_until(end_ns)` calls `RunUntil`, at last with `end_ns`.
    template <class Until>
    void Step(const double *limits_bps, Until run_until)
    {
        const Spec &spec = network().run().spec();
        if (network().fault().empty()) {
            limits_bps_.assign(limits_bps, limits_bps + spec.agents.size());
            if (spec.latency_ns > 0) {
                network().Schedule(network().now_ns() + spec.latency_ns, EventKind::kLimits, 0);
            } else {
                ApplyLimits();
            }
            run_until((epoch_ + 1) * spec.period_ns);
        }
        if (network().fault().empty()) {
            network().Fail(network().switches().Deadlock());
        }
        if (!network().fault().empty()) {
            throw std::runtime_error(network().fault());
        }
        ++epoch_;
    }
    void Tell(std::vector<Grant> grants) { network().run().Tell(std::move(grants), network().now_ns()); }
    // Tags' parameters from when the limits of the next step take effect.
    void Retag(std::vector<ncc_u64> params) { network().run().Retag(std::move(params)); }
    void Measure(const HostColumns &hosts, const UplinkColumns &uplinks)
    {
        network().run().MeasureHosts(hosts, network().now_ns(),
                                     [this](uint32_t node) -> auto & { return network().nic(node); });
        network().run().MeasureUplinks(uplinks, network().switches(),
                                       [this](uint32_t port) { return PortRecord(port); });
    }
    int64_t epoch() const { return epoch_; }
    PortTotals PortRecord(uint32_t port) // up to date
    {
        return network().switches().port(port).at_switch()
                   ? network().switches().Advanced(port).totals(network().now_ns())
                   : nic_at(port).totals();
    }

    // For tests and studies.
    void Plan(uint32_t port, const PlannedFault &fault) { network().switches().SwitchPort(port).Plan(fault); }

  protected:
    void ApplyLimits()
    {
        const std::vector<uint32_t> &agents = network().run().spec().agents;
        for (size_t i = 0; i < agents.size(); ++i) {
            network().nic(agents[i]).SetLimit(limits_bps_[i]);
        }
        network().run().ApplyTags();
        network().run().SendMessages(network().now_ns());
    }
    void Paused(uint32_t port, bool on) // a pause frame has come for this port
    {
        if (network().switches().port(port).at_switch()) {
            network().switches().Pause(port, on);
        } else {
            nic_at(port).Pause(on);
        }
    }

  private:
    std::vector<double> limits_bps_; // limits in the last step, by agent
    int64_t epoch_ = 0;
};

} // namespace ncc
