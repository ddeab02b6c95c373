// SPDX-License-Identifier: BSD-3-Clause
// The switches of a network: how packets pass their ports, and when programs of ports (switch.h) are called. For both
// simulators.
#pragma once

#include "events.h"
#include "port_base.h"
#include "spec.h"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ncc
{

// `Network` has the clock, the events, the packets and the links, and handles packets beyond a port.
// `Port` is a PortBase with the simulator's FIFO; its `Sharers` know which ports must be advanced before a shared
// buffer admits a packet.
template <class Network, class Port>
class Switches
{
  public:
    using Ref = typename Port::Ref;
    using Header = typename Port::Header;

    Switches(Network &network, const Spec &spec) : network_(network), spec_(spec), sharers_(spec.pools.size())
    {
        pools_.reserve(spec.pools.size()); // ports point to them
        for (const PoolSpec &pool : spec.pools) {
            pools_.emplace_back(pool);
        }
        for (uint32_t port = 0; port < 2 * spec.links.size(); ++port) {
            const QueueSpec &queue = spec.queue_of(port), &far = spec.queue_of(port ^ 1);
            if (queue.buffer_bytes < 0) {
                ports_.emplace_back();
                continue;
            }
            Pool *pool = queue.pool < 0 ? nullptr : &pools_.at(static_cast<size_t>(queue.pool));
            static const std::vector<ProgramSpec> kNoPrograms;
            const auto &programs =
                queue.programs < 0 ? kNoPrograms : spec.programs.at(static_cast<size_t>(queue.programs));
            ports_.emplace_back(queue, programs, pool, PortSeed(spec.seed, port), PausesBy(spec, far));
            if (queue.shaped_frac > 0) {
                ports_.back().Shape(queue, spec.links[port / 2].rate_bps, spec.frame_overhead_bytes);
            }
        }
    }

    Port &port(uint32_t index) { return ports_[index]; } // those of hosts are not `at_switch`
    const Port &port(uint32_t index) const { return ports_[index]; }
    const std::vector<Pool> &pools() const { return pools_; }
    Port &SwitchPort(uint32_t index)
    {
        if (index >= ports_.size() || !ports_[index].at_switch()) {
            throw std::invalid_argument("port " + std::to_string(index) + " is not a switch port");
        }
        return ports_[index];
    }
    // Returns the port with its counts as of now.
    Port &Advanced(uint32_t index)
    {
        ports_[index].Advance(network_.packets(), network_.link(index), network_.now_ns());
        return ports_[index];
    }

    // Calls `init` of all programs. Call it once, when links are there.
    void StartPrograms()
    {
        if (spec_.programs.empty()) {
            return;
        }
        for (uint32_t index = 0; index < ports_.size(); ++index) {
            first_program_.push_back(static_cast<uint32_t>(programs_.size()));
            Programs *programs = ports_[index].programs();
            if (programs == nullptr) {
                continue;
            }
            pausing_ |= programs->need(NCC_SW_INGRESS);
            network_.run().router().Bind(index, programs->routing(), network_.link(index).wire.BytesPerS());
            if (programs->need(NCC_SW_REVERSE)) {
                network_.link(index ^ 1).seen_by = index;
            }
            for (uint32_t i = 0; i < programs->count(); ++i) {
                programs_.push_back({index, i});
            }
            programs->Init(Seen(index), Arms(index));
        }
    }

    // Call when a packet arrives for a port.
    void Forward(uint32_t index, Ref ref)
    {
        Port &port = ports_[index];
        if (port.plain()) [[likely]] {
            Pass(port, index, ref);
            return;
        }
        PlannedFault fault{0, NCC_PASS, 0};
        if (port.special()) [[unlikely]] {
            fault = port.Planned(Head(ref));
            if (Head(ref).shaped() && fault.verdict != NCC_DROP) {
                JoinShaped(index, ref);
                return;
            }
        }
        if (fault.delay_ns > 0) {
            network_.JoinLater(index, ref, fault.delay_ns);
        } else {
            Join(index, ref, fault.verdict);
        }
    }

    // A packet joins the queue of a port, or goes to its idle transmitter, or is dropped.
    void Join(uint32_t index, Ref ref, ncc_verdict fault)
    {
        const int64_t now_ns = network_.now_ns();
        auto &packets = network_.packets();
        Port &port = ports_[index];
        auto &link = network_.link(index);
        typename Port::Sharers *sharers = nullptr;
        if (port.shared()) {
            sharers = &sharers_[static_cast<size_t>(spec_.queue_of(index).pool)];
            sharers->Until(now_ns * kPsPerNs,
                           [this](uint32_t other) { return Advanced(other).NextDeparturePs(network_.link(other)); });
        }
        port.Advance(packets, link, now_ns);
        ncc_verdict verdict = port.Admit(link.free_ps, Head(ref), fault, now_ns);
        typename Port::Place place;
        if (port.programs()) [[unlikely]] {
            verdict = RunEnqueue(index, ref, verdict, fault, place);
        }
        Header &header = Head(ref);
        port.Count(header, verdict);
        if (verdict == NCC_DROP) {
            network_.Drop(ref);
            return;
        }
        header.marked |= verdict == NCC_MARK;
        if (!port.holds() || port.may_pass(link.free_ps, now_ns)) {
            const int64_t start_ps = port.Forward(packets, link, ref, now_ns);
            if (port.programs() && !RunDequeue(index, ref)) [[unlikely]] {
                return;
            }
            network_.Transmit(index, ref, start_ps);
            if (sharers && start_ps > now_ns * kPsPerNs) {
                sharers->Expect(index, port.NextDeparturePs(link));
            }
            return;
        }
        port.Hold(packets, ref, place, now_ns);
        if (port.shaper()) [[unlikely]] {
            ServeShaped(index);
        } else if (!port.serving() && !port.paused()) {
            port.Serve(true);
            ServeAt(index, link.free_ps);
        }
        AddIngress(packets.came_by(ref), header.ip_bytes);
    }

    // Event: the transmitter of a port that holds packets is free, or its shaped queue has tokens.
    void Transmitted(uint32_t index, uint64_t word)
    {
        const int64_t now_ns = network_.now_ns();
        Port &port = ports_[index];
        if (port.shaper()) [[unlikely]] {
            TransmittedShaped(index, word);
            return;
        }
        auto &link = network_.link(index);
        if (port.paused()) {
            port.Serve(false);
            return;
        }
        if (FreeNs(link.free_ps) > now_ns) { // a pause frame has taken its turn
            ServeAt(index, link.free_ps);
            return;
        }
        port.Advance(network_.packets(), link, now_ns);
        for (bool sent = false; !sent && port.held_pkts() > 0;) { // until one is not dropped
            const Ref ref = port.TakeNext(network_.packets(), now_ns);
            const uint32_t came_by = network_.packets().came_by(ref);
            const int64_t bytes = Head(ref).ip_bytes;
            sent = RunDequeue(index, ref);
            if (sent) {
                network_.Transmit(index, ref, Wire::StartPs(link.free_ps, now_ns));
            }
            if (port.held_pkts() == 0) {
                port.Serve(false);
            } else if (sent) {
                ServeAt(index, link.free_ps);
            }
            AddIngress(came_by, -bytes);
        }
    }

    // Event: the timer of a program is due.
    void ProgramTimer(uint32_t program)
    {
        const auto [index, i] = programs_[program];
        if (Programs &programs = *ports_[index].programs(); programs.Due(i, network_.now_ns())) {
            Advanced(index);
            programs.Expired(i, Seen(index), Arms(index));
        }
    }

    // Call when a packet has come over the link of a port that has programs for that direction.
    void Reverse(uint32_t index, Ref ref)
    {
        Advanced(index);
        ncc_sw_packet seen = network_.Describe(ref);
        Call(NCC_SW_REVERSE, index, seen, NCC_PASS);
        if (seen.flags & NCC_SW_HAS_WINDOW) {
            network_.LowerWindow(ref, seen.window_bytes);
        }
    }

    // Call when a pause frame has come for this port of a switch.
    void Pause(uint32_t index, bool on)
    {
        Port &port = ports_[index];
        port.Pause(on, network_.now_ns());
        if (!on && port.held_pkts() > 0 && !port.serving()) {
            port.Serve(true);
            ServeAt(index, network_.link(index).free_ps);
        }
    }

    // Returns the ports of a deadlock by pauses, as text; empty without one.
    std::string Deadlock()
    {
        std::vector<PausedPort> stuck;
        for (uint32_t index = 0; pausing_ && index < ports_.size(); ++index) {
            if (ports_[index].LongPaused(ports_[index ^ 1], network_.now_ns())) {
                stuck.push_back(ports_[index].Paused(index, network_.packets()));
            }
        }
        const std::vector<uint32_t> ports =
            ncc::Deadlock(std::move(stuck), [this](uint32_t link) { return ports_[link ^ 1].ingress_bytes(); });
        return ports.empty() ? "" : DeadlockMessage(ports);
    }

  private:
    struct ProgramAt {
        uint32_t port, index;
    };

    // The same as Join, for a port that is `plain`: most of the engine's time goes through here.
    [[gnu::always_inline]] void Pass(Port &port, uint32_t index, Ref ref)
    {
        const int64_t now_ns = network_.now_ns();
        auto &packets = network_.packets();
        auto &link = network_.link(index);
        port.Advance(packets, link, now_ns);
        Header &header = Head(ref);
        const ncc_verdict verdict = port.AdmitPlain(link.free_ps, header, now_ns);
        port.Count(header, verdict);
        if (verdict == NCC_DROP) [[unlikely]] {
            network_.Drop(ref);
            return;
        }
        header.marked |= verdict == NCC_MARK;
        network_.Transmit(index, ref, port.Forward(packets, link, ref, now_ns));
    }

    // In shaped.h
    void JoinShaped(uint32_t index, Ref ref);
    void ServeShaped(uint32_t index);
    void TransmittedShaped(uint32_t index, uint64_t word);

    Header &Head(Ref ref) { return network_.packets().header(ref); }
    static int64_t FreeNs(int64_t free_ps) { return (free_ps + kPsPerNs - 1) / kPsPerNs; }
    void ServeAt(uint32_t index, int64_t free_ps)
    {
        network_.Schedule(std::max(FreeNs(free_ps), network_.now_ns()), EventKind::kTransmit, index);
    }
    ncc_sw_port Seen(uint32_t index)
    {
        return ports_[index].Seen(network_.link(index).wire, spec_.mtu_bytes, network_.now_ns());
    }
    auto Arms(uint32_t index) // sets timers of its programs
    {
        return [this, first = first_program_[index]](uint32_t program, int64_t in_ns) {
            network_.Schedule(network_.now_ns() + in_ns, EventKind::kProgram, first + program);
        };
    }
    ncc_verdict Call(ncc_sw_needs hook, uint32_t index, ncc_sw_packet &packet, ncc_verdict verdict)
    {
        return ports_[index].programs()->Packet(hook, Seen(index), packet, verdict, Arms(index));
    }

    // Sets `place` of a packet that is not dropped.
    ncc_verdict RunEnqueue(uint32_t index, Ref ref, ncc_verdict verdict, ncc_verdict fault, typename Port::Place &place)
    {
        Port &port = ports_[index];
        const bool full = port.makes_room() && verdict == NCC_DROP && fault != NCC_DROP; // others may make room
        ncc_sw_packet seen = network_.Describe(ref);
        verdict = full ? NCC_PASS : verdict;
        if (port.needs(NCC_SW_ENQUEUE)) {
            verdict = Call(NCC_SW_ENQUEUE, index, seen, verdict);
            const ncc_cc_signal signal = port.programs()->TakeSignal();
            if (signal.kind != NCC_CC_SIGNAL_NONE && Head(ref).has_payload()) {
                network_.SendSignal(index, ref, signal);
            }
        }
        if (verdict == NCC_TRIM) {
            Head(ref).Trim();
        }
        if (full && verdict != NCC_DROP &&
            !port.MakeRoom(network_.packets(), Head(ref).ip_bytes, seen.rank, [this](Ref out) {
                AddIngress(network_.packets().came_by(out), -static_cast<int64_t>(Head(out).ip_bytes));
                network_.Drop(out);
            })) {
            verdict = NCC_DROP;
        }
        if (verdict != NCC_DROP) {
            place = {seen.rank, seen.flow, port.needs(NCC_SW_QUEUES) ? port.programs()->Classify(seen) : 0};
        }
        return verdict;
    }

    // Call when the transmission of a packet begins. Returns false if a program has dropped the packet.
    bool RunDequeue(uint32_t index, Ref ref)
    {
        Port &port = ports_[index];
        if (!port.needs(NCC_SW_DEQUEUE)) {
            return true;
        }
        ncc_sw_packet seen = network_.Describe(ref);
        seen.queued_ns = static_cast<ncc_u64>(network_.packets()[ref].joined_ns);
        const ncc_verdict verdict = Call(NCC_SW_DEQUEUE, index, seen, NCC_PASS);
        if (port.needs(NCC_SW_TAGS)) {
            Head(ref).rank = seen.tag;
        }
        const ncc_cc_hop hop = port.programs()->TakeHop();
        if (verdict == NCC_DROP) {
            port.DropLeaving(Head(ref), network_.now_ns() - network_.packets()[ref].joined_ns);
            network_.Drop(ref);
            return false;
        }
        if (verdict == NCC_MARK) {
            port.Mark(Head(ref));
        }
        if (hop.rate_bytes_per_s != 0 && Head(ref).has_payload()) {
            network_.WriteHop(ref, hop);
        }
        return true;
    }

    // Adds to the waiting bytes that came over a link, which may pause its far end. `link` kNoLink: it came by none.
    void AddIngress(uint32_t link, int64_t bytes)
    {
        if (!pausing_ || link == Port::PacketsType::kNoLink) {
            return;
        }
        const uint32_t index = link ^ 1;
        Port &port = ports_[index];
        port.AddIngress(bytes);
        if (!port.needs(NCC_SW_INGRESS)) {
            return;
        }
        Advanced(index);
        const ncc_sw_pause pause = port.programs()->Ingress(Seen(index), Arms(index));
        if (pause != NCC_SW_AS_IT_WAS) {
            port.PauseFarEnd(pause == NCC_SW_PAUSE, network_.now_ns());
            network_.SendPause(index, pause == NCC_SW_PAUSE);
        }
    }

    Network &network_;
    const Spec &spec_;
    std::vector<Port> ports_; // by directed port
    std::vector<Pool> pools_;
    std::vector<typename Port::Sharers> sharers_; // by pool
    std::vector<ProgramAt> programs_;             // all programs of all ports
    std::vector<uint32_t> first_program_;         // by port: number of its first one
    bool pausing_ = false;                        // true if a program may pause links
};

} // namespace ncc
