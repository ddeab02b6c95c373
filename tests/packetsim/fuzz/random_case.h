// SPDX-License-Identifier: BSD-3-Clause
// A random small network with flows, settings and faults.
#pragma once

#include "controllers.h"
#include "order.h"
#include "programs.h"
#include "spec.h"
#include "tags.h"
#include "test_window.h"

#include "ncc_controllers.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

namespace ncc::packetsim
{

// Returns the names of a table's rows, after `names`.
template <class Table>
std::vector<std::string> NamesIn(const Table &table, std::vector<std::string> names = {})
{
    for (const auto *ops : table) {
        names.emplace_back(ops->name);
    }
    return names;
}

class Random
{
  public:
    explicit Random(uint64_t seed) : engine_(seed) {}

    uint64_t Between(uint64_t low, uint64_t high)
    {
        return std::uniform_int_distribution<uint64_t>(low, high)(engine_);
    }
    bool Chance(double p) { return std::uniform_real_distribution<>(0, 1)(engine_) < p; }
    template <typename T>
    T OneOf(std::initializer_list<T> values)
    {
        return values.begin()[Between(0, values.size() - 1)];
    }

  private:
    std::mt19937_64 engine_;
};

// Losses of packets at their destination, beside those that switches drop.
struct Losses {
    double chance = 0;                  // probability for each packet
    uint32_t in_a_row = 5;              // most losses in a row of one flow, so that every flow can finish
    std::array<uint32_t, 5> first = {}; // by Packet::kind: number of each flow's first packets to lose
    uint32_t last_acks = 0;             // number of ACKs of a whole flow to lose
};

struct RandomCase {
    Spec spec;
    Losses losses;
    double fault_chance = 0; // probability of a drop or mark at a switch, per epoch
    bool endless = false;    // extreme numbers: a flow may never finish

    static RandomCase Make(uint64_t seed);
};

class Maker
{
  public:
    Maker(RandomCase &out, uint64_t seed) : out_(out), spec_(out.spec), random_(seed) {}

    void Make(uint64_t seed)
    {
        spec_.seed = seed;
        out_.endless = random_.Chance(0.15);
        slow_ = out_.endless && random_.Chance(0.5);
        Settings();
        Network();
        Flows();
        Faults();
        Ports();
        Components();
        Messages();
    }

  private:
    void Settings()
    {
        spec_.mtu_bytes = random_.OneOf<uint32_t>({80, 256, 576, 1500, 9000});
        spec_.frame_overhead_bytes = random_.OneOf<uint32_t>({0, 38});
        spec_.initial_window_pkts = static_cast<uint32_t>(random_.Between(1, 40));
        spec_.delayed_ack_pkts = static_cast<uint32_t>(random_.Between(1, 4));
        spec_.delayed_ack_ns = random_.OneOf<int64_t>({1'000, 100'000, 10'000'000});
        spec_.min_rto_ns = random_.OneOf<int64_t>({100'000, 5'000'000});
        spec_.initial_rto_ns = random_.OneOf<int64_t>({1'000'000, 20'000'000});
        spec_.receive_buffer_bytes = spec_.mtu_bytes * static_cast<uint32_t>(random_.Between(2, 300));
        spec_.send_buffer_bytes = spec_.mtu_bytes * static_cast<uint32_t>(random_.Between(2, 300));
        spec_.bucket_bytes = spec_.mtu_bytes * random_.Between(1, 4);
        spec_.small_queue_bytes = spec_.mtu_bytes * random_.Between(1, 8);
        spec_.period_ns = slow_ ? 1'000'000'000 : out_.endless ? 10'000 : random_.OneOf<int64_t>({50'000, 1'000'000});
        spec_.latency_ns = random_.Chance(0.5) ? 0 : spec_.period_ns / 3;
        spec_.handshake = random_.Chance(0.7);
        spec_.connections_per_pair = random_.OneOf<uint32_t>({0, 0, 1, 2});
        spec_.idle_restart = random_.Chance(0.7);
        spec_.sack = random_.Chance(0.7);
        spec_.limited_transmit = random_.Chance(0.7);
        spec_.modern = spec_.sack && random_.Chance(0.6);
        spec_.timer_slack_ns = random_.OneOf<int64_t>({0, 100'000, 2'000'000});
        spec_.timer_tick_ns = random_.OneOf<int64_t>({0, 0, 1'000'000});
        spec_.dup_ack_pkts = static_cast<uint32_t>(random_.Between(1, 5));
        constexpr size_t kControllers = sizeof(ncc_cc_table) / sizeof(ncc_cc_table[0]);
        spec_.rtt_noise_max_ns = random_.Chance(0.3) ? 1'000'000 : 0;
        spec_.transport = ncc_cc_table[random_.Between(0, kControllers - 1)]->name;
        if (random_.Chance(0.2)) { // a window of one packet, or one that never shrinks; sometimes paced
            const uint64_t mss_bytes = spec_.mtu_bytes - 40;
            spec_.transport = test_window_ops.name;
            spec_.period_ns = std::max<int64_t>(spec_.period_ns, 1'000'000); // it may have a timeout a packet
            spec_.params = {{"cwnd_bytes", mss_bytes * random_.OneOf<uint64_t>({1, 1, 2, 50, 100'000})},
                            {"after_acks", random_.Between(0, 3)},
                            {"pacing_bytes_per_s", random_.OneOf<uint64_t>({0, 0, 20'000'000, 2'000'000'000})}};
        }
        const std::vector<std::string> orders = NamesIn(ncc_order_table, {"fifo"});
        spec_.order = orders[random_.Between(0, orders.size() - 1)];
    }

    QueueSpec SwitchQueue()
    {
        QueueSpec queue;
        const uint64_t mtu = spec_.mtu_bytes;
        queue.buffer_bytes = static_cast<int64_t>(mtu * random_.Between(1, out_.endless ? 10 : 60));
        queue.threshold_bytes = random_.Chance(0.5) ? 0 : static_cast<int64_t>(mtu * random_.Between(1, 20));
        if (random_.Chance(0.3)) {
            queue.red_min_bytes = static_cast<int64_t>(mtu * random_.Between(0, 5));
            queue.red_max_bytes = queue.red_min_bytes + static_cast<int64_t>(mtu * random_.Between(1, 20));
            queue.red_max_prob = random_.OneOf({0.0, 0.3, 1.0});
        }
        queue.control_first = random_.Chance(0.3);
        queue.mark_leaving = random_.Chance(0.2);
        return queue;
    }

    // Makes pools, each of one switch.
    void Share(uint32_t first_switch, uint32_t n)
    {
        for (uint32_t node = first_switch; node < first_switch + n; ++node) {
            if (!random_.Chance(0.5)) {
                continue;
            }
            const auto pool = static_cast<int32_t>(spec_.pools.size());
            spec_.pools.push_back({static_cast<int64_t>(spec_.mtu_bytes * random_.Between(1, out_.endless ? 10 : 100)),
                                   random_.OneOf({0.001, 0.25, 1.0, 8.0, 1024.0})});
            for (LinkSpec &link : spec_.links) {
                if (link.a == node && random_.Chance(0.7)) {
                    link.queue[0].pool = pool;
                }
                if (link.b == node && random_.Chance(0.7)) {
                    link.queue[1].pool = pool;
                }
            }
        }
    }

    // Makes a tree of switches with hosts, and sometimes a second path.
    void Network()
    {
        const auto switches = static_cast<uint32_t>(random_.Between(1, 4));
        const uint64_t hosts = random_.Between(2, 9);
        auto link = [&](uint32_t a, uint32_t b, bool host) {
            double rate_bps = 1e6 * random_.OneOf<double>({10, 333, 1000, 10000, 100000});
            int64_t delay_ns = random_.OneOf<int64_t>({0, 1, 10'000, 1'000'000});
            if (slow_) {
                rate_bps = random_.OneOf<double>({1, 1e3, 1e5});
                delay_ns = random_.OneOf<int64_t>({0, 3, 3'000'000'000, 10'000'000'000});
            } else if (out_.endless) {
                rate_bps = random_.OneOf<double>({1e3, 1e11, 4e11, 1e13});
            }
            LinkSpec made{a, b, rate_bps, delay_ns, {QueueSpec{}, SwitchQueue()}};
            if (!host) {
                made.queue[0] = SwitchQueue();
            }
            spec_.links.push_back(made);
        };
        for (uint32_t i = 0; i < switches; ++i) {
            spec_.is_host.push_back(0);
            if (i > 0) {
                link(static_cast<uint32_t>(random_.Between(0, i - 1)), i, false);
                if (random_.Chance(0.3)) {
                    link(static_cast<uint32_t>(random_.Between(0, i - 1)), i, false);
                }
            }
        }
        for (uint64_t i = 0; i < hosts; ++i) {
            spec_.is_host.push_back(1);
            spec_.agents.push_back(static_cast<uint32_t>(spec_.is_host.size() - 1));
            link(spec_.agents.back(), static_cast<uint32_t>(random_.Between(0, switches - 1)), true);
        }
        spec_.uplinks = {static_cast<uint32_t>(2 * spec_.links.size() - 1)}; // the switch's end of the last link
        Share(0, switches);
    }

    void Flows()
    {
        const uint64_t n = random_.Between(1, 60);
        int64_t start_ns = 0;
        for (uint64_t i = 0; i < n; ++i) {
            start_ns += random_.Chance(0.3) ? 0 : static_cast<int64_t>(random_.Between(0, 300'000));
            const uint64_t src = random_.Between(0, spec_.agents.size() - 1);
            uint64_t dst = random_.Between(0, spec_.agents.size() - 2);
            dst += dst >= src;
            uint64_t most = random_.OneOf<uint64_t>({1, 2'000, 40'000, 400'000});
            if (spec_.mtu_bytes < 256) {
                most = std::min<uint64_t>(most, 40'000);
            }
            if (out_.endless && random_.Chance(0.3)) {
                most = 1ULL << random_.Between(36, 37);
            }
            spec_.flows.push_back({start_ns, spec_.agents[src], spec_.agents[dst], random_.Between(1, most)});
            for (bool &limited : spec_.flows.back().limited) {
                limited = random_.Chance(0.5);
            }
        }
    }

    void Faults()
    {
        Losses &losses = out_.losses;
        if (random_.Chance(0.5)) {
            losses.chance = random_.OneOf({0.001, 0.02, 0.2});
            if (losses.chance > 0.1) { // timers back off to seconds, and stay there without a sample
                spec_.period_ns = std::max<int64_t>(spec_.period_ns, 1'000'000);
            }
        }
        if (random_.Chance(0.3)) {
            losses.first[random_.Between(0, losses.first.size() - 1)] = static_cast<uint32_t>(random_.Between(1, 4));
        }
        if (random_.Chance(0.3)) {
            losses.last_acks = static_cast<uint32_t>(random_.Between(1, 3));
        }
        out_.fault_chance = random_.Chance(0.3) ? 0.05 : 0;
    }

    // Some flows run another controller, with timers of its own.
    void Components()
    {
        const auto controller = [this] {
            constexpr size_t kControllers = sizeof(ncc_cc_table) / sizeof(ncc_cc_table[0]);
            const ncc_cc_ops &ops = *ncc_cc_table[random_.Between(0, kControllers - 1)];
            return std::string(slow_ && (ops.needs & NCC_CC_TIMER) ? "dctcp" : ops.name); // it counts in microseconds
        };
        const ncc_cc_ops *first = FindController(spec_.transport);
        if (slow_ && first && (first->needs & NCC_CC_TIMER)) {
            spec_.transport = "dctcp";
        }
        if (spec_.connections_per_pair > 0 || !random_.Chance(0.4)) {
            return;
        }
        spec_.stacks.push_back({controller(), {}, spec_.min_rto_ns, 2 * spec_.initial_rto_ns, 1});
        spec_.stacks.push_back(
            {controller(), {}, 3 * spec_.min_rto_ns, spec_.initial_rto_ns, spec_.initial_window_pkts});
        for (FlowSpec &flow : spec_.flows) {
            flow.stack = static_cast<uint8_t>(random_.Between(0, 2));
        }
    }

    // In some networks flows with message transports, beside TCP's or alone. They lose packets in ports only, and by
    // chance: a count could keep step with what they send again.
    void Messages()
    {
        if (slow_ || spec_.connections_per_pair > 0 || !random_.Chance(0.4)) {
            return;
        }
        const std::vector<std::string> names = NamesIn(ncc_tp_table, {"test_transport"});
        spec_.stacks.resize(2, {spec_.transport, spec_.params, spec_.min_rto_ns, spec_.initial_rto_ns, 1});
        for (StackSpec &stack : spec_.stacks) {
            stack = {names[random_.Between(0, names.size() - 1)], {}, spec_.min_rto_ns, spec_.initial_rto_ns, 1};
            if (stack.transport == "expresspass" || stack.transport == "flashpass") {
                stack.params = {{"blind_pkts", random_.OneOf<uint64_t>({0, 20})}};
            } else if (stack.transport == "homa") {
                stack.params = {{"expendable", random_.Between(0, 1)}};
            }
        }
        if (random_.Chance(0.3)) {
            spec_.transport = spec_.stacks[0].transport;
            spec_.params = spec_.stacks[0].params;
        }
        for (FlowSpec &flow : spec_.flows) {
            flow.stack = static_cast<uint8_t>(random_.Between(0, 2));
        }
        spec_.period_ns = std::max<int64_t>(spec_.period_ns, 1'000'000); // a slow link has few words in a second
        spec_.shaped_frac = random_.OneOf({0.05, 0.2, 0.5});
        for (LinkSpec &link : spec_.links) {
            for (QueueSpec &queue : link.queue) {
                queue.shaped_frac = random_.OneOf({0.05, 0.2, 0.5});
                queue.shaped_pkts = static_cast<uint32_t>(random_.Between(1, 10));
                queue.selective_pkts = static_cast<uint32_t>(random_.Between(0, 10));
                if (queue.programs >= 0 && spec_.programs[static_cast<size_t>(queue.programs)][0].name == "pfc") {
                    queue.programs = -1; // which does not pause the shaped queue
                }
            }
        }
        for (auto &programs : spec_.programs) {
            if (programs[0].name == "test_program") {
                programs[0].params[0] = {"drop_one_in", random_.OneOf<uint64_t>({0, 7, 50})};
            }
        }
    }

    // Programs of ports, classes and tags. They need not suit the network: nothing may go wrong all the same.
    void Ports()
    {
        spec_.symmetric = random_.Chance(0.3);
        spec_.sprayed = !spec_.symmetric && random_.Chance(0.3);
        spec_.by_entropy = !spec_.symmetric && !spec_.sprayed && random_.Chance(0.5);
        const std::vector<std::string> tags = NamesIn(ncc_tag_table, {"none"});
        spec_.tags = tags[random_.Between(0, tags.size() - 1)];
        for (const std::string &name : NamesIn(ncc_program_table)) {
            spec_.programs.push_back(
                {{name, {{"t_ns", 1'000'000}}}}); // where it has such a timer: senders wait minutes
        }
        uint64_t drop_every = random_.OneOf<uint64_t>({0, 7, 50});
        if (out_.losses.chance > 0.1) { // with both, flows take hours between timeouts of a minute
            drop_every = 0;
        }
        spec_.programs.push_back({{"test_program",
                                   {{"drop_every", drop_every},
                                    {"mark_over_bytes", random_.OneOf<uint64_t>({0, 1, 5000})},
                                    {"window_bytes", random_.OneOf<uint64_t>({0, 1, 4000, 1'000'000})},
                                    {"timer_ns", random_.OneOf<uint64_t>({0, 300'000, 1'000'000})}}}});
        spec_.programs.push_back({{"rwndq", {{"t_ns", 2'000'000}}}, {"test_program", {{"mark_over_bytes", 3000}}}});
        spec_.programs.push_back({{"qcn", {{"target_bytes", 1500}, {"sample_bytes", 1500}}}});
        spec_.programs.push_back({{"trim", {{"over_bytes", 10 * spec_.mtu_bytes}}}});
        spec_.programs.push_back(
            {{"pfc", {{"xoff_bytes", 1500}, {"xon_gap_bytes", random_.OneOf<uint64_t>({0, 1500})}}}});
        if (slow_) { // years of simulated time, for programs that count in microseconds
            spec_.programs = {{{"pfabric", {}}}};
        }
        const double chance = random_.OneOf({0.0, 0.0, 0.5, 1.0});
        for (LinkSpec &link : spec_.links) {
            for (QueueSpec &queue : link.queue) {
                if (queue.buffer_bytes < 0 || !random_.Chance(chance)) {
                    continue;
                }
                queue.classes = static_cast<int32_t>(random_.OneOf<uint64_t>({1, 1, 2, 8}));
                const auto programs = static_cast<int32_t>(random_.Between(0, spec_.programs.size())) - 1;
                queue.programs = programs;
                if (programs >= 0 && FindProgram(spec_.programs[static_cast<size_t>(programs)][0].name).needs &
                                         (NCC_SW_RANKED | NCC_SW_QUEUES)) {
                    queue.classes = 1;
                    queue.control_first = queue.mark_leaving = false;
                    queue.pool = -1;
                    queue.buffer_bytes = std::max<int64_t>(queue.buffer_bytes, spec_.mtu_bytes);
                }
            }
        }
    }

    RandomCase &out_;
    Spec &spec_;
    Random random_;
    bool slow_ = false; // true: endless by its links; false: by its flows
};

inline RandomCase RandomCase::Make(uint64_t seed)
{
    RandomCase made;
    Maker(made, seed).Make(seed);
    return made;
}

} // namespace ncc::packetsim
