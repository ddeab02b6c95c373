// SPDX-License-Identifier: BSD-3-Clause
// Delivery rate of a connection: draft-cheng-iccrg-delivery-rate-estimation-02 section 3, in bytes. The sender reports
// every packet that it sends, and every packet that is acknowledged (selectively or cumulatively), once. The sample of
// an ACK is that of the packet sent last among those that it acknowledges, as in Linux (tcp_rate.c).
#pragma once

extern "C" {
#include "cc.h"
}

#include <algorithm>
#include <cstdint>

namespace ncc
{

// State of the delivery when a packet was last sent (P.* of the draft).
struct SentRecord {
    int64_t sent_ns = 0;
    int64_t first_sent_ns = 0;
    int64_t delivered_ns = 0;
    uint64_t delivered_bytes = 0;
    bool app_limited = false;
};

class DeliveryRate
{
  public:
    // Call before reporting the packets of an ACK.
    void BeginAck(int64_t now_ns, uint64_t lost_bytes)
    {
        now_ns_ = now_ns;
        lost_before_bytes_ = lost_bytes;
        any_ = false;
    }

    // Returns the record of a packet that is sent. `idle`: everything sent before has been acknowledged.
    SentRecord Sent(int64_t now_ns, bool idle)
    {
        if (idle) {
            first_sent_ns_ = delivered_ns_ = now_ns;
        }
        return {now_ns, first_sent_ns_, delivered_ns_, delivered_bytes_, app_limited_until_bytes_ != 0};
    }

    void Delivered(const SentRecord &record, uint64_t payload_bytes)
    {
        delivered_bytes_ += payload_bytes;
        delivered_ns_ = now_ns_;
        const bool later = record.sent_ns > latest_.sent_ns ||
                           (record.sent_ns == latest_.sent_ns && record.delivered_bytes > latest_.delivered_bytes);
        if (!any_ || later) {
            any_ = true;
            latest_ = record;
            first_sent_ns_ = record.sent_ns;
        }
    }

    // Call when the application has nothing to send although the window has room. Until `pipe_bytes` more are
    // delivered, samples measure the application rather than the network.
    void AppLimited(uint64_t pipe_bytes)
    {
        app_limited_until_bytes_ = std::max<uint64_t>(delivered_bytes_ + pipe_bytes, 1);
    }

    // Writes the sample into the event of the ACK. A sample over less than the shortest RTT is not used.
    // Such an ACK is for an earlier transmission of the packet than the recorded one.
    void Fill(ncc_cc_event &event, uint64_t lost_bytes)
    {
        if (app_limited_until_bytes_ != 0 && delivered_bytes_ > app_limited_until_bytes_) {
            app_limited_until_bytes_ = 0;
        }
        event.lost_bytes = lost_bytes > lost_before_bytes_ ? lost_bytes - lost_before_bytes_ : 0;
        if (!any_) {
            return;
        }
        const int64_t send_ns = latest_.sent_ns - latest_.first_sent_ns;
        const int64_t ack_ns = delivered_ns_ - latest_.delivered_ns;
        const auto interval_ns = static_cast<ncc_u64>(std::max(send_ns, ack_ns));
        if (interval_ns == 0 || interval_ns < event.min_rtt_ns) {
            return;
        }
        event.prior_delivered_bytes = latest_.delivered_bytes;
        event.interval_ns = interval_ns;
        event.flags |= latest_.app_limited ? NCC_CC_ACK_RATE_APP_LIMITED : 0;
    }

    uint64_t delivered_bytes() const { return delivered_bytes_; }

  private:
    uint64_t delivered_bytes_ = 0;         // C.delivered
    uint64_t app_limited_until_bytes_ = 0; // C.app_limited; 0: it is not
    uint64_t lost_before_bytes_ = 0;
    int64_t now_ns_ = 0;        // of the ACK
    int64_t delivered_ns_ = 0;  // C.delivered_time
    int64_t first_sent_ns_ = 0; // C.first_sent_time
    SentRecord latest_;         // of the ACK being processed, if any_
    bool any_ = false;
};

} // namespace ncc
