// SPDX-License-Identifier: BSD-3-Clause
// Per-destination control of the sending hosts: a gate between TCP and the NIC for each pair of hosts, and what each
// receiver knows of the flows to it. docs/receivers.md explains it.
#pragma once

#include "spec.h"
#include "token_bucket.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ncc
{

// A grant: the message of a receiver to one of its senders.
struct Grant {
    uint32_t src = 0, dst = 0;                                 // nodes
    int64_t start_ns = 0;                                      // when flows that have sent nothing may begin
    double rate_bps = std::numeric_limits<double>::infinity(); // IP packets of data, all flows of the pair
    uint32_t window_pkts = 0; // most full packets of a flow without an ACK; 0: as TCP decides
    int64_t late_ns = 0;      // time from the decision until it leaves
    int64_t as_of_ns = -1;    // it holds for flows that the receiver knew of by then
    uint32_t flow = kPair;    // or the flow whose note it answers, with a start alone

    static constexpr uint32_t kPair = std::numeric_limits<uint32_t>::max();
};

// A gate stops new data before TCP hands it down, so that a closed one leaves nothing in the host's queue, counts in no
// RTT, and lets nothing time out. Repairs that TCP sends without asking for its window pass, and take their tokens.
class Gates
{
  public:
    static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
    static constexpr uint32_t kMessageBytes = 20 + 8 + 24; // IP, UDP, and a grant or a note
    using At = std::function<void(uint32_t, int64_t)>;
    using BytesOf = std::function<std::pair<uint64_t, uint64_t>(uint32_t)>;
    // The simulator provides functions. `bytes_of(flow)` returns, for a live flow, the size as far as its receiver
    // knows it, and the bytes received. `alarm_at(gate, time_ns)` has `Alarm` called at that time. `wake(flow)` lets
    // its sender try again. `leave_at(place, time_ns)` has `Leave` called at that time. `message(flow, place)` sends a
    // message along the path of the ACKs of that live flow, and ends in a call of `Arrived` or `Lost`.
    Gates(const Spec &spec, BytesOf bytes_of, At alarm_at, std::function<void(uint32_t)> wake, At leave_at,
          std::function<void(uint32_t, uint32_t)> message);

    // The sender's side.
    // Begins a flow. `rate_bps` is the rate that its query grants an answer, or 0 without such a grant.
    void Open(uint32_t flow, const FlowSpec &spec, double rate_bps);
    // Begins a flow without a SYN. Returns true if a note must tell its receiver; a full queue may drop that note. An
    // `expected` flow needs none, since its receiver has asked for it. A held flow begins at once if it fits one
    // packet, which takes the place of its note, or if the last answer to a note of its pair let a flow begin at once.
    // Only one flow of a pair does so at a time, until it is answered or over.
    bool Opens(uint32_t flow, int64_t now_ns, bool expected);
    // True if the flow may hand down a full packet. If not, it is woken when it may.
    bool Passes(uint32_t flow, int64_t now_ns);
    void Sent(uint32_t flow, uint32_t ip_bytes);
    // True if the flow has sent nothing because its receiver has not let it begin.
    bool Held(uint32_t flow, int64_t now_ns) const { return HeldNs(flows_[flow], now_ns) > 0; }
    // Most payload of a flow without an ACK, if TCP's window is `window_bytes`.
    uint32_t WindowBytes(uint32_t flow, uint32_t window_bytes) const;
    // Call when all of the flow is acknowledged. With the last flow of a pair, the receiver's grant ends.
    void Over(uint32_t flow, int64_t now_ns);
    void Alarm(uint32_t gate, int64_t now_ns);

    // The receiver's side: `Heard` when the first packet of a flow arrives, `Received` when all of it has.
    // The SYN-ACK of a held flow carries its start; so does a query, for its answer. A message answers a note.
    void Heard(uint32_t flow, int64_t now_ns);
    void Received(uint32_t flow);

    // A pair of hosts with flows that their receiver knows of and has not received completely.
    struct Edge {
        int64_t src, dst, flows;
        double waiting_bytes, next_bytes, received_bytes, age_s;
    };
    std::vector<Edge> Edges(int64_t now_ns) const;

    // Takes the grants that receivers decide from what they know at `now_ns`; `Send` sends them.
    void Tell(std::vector<Grant> grants, int64_t now_ns);
    void Send(int64_t now_ns);
    // Sends a message that is due, unless its pair has no live flow any more.
    void Leave(uint32_t place);
    void Arrived(uint32_t place, int64_t now_ns);
    void Lost(uint32_t place) { free_.push_back(place); } // also after it has arrived
    bool instant() const { return instant_; }

  private:
    struct Gate {
        uint32_t src, dst;
        TokenBucket bucket;
        Grant grant;
        uint32_t open = 0;               // flows that have begun and are not over
        bool unscheduled = false;        // one of them has begun without an answer, and has none yet
        bool at_once = false;            // the last answer to a note let its flow begin at once
        int64_t alarm_ns = kNever;       // the armed one
        std::vector<uint32_t> waiting{}; // flows
        std::vector<uint32_t> heard{};   // flows
    };
    struct Flow {
        uint32_t gate = 0;
        bool begun = false, waits = false, over = false;
        bool unscheduled = false; // it begins without an answer
        int64_t heard_ns = kNever;
        int64_t answer_ns = kNever;        // start that its SYN or its note was answered with, until a grant comes
        int64_t patient_until_ns = kNever; // without an answer and a grant, it begins then
    };

    uint32_t NumberOf(uint32_t src, uint32_t dst);
    bool FitsPacket(uint32_t flow) const;
    double LeftBytes(uint32_t flow) const; // payload that has not come, as far as the receiver knows
    int64_t AnswerNs(uint32_t flow, int64_t now_ns) const;
    int64_t HeldNs(const Flow &flow, int64_t now_ns) const; // until a held flow may begin; 0: it may
    int64_t WaitNs(const Flow &flow, int64_t now_ns);
    void Set(const Grant &grant, int64_t now_ns);
    void Look(uint32_t gate, int64_t now_ns); // flows that wait there try again
    uint32_t Place(const Grant &grant);       // returns the place in `under_way_` that it takes
    void Arm(uint32_t gate, int64_t now_ns, int64_t wait_ns);

    uint32_t full_bytes_, mss_bytes_;
    bool instant_;
    int64_t patience_ns_, queue_ns_;
    bool hold_;                                      // flows wait for a first grant
    std::vector<AnswerSpec> answers_;                // by node; empty: receivers do not answer
    std::unordered_map<uint64_t, uint32_t> numbers_; // index in `gates_` by pair of hosts
    std::vector<Gate> gates_;
    std::vector<Flow> flows_;
    std::vector<Grant> decided_, under_way_;
    std::vector<uint32_t> free_;  // places in `under_way_`
    std::vector<uint32_t> edges_; // gates with flows that their receivers know of, oldest first
    BytesOf bytes_of_;
    At alarm_at_, leave_at_;
    std::function<void(uint32_t)> wake_;
    std::function<void(uint32_t, uint32_t)> message_;
};

} // namespace ncc
