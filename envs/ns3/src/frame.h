// SPDX-License-Identifier: GPL-2.0-only
// A packet on its way through the network, with the fields that ports and NICs need beside its bytes.
#pragma once

extern "C" {
#include "switch.h"
}

#include "transports.h"

#include "ns3/event-impl.h"
#include "ns3/packet.h"
#include "ns3/simulator.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace ncc
{

class Network;

constexpr uint32_t kNoPort = UINT32_MAX;

// A packet and the event of its next hop in one object, which is pooled instead of allocated.
struct Frame final : ns3::EventImpl {
    ns3::Ptr<ns3::Packet> packet; // TCP header and payload; the IP header is only counted
    Network *network = nullptr;
    int64_t joined_ns = 0;     // time at which it joined its queue
    uint64_t offset_bytes = 0; // stream offset of the payload, in the connection
    uint32_t flow = 0;
    uint32_t route = 0; // first flow of its connection, which chooses among paths of equal cost
    uint32_t link = 0;  // directed port by which it comes or has come; kNoPort: none
    uint32_t hops = 0;  // links crossed
    uint32_t grant = 0; // place of the receiver's grant in a message (gates.h)
    uint32_t ip_bytes = 0;
    uint32_t payload_bytes = 0;
    ncc_cc_signal signal{NCC_CC_SIGNAL_NONE, 0}; // a switch's signal to the sender; without a packet
    bool to_receiver = true;
    bool message = false; // a note or a grant, beside TCP; without a packet
    bool of_ends = false; // a message transport's (transport.h); without a packet
    uint8_t marks = 0;    // MessageMark, for a message transport's frames
    ncc_tp_packet content{};
    bool retransmission = false;
    bool ecn_capable = false;
    bool marked = false;         // Congestion Experienced
    bool window_reduced = false; // CWR
    bool fin = false;            // the last data of its flow
    bool syn_ack = false, has_window = false;
    bool trimmed = false;      // a port has cut its payload off; of an ACK: it says so of the data at `offset_bytes`
    bool lowered = false;      // its window has been, and is to be written into its header
    uint8_t prio = 0;          // class of its tag (flow_tag.h)
    uint32_t rank = 0;         // of its tag
    uint32_t window_shift = 0; // of `window`
    uint16_t window = 0;       // receive window as in its header; only where programs see what comes back
    bool reads_hops = false;   // data whose sender reads telemetry
    bool ect1 = false;         // ECT(1) rather than ECT(0), if it is ECN-capable
    std::vector<ncc_cc_hop> telemetry; // what ports wrote into data; of an ACK: into the last data before it
    Frame *behind = nullptr;           // the frame behind it in its list

    bool has_payload() const { return payload_bytes > 0; }
    bool in_flow_queue() const { return has_payload() || (marks & kBehind) != 0; }
    bool shaped() const { return (marks & kInShaped) != 0; }
    bool expendable() const { return (marks & kExpendable) != 0; }
    void Trim() // cuts its payload off
    {
        ip_bytes = std::min<uint32_t>(ip_bytes, NCC_SW_TRIM_BYTES);
        payload_bytes = 0;
        trimmed = true;
        fin = false;
    }

  private:
    void Notify() override; // arrives at the end of `link`
};

class FramePool
{
  public:
    using Ref = Frame *;
    static constexpr Ref kNoPacket = nullptr;
    static constexpr uint32_t kNoLink = kNoPort;

    Frame &operator[](Frame *frame) { return *frame; }
    Frame &header(Frame *frame) { return *frame; }
    uint32_t slot(const Frame *frame) const { return frame->flow; }
    uint32_t came_by(const Frame *frame) const { return frame->link; }

    Frame *Take()
    {
        if (free_.empty()) {
            all_.push_back(ns3::Create<Frame>());
            free_.push_back(ns3::PeekPointer(all_.back()));
        }
        Frame *frame = free_.back();
        free_.pop_back();
        frame->hops = 0;
        frame->trimmed = frame->of_ends = false;
        frame->marks = 0;
        frame->telemetry.clear();
        frame->signal = {NCC_CC_SIGNAL_NONE, 0};
        return frame;
    }

    void Release(Frame *frame)
    {
        frame->packet = nullptr;
        free_.push_back(frame);
    }

  private:
    std::vector<ns3::Ptr<Frame>> all_;
    std::vector<Frame *> free_;
};

} // namespace ncc
