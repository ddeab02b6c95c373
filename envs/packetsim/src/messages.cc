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
        spec_,
        [this](uint32_t flow) { return std::make_pair(views_[flow].known_bytes, ReceivedBytes(slot_of_flow_[flow])); },
        [this](uint32_t gate, int64_t time_ns) { Schedule(time_ns, EventKind::kGate, gate); },
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

// Payload of a flow that has come, with what lies beyond a gap; a packet is missing.
uint64_t Network::ReceivedBytes(uint32_t slot) const
{
    const Connection &connection = connections_[slot];
    const TcpReceiver &receiver = connection.receiver;
    const uint32_t last = connection.packets - 1, words = last / 64 - receiver.next / 64;
    const bool has_last =
        receiver.held > 0 && words < receiver.holds.capacity() && (receiver.holds[last / 64] >> last % 64 & 1) != 0;
    return static_cast<uint64_t>(receiver.next + receiver.held) * mss_bytes_ -
           (has_last ? mss_bytes_ - connection.last_bytes : 0);
}

std::vector<Gates::Edge> Network::Edges() const { return gates_ ? gates_->Edges(now_ns_) : std::vector<Gates::Edge>{}; }

} // namespace ncc::packetsim
