// SPDX-License-Identifier: BSD-3-Clause
#include "knows.h"

#include <algorithm>

namespace ncc
{

namespace
{

// Offset in a flow's payload up to which the send buffer of its socket reaches; it begins after the acknowledged bytes.
uint64_t ReachBytes(const Spec &spec, uint64_t acked_bytes, uint64_t cwnd_bytes)
{
    constexpr uint64_t kWindows = 2; // tcp_sndbuf_expand
    const uint64_t least_bytes = static_cast<uint64_t>(spec.first_write_pkts) * spec.mss_bytes();
    return acked_bytes + std::min<uint64_t>(std::max(least_bytes, kWindows * cwnd_bytes), spec.send_buffer_bytes);
}

uint64_t FirstWindowBytes(const Spec &spec)
{
    return static_cast<uint64_t>(spec.initial_window_pkts) * spec.mss_bytes();
}

} // namespace

FlowView ViewOf(const Spec &spec, const FlowSpec &flow)
{
    FlowView view;
    view.arrived_ns = view.last_left_ns = flow.start_ns;
    view.size_bytes = view.known_bytes = flow.size_bytes;
    if (spec.backlog) {
        view.known_bytes =
            std::min(WrittenBytes(spec, flow, flow.start_ns), ReachBytes(spec, 0, FirstWindowBytes(spec)));
    }
    view.limited = flow.limited[0];
    return view;
}

Knowledge::Knowledge(const Spec &spec) : spec_(spec)
{
    for (const FlowSpec &flow : spec.flows) {
        if (flow.predictor != kNoPredictor && flow.predictor >= predictors_.size()) {
            predictors_.resize(flow.predictor + 1);
        }
    }
}

void Knowledge::Learn(const FlowSpec &flow, FlowView &view, int64_t now_ns, uint64_t acked_bytes, uint64_t cwnd_bytes)
{
    if (!spec_.backlog) {
        return;
    }
    const uint64_t written_bytes = WrittenBytes(spec_, flow, now_ns);
    const uint64_t reach_bytes = ReachBytes(spec_, acked_bytes, cwnd_bytes);
    view.known_bytes = std::max(view.known_bytes, std::min(written_bytes, reach_bytes));
    if (flow.predictor == kNoPredictor) {
        return;
    }
    if (written_bytes < reach_bytes) { // there is room for what the application has not written
        view.expected_bytes = view.predict_at_bytes = 0;
    } else if (view.known_bytes >= view.predict_at_bytes) {
        constexpr uint64_t kPredictions = 16; // until the known bytes double
        view.expected_bytes = view.known_bytes + predictors_[flow.predictor].BeyondBytes(view.known_bytes);
        view.predict_at_bytes = view.known_bytes + view.known_bytes / kPredictions + 1;
    }
}

void Knowledge::Began(const FlowSpec &flow, FlowView &view)
{
    Learn(flow, view, flow.start_ns, 0, FirstWindowBytes(spec_));
}

void Knowledge::Ended(const FlowSpec &flow)
{
    if (flow.predictor != kNoPredictor) {
        predictors_[flow.predictor].Add(flow.size_bytes);
    }
}

} // namespace ncc
