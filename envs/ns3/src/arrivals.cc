// SPDX-License-Identifier: GPL-2.0-only
// Packets as they come to a socket. Of data without its payload (switch.h) the receiver tells the sender, which counts
// it as lost.
#include "network.h"
#include "socket.h"

#include "ns3/inet-socket-address.h"
#include "ns3/ipv4-end-point.h"
#include "ns3/ipv4-header.h"
#include "ns3/tcp-header.h"
#include "ns3/tcp-tx-buffer.h"
#include "ns3/tcp-tx-item.h"

#include <algorithm>
#include <list>

namespace ncc
{

using namespace ns3;

namespace
{

// ns-3's buffer can mark no packet as lost but the first. These reach the members for it, which an explicit
// instantiation may name.
template <typename Of, typename Of::Member member>
struct Expose {
    friend typename Of::Member Reach(Of) { return member; }
};

struct SentList {
    using Member = std::list<TcpTxItem *> TcpTxBuffer::*;
    friend Member Reach(SentList);
};
template struct Expose<SentList, &TcpTxBuffer::m_sentList>;

struct LostBytes {
    using Member = uint32_t TcpTxBuffer::*;
    friend Member Reach(LostBytes);
};
template struct Expose<LostBytes, &TcpTxBuffer::m_lostOut>;

struct ResentBytes {
    using Member = uint32_t TcpTxBuffer::*;
    friend Member Reach(ResentBytes);
};
template struct Expose<ResentBytes, &TcpTxBuffer::m_retrans>;

struct ItemLost {
    using Member = bool TcpTxItem::*;
    friend Member Reach(ItemLost);
};
template struct Expose<ItemLost, &TcpTxItem::m_lost>;

struct ItemStart {
    using Member = SequenceNumber32 TcpTxItem::*;
    friend Member Reach(ItemStart);
};
template struct Expose<ItemStart, &TcpTxItem::m_startSeq>;

// Marks the packet as lost. Returns false if it is not out, as far as the sender knows.
bool MarkLost(TcpTxBuffer &buffer, SequenceNumber32 seq)
{
    for (TcpTxItem *item : buffer.*Reach(SentList{})) {
        if (item->*Reach(ItemStart{}) != seq) {
            continue;
        }
        bool &lost = item->*Reach(ItemLost{});
        if (item->IsSacked() || (lost && !item->IsRetrans())) {
            return false;
        }
        buffer.*Reach(LostBytes{}) += lost ? 0 : item->GetSeqSize();
        buffer.*Reach(ResentBytes{}) -= item->IsRetrans() ? item->GetSeqSize() : 0;
        lost = true;
        item->m_retrans = false;
        return true;
    }
    return false;
}

} // namespace

void HostSocket::Receive(Frame *frame)
{
    Ptr<Packet> packet = frame->packet;
    const uint32_t payload = frame->payload_bytes;
    const uint64_t offset = frame->offset_bytes;
    const bool trimmed = frame->trimmed;
    if (sender_ || (!trimmed && !frame->telemetry.empty())) { // cut data says nothing of its way
        hops_.swap(frame->telemetry);
    }
    const bool ecn_capable = frame->ecn_capable;
    ce_ = frame->marked;
    cwr_ = frame->window_reduced;
    network_.Release(frame);
    measured_rtt_ns_ = 0;
    if (trimmed && !sender_) {
        Trimmed(offset);
        return;
    }
    if (sender_ && m_state == ESTABLISHED) {
        TcpHeader header;
        packet->PeekHeader(header);
        if (header.GetFlags() & TcpHeader::SYN) {
            return; // the answer to a SYN sent again: ns-3 would set the window to its initial value once more
        }
    }
    TakeIn(packet, offset, payload, ecn_capable);
    if (trimmed) {
        Lost(offset);
    }
}

// Never below a packet, as in tcp_receiver.cc: ns-3 counts what the application is about to read when an ACK fills a
// gap, and says nothing once it has read, so that a sender whose whole window waited behind the gap went on after a
// timeout.
uint16_t HostSocket::AdvertisedWindowSize(bool scale) const
{
    const uint32_t least = ((m_tcb->m_segmentSize - 1) >> (scale ? m_rcvWindShift : 0)) + 1;
    return std::max(TcpSocketBase::AdvertisedWindowSize(scale),
                    static_cast<uint16_t>(std::min<uint32_t>(least, m_maxWinSize)));
}

void HostSocket::TakeIn(Ptr<Packet> packet, uint64_t offset_bytes, uint32_t payload, bool ecn_capable)
{
    if (echo_ == Echo::kNs3 && m_endPoint != nullptr) {
        Ipv4Header header;
        header.SetSource(InetSocketAddress::ConvertFrom(peer_).GetIpv4());
        header.SetDestination(InetSocketAddress::ConvertFrom(local_).GetIpv4());
        header.SetEcn(ce_ ? Ipv4Header::ECN_CE : ecn_capable ? Ipv4Header::ECN_ECT0 : Ipv4Header::ECN_NotECT);
        ForwardUp(packet, header, InetSocketAddress::ConvertFrom(peer_).GetPort(), nullptr);
        return;
    }
    if (payload > 0) {
        const auto seq = SequenceNumber32(static_cast<uint32_t>(offset_bytes + 1));
        if (!IsValidTcpSegment(seq, packet->GetSize() - payload, payload)) {
            return;
        }
    }
    DoForwardUp(packet, peer_, local_);
}

void HostSocket::Trimmed(uint64_t offset_bytes)
{
    if (m_state != ESTABLISHED) {
        return;
    }
    telling_trimmed_ = m_sackEnabled && offset_bytes >= received_bytes_;
    trimmed_bytes_ = offset_bytes;
    SendEmptyPacket(TcpHeader::ACK);
    telling_trimmed_ = false;
}

void HostSocket::Lost(uint64_t offset_bytes)
{
    if (!Undelivered() || !MarkLost(*m_txBuffer, SequenceNumber32(static_cast<uint32_t>(offset_bytes + 1)))) {
        return;
    }
    const auto state = m_tcb->m_congState.Get();
    if (state != TcpSocketState::CA_RECOVERY && state != TcpSocketState::CA_LOSS) {
        timed_ = modern_;
        EnterRecovery(0);
        timed_ = false;
    }
    SendPendingData(m_connected);
}

} // namespace ncc
