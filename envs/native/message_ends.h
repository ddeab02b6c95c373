// SPDX-License-Identifier: BSD-3-Clause
// Both ends of the flows of a message transport (transport.h), for both simulators. Because these share it,
// comparing them tests what is below it: hosts, ports and events.
#pragma once

#include "controllers.h"
#include "events.h"
#include "message_flow.h"
#include "message_hosts.h"
#include "mix.h"
#include "run.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ncc
{

// `Network` is cheap to copy. It has the clock and the events (`now_ns`, `Schedule`), the `run`, the `slot_of` a flow
// and the `line_bytes_per_s` and `shaped_bytes_per_s` of a node. `HasRoom(slot)` is true if the host takes one more
// packet of a flow. `AtHost(slot)` packets of the flow wait at the host; `Holds(slot, number)` is true if this one
// does. `SendData(flow, packet)` and `SendWord(flow, packet, to_receiver, marks)` hand down. `Received(slot)` and
// `Acknowledged(slot)` are called once for each flow.
template <class Network>
class MessageEnds
{
  public:
    MessageEnds(Network network, const Routes &routes)
        : network_(network), routes_(routes), hosts_(network, spec().is_host.size(), spec().stacks.size() + 1)
    {
        for (size_t stack = 0; stack <= spec().stacks.size(); ++stack) {
            const StackSpec settings = spec().stack(stack);
            const ncc_tp_ops *ops = FindTransport(settings.transport);
            stacks_.push_back({ops, ops ? ControllerParams(*ops, settings.params) : std::vector<ncc_u64>{}});
        }
        if (std::any_of(stacks_.begin(), stacks_.end(), [](const auto &stack) { return stack.ops != nullptr; })) {
            longest_rtt_ns_ = static_cast<uint64_t>(routes_.LongestRttNs(spec())); // it visits all pairs of hosts
        }
        for (const FlowSpec &flow : spec().flows) {
            if (flow.size_bytes == 0) {
                continue;
            }
            max_rtt_ns_ = std::max(max_rtt_ns_, BaseRttNs(flow));
            if (stacks_[flow.stack].ops != nullptr && (flow.size_bytes - 1) / spec().mss_bytes() >= NCC_TP_ALL - 1) {
                throw std::invalid_argument("a message of " + std::to_string(flow.size_bytes) +
                                            " bytes has more packets than numbers: at most " +
                                            std::to_string(NCC_TP_ALL - 1) + " packets are allowed");
            }
        }
    }

    void Open(uint32_t flow, uint32_t slot)
    {
        const FlowSpec &its = spec().flows[flow];
        flows_.resize(std::max<size_t>(flows_.size(), slot + 1));
        flows_[slot] = std::make_unique<MessageFlow>();
        MessageFlow &m = *flows_[slot];
        m.ops = stacks_[its.stack].ops;
        m.params = stacks_[its.stack].params.data();
        m.flow = flow;
        m.slot = slot;
        m.mss_bytes = spec().mss_bytes();
        m.pkts = static_cast<uint32_t>((its.size_bytes + m.mss_bytes - 1) / m.mss_bytes);
        m.last_bytes = static_cast<uint32_t>(its.size_bytes - static_cast<uint64_t>(m.pkts - 1) * m.mss_bytes);
        m.base_rtt_ns = BaseRttNs(its);
        Call(m, true, m.ops->start);
    }
    void Close(uint32_t slot) { flows_[slot] = nullptr; }

    // Data or a control packet has arrived at the receiver of an open flow.
    void ToReceiver(uint32_t slot, const ncc_tp_packet &k)
    {
        MessageFlow &m = *flows_[slot];
        FlowRecord &record = network_.run().record(m.flow);
        if (m.here == m.pkts) { // the sender does not know
            Say(m, Word(NCC_TP_ACK), false);
            return;
        }
        if (k.kind == NCC_TP_DATA && (k.flags & NCC_TP_TRIMMED) == 0) {
            record.reordered_pkts += k.number < m.reached && (k.flags & NCC_TP_AGAIN) == 0;
            m.TakeIn(k.number);
        } else if (k.kind == NCC_TP_PROBE) {
            const uint32_t told = std::exchange(m.reached, std::max(m.reached, k.count));
            if (SayHoles(m, k.count, told < k.count ? told : 0) == 0) {
                Say(m, Word(NCC_TP_ACK), false);
            }
        }
        Call(m, false, m.ops->got, k);
        if (m.here == m.pkts) {
            m.receiver_timer.due_ns = MessageTimer::kOff;
            SetUrgency(m, NCC_TP_OFF);
            network_.Received(slot);
        }
    }

    // A control packet has arrived at the sender of an open flow.
    void ToSender(uint32_t slot, const ncc_tp_packet &k)
    {
        MessageFlow &m = *flows_[slot];
        FlowRecord &record = network_.run().record(m.flow);
        record.credits += k.kind == NCC_TP_CREDIT;
        if (m.acked == m.pkts) {
            record.wasted_credits += k.kind == NCC_TP_CREDIT;
            return;
        }
        uint64_t bytes = 0;
        for (uint32_t number = m.una; number < k.below; ++number) {
            bytes += m.There(number);
        }
        if (k.kind == NCC_TP_ACK && k.number < m.nxt) {
            bytes += m.There(k.number) + m.ReadMap(k.number, k.map);
        }
        for (; m.there.Remove(m.una); ++m.una) {
        }
        network_.run().Delivered(m.flow, bytes);
        if (m.acked == m.pkts) {
            record.wasted_credits += m.granted;
            m.sender_timer.due_ns = m.permitted.due_ns = MessageTimer::kOff;
            hosts_.SetWaits(Source(m), m, false);
            network_.Acknowledged(slot);
            return;
        }
        Call(m, true, m.ops->heard, k);
    }

    // Event of a flow's timer; ignored unless it is the last one of that timer.
    void Timer(uint32_t slot, uint64_t word)
    {
        if (slot >= flows_.size() || flows_[slot] == nullptr) {
            return;
        }
        MessageFlow &m = *flows_[slot];
        if (Due(m, m.permitted, word)) {
            Send(slot);
        } else if (Due(m, m.sender_timer, word)) {
            Call(m, true, m.ops->sender_timer);
        } else if (Due(m, m.receiver_timer, word)) {
            Call(m, false, m.ops->receiver_timer);
        }
    }

    // Hands down the packets that are permitted and have room.
    void Send(uint32_t slot)
    {
        MessageFlow &m = *flows_[slot];
        SendPermitted(m);
        hosts_.SetWaits(Source(m), m, network_.AtHost(slot) > 0);
    }

    // Event: the turn of a host.
    void Turn(uint32_t index)
    {
        const Stack &stack = stacks_[hosts_.StackOf(index)];
        hosts_.Turn(
            index, *stack.ops, stack.params.data(),
            [&](uint32_t flow) -> MessageFlow & { return *flows_[network_.slot_of(flow)]; },
            [&](MessageFlow &m) { return View(m, false); },
            [&](MessageFlow &m, ncc_tp_out &out) { Apply(m, false, out); });
    }

  private:
    struct Stack {
        const ncc_tp_ops *ops; // null: TCP
        std::vector<ncc_u64> params;
    };

    const Spec &spec() { return network_.run().spec(); }
    uint64_t BaseRttNs(const FlowSpec &flow)
    {
        return static_cast<uint64_t>(routes_.BaseRttNs(spec(), flow.src, flow.dst));
    }

    void SendPermitted(MessageFlow &m)
    {
        while (!m.grants.empty() && m.acked < m.pkts) {
            ncc_tp_grant &grant = m.grants.front();
            if (static_cast<int64_t>(grant.due_ns) > network_.now_ns()) {
                ArmAt(m, m.permitted, static_cast<int64_t>(grant.due_ns));
                return;
            }
            if (!m.sends() || !network_.HasRoom(m.slot)) {
                return;
            }
            ncc_tp_packet k = m.Next(grant);
            --m.granted;
            if (m.ops->leaves != nullptr) {
                const ncc_tp_flow f = View(m, true);
                m.ops->leaves(m.sender, m.params, &f, &k);
            }
            network_.SendData(m, k);
            if (--grant.pkts == 0) {
                const bool probe = (grant.flags & NCC_TP_THEN_PROBE) != 0;
                m.grants.pop_front();
                if (probe) {
                    Probe(m);
                }
            }
        }
    }
    static ncc_tp_packet Word(ncc_u32 kind)
    {
        ncc_tp_packet k{};
        k.kind = kind;
        k.number = NCC_TP_ALL;
        return k;
    }
    void Say(MessageFlow &m, ncc_tp_packet k, bool to_receiver, uint8_t marks = 0)
    {
        k.below = to_receiver ? m.una : m.below;
        k.map = (k.flags & NCC_TP_MAPPED) != 0 ? m.Map(k.number) : 0;
        marks |= (k.flags & NCC_TP_EXPENDABLE) != 0 ? kExpendable : 0;
        marks |= (k.flags & NCC_TP_IN_SHAPED) != 0 ? kInShaped : 0;
        network_.run().record(m.flow).control_bytes += NCC_TP_SAY_BYTES;
        network_.SendWord(m, k, to_receiver, marks);
    }
    void Probe(MessageFlow &m)
    {
        ncc_tp_packet probe = Word(NCC_TP_PROBE);
        probe.count = m.nxt;
        Say(m, probe, true, kBehind);
    }
    // Sends NACKs for the packets below `end` that have not arrived. Returns the number of holes reported. The last one
    // with room is that from `tail` on, which no later control packet reports.
    uint32_t SayHoles(MessageFlow &m, uint32_t end, uint32_t tail = 0)
    {
        uint32_t said = 0;
        for (uint32_t at = m.below; at < end && said < NCC_TP_PROBED; ++said) {
            ncc_tp_packet nack = Word(NCC_TP_NACK);
            at = said + 1 == NCC_TP_PROBED ? std::max(at, tail) : at;
            nack.number = at;
            nack.count = m.got.FirstOf(at, end) - at;
            Say(m, nack, false);
            at = m.got.FirstGap(at + nack.count, end);
        }
        return said;
    }

    ncc_tp_flow View(MessageFlow &m, bool sender)
    {
        const FlowSpec &flow = spec().flows[m.flow];
        ncc_tp_flow f{};
        f.now_ns = static_cast<ncc_u64>(network_.now_ns());
        f.line_bytes_per_s = network_.line_bytes_per_s(sender ? flow.src : flow.dst);
        f.sender_bytes_per_s = network_.line_bytes_per_s(flow.src);
        f.shaped_bytes_per_s = network_.shaped_bytes_per_s(sender ? flow.src : flow.dst);
        f.base_rtt_ns = m.base_rtt_ns;
        f.max_rtt_ns = max_rtt_ns_;
        f.longest_rtt_ns = longest_rtt_ns_;
        f.mtu_bytes = spec().mtu_bytes;
        f.wire_bytes = spec().mtu_bytes + spec().frame_overhead_bytes;
        f.last_wire_bytes = m.last_bytes + spec().mtu_bytes - m.mss_bytes + spec().frame_overhead_bytes;
        f.say_wire_bytes = NCC_TP_SAY_BYTES + spec().frame_overhead_bytes;
        f.pkts = m.pkts;
        f.peer = sender ? flow.dst : flow.src;
        m.draws += kMixStep;
        f.random = static_cast<ncc_u32>(Mix(Mix(spec().seed ^ m.flow) + m.draws) >> 32);
        f.sent = m.sent;
        f.fresh = m.pkts - m.nxt;
        f.again = m.again;
        f.acked = m.acked;
        f.granted = m.granted;
        f.rivals = sender ? hosts_.Rivals(flow.src, m) : 0;
        if (sender) {
            f.at_host = network_.AtHost(m.slot);
            if (m.sends() && !m.grants.empty()) {
                const ncc_u64 since_ns = std::max(m.grants.front().due_ns, static_cast<ncc_u64>(m.to_send_ns));
                f.late_ns = f.now_ns - std::min(f.now_ns, since_ns);
            }
        }
        f.here = m.here;
        f.reached = m.reached;
        f.below = sender ? m.una : m.below;
        f.hole = !sender && m.below < m.reached ? m.got.FirstOf(m.below, m.reached) : f.below;
        return f;
    }

    template <class Operation, class... Packet>
    void Call(MessageFlow &m, bool sender, Operation operation, const Packet &...packet)
    {
        const ncc_tp_flow f = View(m, sender);
        ncc_tp_out out;
        std::memset(&out, 0, offsetof(ncc_tp_out, says));
        operation(sender ? m.sender : m.receiver, m.params, &f, &packet..., &out);
        Apply(m, sender, out);
    }

    void Apply(MessageFlow &m, bool sender, ncc_tp_out &out)
    {
        if (out.timed_out != 0) {
            network_.run().TimedOut(m.flow);
        }
        if (sender) {
            network_.run().record(m.flow).wasted_credits += out.wasted;
            const bool sends = m.sends();
            m.MarkLost(out, [&](uint32_t number) { return network_.Holds(m.slot, number); });
            m.to_send_ns = sends ? m.to_send_ns : network_.now_ns();
            if (m.Permit(out.grant, out.revoke != 0, network_.now_ns())) {
                Probe(m);
            }
        } else {
            SayHoles(m, out.holes);
            if (out.urgency != 0) {
                SetUrgency(m, out.urgency);
            }
        }
        for (uint32_t i = 0; i < out.n_says; ++i) {
            Say(m, out.says[i], sender, out.says[i].kind == NCC_TP_PROBE ? kBehind : 0);
        }
        MessageTimer &timer = sender ? m.sender_timer : m.receiver_timer;
        if (out.timer_ns == NCC_TP_OFF) {
            timer.due_ns = MessageTimer::kOff;
        } else if (out.timer_ns != 0) {
            ArmAt(m, timer, network_.now_ns() + static_cast<int64_t>(out.timer_ns));
        }
        if (sender) {
            Send(m.slot);
        }
    }

    void ArmAt(MessageFlow &m, MessageTimer &timer, int64_t due_ns)
    {
        timer.due_ns = due_ns;
        if (timer.queued_ns > due_ns) {
            timer.queued_ns = due_ns;
            timer.word = network_.Schedule(due_ns, EventKind::kMessageTimer, m.slot);
        }
    }
    // True if this event is the timer's, and the timer is due. The timer is then off.
    bool Due(MessageFlow &m, MessageTimer &timer, uint64_t word)
    {
        if (timer.word != word) {
            return false;
        }
        timer.word = 0;
        timer.queued_ns = MessageTimer::kOff;
        const int64_t due_ns = std::exchange(timer.due_ns, MessageTimer::kOff);
        if (due_ns == MessageTimer::kOff || due_ns <= network_.now_ns()) {
            return due_ns != MessageTimer::kOff;
        }
        ArmAt(m, timer, due_ns);
        return false;
    }

    void SetUrgency(MessageFlow &m, uint64_t urgency)
    {
        const FlowSpec &flow = spec().flows[m.flow];
        hosts_.SetUrgency(hosts_.IndexOf(flow.stack, flow.dst), m, urgency);
    }
    uint32_t Source(const MessageFlow &m) { return spec().flows[m.flow].src; }

    Network network_;
    const Routes &routes_;
    MessageHosts<Network> hosts_;
    std::vector<Stack> stacks_;                       // by FlowSpec::stack
    uint64_t max_rtt_ns_ = 0;                         // longest RTT of the run's flows, without queues
    uint64_t longest_rtt_ns_ = 0;                     // longest RTT between any two hosts, without queues
    std::vector<std::unique_ptr<MessageFlow>> flows_; // by slot; null: closed, or TCP's
};

} // namespace ncc
