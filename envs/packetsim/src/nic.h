// SPDX-License-Identifier: BSD-3-Clause
// The sending side of a host below TCP: one queue per flow, an order among flows, a rate limit, the wire.
#pragma once

#include "connection.h"
#include "link.h"

#include "order.h"
#include "records.h"
#include "spec.h"
#include "token_bucket.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

namespace ncc::packetsim
{

class Network;

// The same rules as in envs/ns3/src/nic.h: packets leave when their transmission begins. Packets without payload go
// before data. Packets under the limit take tokens from the bucket; while they wait for tokens, the others are sent.
// Nothing is dropped, because back-pressure (Network::HasRoom) bounds the queues.
class Nic
{
  public:
    // `order` null: first in, first out.
    Nic(uint32_t host, uint32_t port, const Spec &spec, std::unique_ptr<FlowOrder> order)
        : host_(host), port_(port), bucket_(spec.bucket_bytes), order_(std::move(order))
    {
    }

    uint32_t port() const { return port_; }
    double limit_bps() const { return bucket_.limit_bps(); }
    const PortTotals &totals() const { return totals_; }
    int64_t limited_bytes() const { return limited_bytes_; } // IP packets sent under the limit
    uint64_t waiting_pkts() const { return data_pkts_ + control_[0].packets.size() + control_[1].packets.size(); }

    // Sets the limit in bits of IP packets per second, > 0; infinity means no limit. It takes effect at once, also for
    // a packet that already waits for tokens.
    void SetLimit(Network &network, double bps);
    void Send(Network &network, const Packet &packet);
    void Pause(Network &network, bool on); // obeys a pause frame (PFC)
    void WireFree(Network &network)        // event
    {
        wire_pending_ = false;
        Serve(network);
    }
    void Tokens(Network &network, uint64_t word) // event; ignored unless it is the last one armed
    {
        if (word == token_word_) {
            token_word_ = 0;
            Serve(network);
        }
    }

  private:
    // Queue whose oldest packet is sent next, and the time for which it must wait for tokens.
    struct Turn {
        FlowQueue *queue;
        uint32_t slot; // kNone: packets without payload
        bool limited;
        int64_t wait_ns = 0;
    };

    void Serve(Network &network); // sends the next packet if the wire is free and there are tokens
    Turn Next(Network &network, int64_t now_ns);
    uint32_t NextFlow(Network &network, int64_t now_ns);
    uint32_t NextUnlimited(Network &network, int64_t now_ns);
    void Transmit(Network &network, uint32_t place, bool limited, int64_t now_ns);
    void ServeAt(Network &network, int64_t delay_ns);

    uint32_t host_, port_;
    bool wire_pending_ = false, paused_ = false;
    uint64_t token_word_ = 0; // word of the event that waits for tokens; 0: none
    int64_t free_ps_ = 0;     // time at which the wire has sent everything
    uint64_t data_pkts_ = 0;
    uint64_t unlimited_pkts_ = 0; // those without a limit
    int64_t limited_bytes_ = 0;
    FlowQueue control_[2]; // not under the limit; under it
    int64_t queue_bytes_ = 0;
    TokenBucket bucket_;
    PortTotals totals_;
    std::unique_ptr<FlowOrder> order_;
    std::deque<uint32_t> turns_; // connections in the order of their packets, if `order_` is null
};

} // namespace ncc::packetsim
