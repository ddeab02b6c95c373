// SPDX-License-Identifier: BSD-3-Clause
// Runs random small networks and checks what must always hold. Built with sanitizers by `make sanitize` and by
// tests/packetsim/test_sanitized.py. Usage: fuzz <first seed> <number of seeds>; exit status 1 names the first seed
// that fails, and `fuzz <seed> 1` runs it again.
#include "network.h"

#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>

namespace ncc::packetsim
{
namespace
{

void Require(bool holds, const std::string &what)
{
    if (!holds) {
        throw std::logic_error(what);
    }
}

class Case
{
  public:
    explicit Case(uint64_t seed) : random_(seed) { Make(seed); }

    void Run()
    {
        Network network(spec_);
        std::vector<double> limits(spec_.agents.size());
        double goodput_bytes = 0;
        const int64_t max_epochs = 200'000;
        while (network.flows_finished() < static_cast<int64_t>(spec_.flows.size()) || network.live_connections() > 0) {
            for (double &limit : limits) {
                limit = Chance(0.5) ? std::numeric_limits<double>::infinity() : 1e6 * Between(1, 3000);
            }
            network.Step(limits.data());
            goodput_bytes += Check(network);
            Require(network.epoch() < max_epochs, "flows never finish");
        }
        uint64_t bytes = 0, packets = 0;
        for (size_t i = 0; i < spec_.flows.size(); ++i) {
            const FlowRecord &record = network.records()[i];
            const uint64_t mss = spec_.mtu_bytes - 40;
            packets = (spec_.flows[i].size_bytes + mss - 1) / mss;
            bytes += spec_.flows[i].size_bytes;
            Require(record.finish_ns > spec_.flows[i].start_ns, "a flow finishes before it starts");
            Require(static_cast<uint64_t>(record.sent_pkts - record.retransmitted_pkts) == packets,
                    "flow " + std::to_string(i) + ": new packets sent are not the packets it has");
        }
        Require(goodput_bytes > static_cast<double>(bytes) - 0.5 && goodput_bytes < static_cast<double>(bytes) + 0.5,
                "bytes acknowledged are not the bytes of the flows: " + std::to_string(goodput_bytes) + " of " +
                    std::to_string(bytes));
    }

  private:
    // What holds after every epoch; returns the bytes acknowledged in it.
    double Check(Network &network)
    {
        const Network::Audit audit = network.Count();
        Require(audit.sent == audit.arrived + audit.dropped + audit.in_hosts + audit.on_links,
                "a packet was lost without being dropped, or is in two places");
        Require(audit.events_in_the_past == 0, "an event lies in the past");
        uint64_t dropped = 0;
        for (uint32_t port = 0; port < 2 * spec_.links.size(); ++port) {
            const PortTotals totals = network.PortRecord(port);
            const QueueSpec &queue = spec_.links[port / 2].queue[port % 2];
            dropped += static_cast<uint64_t>(totals.dropped_pkts);
            if (queue.buffer_bytes < 0) {
                continue;
            }
            const int64_t shared = queue.pool < 0 ? 0 : spec_.pools[static_cast<size_t>(queue.pool)].size_bytes;
            Require(totals.queue_max_bytes <= queue.buffer_bytes + shared, "a queue is longer than its buffer");
        }
        Require(dropped == audit.dropped, "drops of ports and of the network differ");
        const size_t n = spec_.agents.size(), m = spec_.upper_ports.size();
        std::vector<double> h(6 * n), u(4 * m);
        std::vector<int64_t> hc(3 * n), uc(2 * m);
        network.Measure({&h[0], &h[n], &h[2 * n], &h[3 * n], &h[4 * n], &h[5 * n], &hc[0], &hc[n], &hc[2 * n]},
                        {&u[0], &u[m], &u[2 * m], &u[3 * m], &uc[0], &uc[m]});
        double bytes = 0;
        for (size_t i = 0; i < n; ++i) {
            bytes += h[2 * n + i] * static_cast<double>(spec_.period_ns) * 1e-9 / 8;
            Require(hc[n + i] <= hc[2 * n + i], "more flows queued than active");
        }
        return bytes;
    }

    uint64_t Between(uint64_t low, uint64_t high)
    {
        return std::uniform_int_distribution<uint64_t>(low, high)(random_);
    }
    bool Chance(double p) { return std::uniform_real_distribution<>(0, 1)(random_) < p; }
    template <typename T>
    T OneOf(std::initializer_list<T> values)
    {
        return values.begin()[Between(0, values.size() - 1)];
    }

    void Make(uint64_t seed)
    {
        spec_.seed = seed;
        spec_.mtu_bytes = OneOf<uint32_t>({256, 576, 1500, 9000});
        spec_.frame_overhead_bytes = OneOf<uint32_t>({0, 38});
        spec_.initial_window_pkts = static_cast<uint32_t>(Between(1, 40));
        spec_.delayed_ack_pkts = static_cast<uint32_t>(Between(1, 4));
        spec_.delayed_ack_ns = OneOf<int64_t>({1'000, 100'000, 10'000'000});
        spec_.min_rto_ns = OneOf<int64_t>({100'000, 5'000'000});
        spec_.initial_rto_ns = OneOf<int64_t>({1'000'000, 20'000'000});
        spec_.receive_buffer_bytes = spec_.mtu_bytes * static_cast<uint32_t>(Between(2, 300));
        spec_.send_buffer_bytes = spec_.mtu_bytes * static_cast<uint32_t>(Between(2, 300));
        spec_.bucket_bytes = spec_.mtu_bytes * Between(1, 4);
        spec_.small_queue_bytes = spec_.mtu_bytes * Between(1, 8);
        spec_.period_ns = OneOf<int64_t>({50'000, 1'000'000});
        spec_.latency_ns = Chance(0.5) ? 0 : spec_.period_ns / 3;
        spec_.handshake = Chance(0.7);
        spec_.sack = Chance(0.7);
        spec_.limited_transmit = Chance(0.7);
        spec_.dup_ack_pkts = static_cast<uint32_t>(Between(1, 5));
        constexpr size_t kControllers = sizeof(ncc_cc_table) / sizeof(ncc_cc_table[0]);
        spec_.transport = ncc_cc_table[Between(0, kControllers - 1)]->name;
        MakeNetwork();
        MakeFlows();
    }

    QueueSpec SwitchQueue()
    {
        QueueSpec queue;
        queue.buffer_bytes = static_cast<int64_t>(spec_.mtu_bytes * Between(1, 60));
        queue.threshold_bytes = Chance(0.5) ? 0 : static_cast<int64_t>(spec_.mtu_bytes * Between(1, 20));
        if (Chance(0.3)) {
            queue.red_min_bytes = static_cast<int64_t>(spec_.mtu_bytes * Between(0, 5));
            queue.red_max_bytes = queue.red_min_bytes + static_cast<int64_t>(spec_.mtu_bytes * Between(1, 20));
            queue.red_max_prob = 0.3;
        }
        queue.pool = !spec_.pools.empty() && Chance(0.7) ? 0 : -1;
        queue.control_first = Chance(0.3);
        return queue;
    }

    // A tree of switches with hosts, and now and then a second way.
    void MakeNetwork()
    {
        const uint64_t switches = Between(1, 4), hosts = Between(2, 9);
        if (Chance(0.4)) {
            spec_.pools.push_back({static_cast<int64_t>(spec_.mtu_bytes * Between(1, 100)), OneOf({0.25, 1.0, 8.0})});
        }
        auto link = [&](uint32_t a, uint32_t b, bool host) {
            LinkSpec made{a,
                          b,
                          1e6 * OneOf<double>({10, 333, 1000, 10000, 100000}),
                          OneOf<int64_t>({0, 1, 10'000, 1'000'000}),
                          {QueueSpec{}, SwitchQueue()}};
            if (!host) {
                made.queue[0] = SwitchQueue();
            }
            spec_.links.push_back(made);
        };
        for (uint32_t i = 0; i < switches; ++i) {
            spec_.is_host.push_back(0);
            if (i > 0) {
                link(static_cast<uint32_t>(Between(0, i - 1)), i, false);
                if (Chance(0.3)) {
                    link(static_cast<uint32_t>(Between(0, i - 1)), i, false);
                }
            }
        }
        for (uint64_t i = 0; i < hosts; ++i) {
            spec_.is_host.push_back(1);
            spec_.agents.push_back(static_cast<uint32_t>(spec_.is_host.size() - 1));
            link(spec_.agents.back(), static_cast<uint32_t>(Between(0, switches - 1)), true);
        }
        spec_.upper_ports = {static_cast<uint32_t>(2 * spec_.links.size() - 1)}; // the switch's end of the last
    }

    void MakeFlows()
    {
        const uint64_t n = Between(1, 60);
        int64_t start_ns = 0;
        for (uint64_t i = 0; i < n; ++i) {
            start_ns += Chance(0.3) ? 0 : static_cast<int64_t>(Between(0, 300'000));
            const uint64_t src = Between(0, spec_.agents.size() - 1);
            uint64_t dst = Between(0, spec_.agents.size() - 2);
            dst += dst >= src;
            const uint64_t most = OneOf<uint64_t>({1, 2'000, 40'000, 400'000});
            spec_.flows.push_back({start_ns, spec_.agents[src], spec_.agents[dst], Between(1, most)});
        }
    }

    std::mt19937_64 random_;
    Spec spec_;
};

} // namespace
} // namespace ncc::packetsim

int main(int argc, char **argv)
{
    if (argc != 3) {
        std::fprintf(stderr, "usage: %s <first seed> <number of seeds>\n", argv[0]);
        return 2;
    }
    const uint64_t first = std::strtoull(argv[1], nullptr, 10), n = std::strtoull(argv[2], nullptr, 10);
    for (uint64_t seed = first; seed < first + n; ++seed) {
        try {
            ncc::packetsim::Case(seed).Run();
        } catch (const std::exception &error) {
            std::fprintf(stderr, "seed %llu: %s\n", static_cast<unsigned long long>(seed), error.what());
            return 1;
        }
    }
    std::printf("%llu networks, nothing wrong\n", static_cast<unsigned long long>(n));
    return 0;
}
