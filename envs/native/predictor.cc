// SPDX-License-Identifier: BSD-3-Clause
#include "predictor.h"

#include <algorithm>
#include <cmath>

namespace ncc
{

size_t Predictor::ClassOf(double size_bytes)
{
    constexpr double kPerOctave = 4, kLeastOctave = 10; // sizes up to 1 KB are one class
    const double place = kPerOctave * (std::log2(size_bytes) - kLeastOctave);
    return std::min(static_cast<size_t>(std::max(place + 1, 0.0)), kClasses - 1);
}

void Predictor::Add(uint64_t size_bytes)
{
    Class &found = classes_[ClassOf(static_cast<double>(size_bytes))];
    found.flows += 1;
    found.bytes += static_cast<double>(size_bytes);
}

uint64_t Predictor::BeyondBytes(uint64_t known_bytes) const
{
    constexpr double kPriorFlows = 1;
    const double known = static_cast<double>(known_bytes);
    const size_t first = ClassOf(known);
    // A class counts as flows of its mean size; of the class of `known_bytes` all are longer or none is.
    const auto longer = [&](const Class &each) { return each.flows > 0 && each.bytes > known * each.flows; };
    double flows = 0;
    for (size_t i = first; i < kClasses; ++i) {
        flows += longer(classes_[i]) ? classes_[i].flows : 0;
    }
    double best = known * (flows + kPriorFlows) / kPriorFlows; // d towards 0
    double ended = 0, ended_bytes = 0;
    for (size_t i = first; i < kClasses && ended < flows; ++i) {
        const Class &each = classes_[i];
        if (!longer(each)) {
            continue;
        }
        const double d = each.bytes / each.flows - known;
        ended += each.flows;
        ended_bytes += each.bytes - known * each.flows;
        const double served = ended_bytes + (flows - ended) * d + kPriorFlows * known * std::log1p(d / known);
        best = std::min(best, served / (ended + kPriorFlows * d / (known + d)));
    }
    return std::max<uint64_t>(static_cast<uint64_t>(best), 1);
}

} // namespace ncc
