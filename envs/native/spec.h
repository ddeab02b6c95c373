// SPDX-License-Identifier: BSD-3-Clause
// Description of a simulation: a scenario as plain numbers, filled in by Python.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ncc
{

// Parameters by name that are not the defaults.
using Params = std::vector<std::pair<std::string, uint64_t>>;

// A program of a port (switch.h).
struct ProgramSpec {
    std::string name;
    Params params;
};

// The shaped queue of a port or NIC, for control packets of message transports (transport.h).
struct ShapedSpec {
    double shaped_frac = 0;      // share of the line, with what frames add; 0: there is none
    uint32_t shaped_pkts = 8;    // packets that may wait
    uint32_t selective_pkts = 2; // packets that may wait before expendable ones are dropped
};

// The egress queue of one end of a link.
struct QueueSpec : ShapedSpec {
    int64_t buffer_bytes = -1;                    // its own; -1: a host end, which has none
    int64_t threshold_bytes = 0;                  // K of step marking; 0: off
    int64_t red_min_bytes = 0, red_max_bytes = 0; // RED marking between them; max 0: off
    double red_max_prob = 0;
    int32_t pool = -1;          // shared pool that it may use beyond its own buffer; -1: none
    bool control_first = false; // packets without payload overtake data
    bool mark_leaving = false;  // packets are marked as they leave the queue, by its length then
    int32_t classes = 1;        // queues served in strict priority, by the tags of packets; 1: first in, first out
    int32_t programs = -1;      // index in Spec::programs; -1: none
};

struct LinkSpec {
    uint32_t a = 0, b = 0;
    double rate_bps = 0;
    int64_t delay_ns = 0;
    std::array<QueueSpec, 2> queue{}; // queues at the ends a and b
};

// A buffer that several ports of a switch share by dynamic thresholds.
struct PoolSpec {
    int64_t size_bytes = 0;
    double alpha = 1;
    int64_t red_min_bytes = 0, red_max_bytes = 0; // marking by how full it is (bcc.h), between them; max 0: off
    double red_max_prob = 0;
};

// The controller, the timers and the initial window of some flows.
struct StackSpec {
    std::string transport;
    Params params;
    int64_t min_rto_ns = 0, initial_rto_ns = 0;
    uint32_t initial_window_pkts = 0;
};

constexpr uint32_t kNoPredictor = UINT32_MAX;
constexpr int64_t kFed = -1;

struct FlowSpec {
    int64_t start_ns;
    uint32_t src, dst; // node ids
    uint64_t size_bytes;
    uint64_t chunk_bytes = 0; // size of a piece, written every `every_ns`; 0: all is written at once
    int64_t every_ns = 0; // kFed: other flows feed it (GraphSpec), and `chunk_bytes` is what its application has so far
    uint32_t predictor = kNoPredictor; // predictor of its service, which also learns its size (knows.h)
    uint8_t stack = 0;                 // 0: Spec::transport, else that of Spec::stacks[stack - 1]
    // True if its data is under its sender's rate limit, and its ACKs under its receiver's.
    bool limited[2] = {true, true};
};

// Requests as a graph of flows (requests.h); all columns are empty without one, else there is a row for each flow. A
// flow without bytes, from a host to itself, is a wait: it sends nothing and is complete when it is due.
struct GraphSpec {
    std::vector<int32_t> group;    // the group that it is in; -1: none
    std::vector<int32_t> after;    // the group that it waits for; -1: it begins at its start
    std::vector<int64_t> think_ns; // time between the two, >= 1
    std::vector<uint8_t> answer;   // 1: it answers a query on the query's connection, so it needs no handshake
    std::vector<int32_t> query_of; // with a front end: the query that it answers; -1: none
    std::vector<int32_t> end_of;   // with a front end: place in Spec::front_ends of who asks this query; -1: no query
    // With streams that are passed on; else both are empty. The flow whose application writes what this flow delivers,
    // as it comes (-1: none); and the rate of IP packets of data that its pair of hosts may send from its start on (0:
    // any), until its receiver says another one (gates.h).
    std::vector<int32_t> feeds;
    std::vector<double> query_rate_bps;
};

// The port to a host that asks, for its front end (front.h).
struct FrontEndSpec {
    uint64_t rate_bytes_per_s = 1, buffer_bytes = 0;
};

// How a receiver answers the SYN of a held flow (gates.h).
struct AnswerSpec {
    double ahead_bytes = 0; // payload that may lie ahead of a flow that begins at once
    double ns_per_byte = 0; // time that the port to the receiver takes for payload
};

struct Spec : ShapedSpec {        // the base: shaped queue of each NIC
    std::vector<uint8_t> is_host; // by node id
    std::vector<LinkSpec> links;
    uint32_t node_of(uint32_t port) const { return port % 2 == 0 ? links[port / 2].a : links[port / 2].b; }
    const QueueSpec &queue_of(uint32_t port) const { return links[port / 2].queue[port % 2]; }
    std::vector<PoolSpec> pools;
    std::vector<std::vector<ProgramSpec>> programs; // those of a port, each list for any number of ports
    std::vector<FlowSpec> flows;                    // in order of start
    GraphSpec graph;
    std::vector<uint32_t> agents;  // node ids
    std::vector<uint32_t> uplinks; // directed port ids

    uint32_t mtu_bytes = 1500;
    uint32_t mss_bytes() const { return mtu_bytes - 40; } // headers of IP and TCP without options
    uint32_t frame_overhead_bytes = 38;
    uint32_t initial_window_pkts = 10;
    uint32_t delayed_ack_pkts = 2;
    uint32_t send_buffer_bytes = 1 << 22;
    uint32_t receive_buffer_bytes = 1 << 22;
    uint32_t dup_ack_pkts = 3; // duplicate ACKs that mean a loss
    bool handshake = true;
    uint32_t connections_per_pair = 0; // open from the beginning and kept; 0: each flow opens its own
    bool idle_restart = true;
    bool sack = true;
    bool limited_transmit = true;
    bool modern = false; // recovery
    int64_t timer_slack_ns = 2'000'000, timer_tick_ns = 0;
    int64_t min_rto_ns = 5'000'000;
    int64_t initial_rto_ns = 20'000'000;
    int64_t delayed_ack_ns = 100'000;
    int64_t rtt_noise_max_ns = 0; // below 2^32

    uint64_t bucket_bytes = 3000;
    uint64_t small_queue_bytes = 6000;
    uint32_t first_write_pkts = 22;  // room of a new socket's send buffer
    bool backlog = false;            // hosts know what applications have written, not the sizes of flows
    bool receivers = false;          // receivers tell their senders when to start, and how fast to send (gates.h)
    bool hold = false;               // flows send only a SYN until their receiver grants a start
    int64_t patience_ns = 0;         // for which a held flow waits for a first grant
    int64_t queue_ns = 0;            // longest wait in the queue of a port
    std::vector<AnswerSpec> answers; // by node id; empty: receivers do not answer SYNs
    bool instant = false;            // an oracle: receivers know of flows at once, and their grants arrive at once
    int64_t period_ns = 1'000'000;
    int64_t latency_ns = 0;

    std::string transport = "dctcp";
    Params params;
    std::vector<StackSpec> stacks; // beside the one of all other flows
    StackSpec stack(size_t which) const
    {
        return which == 0 ? StackSpec{transport, params, min_rto_ns, initial_rto_ns, initial_window_pkts}
                          : stacks.at(which - 1);
    }
    std::string order = "fifo";
    Params order_params;
    std::string tags = "none";
    Params tag_params;
    std::string front = "one_all";
    Params front_params;
    std::vector<FrontEndSpec> front_ends;
    bool symmetric = false;  // ACKs and control packets take the path of the data, in reverse
    bool sprayed = false;    // packets take paths of equal length in turn
    bool by_entropy = false; // a hash of flow and entropy picks the path of each packet
    uint64_t seed = 0;
};

} // namespace ncc
