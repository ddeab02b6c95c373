// SPDX-License-Identifier: BSD-3-Clause
// The life of a flow.
#include "network.h"

#include <algorithm>
#include <string>

namespace ncc::packetsim
{

void Network::StartFlows()
{
    while (next_flow_ < spec_.flows.size() && spec_.flows[next_flow_].start_ns <= now_ns_) {
        StartFlow(static_cast<uint32_t>(next_flow_++));
    }
    if (next_flow_ < spec_.flows.size()) {
        Schedule(spec_.flows[next_flow_].start_ns, EventKind::kFlow, 0);
    }
}

void Network::StartFlow(uint32_t flow)
{
    const FlowSpec &spec = spec_.flows[flow];
    const uint32_t before = idle_.Take(spec);
    uint32_t slot;
    if (free_slots_.empty()) {
        slot = static_cast<uint32_t>(connections_.size());
        if (slot > kMaxIndex) {
            Fail("more than " + std::to_string(kMaxIndex) + " flows at once");
            return;
        }
        connections_.emplace_back();
        paths_.emplace_back();
    } else {
        slot = free_slots_.back();
        free_slots_.pop_back();
        connections_[slot] = Connection();
    }
    slot_of_flow_[flow] = slot;
    Connection &connection = connections_[slot];
    connection.flow = flow;
    connection.src_host = host_index_[spec.src];
    connection.dst_host = host_index_[spec.dst];
    connection.stack = spec.stack;
    std::copy(std::begin(spec.limited), std::end(spec.limited), connection.limited);
    connection.packets = static_cast<uint32_t>((spec.size_bytes + mss_bytes_ - 1) / mss_bytes_);
    connection.last_bytes =
        static_cast<uint32_t>(spec.size_bytes - static_cast<uint64_t>(connection.packets - 1) * mss_bytes_);
    if (before < IdleConnections::kUnused) { // the path is the connection's
        paths_[slot] = paths_[before];
    } else {
        ChoosePath(slot, spec);
    }
    std::vector<uint32_t> &live = hosts_[connection.src_host].live;
    connection.live_index = static_cast<uint32_t>(live.size());
    live.push_back(slot);
    ++live_;
    if (gates_) {
        gates_->Open(flow, spec);
    }
    knowledge_.Began(spec, views_[flow]);
    TcpOpen(*this, slot, before);
    if (written_bytes(slot) < spec.size_bytes) {
        Schedule(now_ns_ + spec.every_ns, EventKind::kWrite, slot);
    }
    if (before < IdleConnections::kUnused) {
        Release(before);
    }
}

void Network::Write(uint32_t slot)
{
    TcpWritten(*this, slot);
    const FlowSpec &flow = spec_.flows[connections_[slot].flow];
    if (written_bytes(slot) < flow.size_bytes) {
        Schedule(now_ns_ + flow.every_ns, EventKind::kWrite, slot);
    }
}

void Network::ChoosePath(uint32_t slot, const FlowSpec &flow)
{
    auto choose = [&](uint32_t *ports, uint32_t from, uint32_t to) {
        const uint32_t id = connections_[slot].flow;
        uint32_t node = from;
        for (uint32_t hop = 0;; ++hop) {
            const bool back = spec_.symmetric && to == flow.src;
            const uint32_t port = back ? routes_.PortBack(node, flow.src, flow.dst, id) : routes_.Port(node, to, id);
            node = links_[port].wire.to;
            if (hop > 0) {
                ports[hop - 1] = spec_.sprayed || router_.chooses() ? kAsk : port;
            }
            if (node == to) {
                ports[hop] = kNone;
                return;
            }
        }
    };
    choose(paths_[slot].ports[0], flow.src, flow.dst);
    choose(paths_[slot].ports[1], flow.dst, flow.src);
}

void Network::Received(uint32_t slot)
{
    const Connection &connection = connections_[slot];
    records_[connection.flow].finish_ns = now_ns_;
    ++finished_;
    if (gates_) {
        gates_->Received(connection.flow);
    }
    std::vector<uint32_t> &live = hosts_[connection.src_host].live;
    live[connection.live_index] = live.back();
    connections_[live.back()].live_index = connection.live_index;
    live.pop_back();
}

void Network::Done(uint32_t slot)
{
    Connection &connection = connections_[slot];
    knowledge_.Ended(spec_.flows[connection.flow]);
    if (gates_) {
        gates_->Over(connection.flow, now_ns_);
    }
    Schedule(now_ns_ + 1, EventKind::kOver, slot); // later, because TCP is still using it
    if (idle_.kept()) {
        ++connection.in_network; // keeps the slot, with what the next flow inherits, until `Release`
        idle_.Add(spec_.flows[connection.flow], slot);
    }
}

void Network::Over(uint32_t slot)
{
    Connection &connection = connections_[slot];
    TcpClose(*this, slot);
    connection.over = true;
    slot_of_flow_[connection.flow] = kNone;
    --live_;
    if (connection.in_network == 0) {
        free_slots_.push_back(slot);
    }
}

} // namespace ncc::packetsim
