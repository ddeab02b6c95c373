// SPDX-License-Identifier: BSD-3-Clause
// The hosts of message transports (transport.h): the turns in which they serve their incoming flows, and the flows
// whose data waits to leave them. For both simulators.
#pragma once

#include "events.h"
#include "message_flow.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

namespace ncc
{

// A host that serves the incoming flows of one stack by turns.
struct MessageHost {
    std::set<std::pair<uint64_t, uint32_t>> urgent; // urgency, flow
    uint64_t word = 0;                              // event of the turn that is due; 0: none
    int64_t not_before_ns = 0;
    bool in_turn = false;
    alignas(8) unsigned char state[NCC_TP_HOST_MAX] = {};
};

// `Network` is that of MessageEnds (message_ends.h).
template <class Network>
class MessageHosts
{
  public:
    MessageHosts(Network network, size_t nodes, size_t stacks)
        : network_(network), nodes_(nodes), hosts_(nodes * stacks), waiting_(nodes)
    {
    }

    // Index of a host among those of all stacks, which names the events of its turns.
    uint32_t IndexOf(size_t stack, uint32_t node) const { return static_cast<uint32_t>(stack * nodes_ + node); }
    size_t StackOf(uint32_t index) const { return index / nodes_; }

    // Gives a flow its place among the flows to its host, and the host a turn.
    void SetUrgency(uint32_t index, MessageFlow &flow, uint64_t urgency)
    {
        if (urgency == flow.urgency) {
            return;
        }
        if (flow.urgency != NCC_TP_OFF) {
            hosts_[index].urgent.erase({flow.urgency, flow.flow});
        }
        flow.urgency = urgency;
        if (urgency != NCC_TP_OFF) {
            hosts_[index].urgent.emplace(urgency, flow.flow);
        }
        TurnSoon(index);
    }

    // Event: the turn of a host. `flow_of(flow)` is the state of a flow, `view(flow)` what its receiver sees, and
    // `apply(flow, out)` applies the decisions of the turn.
    template <class FlowOf, class View, class Apply>
    void Turn(uint32_t index, const ncc_tp_ops &ops, const ncc_u64 *params, FlowOf flow_of, View view, Apply apply)
    {
        MessageHost &host = hosts_[index];
        host.word = 0;
        if (host.urgent.empty()) {
            return;
        }
        ncc_tp_flow flows[NCC_TP_TOP];
        ncc_tp_out outs[NCC_TP_TOP];
        MessageFlow *ends[NCC_TP_TOP];
        ncc_tp_turn turn{0, {}, flows, outs};
        for (auto it = host.urgent.begin(); it != host.urgent.end() && turn.n < ops.top; ++it, ++turn.n) {
            ends[turn.n] = &flow_of(it->second);
            flows[turn.n] = view(*ends[turn.n]);
            turn.rcv[turn.n] = ends[turn.n]->receiver;
            std::memset(&outs[turn.n], 0, offsetof(ncc_tp_out, says));
        }
        host.in_turn = true; // changes that the turn makes wait for the next turn
        const ncc_u64 next_ns = ops.turn(host.state, params, &turn);
        bool changed = next_ns > 0;
        for (uint32_t i = 0; i < turn.n; ++i) {
            changed |= outs[i].urgency != 0;
            apply(*ends[i], outs[i]);
        }
        host.in_turn = false;
        host.not_before_ns = network_.now_ns() + static_cast<int64_t>(next_ns);
        if (changed) {
            TurnSoon(index);
        }
    }

    // Keeps count of the flows whose data waits at their host.
    void SetWaits(uint32_t node, MessageFlow &flow, bool waits)
    {
        if (waits != flow.waits) {
            waiting_[node] += waits ? 1 : -1;
            flow.waits = waits;
        }
    }
    // Flows whose data waits at a host, with this one.
    ncc_u32 Rivals(uint32_t node, const MessageFlow &flow) const
    {
        return static_cast<ncc_u32>(waiting_[node] + (flow.waits ? 0 : 1));
    }

  private:
    void TurnSoon(uint32_t index)
    {
        MessageHost &host = hosts_[index];
        if (host.word == 0 && !host.in_turn) {
            host.word = network_.Schedule(std::max(host.not_before_ns, network_.now_ns()), EventKind::kTurn, index);
        }
    }

    Network network_;
    size_t nodes_;
    std::vector<MessageHost> hosts_; // by stack and node
    std::vector<int64_t> waiting_;   // by node: flows whose data waits there
};

} // namespace ncc
