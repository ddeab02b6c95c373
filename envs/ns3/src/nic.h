// SPDX-License-Identifier: GPL-2.0-only
// The sending side of a host below TCP: one queue per flow, an order among flows, a rate limit, the wire.
#pragma once

#include "frame.h"
#include "order.h"
#include "records.h"
#include "token_bucket.h"
#include "wire.h"

#include "ns3/event-id.h"

#include <deque>
#include <memory>

namespace ncc
{

// Packets of one flow that TCP has handed down and that have not left the host yet.
struct FlowQueue {
    std::deque<Frame *> frames;
    uint64_t bytes = 0;
};

// Packets leave when their transmission begins. Handshake packets and pure ACKs go before data. Packets under the limit
// (FlowSpec::limited) take tokens from the bucket; while they wait for tokens, the others are sent. Nothing is ever
// dropped here, because back-pressure bounds the queues (`HasRoom`). The bound is exceeded by repairs that ns-3 sends
// without asking for the window: the first of a fast recovery and one on each partial ACK in it.
//
// The clock of a segment's RTT starts when TCP hands it down. An RTT sample therefore contains the wait in the flow's
// own queue (at most `small_queue_bytes` ahead of it, except for repairs) and the turns of other flows meanwhile, but
// not the time that data waits in TCP's send buffer.
class Nic
{
  public:
    Nic(Network &network, const Wire &wire, uint64_t bucket_bytes, uint64_t small_queue_bytes, uint32_t mtu_bytes,
        std::unique_ptr<FlowOrder> order);
    ~Nic();
    Nic(const Nic &) = delete;
    Nic &operator=(const Nic &) = delete;

    // Sets the limit in bits of IP packets per second, > 0; infinity means no limit. It takes effect at once, also for
    // a packet that already waits for tokens.
    void SetLimit(double bps);
    double limit_bps() const { return bucket_.limit_bps(); }

    void Send(Frame *frame);
    void Pause(bool on); // obeys a pause frame (PFC)

    // Returns true if TCP may hand down one more packet of a flow (Linux: TCP small queues).
    bool HasRoom(const FlowQueue &queue) const
    {
        return queue.bytes == 0 || queue.bytes + mtu_bytes_ <= small_queue_bytes_;
    }

    const PortTotals &totals() const { return totals_; }
    int64_t limited_bytes() const { return limited_bytes_; } // IP packets sent under the limit
    const Wire &wire() const { return wire_; }
    Port *seen_by = nullptr; // the switch's port back, if programs are to see what this sends

  private:
    struct WireFree final : ns3::EventImpl {
        Nic *nic = nullptr;
        void Notify() override;
    };

    // Queue whose oldest frame is sent next, and the time for which it must wait for tokens.
    struct Turn {
        std::deque<Frame *> *frames;
        bool limited;
        int64_t wait_ns = 0;
    };

    void Serve(); // sends the next packet if the wire is free and there are tokens
    Turn Next(int64_t now_ns);
    bool Waits() const { return data_frames_ > 0 || !control_[0].empty() || !control_[1].empty(); }
    bool Limited(const Frame &frame) const;
    void Transmit(Frame *frame, bool limited, int64_t now_ns);
    void ServeAt(int64_t delay_ns);

    Network &network_;
    Wire wire_;
    PortTotals totals_;
    std::unique_ptr<FlowOrder> order_;
    std::deque<Frame *> control_[2]; // not under the limit; under it
    uint64_t data_frames_ = 0;
    uint64_t unlimited_frames_ = 0; // those without a limit
    int64_t limited_bytes_ = 0;
    int64_t queue_bytes_ = 0;
    uint64_t small_queue_bytes_;
    uint32_t mtu_bytes_;

    int64_t free_ps_ = 0; // time at which the wire has sent everything
    ns3::Ptr<WireFree> wire_free_;
    bool wire_pending_ = false, paused_ = false;
    TokenBucket bucket_;
    ns3::EventId token_event_;
};

} // namespace ncc
