// SPDX-License-Identifier: BSD-3-Clause
// packetsim in a browser: a run as `ncc.harness.run.run_once` makes it, and pictures of it. scenario.js makes the
// settings.
#include "limiters.h"

#include "network.h"

#include <emscripten/bind.h>
#include <emscripten/val.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ncc::web
{
namespace
{

constexpr size_t kWindows = 64; // flows whose windows are kept in pictures
constexpr uint16_t kWaiting = 255, kAckBit = 1, kMarkBit = 2, kAgainBit = 4;

template <typename T>
val Typed(const char *type, const std::vector<T> &numbers)
{
    return val::global(type).new_(emscripten::typed_memory_view(numbers.size(), numbers.data()));
}

class Play
{
  public:
    // Returns why it cannot run, or nothing.
    std::string Start(val given)
    {
        return Caught([&] {
            const FromJs from{std::move(given)};
            const Spec spec = SpecOf(from.At("spec"));
            network_ = std::make_unique<packetsim::Network>(spec);
            const size_t n = spec.agents.size();
            measured_ = std::make_unique<Measured>(n), seen_ = std::make_unique<Measured>(n);
            limits_.resize(n);
            limiter_ = LimiterOf(from.At("limiter"), n);
            if (from.Has("rule")) {
                rule_.emplace(RuleOf(from.At("rule")));
                granting_ = from.Array<uint8_t>("granting");
                masks_held_ = from.Flag("masks_held"), alone_ = from.Flag("receiver_alone");
                receiver_starts_ = from.Flag("receiver_starts"), was_idle_.assign(n, 1);
            }
            last_epoch_ = static_cast<int64_t>(from.Real("last_epoch"));
            picture_ns_ = next_ns_ = static_cast<int64_t>(from.Real("picture_ns"));
            most_pictures_ = from.Size("most_pictures");
            Measure();
        });
    }

    // Runs at most so many periods; returns why it failed, or nothing.
    std::string Advance(int periods)
    {
        return Caught([&] {
            for (; periods > 0 && !over(); --periods) {
                Decide();
                network_->Step(limits_.data(), [this](int64_t end_ns) { RunUntil(end_ns); });
                Measure();
                Keep();
            }
        });
    }

    bool over() const
    {
        return network_->epoch() >= last_epoch_ ||
               network_->run().flows_finished() == static_cast<int64_t>(network_->run().spec().flows.size());
    }
    double now_ns() const { return static_cast<double>(network_->now_ns()); }
    double events() const { return static_cast<double>(network_->engine().events()); }
    double finished() const { return static_cast<double>(network_->run().flows_finished()); }

    val Result()
    {
        std::vector<double> finish_ns, timeouts, sent, again, marked;
        for (const FlowRecord &record : network_->run().records()) {
            finish_ns.push_back(static_cast<double>(record.finish_ns));
            timeouts.push_back(static_cast<double>(record.timeouts));
            sent.push_back(static_cast<double>(record.sent_pkts));
            again.push_back(static_cast<double>(record.retransmitted_pkts));
            marked.push_back(static_cast<double>(record.ce_pkts));
        }
        double dropped = 0;
        for (uint32_t port = 0; port < 2 * network_->run().spec().links.size(); ++port) {
            dropped += static_cast<double>(network_->PortRecord(port).dropped_data_pkts);
        }
        const PortTotals uplink = network_->PortRecord(network_->run().spec().uplinks.at(0));
        val result = val::object();
        result.set("finish_ns", Typed("Float64Array", finish_ns));
        result.set("timeouts", Typed("Float64Array", timeouts));
        result.set("sent", Typed("Float64Array", sent));
        result.set("retransmitted", Typed("Float64Array", again));
        result.set("marked", Typed("Float64Array", marked));
        result.set("dropped", dropped);
        result.set("queue_delay_ns", static_cast<double>(uplink.delay_ns));
        result.set("uplink_pkts", static_cast<double>(uplink.tx_pkts));
        result.set("goodput_bps", Typed("Float64Array", goodput_));
        result.set("queued_bytes", Typed("Float64Array", queued_));
        result.set("limit_bps", Typed("Float64Array", kept_limits_));
        result.set("uplink", Typed("Float64Array", uplink_));
        result.set("packets", Typed("Uint16Array", packets_));
        result.set("pictures", Typed("Float64Array", pictures_));
        result.set("windows", Typed("Float32Array", windows_));
        result.set("epochs", static_cast<double>(network_->epoch()));
        result.set("events", events());
        return result;
    }

  private:
    template <typename Body>
    static std::string Caught(const Body &body)
    {
        try {
            body();
        } catch (const std::exception &error) {
            return *error.what() ? error.what() : "the simulation failed";
        }
        return "";
    }

    void Decide()
    {
        seen_->Copy(*measured_);
        if (rule_ && masks_held_) {
            HideHeld();
        }
        limiter_->Decide(*seen_, limits_);
        if (!rule_) {
            return;
        }
        if (alone_) {
            Limiter().Decide(*seen_, limits_);
        }
        for (size_t i = 0; i < limits_.size(); ++i) {
            const bool idle = measured_->hosts.queued_flows[i] == 0;
            if (receiver_starts_ && (idle || was_idle_[i])) {
                limits_[i] = std::numeric_limits<double>::infinity();
            }
            was_idle_[i] = idle;
        }
        std::vector<Pair> pairs;
        for (const Gates::Edge &edge : network_->run().Edges(network_->now_ns())) {
            pairs.push_back(
                {edge.src, edge.dst, edge.flows, edge.waiting_bytes, edge.next_bytes, edge.received_bytes, edge.age_s});
        }
        std::vector<Grant> grants;
        for (const PairGrant &grant : rule_->Decide(pairs, static_cast<double>(network_->now_ns()) / 1e9)) {
            if (granting_.at(static_cast<size_t>(grant.dst))) {
                grants.push_back({static_cast<uint32_t>(grant.src), static_cast<uint32_t>(grant.dst),
                                  static_cast<int64_t>(std::nearbyint(grant.start_s * 1e9)), grant.rate_bps,
                                  static_cast<uint32_t>(grant.window_pkts)});
            }
        }
        if (!grants.empty()) {
            network_->Tell(std::move(grants));
        }
    }

    // A host whose flows all wait for their receivers counts as idle (`without_held`).
    void HideHeld()
    {
        const HostColumns &h = seen_->hosts;
        for (size_t i = 0; i < seen_->n; ++i) {
            if (h.held_flows[i] > 0 && h.held_flows[i] >= h.queued_flows[i]) {
                h.wait_s[i] = h.queued_bytes[i] = h.next_bytes[i] = 0;
                h.queued_flows[i] = 0;
            }
        }
    }

    void Measure()
    {
        network_->Measure(measured_->hosts, measured_->uplink);
        measured_->epoch = network_->epoch();
    }

    // Keeps what metrics and pictures need of a period.
    void Keep()
    {
        const HostColumns &h = measured_->hosts;
        goodput_.insert(goodput_.end(), h.goodput_bps, h.goodput_bps + measured_->n);
        queued_.insert(queued_.end(), h.queued_bytes, h.queued_bytes + measured_->n);
        kept_limits_.insert(kept_limits_.end(), limits_.begin(), limits_.end());
        const UplinkColumns &u = measured_->uplink;
        uplink_.insert(uplink_.end(), {u.throughput_bps[0], u.queue_bytes[0], u.queue_delay_s[0],
                                       static_cast<double>(u.marked_pkts[0]), static_cast<double>(u.dropped_pkts[0])});
    }

    // Runs to the end of a period, with a picture whenever one is due. The engine must run in one go: a stop would
    // change which of the events at `end_ns` still belong to the period.
    void RunUntil(int64_t end_ns)
    {
        network_->engine().CheckOrder();
        network_->engine().RunUntil(end_ns, [this](const packetsim::Event &event) {
            while (next_ns_ < event.time_ns) {
                Picture();
            }
            network_->Handle(event);
        });
        while (next_ns_ <= end_ns) {
            Picture();
        }
    }

    // Forgets every second picture, and takes half as many from now on.
    void Thin()
    {
        std::vector<double> pictures;
        std::vector<uint16_t> packets;
        std::vector<float> windows;
        const size_t flows = std::min(kWindows, network_->run().spec().flows.size());
        for (size_t i = 0; i < pictures_.size() / kPicture; i += 2) {
            const auto begin = static_cast<std::ptrdiff_t>(i == 0 ? 0 : pictures_[(i - 1) * kPicture + 1]);
            const auto end = static_cast<std::ptrdiff_t>(pictures_[i * kPicture + 1]);
            packets.insert(packets.end(), packets_.begin() + begin, packets_.begin() + end);
            const float *row = windows_.data() + i * flows;
            windows.insert(windows.end(), row, row + flows);
            pictures.insert(pictures.end(), {pictures_[i * kPicture], static_cast<double>(packets.size()),
                                             pictures_[i * kPicture + 2]});
        }
        pictures_.swap(pictures), packets_.swap(packets), windows_.swap(windows);
        picture_ns_ *= 2;
    }

    // Keeps where all packets of links and ports are at `next_ns_`; nothing in the network changes.
    void Picture()
    {
        auto &pool = network_->engine().packets();
        auto &connections = network_->connections();
        const int64_t now_ns = next_ns_;
        const uint32_t uplink = network_->run().spec().uplinks.at(0);
        int64_t queue_bytes = 0;
        for (uint32_t port = 0; port < network_->engine().links().size(); ++port) {
            const auto &list = network_->engine().links()[port].packets;
            uint32_t place = list.front();
            for (uint32_t k = 0; k < list.size(); ++k, place = pool[place].behind) {
                const auto &entry = pool[place];
                const int64_t start_ns = entry.start_ps / 1000, way_ns = entry.arrival_ns - start_ns;
                const bool waits = start_ns > now_ns;
                if (waits && port == uplink) {
                    queue_bytes += entry.packet.ip_bytes;
                }
                if (entry.packet.connection == packetsim::kNone) {
                    continue;
                }
                const int64_t done = way_ns > 0 ? (now_ns - start_ns) * 250 / way_ns : 250;
                const auto where = waits ? kWaiting : static_cast<uint16_t>(std::min<int64_t>(done, 250));
                const auto kind = static_cast<uint16_t>((entry.packet.kind == packetsim::Kind::kData ? 0 : kAckBit) |
                                                        (entry.packet.marked ? kMarkBit : 0) |
                                                        (entry.packet.retransmission ? kAgainBit : 0));
                packets_.insert(packets_.end(),
                                {static_cast<uint16_t>(port),
                                 static_cast<uint16_t>(connections.flow_of(entry.packet.connection)), where, kind});
            }
        }
        if (const auto &port = network_->switches().port(uplink); port.holds()) {
            queue_bytes = port.queue_bytes();
        }
        pictures_.insert(pictures_.end(), {static_cast<double>(now_ns), static_cast<double>(packets_.size()),
                                           static_cast<double>(queue_bytes)});
        for (uint32_t flow = 0; flow < std::min(kWindows, network_->run().spec().flows.size()); ++flow) {
            windows_.push_back(static_cast<float>(network_->SenderWindow(flow).cwnd_bytes));
        }
        if (pictures_.size() >= kPicture * most_pictures_) {
            Thin();
        }
        next_ns_ += picture_ns_;
    }

    static constexpr size_t kPicture = 3; // numbers: time in ns, end of its packets, bytes in the uplink's queue

    std::unique_ptr<packetsim::Network> network_;
    std::unique_ptr<Measured> measured_, seen_;
    std::unique_ptr<Limiter> limiter_;
    std::optional<ReceiverRule> rule_;
    std::vector<uint8_t> granting_; // by node
    std::vector<double> limits_, goodput_, queued_, kept_limits_, uplink_, pictures_;
    std::vector<uint16_t> packets_; // four numbers each: port, flow, how far it is, kind
    std::vector<float> windows_;
    std::vector<uint8_t> was_idle_; // by host, when it was last measured
    bool masks_held_ = false, alone_ = false, receiver_starts_ = false;
    int64_t last_epoch_ = 0, picture_ns_ = 0, next_ns_ = 0;
    size_t most_pictures_ = 0;
};

} // namespace

EMSCRIPTEN_BINDINGS(packetsim)
{
    emscripten::class_<Play>("Play")
        .constructor<>()
        .function("start", &Play::Start)
        .function("advance", &Play::Advance)
        .function("result", &Play::Result)
        .property("over", &Play::over)
        .property("now_ns", &Play::now_ns)
        .property("events", &Play::events)
        .property("finished", &Play::finished);
}

} // namespace ncc::web
