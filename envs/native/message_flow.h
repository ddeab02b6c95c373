// SPDX-License-Identifier: BSD-3-Clause
// The state of a flow with a message transport (transport.h), and the packets that its ends exchange.
#pragma once

#include "numbers.h"
#include "transports.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <deque>
#include <limits>
#include <utility>

namespace ncc
{

// Flags of data that only switches can set.
inline ncc_u32 FlagsOnArrival(bool trimmed, bool marked)
{
    return static_cast<ncc_u32>(NCC_TP_TRIMMED) * trimmed | static_cast<ncc_u32>(NCC_TP_CE) * marked;
}

// A timer. Arming it again takes no event: an event that comes too early is scheduled again for the time then due.
struct MessageTimer {
    static constexpr int64_t kOff = std::numeric_limits<int64_t>::max();
    int64_t due_ns = kOff;
    int64_t queued_ns = kOff; // time of its event
    uint64_t word = 0;        // what `Schedule` returned for it; 0: there is none
};

struct MessageFlow {
    const ncc_tp_ops *ops = nullptr;
    const ncc_u64 *params = nullptr;
    uint32_t flow = 0, slot = 0;
    uint32_t pkts = 0, mss_bytes = 0, last_bytes = 0; // size, payload of a full packet and of the last
    uint64_t base_rtt_ns = 0, draws = 0;
    // Sender
    uint32_t una = 0; // all packets below it are known to have arrived
    uint32_t nxt = 0; // first packet that has not left
    uint32_t sent = 0, acked = 0, again = 0, granted = 0;
    uint32_t again_from = 0; // no packet below it is to be sent again
    Numbers there, repeat;   // in [una, nxt): known to have arrived, to be sent again
    int64_t to_send_ns = 0;  // time since which there has been something to send
    std::deque<ncc_tp_grant> grants;
    MessageTimer permitted, sender_timer;
    bool waits = false; // some of its data waits at its host
    // Receiver
    uint32_t here = 0, below = 0, reached = 0;
    Numbers got; // beyond `below`
    uint64_t urgency = NCC_TP_OFF;
    MessageTimer receiver_timer;
    alignas(8) unsigned char sender[NCC_TP_STATE_MAX] = {}, receiver[NCC_TP_STATE_MAX] = {};

    uint32_t PayloadBytes(uint32_t number) const { return number + 1 < pkts ? mss_bytes : last_bytes; }
    bool sends() const { return again > 0 || nxt < pkts; } // something is to be sent

    // The receiver has acknowledged a packet. Returns its payload, or 0 if that was known.
    uint32_t There(uint32_t number)
    {
        if (number < una || !there.Add(una, number)) {
            return 0;
        }
        ++acked;
        again -= repeat.Remove(number);
        return PayloadBytes(number);
    }

    // The next packet to be sent, by a permission.
    ncc_tp_packet Next(const ncc_tp_grant &grant)
    {
        ncc_tp_packet k{};
        k.stamp = grant.stamp;
        k.flags = grant.flags & (NCC_TP_EXPENDABLE | NCC_TP_ECT);
        k.prio = grant.prio;
        if (again > 0) {
            k.number = repeat.FirstOf(std::max(again_from, una), nxt);
            k.flags |= NCC_TP_AGAIN;
            repeat.Remove(k.number);
            again_from = k.number + 1;
            --again;
        } else {
            k.number = nxt++;
        }
        ++sent;
        return k;
    }

    // Applies `lost`, which may add to `grant`. `at_host(number)`: the packet has not left its host.
    template <class AtHost>
    void MarkLost(ncc_tp_out &out, AtHost at_host)
    {
        const uint64_t named = static_cast<uint64_t>(out.lost) + out.lost_pkts;
        const uint64_t end = out.lost_pkts == NCC_TP_ALL ? nxt : std::min<uint64_t>(named, nxt);
        for (uint32_t number = std::max(out.lost, una); number < end; ++number) {
            if (!there.Has(number) && !at_host(number) && repeat.Add(una, number)) {
                out.grant.pkts += out.lost_go;
                again_from = again == 0 ? number : std::min(again_from, number);
                ++again;
            }
        }
    }

    // Applies `revoke` and `grant`. Returns true if a PROBE was to follow revoked permissions.
    bool Permit(ncc_tp_grant grant, bool revoke, int64_t now_ns)
    {
        bool probe = false;
        if (revoke) {
            probe = std::any_of(grants.begin(), grants.end(),
                                [](const ncc_tp_grant &each) { return (each.flags & NCC_TP_THEN_PROBE) != 0; });
            grants.clear();
            granted = 0;
        }
        granted += grant.pkts;
        grant.due_ns = std::max(grant.due_ns, static_cast<ncc_u64>(now_ns));
        if (!grants.empty()) {
            ncc_tp_grant &last = grants.back();
            grant.due_ns = std::max(grant.due_ns, last.due_ns);
            if (last.due_ns == grant.due_ns && last.stamp == grant.stamp && last.flags == grant.flags &&
                last.prio == grant.prio) {
                last.pkts += grant.pkts;
                return probe;
            }
        }
        if (grant.pkts > 0) {
            grants.push_back(grant);
        }
        return probe;
    }

    // First packet that the map of an ACK names.
    static uint32_t MapFrom(uint32_t number) { return std::max(number, 64U) - 64; }
    // The map (NCC_TP_MAPPED) of an ACK of the receiver; `below` covers the packets below it.
    uint64_t Map(uint32_t number) const { return got.Bits(MapFrom(number)) & NotBelow(MapFrom(number), below); }
    // The sender reads a map. Returns the payload newly known to have arrived.
    uint64_t ReadMap(uint32_t number, uint64_t map)
    {
        const uint32_t from = MapFrom(number);
        uint64_t bytes = 0;
        for (uint64_t left = map & ~there.Bits(from) & NotBelow(from, una); left != 0; left &= left - 1) {
            bytes += There(from + static_cast<uint32_t>(std::countr_zero(left)));
        }
        return bytes;
    }
    // Bits of the numbers from `first` on, where bit i is `from` + i.
    static uint64_t NotBelow(uint32_t from, uint32_t first)
    {
        return first <= from ? ~0ULL : first - from < 64 ? ~0ULL << (first - from) : 0;
    }

    // Data has arrived at the receiver.
    void TakeIn(uint32_t number)
    {
        here += number >= below && got.Add(below, number);
        reached = std::max(reached, number + 1);
        for (; got.Remove(below); ++below) {
        }
    }
};

} // namespace ncc
