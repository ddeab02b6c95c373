// SPDX-License-Identifier: BSD-3-Clause
// Settings that JavaScript gives, by their names: those of `Spec`, and what `Tables` and `Rates` read.
#pragma once

#include "spec.h"
#include "tables.h"

#include <emscripten/val.h>

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace ncc::web
{

using emscripten::val;

// Reads an object by name.
class FromJs
{
  public:
    explicit FromJs(val from) : from_(std::move(from)) {}

    bool Has(const char *name) const { return !from_[name].isUndefined() && !from_[name].isNull(); }
    FromJs At(const char *name) const { return FromJs(from_[name]); }
    double Real(const char *name) const { return from_[name].as<double>(); }
    size_t Size(const char *name) const { return static_cast<size_t>(Real(name)); }
    bool Flag(const char *name) const { return from_[name].as<bool>(); }
    std::string Text(const char *name) const { return from_[name].as<std::string>(); }
    template <typename T>
    std::vector<T> Array(const char *name) const
    {
        return Numbers<T>(from_[name]);
    }
    std::vector<FromJs> Objects(const char *name) const
    {
        std::vector<FromJs> all;
        for (const val &each : emscripten::vecFromJSArray<val>(from_[name])) {
            all.emplace_back(each);
        }
        return all;
    }
    std::vector<std::vector<int>> Columns() const
    {
        std::vector<std::vector<int>> columns;
        for (const val &each : emscripten::vecFromJSArray<val>(from_["columns"])) {
            columns.push_back(Numbers<int>(each));
        }
        return columns;
    }
    std::vector<NamedEntry> Entries() const
    {
        std::vector<NamedEntry> entries;
        for (const val &each : emscripten::vecFromJSArray<val>(from_["entries"])) {
            const auto at = [&](int k) { return static_cast<size_t>(each[k].as<double>()); };
            entries.push_back({each[0].as<std::string>(), {at(1), at(2), at(3), at(4), at(5)}});
        }
        return entries;
    }
    std::vector<std::vector<float>> Constants() const
    {
        std::vector<std::vector<float>> constants;
        for (const val &each : emscripten::vecFromJSArray<val>(from_["constants"])) {
            constants.push_back(Numbers<float>(each));
        }
        return constants;
    }
    std::vector<std::string> Texts(const char *name) const
    {
        return emscripten::vecFromJSArray<std::string>(from_[name]);
    }
    Params Pairs(const char *name) const
    {
        Params params;
        for (const val &each : emscripten::vecFromJSArray<val>(from_[name])) {
            params.emplace_back(each[0].as<std::string>(), static_cast<uint64_t>(each[1].as<double>()));
        }
        return params;
    }
    // Sets a field if there is a setting of its name.
    template <typename T>
    void Set(const char *name, T &field) const
    {
        const val value = from_[name];
        if (value.isUndefined()) {
            return;
        }
        if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, bool>) {
            field = value.as<T>();
        } else {
            field = static_cast<T>(value.as<double>());
        }
    }

  private:
    template <typename T>
    static std::vector<T> Numbers(const val &from)
    {
        const std::vector<double> numbers = emscripten::convertJSArrayToNumberVector<double>(from);
        return std::vector<T>(numbers.begin(), numbers.end());
    }

    val from_;
};

inline QueueSpec QueueOf(const FromJs &from)
{
    QueueSpec queue;
    from.Set("buffer_bytes", queue.buffer_bytes), from.Set("threshold_bytes", queue.threshold_bytes);
    from.Set("red_min_bytes", queue.red_min_bytes), from.Set("red_max_bytes", queue.red_max_bytes);
    from.Set("red_max_prob", queue.red_max_prob), from.Set("pool", queue.pool);
    from.Set("programs", queue.programs);
    return queue;
}

// `flows` are numbers, four of each flow: start in ns, nodes of its sender and receiver, bytes.
inline Spec SpecOf(const FromJs &from)
{
    Spec spec;
    spec.is_host = from.Array<uint8_t>("is_host");
    spec.agents = from.Array<uint32_t>("agents");
    spec.uplinks = from.Array<uint32_t>("uplinks");
    for (const FromJs &each : from.Objects("links")) {
        LinkSpec link;
        each.Set("a", link.a), each.Set("b", link.b), each.Set("rate_bps", link.rate_bps);
        each.Set("delay_ns", link.delay_ns);
        const std::vector<FromJs> queues = each.Objects("queue");
        link.queue = {QueueOf(queues.at(0)), QueueOf(queues.at(1))};
        spec.links.push_back(link);
    }
    for (const FromJs &each : from.Objects("pools")) {
        PoolSpec pool;
        each.Set("size_bytes", pool.size_bytes), each.Set("alpha", pool.alpha);
        spec.pools.push_back(pool);
    }
    for (const FromJs &each : from.Objects("programs")) {
        spec.programs.push_back({{each.Text("name"), each.Pairs("params")}});
    }
    const std::vector<double> flows = from.Array<double>("flows");
    for (size_t i = 0; i + 4 <= flows.size(); i += 4) {
        FlowSpec flow{};
        flow.start_ns = static_cast<int64_t>(flows[i]);
        flow.src = static_cast<uint32_t>(flows[i + 1]), flow.dst = static_cast<uint32_t>(flows[i + 2]);
        flow.size_bytes = static_cast<uint64_t>(flows[i + 3]);
        spec.flows.push_back(flow);
    }
    for (const FromJs &each : from.Objects("answers")) {
        AnswerSpec answer;
        each.Set("ahead_bytes", answer.ahead_bytes), each.Set("ns_per_byte", answer.ns_per_byte);
        spec.answers.push_back(answer);
    }
    from.Set("mtu_bytes", spec.mtu_bytes), from.Set("frame_overhead_bytes", spec.frame_overhead_bytes);
    from.Set("initial_window_pkts", spec.initial_window_pkts), from.Set("delayed_ack_pkts", spec.delayed_ack_pkts);
    from.Set("send_buffer_bytes", spec.send_buffer_bytes), from.Set("receive_buffer_bytes", spec.receive_buffer_bytes);
    from.Set("dup_ack_pkts", spec.dup_ack_pkts), from.Set("handshake", spec.handshake);
    from.Set("idle_restart", spec.idle_restart), from.Set("sack", spec.sack);
    from.Set("limited_transmit", spec.limited_transmit), from.Set("modern", spec.modern);
    from.Set("timer_slack_ns", spec.timer_slack_ns), from.Set("timer_tick_ns", spec.timer_tick_ns);
    from.Set("min_rto_ns", spec.min_rto_ns), from.Set("initial_rto_ns", spec.initial_rto_ns);
    from.Set("delayed_ack_ns", spec.delayed_ack_ns), from.Set("bucket_bytes", spec.bucket_bytes);
    from.Set("small_queue_bytes", spec.small_queue_bytes), from.Set("first_write_pkts", spec.first_write_pkts);
    from.Set("receivers", spec.receivers), from.Set("hold", spec.hold);
    from.Set("patience_ns", spec.patience_ns), from.Set("queue_ns", spec.queue_ns);
    from.Set("period_ns", spec.period_ns), from.Set("transport", spec.transport);
    from.Set("order", spec.order), from.Set("tags", spec.tags);
    spec.params = from.Pairs("params"), spec.order_params = from.Pairs("order_params");
    spec.seed = std::stoull(from.Text("seed")); // in decimal: a number of JavaScript has 53 bits
    return spec;
}

} // namespace ncc::web
