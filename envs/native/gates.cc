// SPDX-License-Identifier: BSD-3-Clause
#include "gates.h"

#include <algorithm>

namespace ncc
{

namespace
{

constexpr double kUnlimited = std::numeric_limits<double>::infinity();
constexpr uint64_t kSlackBytes = 64; // tokens earned while an event waits for a whole nanosecond

void Remove(std::vector<uint32_t> &from, uint32_t one)
{
    from.erase(std::remove(from.begin(), from.end(), one), from.end());
}

} // namespace

Gates::Gates(const Spec &spec, BytesOf bytes_of, At alarm_at, std::function<void(uint32_t)> wake, At leave_at,
             std::function<void(uint32_t, uint32_t)> message)
    : full_bytes_(spec.mtu_bytes), mss_bytes_(spec.mss_bytes()), instant_(spec.instant), patience_ns_(spec.patience_ns),
      queue_ns_(spec.queue_ns), hold_(spec.hold), answers_(spec.answers), flows_(spec.flows.size()),
      bytes_of_(std::move(bytes_of)), alarm_at_(std::move(alarm_at)), leave_at_(std::move(leave_at)),
      wake_(std::move(wake)), message_(std::move(message))
{
}

uint32_t Gates::NumberOf(uint32_t src, uint32_t dst)
{
    const uint64_t pair = static_cast<uint64_t>(src) << 32 | dst;
    const auto [found, added] = numbers_.emplace(pair, static_cast<uint32_t>(gates_.size()));
    if (added) {
        gates_.push_back({src, dst, TokenBucket(full_bytes_ + kSlackBytes), Grant{}});
    }
    return found->second;
}

void Gates::Open(uint32_t flow, const FlowSpec &spec, double rate_bps)
{
    flows_[flow].gate = NumberOf(spec.src, spec.dst);
    Gate &gate = gates_[flows_[flow].gate];
    ++gate.open;
    if (rate_bps > 0) {
        gate.grant.rate_bps = rate_bps;
        gate.bucket.SetLimit(rate_bps, spec.start_ns);
    }
    if (instant_) {
        Heard(flow, spec.start_ns);
    }
}

int64_t Gates::HeldNs(const Flow &flow, int64_t now_ns) const
{
    if (!hold_ || flow.begun || flow.unscheduled) {
        return 0;
    }
    const Grant &grant = gates_[flow.gate].grant;
    const bool told = flow.heard_ns != kNever && flow.heard_ns <= grant.as_of_ns;
    const int64_t untold_ns = flow.answer_ns != kNever ? flow.answer_ns : flow.patient_until_ns;
    return std::max<int64_t>((told ? grant.start_ns : untold_ns) - now_ns, 0);
}

int64_t Gates::WaitNs(const Flow &flow, int64_t now_ns)
{
    const int64_t held_ns = HeldNs(flow, now_ns);
    return held_ns > 0 ? held_ns : gates_[flow.gate].bucket.WaitNs(full_bytes_, now_ns);
}

bool Gates::Passes(uint32_t flow, int64_t now_ns)
{
    Flow &state = flows_[flow];
    if (state.over || (state.unscheduled && !state.begun)) {
        return true;
    }
    if (state.patient_until_ns == kNever) {
        state.patient_until_ns = now_ns + patience_ns_;
    }
    const int64_t wait_ns = WaitNs(state, now_ns);
    if (wait_ns == 0) {
        return true;
    }
    if (!state.waits) {
        state.waits = true;
        gates_[state.gate].waiting.push_back(flow);
    }
    Arm(state.gate, now_ns, wait_ns);
    return false;
}

bool Gates::Opens(uint32_t flow, int64_t now_ns, bool expected)
{
    Flow &state = flows_[flow];
    Gate &gate = gates_[state.gate];
    state.patient_until_ns = now_ns + patience_ns_ + queue_ns_;
    state.unscheduled = hold_ && !expected && !gate.unscheduled && (gate.at_once || FitsPacket(flow));
    gate.unscheduled |= state.unscheduled;
    return !expected && !(state.unscheduled && FitsPacket(flow));
}

void Gates::Sent(uint32_t flow, uint32_t ip_bytes)
{
    flows_[flow].begun = true;
    gates_[flows_[flow].gate].bucket.Take(ip_bytes);
}

uint32_t Gates::WindowBytes(uint32_t flow, uint32_t window_bytes) const
{
    const uint64_t pkts = gates_[flows_[flow].gate].grant.window_pkts;
    return pkts == 0 ? window_bytes : static_cast<uint32_t>(std::min<uint64_t>(window_bytes, pkts * mss_bytes_));
}

void Gates::Over(uint32_t flow, int64_t now_ns)
{
    Gate &gate = gates_[flows_[flow].gate];
    Remove(gate.waiting, flow);
    flows_[flow].waits = false;
    flows_[flow].over = true;
    gate.unscheduled &= !flows_[flow].unscheduled;
    if (--gate.open == 0) {
        gate.grant = Grant{};
        gate.bucket.SetLimit(gate.grant.rate_bps, now_ns);
    }
}

void Gates::Arm(uint32_t gate, int64_t now_ns, int64_t wait_ns)
{
    constexpr int64_t kLongest = 1'000'000'000'000; // then it looks again
    const int64_t at_ns = now_ns + std::min(wait_ns, kLongest);
    if (at_ns < gates_[gate].alarm_ns) {
        gates_[gate].alarm_ns = at_ns;
        alarm_at_(gate, at_ns);
    }
}

// Flows send one packet each; those that have sent go behind those that have not.
void Gates::Alarm(uint32_t gate, int64_t now_ns)
{
    if (gates_[gate].alarm_ns != now_ns) { // another one is armed
        return;
    }
    gates_[gate].alarm_ns = kNever;
    std::vector<uint32_t> turn;
    turn.swap(gates_[gate].waiting);
    int64_t least_ns = kNever;
    std::ptrdiff_t kept = 0;
    for (const uint32_t flow : turn) {
        const int64_t wait_ns = WaitNs(flows_[flow], now_ns);
        if (wait_ns > 0) {
            std::vector<uint32_t> &waiting = gates_[gate].waiting;
            waiting.insert(waiting.begin() + kept++, flow);
            least_ns = std::min(least_ns, wait_ns);
        } else {
            flows_[flow].waits = false;
            wake_(flow);
        }
    }
    if (kept > 0) {
        Arm(gate, now_ns, least_ns);
    }
}

// Takes a grant that has arrived. It is dropped if it is older than the last one, or if the pair has no flow left.
void Gates::Set(const Grant &grant, int64_t now_ns)
{
    const uint32_t number = NumberOf(grant.src, grant.dst);
    Gate &gate = gates_[number];
    if (gate.open == 0 || grant.as_of_ns < gate.grant.as_of_ns) {
        return;
    }
    gate.grant = grant;
    gate.bucket.SetLimit(grant.rate_bps, now_ns);
    Look(number, now_ns);
}

void Gates::Look(uint32_t gate, int64_t now_ns)
{
    if (!gates_[gate].waiting.empty()) {
        gates_[gate].alarm_ns = now_ns;
        alarm_at_(gate, now_ns);
    }
}

void Gates::Arrived(uint32_t place, int64_t now_ns)
{
    const Grant &grant = under_way_[place];
    if (grant.flow == Grant::kPair) {
        Set(grant, now_ns);
        return;
    }
    Flow &flow = flows_[grant.flow];
    Gate &gate = gates_[flow.gate];
    flow.answer_ns = grant.start_ns;
    gate.at_once = grant.start_ns <= now_ns;
    gate.unscheduled &= !flow.unscheduled || flow.over;
    Look(flow.gate, now_ns);
}

void Gates::Heard(uint32_t flow, int64_t now_ns)
{
    Flow &state = flows_[flow];
    if (state.heard_ns == kNever) {
        state.heard_ns = now_ns;
        std::vector<uint32_t> &heard = gates_[state.gate].heard;
        if (heard.empty()) {
            edges_.push_back(state.gate);
        }
        heard.push_back(flow);
        const bool by_syn = state.patient_until_ns == kNever;                           // or by its query
        const bool answered = !state.begun || (state.unscheduled && !FitsPacket(flow)); // begun: by data
        if (answers_.empty() || !hold_ || !answered) {
            return;
        }
        const int64_t start_ns = AnswerNs(flow, now_ns);
        if (by_syn) {
            state.answer_ns = start_ns;
        } else {
            message_(flow,
                     Place({gates_[state.gate].src, gates_[state.gate].dst, start_ns, kUnlimited, 0, 0, -1, flow}));
        }
    }
}

bool Gates::FitsPacket(uint32_t flow) const { return bytes_of_(flow).first <= mss_bytes_; }

double Gates::LeftBytes(uint32_t flow) const
{
    const auto [known_bytes, received_bytes] = bytes_of_(flow);
    return static_cast<double>(known_bytes - std::min(known_bytes, received_bytes));
}

// Time at which the receiver will have all payload of flows with no more left than this one, except the amount that may
// lie ahead of it.
int64_t Gates::AnswerNs(uint32_t flow, int64_t now_ns) const
{
    const uint32_t dst = gates_[flows_[flow].gate].dst;
    const double own_bytes = LeftBytes(flow);
    double ahead_bytes = 0;
    for (const uint32_t number : edges_) {
        if (gates_[number].dst != dst) {
            continue;
        }
        for (const uint32_t other : gates_[number].heard) {
            const double left_bytes = other == flow ? 0 : LeftBytes(other);
            ahead_bytes += left_bytes <= own_bytes ? left_bytes : 0;
        }
    }
    const AnswerSpec &answer = answers_[dst];
    return now_ns + static_cast<int64_t>(std::max(ahead_bytes - answer.ahead_bytes, 0.0) * answer.ns_per_byte);
}

void Gates::Received(uint32_t flow)
{
    std::vector<uint32_t> &heard = gates_[flows_[flow].gate].heard;
    Remove(heard, flow);
    if (heard.empty()) {
        Remove(edges_, flows_[flow].gate);
    }
}

std::vector<Gates::Edge> Gates::Edges(int64_t now_ns) const
{
    std::vector<Edge> out;
    for (const uint32_t number : edges_) {
        const Gate &gate = gates_[number];
        Edge edge{gate.src, gate.dst, static_cast<int64_t>(gate.heard.size()), 0, 0, 0, 0};
        int64_t newest_ns = 0;
        double next_bytes = std::numeric_limits<double>::infinity();
        for (const uint32_t flow : gate.heard) {
            const double left = LeftBytes(flow);
            edge.waiting_bytes += left;
            edge.received_bytes += static_cast<double>(bytes_of_(flow).second);
            next_bytes = std::min(next_bytes, left);
            newest_ns = std::max(newest_ns, flows_[flow].heard_ns);
        }
        edge.next_bytes = next_bytes;
        edge.age_s = static_cast<double>(now_ns - newest_ns) * 1e-9;
        out.push_back(edge);
    }
    return out;
}

void Gates::Tell(std::vector<Grant> grants, int64_t now_ns)
{
    decided_ = std::move(grants);
    for (Grant &grant : decided_) {
        grant.as_of_ns = now_ns;
    }
}

void Gates::Send(int64_t now_ns)
{
    for (const Grant &grant : decided_) {
        if (instant_) {
            Set(grant, now_ns);
            continue;
        }
        const uint32_t place = Place(grant);
        if (grant.late_ns > 0) {
            leave_at_(place, now_ns + grant.late_ns);
        } else {
            Leave(place);
        }
    }
    decided_.clear();
}

uint32_t Gates::Place(const Grant &grant)
{
    if (free_.empty()) {
        free_.push_back(static_cast<uint32_t>(under_way_.size()));
        under_way_.emplace_back();
    }
    const uint32_t place = free_.back();
    free_.pop_back();
    under_way_[place] = grant;
    return place;
}

void Gates::Leave(uint32_t place)
{
    const std::vector<uint32_t> &heard = gates_[NumberOf(under_way_[place].src, under_way_[place].dst)].heard;
    if (heard.empty()) {
        Lost(place);
    } else {
        message_(heard.front(), place);
    }
}

} // namespace ncc
