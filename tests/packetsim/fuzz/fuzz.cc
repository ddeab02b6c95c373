// SPDX-License-Identifier: BSD-3-Clause
// Runs random small networks, each twice at once, and checks what must always hold; `make sanitize` builds it with
// sanitizers. Usage: fuzz <first seed> <number of seeds> [threads]. Exit status 1 names the first seed that fails, and
// `fuzz <seed> 1` runs it again. The digest that it prints is the same on any number of threads.
#include "heap.h"
#include "mix.h"
#include "network.h"
#include "pool.h"
#include "predictor.h"
#include "random_case.h"
#include "scheduler.h"
#include "watch.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ncc::packetsim
{
namespace
{

bool Same(const Event &a, const Event &b) { return a.time_ns == b.time_ns && a.word == b.word; }

constexpr std::initializer_list<double> densities{0.0, 1e-6, 1e-3, 0.1, 10.0}; // in events per ns

template <typename Queue>
void CheckQueue(Queue queue, uint64_t seed, int64_t near_ns)
{
    Random random(seed);
    std::map<std::pair<int64_t, uint64_t>, Event> reference; // by time and turn
    int64_t now_ns = 0;
    uint64_t order = 0;
    // Draws times around the calendar's end, for any width of its slots; far beyond it; and now, for frequent ties.
    auto delay_ns = [&] {
        switch (random.Between(0, 5)) {
        case 0:
            return int64_t{0};
        case 1:
            return static_cast<int64_t>(random.Between(0, 3));
        case 2:
            return static_cast<int64_t>((256ULL << random.Between(0, 24)) + random.Between(0, 2) - 1);
        case 3:
            return static_cast<int64_t>(1ULL << random.Between(0, 61)) - now_ns % 2;
        default:
            return static_cast<int64_t>(random.Between(0, static_cast<uint64_t>(near_ns)));
        }
    };
    const Event never{std::numeric_limits<int64_t>::max(), 0};
    auto take = [&] {
        Event event{};
        Require(queue.PopBefore(never, event), "a scheduler has lost an event");
        Require(Same(event, reference.begin()->second), "a scheduler's next event is not the first");
        now_ns = event.time_ns;
        reference.erase(reference.begin());
    };
    const uint64_t most = random.OneOf<uint64_t>({1, 4, 100, 1000});
    for (int i = 0; i < 4000; ++i) {
        Require(queue.size() == reference.size(), "a scheduler miscounts");
        Event before_first;
        const Event first = reference.empty() ? never : reference.begin()->second;
        Require(!queue.PopBefore(first, before_first), "a scheduler has an event before the first");
        if constexpr (requires { queue.Tune(0.0); }) {
            if (random.Chance(0.01)) {
                queue.Tune(random.OneOf(densities));
            }
        }
        if (reference.size() < most && (reference.empty() || random.Chance(0.55))) {
            if (now_ns > std::numeric_limits<int64_t>::max() / 2) {
                break;
            }
            const auto index = static_cast<uint32_t>(random.Between(0, kMaxIndex));
            const Event event{now_ns + delay_ns(), EventWord(++order, EventKind::kPace, index)};
            queue.Push(event);
            reference.emplace(std::pair(event.time_ns, order), event);
        } else if (!reference.empty()) {
            take();
        }
    }
    while (!reference.empty()) {
        take();
    }
    Require(queue.size() == 0, "a scheduler is not empty at the end");
}

// Compares both schedulers with a sorted map under random pushes, pops and measured densities.
void CheckSchedulers(uint64_t seed)
{
    Random random(seed);
    const auto near_ns = static_cast<int64_t>(1 + (1ULL << random.Between(0, 26)));
    CheckQueue(Heap(), seed, near_ns);
    CheckQueue(Scheduler(random.OneOf(densities), near_ns), seed, near_ns);
}

uint64_t Beyond(const std::vector<uint64_t> &sizes, uint64_t known_bytes)
{
    Predictor predictor;
    for (const uint64_t size : sizes) {
        predictor.Add(size);
    }
    return predictor.BeyondBytes(known_bytes);
}

// Predictions by hand, and random ones, which are at most the known bytes for each size above them and once more.
// Sizes are known to a quarter of an octave, and up to 1 KB are one class.
void CheckPredictor(uint64_t seed)
{
    const auto near = [](uint64_t found, double expected, double tolerance) {
        return std::abs(static_cast<double>(found) - expected) <= tolerance * expected;
    };
    Require(Beyond({}, 50'000) == 50'000, "without sizes, as much again follows");
    Require(Beyond({1000, 1000}, 50'000) == 50'000, "no size is so long");
    Require(near(Beyond(std::vector<uint64_t>(1000, 300'000), 50'000), 250'000, 0.01), "the rest of all sizes");
    std::vector<uint64_t> two(500, 100'000); // serve until 100 KB; half of the flows are longer, and have 10 MB
    two.insert(two.end(), 500, 10'000'000);
    Require(near(Beyond(two, 50'000), 50'000 / 0.5, 0.01) && near(Beyond(two, 200'000), 9'800'000, 0.05), "two sizes");
    Random random(seed);
    std::vector<uint64_t> sizes(random.Between(0, 20));
    std::generate(sizes.begin(), sizes.end(), [&] { return 1024ULL << random.Between(0, 30); });
    const uint64_t known = 1024 + random.Between(0, 1ULL << random.Between(0, 40)), found = Beyond(sizes, known);
    const auto longer = static_cast<uint64_t>(std::count_if(sizes.begin(), sizes.end(), [&](uint64_t size) {
        return static_cast<double>(size) > static_cast<double>(known) * std::exp2(-0.25);
    }));
    Require(found >= 1 && found <= known * (longer + 1) + 1 && (longer > 0 || found == known), "a random prediction");
}

// A network and all that is seen of it.
class Seen
{
  public:
    explicit Seen(const RandomCase &of)
        : spec_(of.spec), watch_(of), network_(spec_), goodput_bytes_(of.spec.agents.size())
    {
    }

    bool done() const
    {
        const Network::Audit audit = network_.Count();
        return network_.run().flows_finished() == static_cast<int64_t>(spec_.flows.size()) &&
               network_.run().live_connections() == 0 && audit.in_hosts + audit.on_links == 0;
    }
    Network &network() { return network_; }
    const Watch &watch() const { return watch_; }
    uint64_t digest() const { return Mix(digest_ ^ watch_.digest()); }

    void Step(const std::vector<double> &limits_bps)
    {
        Watch::current = &watch_;
        network_.Step(limits_bps.data());
        Watch::current = nullptr;
        Measure();
        if (network_.epoch() < 2000 || network_.epoch() % 64 == 0) {
            CheckNow();
        }
    }

    void CheckEnd()
    {
        CheckNow();
        std::vector<double> bytes(goodput_bytes_.size());
        for (size_t i = 0; i < spec_.flows.size(); ++i) {
            const FlowRecord &record = network_.run().records()[i];
            const FlowSpec &flow = spec_.flows[i];
            const uint64_t mss_bytes = spec_.mtu_bytes - 40, packets = (flow.size_bytes + mss_bytes - 1) / mss_bytes;
            for (size_t agent = 0; agent < bytes.size(); ++agent) {
                bytes[agent] += spec_.agents[agent] == flow.src ? static_cast<double>(flow.size_bytes) : 0;
            }
            Require(record.finish_ns > flow.start_ns, "a flow finishes before it starts");
            Require(static_cast<uint64_t>(record.sent_pkts - record.retransmitted_pkts) == packets,
                    "new packets sent are not the packets that the flow has");
            Add(&record, sizeof(record));
        }
        for (size_t agent = 0; agent < bytes.size(); ++agent) {
            Require(goodput_bytes_[agent] > bytes[agent] - 0.5 && goodput_bytes_[agent] < bytes[agent] + 0.5,
                    "bytes acknowledged are not the bytes of the host's flows");
        }
    }

  private:
    void Measure()
    {
        const size_t n = spec_.agents.size(), m = spec_.uplinks.size();
        std::vector<double> h(HostColumns::kReals * n), u(UplinkColumns::kReals * m);
        std::vector<int64_t> hc(HostColumns::kCounts * n), uc(UplinkColumns::kCounts * m);
        const HostColumns hosts(h.data(), hc.data(), n);
        network_.Measure(hosts, {u.data(), uc.data(), m});
        for (size_t i = 0; i < n; ++i) {
            goodput_bytes_[i] += hosts.goodput_bps[i] * static_cast<double>(spec_.period_ns) * 1e-9 / 8;
            Require(hosts.queued_flows[i] <= hosts.active_flows[i], "more flows queued than active");
            Require(hosts.rtt_s[i] > 0 && hosts.wait_s[i] >= 0 && hosts.queued_bytes[i] >= 0, "a measurement below 0");
            Require(hosts.next_bytes[i] <= hosts.queued_bytes[i],
                    "the shortest queued flow has more left than all of them");
            Require(hosts.active_per_byte[i] >= 0 && hosts.active_left[i] >= 0 &&
                        hosts.active_left[i] <= static_cast<double>(hosts.active_flows[i]) + 1e-9,
                    "more of the active flows is left than there are");
        }
        Add(h.data(), h.size() * sizeof(h[0]));
        Add(u.data(), u.size() * sizeof(u[0]));
        Add(hc.data(), hc.size() * sizeof(hc[0]));
        Add(uc.data(), uc.size() * sizeof(uc[0]));
    }

    void CheckNow()
    {
        const Network::Audit audit = network_.Count();
        Require(audit.sent == audit.arrived + audit.dropped + audit.in_hosts + audit.on_links,
                "a packet was lost without being dropped, or is in two places");
        Require(audit.events_in_the_past == 0, "an event lies in the past");
        uint64_t dropped = 0;
        for (uint32_t port = 0; port < 2 * spec_.links.size(); ++port) {
            const PortTotals totals = network_.PortRecord(port);
            Add(&totals, sizeof(totals));
            const QueueSpec &queue = spec_.queue_of(port);
            dropped += static_cast<uint64_t>(totals.dropped_pkts);
            if (queue.buffer_bytes >= 0) {
                const int64_t shared = queue.pool < 0 ? 0 : spec_.pools[static_cast<size_t>(queue.pool)].size_bytes;
                Require(totals.queue_max_bytes <= queue.buffer_bytes + shared, "a queue is longer than its buffer");
                Require(network_.switches().port(port).queue_bytes() >= 0, "a queue is shorter than nothing");
            }
        }
        Require(dropped == audit.dropped, "drops of ports and of the network differ");
        Watch::CheckPools(network_);
    }

    void Add(const void *data, size_t bytes)
    {
        for (size_t i = 0; i < bytes; i += 8) { // all of it is 8-byte numbers
            uint64_t word;
            std::memcpy(&word, static_cast<const char *>(data) + i, 8);
            digest_ = Mix(digest_ ^ word);
        }
    }

    const Spec &spec_;
    Watch watch_;
    Network network_;
    std::vector<double> goodput_bytes_; // by agent
    uint64_t digest_ = 0;
};

// Its digest. Ports that pause each other may come to a deadlock, which ends a run.
uint64_t Run(uint64_t seed)
{
    // Epochs. A sender whose last ACKs were lost backs off to a minute between two tries (RFC 6298 section 5.5).
    constexpr int64_t kPatience = 10'000'000, kEndless = 300;
    constexpr uint32_t kMostFaults = 20;       // most at a port
    constexpr uint64_t kEndlessPkts = 300'000; // within a millisecond, where packets are small and links fast
    CheckSchedulers(seed);
    CheckPredictor(seed);
    const RandomCase made = RandomCase::Make(seed);
    Seen one(made), two(made);
    Random random(~seed);
    std::vector<double> limits_bps(made.spec.agents.size());
    std::vector<uint32_t> planned(2 * made.spec.links.size()); // faults, by port
    const auto enough = [&] { return one.network().epoch() == kEndless || one.network().Count().sent > kEndlessPkts; };
    while (!one.done() && !(made.endless && enough())) {
        for (double &limit : limits_bps) {
            limit = random.Chance(0.5) ? std::numeric_limits<double>::infinity()
                                       : 1e6 * static_cast<double>(random.Between(1, 3000));
            if (made.endless && random.Chance(0.1)) {
                limit = random.OneOf({1e-9, 1e18, 1e308});
            }
        }
        const uint32_t port = static_cast<uint32_t>(random.Between(0, 2 * made.spec.links.size() - 1));
        const uint64_t nth = random.Between(1, 20);
        const Port &at = one.network().switches().port(port);
        const bool fault = random.Chance(made.fault_chance) && at.at_switch() && planned[port] < kMostFaults;
        const uint64_t kind = random.Between(0, 2);
        planned[port] += fault;
        const int64_t delay_ns = static_cast<int64_t>(random.Between(1, 20'000'000));
        for (Seen *each : {&one, &two}) {
            if (fault && kind == 0) {
                each->network().Plan(port, {nth, NCC_DROP, 0});
            } else if (fault && kind == 1) {
                each->network().Plan(port, {nth, NCC_MARK, 0});
            } else if (fault) {
                each->network().Plan(port, {nth, NCC_PASS, delay_ns});
            }
            try {
                each->Step(limits_bps);
            } catch (const std::runtime_error &error) {
                if (std::string(error.what()).starts_with("deadlock")) {
                    return one.digest();
                }
                throw;
            }
        }
        Require(one.digest() == two.digest(), "the same network gives different results");
        Require(one.network().epoch() < kPatience, "flows never finish");
    }
    if (one.done()) {
        one.CheckEnd();
    }
    return one.digest();
}

} // namespace
} // namespace ncc::packetsim

int main(int argc, char **argv)
{
    if (argc != 3 && argc != 4) {
        std::fprintf(stderr, "usage: %s <first seed> <number of seeds> [threads]\n", argv[0]);
        return 2;
    }
    const uint64_t first = std::strtoull(argv[1], nullptr, 10), n = std::strtoull(argv[2], nullptr, 10);
    std::vector<uint64_t> digests(n);
    ncc::packetsim::ThreadPool pool(n, argc == 4 ? std::strtoull(argv[3], nullptr, 10) : 1);
    pool.Each([&](size_t row) { digests[row] = ncc::packetsim::Run(first + row); });
    if (const size_t failed = pool.failed_row(); failed < n) {
        try {
            std::rethrow_exception(pool.error(failed));
        } catch (const std::exception &error) {
            std::fprintf(stderr, "seed %llu: %s\n", static_cast<unsigned long long>(first + failed), error.what());
        }
        return 1;
    }
    uint64_t digest = 0;
    for (const uint64_t each : digests) {
        digest = ncc::Mix(digest ^ each);
    }
    std::printf("%llu networks, nothing wrong; digest %016llx\n", static_cast<unsigned long long>(n),
                static_cast<unsigned long long>(digest));
    return 0;
}
