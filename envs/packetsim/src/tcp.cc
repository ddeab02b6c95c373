// SPDX-License-Identifier: BSD-3-Clause
// TCP's functions of network.h.
#include "tcp_sending_end.h"

namespace ncc::packetsim
{

void TcpOpen(Network &network, uint32_t slot, uint32_t before)
{
    TcpSendingEnd sender(network, slot);
    if (before == IdleConnections::kAnother && network.connections().tcp(slot).handshake) {
        sender.Open();
    } else if (before >= IdleConnections::kUnused) {
        TcpReceiverOpen(network, slot);
        network.flows().SendNote(slot);
        sender.OpenAtOnce();
    } else {
        TcpReceiver &receiver = network.connections()[slot].receiver;
        const TcpReceiver &earlier = network.connections()[before].receiver;
        receiver.state = earlier.state;
        receiver.echo = earlier.echo;
        receiver.unacked = earlier.unacked;
        network.flows().SendNote(slot);
        sender.Continue(before);
    }
}

void TcpReceive(Network &network, uint32_t slot, const Packet &packet)
{
    if (packet.to_receiver()) {
        TcpReceiverReceive(network, slot, packet);
    } else {
        TcpSendingEnd(network, slot).Receive(packet);
    }
}

void TcpExpired(Network &network, uint32_t slot, TimerKind kind)
{
    switch (kind) {
    case TimerKind::kRetransmit:
        TcpSendingEnd(network, slot).RetransmitExpired();
        return;
    case TimerKind::kDelayedAck:
        TcpReceiverExpired(network, slot);
        return;
    case TimerKind::kPace:
        TcpSendingEnd(network, slot).SendPending();
        return;
    case TimerKind::kControl:
        TcpSendingEnd(network, slot).ControlTimer();
        return;
    }
}

void TcpRoom(Network &network, uint32_t slot) { TcpSendingEnd(network, slot).Room(); }

void TcpWritten(Network &network, uint32_t slot) { TcpSendingEnd(network, slot).Written(); }

void TcpHeadLeft(Network &network, uint32_t slot) { TcpSendingEnd(network, slot).HeadLeft(); }

void TcpSignal(Network &network, uint32_t slot, const ncc_cc_signal &signal)
{
    TcpSendingEnd(network, slot).Signal(signal);
}

void TcpClose(Network &network, uint32_t slot)
{
    TcpSendingEnd(network, slot).Close();
    TcpReceiver &receiver = network.connections()[slot].receiver;
    receiver.delayed_ack.Cancel();
    receiver.holds.Release(network.connections().rings());
}

} // namespace ncc::packetsim
