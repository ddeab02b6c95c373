// SPDX-License-Identifier: BSD-3-Clause
#include "check_schedulers.h"

#include "heap.h"
#include "random_case.h"
#include "require.h"
#include "scheduler.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace ncc::packetsim
{

namespace
{

bool Same(const Event &a, const Event &b) { return a.time_ns == b.time_ns && a.word == b.word; }

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
    const uint64_t most = random.OneOf<uint64_t>({1, 4, 100, 1000});
    for (int i = 0; i < 4000; ++i) {
        Require(queue.empty() == reference.empty() && queue.size() == reference.size(), "a scheduler miscounts");
        if (!reference.empty()) {
            Require(Same(queue.top(), reference.begin()->second), "a scheduler's next event is not the first");
        }
        if (reference.size() < most && (reference.empty() || random.Chance(0.55))) {
            if (now_ns > std::numeric_limits<int64_t>::max() / 2) {
                return;
            }
            const auto index = static_cast<uint32_t>(random.Between(0, kMaxIndex));
            const Event event{now_ns + delay_ns(), EventWord(++order, EventKind::kPace, index)};
            queue.Push(event);
            reference.emplace(std::pair(event.time_ns, order), event);
        } else if (!reference.empty()) {
            const Event next = queue.top();
            queue.Pop();
            now_ns = next.time_ns;
            reference.erase(reference.begin());
        }
    }
    while (!reference.empty()) {
        Require(Same(queue.top(), reference.begin()->second), "a scheduler that is emptied gives a wrong event");
        queue.Pop();
        reference.erase(reference.begin());
    }
    Require(queue.empty(), "a scheduler is not empty at the end");
}

} // namespace

void CheckSchedulers(uint64_t seed)
{
    Random random(seed);
    const auto near_ns = static_cast<int64_t>(1 + (1ULL << random.Between(0, 26)));
    CheckQueue(Heap(), seed, near_ns);
    CheckQueue(Scheduler(random.OneOf({0.0, 1e-6, 1e-3, 0.1, 10.0}), near_ns), seed, near_ns);
}

} // namespace ncc::packetsim
