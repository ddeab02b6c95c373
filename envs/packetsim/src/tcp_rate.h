// SPDX-License-Identifier: BSD-3-Clause
// The delivery rate of a connection, for controllers that ask for it, with a record per packet of the window.
#pragma once

#include "delivery_rate.h"
#include "tcp_rings.h"

#include <cstdint>

namespace ncc::packetsim
{

class TcpRate
{
  public:
    // Records the sending of packet `number`, which is in the window [una, nxt) or is nxt.
    void Sent(TcpRings &rings, uint32_t number, uint32_t una, uint32_t nxt, int64_t now_ns)
    {
        records_.Reserve(rings, kWords * una, kWords * nxt + kWords - 1);
        const SentRecord record = rate_.Sent(now_ns, una == nxt);
        const uint32_t at = kWords * number;
        records_[at] = static_cast<uint64_t>(record.sent_ns) << 1 | record.app_limited;
        records_[at + 1] = static_cast<uint64_t>(record.first_sent_ns);
        records_[at + 2] = static_cast<uint64_t>(record.delivered_ns);
        records_[at + 3] = record.delivered_bytes;
    }

    // Counts an acknowledged packet, once.
    void Delivered(uint32_t number, uint32_t payload_bytes)
    {
        const uint32_t at = kWords * number;
        const uint64_t sent = records_[at];
        if (sent == kCounted) {
            return;
        }
        rate_.Delivered({static_cast<int64_t>(sent >> 1), static_cast<int64_t>(records_[at + 1]),
                         static_cast<int64_t>(records_[at + 2]), records_[at + 3], (sent & 1) != 0},
                        payload_bytes);
        records_[at] = kCounted;
    }

    // Goes on from an earlier flow on the connection. Until data that is sent now arrives, the application sets the
    // rate.
    void Continue(const TcpRate &before)
    {
        rate_ = before.rate_;
        rate_.AppLimited(0);
    }

    void Release(TcpRings &rings) { records_.Release(rings); }

    DeliveryRate &estimator() { return rate_; }
    const DeliveryRate &estimator() const { return rate_; }

  private:
    static constexpr uint32_t kWords = 4; // send time and app-limited flag, first send time, delivery time, bytes
    static constexpr uint64_t kCounted = UINT64_MAX;

    DeliveryRate rate_;
    TcpRing records_;
};

} // namespace ncc::packetsim
