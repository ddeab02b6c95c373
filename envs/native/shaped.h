// SPDX-License-Identifier: BSD-3-Clause
// How ports and NICs serve their shaped queues. packetsim compiles it apart from the rest of the engine.
#pragma once

#include "nic.h"
#include "switches.h"

#include <algorithm>
#include <cstdint>

namespace ncc
{

template <class Network, class Port>
void Switches<Network, Port>::JoinShaped(uint32_t index, Ref ref)
{
    Port &port = ports_[index];
    if (!port.shaper()->Push(network_.packets(), ref, network_.now_ns())) {
        port.CountShapedDrop();
        network_.Drop(ref);
        return;
    }
    ServeShaped(index);
}

// Schedules the time at which a packet of this port can leave. If packets wait outside the shaped queue, that is when
// the transmitter is free; otherwise when the first packet in it has tokens. An earlier event replaces a later one.
template <class Network, class Port>
void Switches<Network, Port>::ServeShaped(uint32_t index)
{
    Port &port = ports_[index];
    auto &shaper = *port.shaper();
    const int64_t now_ns = network_.now_ns();
    int64_t at_ns = std::max(FreeNs(network_.link(index).free_ps), now_ns);
    if (port.held_pkts() == 0) {
        if (shaper.empty()) {
            return;
        }
        at_ns = std::max(at_ns, now_ns + shaper.WaitNs(network_.packets(), now_ns));
    }
    if (shaper.word == 0 || at_ns < shaper.due_ns) {
        shaper.due_ns = at_ns;
        shaper.word = network_.Schedule(at_ns, EventKind::kTransmit, index);
    }
}

template <class Network, class Port>
void Switches<Network, Port>::TransmittedShaped(uint32_t index, uint64_t word)
{
    Port &port = ports_[index];
    auto &shaper = *port.shaper();
    auto &link = network_.link(index);
    const int64_t now_ns = network_.now_ns();
    if (word != shaper.word) {
        return;
    }
    shaper.word = 0;
    if (FreeNs(link.free_ps) <= now_ns) {
        port.Advance(network_.packets(), link, now_ns);
        if (!shaper.empty() && shaper.WaitNs(network_.packets(), now_ns) == 0) {
            const Ref ref = shaper.Pop(network_.packets());
            port.CountShaped(Head(ref));
            network_.Transmit(index, ref, Wire::StartPs(link.free_ps, now_ns));
        } else if (port.held_pkts() > 0) {
            const Ref ref = port.TakeNext(network_.packets(), now_ns);
            if (RunDequeue(index, ref)) {
                network_.Transmit(index, ref, Wire::StartPs(link.free_ps, now_ns));
            }
        }
    }
    ServeShaped(index);
}

template <class Network, class Packets>
void Nic<Network, Packets>::SendShaped(Ref ref)
{
    if (!shaper_->Push(network_.packets(), ref, network_.now_ns())) {
        ++totals_.dropped_pkts;
        ++totals_.shaped_dropped_pkts;
        network_.Drop(ref);
    } else if (shaper_->size() == 1) {
        ServeShaped();
    }
}

// Sends the first packet of the shaped queue if the wire is free and there are tokens. Returns true if nothing else can
// be sent now.
template <class Network, class Packets>
bool Nic<Network, Packets>::ServeShaped()
{
    const int64_t now_ns = network_.now_ns();
    if (free_ps_ > now_ns * kPsPerNs) {
        ServeAt(0);
        return true;
    }
    if (shaper_->empty()) {
        return false;
    }
    const int64_t wait_ns = shaper_->WaitNs(network_.packets(), now_ns);
    if (wait_ns > 0) {
        if (shaper_->word == 0 || now_ns + wait_ns < shaper_->due_ns) {
            shaper_->due_ns = now_ns + wait_ns;
            shaper_->word = network_.Schedule(shaper_->due_ns, EventKind::kTokens, host_);
        }
        return false;
    }
    Transmit(shaper_->Pop(network_.packets()), false, now_ns);
    if (waiting_pkts() > 0 || !shaper_->empty()) {
        ServeAt(0);
    }
    return true;
}

} // namespace ncc
