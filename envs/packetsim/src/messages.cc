// SPDX-License-Identifier: BSD-3-Clause
// Messages beside TCP: between receivers and their senders (gates.h), and a switch's signals.
#include "network.h"

#include <utility>

namespace ncc::packetsim
{

void Network::BuildGates()
{
    if (!spec_.receivers) {
        return;
    }
    gates_ = std::make_unique<Gates>(
        spec_, [this](uint32_t gate, int64_t time_ns) { Schedule(time_ns, EventKind::kGate, gate); },
        [this](uint32_t flow) { TcpRoom(*this, slot_of_flow_[flow]); },
        [this](uint32_t place, int64_t time_ns) { Schedule(time_ns, EventKind::kLeave, place); },
        [this](uint32_t flow, uint32_t place) { Message(slot_of_flow_[flow], Kind::kGrant, place); });
}

void Network::Note(uint32_t slot)
{
    if (gates_ && !gates_->instant()) {
        gates_->Noted(connections_[slot].flow, now_ns_);
        Message(slot, Kind::kNote, kNone);
    }
}

void Network::Message(uint32_t slot, Kind kind, uint32_t grant)
{
    Packet packet{};
    packet.connection = slot;
    packet.sack = grant;
    packet.ip_bytes = static_cast<uint16_t>(Gates::kMessageBytes);
    packet.kind = kind;
    ++messages_;
    Send(packet);
}

void Network::Heard(uint32_t slot)
{
    if (gates_) {
        gates_->Heard(connections_[slot].flow, now_ns_);
    }
}

void Network::Hear(const Packet &message)
{
    if (message.kind == Kind::kSignal) {
        if (!connections_[message.connection].over) {
            TcpSignal(*this, message.connection, {message.window, message.number});
        }
    } else if (message.kind == Kind::kGrant) {
        gates_->Arrived(message.sack, now_ns_);
    } else {
        Heard(message.connection);
    }
}

std::vector<Gates::Edge> Network::Edges() const
{
    if (!gates_) {
        return {};
    }
    return gates_->Edges(
        [this](uint32_t flow) {
            const TcpReceiver &receiver = connections_[slot_of_flow_[flow]].receiver;
            const uint64_t bytes = static_cast<uint64_t>(receiver.next + receiver.held) * mss_bytes_;
            return std::make_pair(views_[flow].known_bytes, bytes); // below the size, as a packet is missing
        },
        now_ns_);
}

} // namespace ncc::packetsim
