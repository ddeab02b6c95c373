// SPDX-License-Identifier: BSD-3-Clause
// The shaped queue of a port or NIC, which control packets of message transports (transport.h) leave at a share of the
// line.
#pragma once

#include "packet_list.h"
#include "spec.h"
#include "token_bucket.h"
#include "transports.h"

#include <cstdint>

namespace ncc
{

constexpr uint32_t kShapedDepth = 2; // control packets that its bucket holds

template <class Packets>
class Shaper
{
  public:
    using Ref = typename Packets::Ref;

    // `overhead_bytes`: what a frame adds.
    Shaper(const ShapedSpec &spec, double line_bps, uint32_t overhead_bytes)
        : spec_(spec), overhead_bytes_(overhead_bytes), bucket_(kShapedDepth * (NCC_TP_SAY_BYTES + overhead_bytes))
    {
        bucket_.SetLimit(spec.shaped_frac * line_bps, 0);
    }

    uint64_t bytes_per_s() const { return static_cast<uint64_t>(bucket_.limit_bps() / 8); } // on the wire
    bool empty() const { return list_.empty(); }
    uint32_t size() const { return list_.size(); }
    Ref front() const { return list_.front(); }

    // Takes a packet, unless there is no room for it.
    bool Push(Packets &packets, Ref ref, int64_t now_ns)
    {
        if (list_.size() >= (packets.header(ref).expendable() ? spec_.selective_pkts : spec_.shaped_pkts)) {
            return false;
        }
        packets[ref].joined_ns = now_ns;
        list_.PushBack(packets, ref);
        return true;
    }
    // Time until the first packet may leave; 0: now.
    int64_t WaitNs(Packets &packets, int64_t now_ns)
    {
        return bucket_.WaitNs(packets.header(list_.front()).ip_bytes + overhead_bytes_, now_ns);
    }
    Ref Pop(Packets &packets)
    {
        const Ref ref = list_.PopFront(packets);
        bucket_.Take(packets.header(ref).ip_bytes + overhead_bytes_);
        return ref;
    }

    // The event at which it is served.
    uint64_t word = 0; // what `Schedule` returned; 0: none is due
    int64_t due_ns = 0;

  private:
    ShapedSpec spec_;
    uint32_t overhead_bytes_;
    TokenBucket bucket_;
    PacketList<Packets> list_;
};

} // namespace ncc
