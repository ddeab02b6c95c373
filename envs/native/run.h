// SPDX-License-Identifier: BSD-3-Clause
// The flows of a run, by their numbers, and their hosts: knowledge about them and counts of them, for both simulators.
#pragma once

#include "events.h"
#include "gates.h"
#include "idle_connections.h"
#include "knows.h"
#include "measure.h"
#include "order.h"
#include "records.h"
#include "requests.h"
#include "router.h"
#include "routes.h"
#include "spec.h"
#include "tags.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace ncc
{

class Run
{
  public:
    // Throws std::invalid_argument for flows without a path.
    explicit Run(const Spec &spec);
    Run(const Run &) = delete;
    Run &operator=(const Run &) = delete;

    const Spec &spec() const { return spec_; }
    const std::vector<FlowRecord> &records() const { return records_; }
    const std::vector<FlowView> &views() const { return views_; } // by flow
    const Routes &routes() const { return routes_; }
    Router &router() { return router_; }
    int64_t flows_started() const { return started_; }
    int64_t flows_finished() const { return finished_; }
    uint64_t messages() const { return messages_; }
    size_t live_connections() const { return live_; }
    // Messages that receivers send with the next `SendMessages`.
    void Tell(std::vector<Grant> grants, int64_t now_ns) { gates_->Tell(std::move(grants), now_ns); }
    void SendMessages(int64_t now_ns)
    {
        if (gates_) {
            gates_->Send(now_ns);
        }
    }
    std::vector<Gates::Edge> Edges(int64_t now_ns) const // none without receivers' control
    {
        return gates_ ? gates_->Edges(now_ns) : std::vector<Gates::Edge>{};
    }
    // Tags' parameters, all of them and checked, for data packets from the next `ApplyTags` on.
    void Retag(std::vector<ncc_u64> params) { next_tags_ = std::move(params); }
    void ApplyTags()
    {
        if (tags_ && !next_tags_.empty()) {
            tags_->Set(std::move(next_tags_));
            next_tags_.clear();
        }
    }
    // Flows that have been delivered since the last call, in that order; without tags, none.
    std::vector<int64_t> TakeDelivered() { return std::exchange(just_delivered_, {}); }

    // Reports of TCP about a flow.
    void Delivered(uint32_t flow, uint64_t bytes)
    {
        SenderOf(flow).goodput_bytes += static_cast<int64_t>(bytes);
        views_[flow].delivered_bytes += bytes;
    }
    // Call when the window, the acknowledged bytes or the written bytes have changed.
    void Learn(uint32_t flow, int64_t now_ns, uint64_t acked_bytes, uint64_t cwnd_bytes)
    {
        knowledge_.Learn(spec_.flows[flow], views_[flow], now_ns, acked_bytes, cwnd_bytes);
    }
    void RttSample(uint32_t flow, int64_t ns)
    {
        records_[flow].AddRtt(ns);
        SenderOf(flow).AddRtt(ns);
    }
    FlowRecord &record(uint32_t flow) { return records_[flow]; }
    void TimedOut(uint32_t flow) { ++records_[flow].timeouts; }
    // Call when a data packet that ends at `end_bytes` has left the host.
    void Left(uint32_t flow, uint64_t end_bytes, bool retransmission, int64_t now_ns)
    {
        ++records_[flow].sent_pkts;
        records_[flow].retransmitted_pkts += retransmission;
        views_[flow].Left(end_bytes, now_ns);
    }
    // Call when a data packet with Congestion Experienced has arrived.
    void CameMarked(uint32_t flow) { ++records_[flow].ce_pkts; }

    // Functions that TCP asks.
    uint64_t WrittenBytes(uint32_t flow, int64_t now_ns) const
    {
        return ncc::WrittenBytes(spec_, spec_.flows[flow], now_ns);
    }
    // RTOs since data of a flow last left its host, as its controller is told.
    uint32_t IdleRtos(uint32_t flow, int64_t now_ns, int64_t rto_ns) const
    {
        return ncc::IdleRtos(spec_, now_ns - views_[flow].last_left_ns, rto_ns);
    }
    // Gives a data packet the class and the rank that its host's stack has for it.
    template <class Header>
    void Tag(Header &header, uint32_t flow, uint64_t offset_bytes, uint32_t payload_bytes) const
    {
        if (tags_) {
            const ncc_tag_out tag = tags_->Of(views_[flow], offset_bytes, payload_bytes);
            header.prio = static_cast<uint8_t>(std::min<ncc_u32>(tag.prio, NCC_SW_CLASSES - 1));
            header.rank = router_.tags() ? 0 : tag.rank; // else the rank's field is a program's tag
        }
    }

    // True if the flow answers a query, on the query's connection.
    bool Answers(uint32_t flow) const { return !spec_.graph.answer.empty() && spec_.graph.answer[flow] != 0; }
    // True if what the flow delivers is passed on.
    bool Feeds(uint32_t flow) const { return !spec_.graph.feeds.empty() && spec_.graph.feeds[flow] >= 0; }
    // True if receivers (gates.h) let the flow send; without their control, everything may.
    bool Passes(uint32_t flow, int64_t now_ns) const { return !gates_ || gates_->Passes(flow, now_ns); }
    // Returns the window, limited by what the receiver allows without an ACK.
    uint32_t ClampBytes(uint32_t flow, uint32_t window_bytes) const
    {
        return gates_ ? gates_->WindowBytes(flow, window_bytes) : window_bytes;
    }
    void SentData(uint32_t flow, uint32_t ip_bytes)
    {
        if (gates_) {
            gates_->Sent(flow, ip_bytes);
        }
    }
    // Call when a packet of a flow has arrived; only the first one counts.
    void HeardOf(uint32_t flow, int64_t now_ns)
    {
        if (gates_) {
            gates_->Heard(flow, now_ns);
        }
    }

    // Measures all agents and begins a new epoch. `nic_of(node)`: the Nic of a host.
    template <class NicOf>
    void MeasureHosts(const HostColumns &out, int64_t now_ns, NicOf nic_of)
    {
        const auto view_of = [this](uint32_t flow) -> const FlowView & { return views_[flow]; };
        const auto held = [=, this](uint32_t flow) { return gates_ && gates_->Held(flow, now_ns); };
        for (size_t i = 0; i < spec_.agents.size(); ++i) {
            Sender &sender = senders_[spec_.agents[i]];
            const auto &nic = nic_of(spec_.agents[i]);
            MeasureHost(out, i, sender, nic.limit_bps(), nic.limited_bytes(), sender.live, view_of, held, now_ns,
                        spec_.period_ns);
        }
    }
    // Measures all uplinks likewise. `record_of(port)`: the PortTotals of a port.
    template <class Switches, class RecordOf>
    void MeasureUplinks(const UplinkColumns &out, Switches &switches, RecordOf record_of)
    {
        for (size_t i = 0; i < spec_.uplinks.size(); ++i) {
            auto &port = switches.Advanced(spec_.uplinks[i]);
            MeasureUplink(out, i, record_of(spec_.uplinks[i]), uplinks_before_[i], port.queue_bytes(),
                          port.TakeQueueIntegral(), spec_.period_ns);
        }
    }

  protected:
    struct Sender : HostEpoch {
        std::vector<uint32_t> live; // flows that have arrived and are not delivered
    };

    Sender &SenderOf(uint32_t flow) { return senders_[spec_.flows[flow].src]; }
    // Starts the flows that are due, at the event for it. `Network` has `now_ns()`, `Schedule` and `StartFlow(flow)`.
    template <class Network>
    void StartDue(Network &network)
    {
        const int64_t now_ns = network.now_ns();
        if (now_ns != armed_ns_) { // an earlier event has taken its place
            return;
        }
        armed_ns_ = kNever;
        for (uint32_t flow = 0; Take(now_ns, flow);) {
            spec_.flows[flow].start_ns = views_[flow].arrived_ns = views_[flow].last_left_ns = now_ns;
            records_[flow].start_ns = now_ns;
            ++started_;
            if (spec_.flows[flow].size_bytes > 0) {
                network.StartFlow(flow);
            } else {
                Complete(flow, now_ns);
            }
        }
        Arm(network);
    }
    // Schedules the next start of flows.
    template <class Network>
    void Arm(Network &network)
    {
        int64_t at_ns = next_flow_ < spec_.flows.size() ? spec_.flows[next_flow_].start_ns : kNever;
        if (requests_.n_due > 0) {
            at_ns = std::min(at_ns, requests_.due[0].at_ns);
        }
        if (at_ns < armed_ns_) {
            armed_ns_ = at_ns;
            network.Schedule(at_ns, EventKind::kFlow, 0);
        }
    }
    // Passes on what has come, in order, of a flow that feeds another. `Network` has `Live(flow)` and
    // `Written(flow, bytes)`: its application has written so many more.
    template <class Network>
    void Feed(Network &network, uint32_t flow, uint64_t came_bytes)
    {
        const auto to = static_cast<uint32_t>(spec_.graph.feeds[flow]);
        const uint64_t before_bytes = WrittenBytes(to, 0);
        spec_.flows[to].chunk_bytes += came_bytes - passed_bytes_[flow];
        passed_bytes_[flow] = came_bytes;
        const uint64_t bytes = WrittenBytes(to, 0) - before_bytes;
        if (bytes > 0 && network.Live(to)) {
            network.Written(to, bytes);
        }
    }
    void Begin(uint32_t flow);                  // a flow arrives
    void Finish(uint32_t flow, int64_t now_ns); // its last byte has come; call `Arm` after it
    void End(uint32_t flow, int64_t now_ns);    // all of it is acknowledged
    // `Network` has `ReceivedBytes(flow)`, `Wake(flow)` and `SendMessage(flow, to_receiver, place)`.
    template <class Network>
    void MakeGates(Network &network)
    {
        if (!spec_.receivers) {
            return;
        }
        gates_ = std::make_unique<Gates>(
            spec_,
            [&, this](uint32_t flow) { return std::make_pair(views_[flow].known_bytes, network.ReceivedBytes(flow)); },
            [&](uint32_t gate, int64_t time_ns) { network.Schedule(time_ns, EventKind::kGate, gate); },
            [&](uint32_t flow) { network.Wake(flow); },
            [&](uint32_t place, int64_t time_ns) { network.Schedule(time_ns, EventKind::kLeave, place); },
            [&](uint32_t flow, uint32_t place) { network.SendMessage(flow, false, place); });
    }

    Spec spec_;
    Routes routes_;
    Router router_;
    std::vector<FlowView> views_;
    Knowledge knowledge_;
    std::vector<FlowRecord> records_;
    std::vector<Sender> senders_;      // by node
    std::vector<uint32_t> live_index_; // by flow: its place in its host's list of live flows
    IdleConnections idle_;
    std::optional<Tags> tags_; // none: packets have class and rank 0
    std::vector<ncc_u64> next_tags_;
    std::vector<int64_t> just_delivered_;
    std::unique_ptr<Gates> gates_; // null without receivers' control
    std::vector<PortTotals> uplinks_before_;
    size_t next_flow_ = 0, live_ = 0; // connections that are not closed
    int64_t started_ = 0, finished_ = 0;
    uint64_t messages_ = 0;

  private:
    static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

    void MakeRequests();
    void MakeFronts();
    bool Take(int64_t now_ns, uint32_t &flow); // the next flow that is due
    void Complete(uint32_t flow, int64_t now_ns);

    int64_t armed_ns_ = kNever; // time of the event that starts the next flows
    ncc_requests requests_{};   // without arrays if there is no graph
    std::vector<uint32_t> left_, first_, waiting_;
    std::vector<ncc_due> due_;
    std::vector<ncc_u64> front_params_;
    std::vector<ncc_front_end> front_ends_;
    std::vector<uint64_t> wire_bytes_;
    std::vector<uint32_t> next_query_;
    std::vector<int64_t> asked_ns_;
    std::vector<uint64_t> passed_bytes_; // by flow, with streams that are passed on
};

} // namespace ncc
