// SPDX-License-Identifier: BSD-3-Clause
// A trained policy's decision for all hosts in one call: observation, network, limits. The meaning is that of
// ncc/envs/observation.py, pooling.py, action.py and ncc/agents/policy.py, whose tables are taken as they are;
// ncc/envs/linux/decide.py is the same in Python types.
#include "dense.h"
#include "layers.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace nb = nanobind;
using namespace nb::literals;
using ncc::Array;
using ncc::Copy;
using ncc::Layer;
using ncc::Transposed;

namespace
{

using Reals = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Counts = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Limits = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Columns of a measurement's vector, in the order of observation.py; between them lie numbers of upper ports.
struct Columns {
    size_t limit, goodput, throughput, upper, rtt, wait, mean_wait, bytes, next, flows, queue, size;
};

Columns ColumnsOf(size_t n, size_t areas)
{
    const size_t linear = 3 * n + areas, queue = linear + 6 * n;
    return {0,
            n,
            2 * n,
            3 * n,
            linear,
            linear + n,
            linear + 2 * n,
            linear + 3 * n,
            linear + 4 * n,
            linear + 5 * n,
            queue,
            queue + areas};
}

constexpr size_t kOwn = 6, kUpper = 2, kPooled = 8, kRanked = 9, kContext = 3;

// What ranks hosts by their next flows, if they are ranked.
struct Ranks {
    float gain, alike, slack, held, growth, start;
    std::vector<float> links, context; // [n, neighbours], [n, 3]
};

// The guard of a host's share (action.py): columns of an observation, and the share that no limit goes below.
struct Guard {
    bool any;
    double frac;
    size_t share, others, before;
};

class Decider
{
  public:
    Decider(size_t areas, const Array<double> &unit, const Array<double> &offset, const Array<double> &least,
            const Array<double> &most, const Array<double> &gain, const Array<double> &link_bps,
            const Array<int64_t> &area, const Array<int64_t> &near, const Array<float> &share, double ceiling,
            size_t delay, const nb::object &ranks, const std::vector<std::pair<Array<float>, Array<float>>> &layers,
            const Array<double> &frac, const Array<double> &unit_bps, const Array<double> &floor_bps, int observed,
            const nb::object &guard)
        : n_(link_bps.size()), areas_(areas), at_(ColumnsOf(n_, areas)), near_n_(near.ndim() == 2 ? near.shape(1) : 0),
          ceiling_(static_cast<float>(ceiling)), observed_(observed)
    {
        unit_ = Copy(unit, at_.size, "unit");
        offset_ = Copy(offset, at_.size, "offset");
        least_ = Copy(least, at_.size, "least");
        most_ = Copy(most, at_.size, "most");
        gain_ = Copy(gain, at_.size, "gain");
        link_bps_ = Copy(link_bps, n_, "link_bps");
        area_ = Copy(area, n_, "area");
        near_ = Copy(near, n_ * near_n_, "near");
        share_ = Copy(share, n_, "share");
        frac_ = Copy(frac, frac.size(), "frac");
        unit_bps_ = Copy(unit_bps, n_, "unit_bps");
        floor_bps_ = Copy(floor_bps, n_, "floor_bps");
        if (!ranks.is_none()) {
            Rank(ranks);
        }
        if (!guard.is_none()) {
            const auto at = [&](const char *name) { return nb::cast<size_t>(guard[name]); };
            guard_ = {true, nb::cast<double>(guard["frac"]), at("share"), at("others"), at("before")};
        }
        obs_dim_ = kOwn + kUpper + kPooled + (ranked_ ? kRanked : 0);
        raw_.resize(at_.size);
        next_.resize(n_);
        ring_.assign(delay + 1, std::vector<float>(at_.size));
        obs_.resize(n_ * obs_dim_);
        size_t inputs = obs_dim_, widest = 0;
        for (const auto &[weights, bias] : layers) {
            layers_.push_back(Transposed(weights, bias));
            if (layers_.back().inputs != inputs) {
                throw std::invalid_argument("layers do not fit each other or the observation");
            }
            inputs = layers_.back().outputs;
            widest = std::max(widest, inputs);
        }
        if (layers_.empty() || inputs != frac_.size() || !InRange(area_, areas) || !InRange(near_, n_) ||
            observed >= static_cast<int>(obs_dim_) ||
            std::max({guard_.share, guard_.others, guard_.before}) >= obs_dim_) {
            throw std::invalid_argument("tables of hosts, layers and actions do not fit each other");
        }
        hidden_.resize(n_ * widest);
        logits_.resize(n_ * widest);
    }

    // Fills `limits` [n_agents]; false, and nothing taken in, if a number that was measured is not finite.
    bool Decide(Reals rate_limit, Reals goodput, Reals throughput, Reals rtt, Reals wait, Reals queued, Reals next,
                Counts flows, Reals upper_throughput, Reals upper_queue, Limits limits)
    {
        for (const size_t size : {rate_limit.size(), goodput.size(), throughput.size(), rtt.size(), wait.size(),
                                  queued.size(), next.size(), flows.size(), limits.size()}) {
            if (size != n_) {
                throw std::invalid_argument("a column of hosts has the wrong length");
            }
        }
        if (upper_throughput.size() != areas_ || upper_queue.size() != areas_) {
            throw std::invalid_argument("a column of upper ports has the wrong length");
        }
        double *raw = raw_.data();
        for (size_t i = 0; i < n_; ++i) {
            const auto queue = static_cast<double>(flows(i));
            raw[at_.limit + i] = std::min(rate_limit(i), link_bps_[i]);
            raw[at_.goodput + i] = goodput(i);
            raw[at_.throughput + i] = throughput(i);
            raw[at_.rtt + i] = rtt(i);
            raw[at_.wait + i] = wait(i);
            raw[at_.mean_wait + i] = wait(i) / std::max(queue, 1.0);
            raw[at_.bytes + i] = queued(i);
            raw[at_.next + i] = next(i);
            raw[at_.flows + i] = queue;
        }
        for (size_t area = 0; area < areas_; ++area) {
            raw[at_.upper + area] = upper_throughput(area);
            raw[at_.queue + area] = upper_queue(area);
        }
        if (!Normalise()) {
            return false;
        }
        if (begin_ == end_) {
            return true;
        }
        Observe();
        Forward();
        return Choose(limits);
    }

    // From now on `Decide` decides for hosts `begin` to `end` - 1 only, and leaves other limits as they are. For none
    // it takes the measurement in.
    void Among(size_t begin, size_t end)
    {
        if (begin > end || end > n_) {
            throw std::invalid_argument("there are no such hosts");
        }
        begin_ = begin, end_ = end;
    }

    nb::ndarray<nb::numpy, const float> Obs() const { return View(obs_, obs_dim_); }
    nb::ndarray<nb::numpy, const float> Logits() const { return View(logits_, layers_.back().outputs); }

  private:
    static bool InRange(const std::vector<int64_t> &indices, size_t end)
    {
        return std::all_of(indices.begin(), indices.end(),
                           [end](int64_t i) { return i >= 0 && static_cast<size_t>(i) < end; });
    }

    nb::ndarray<nb::numpy, const float> View(const std::vector<float> &rows, size_t width) const
    {
        const size_t size = n_ * width;
        auto *copy = new float[size];
        std::copy_n(rows.data(), size, copy);
        const nb::capsule owner(copy, [](void *p) noexcept { delete[] static_cast<float *>(p); });
        return {copy, {n_, width}, owner};
    }

    void Rank(const nb::object &ranks)
    {
        const auto number = [&](const char *name) { return static_cast<float>(nb::cast<double>(ranks[name])); };
        ranked_ = true;
        ranks_ = {number("gain"),
                  number("alike"),
                  number("slack"),
                  number("held"),
                  number("growth"),
                  number("start"),
                  {},
                  {}};
        ranks_.links = Copy(nb::cast<Array<float>>(ranks["links"]), n_ * near_n_, "links");
        ranks_.context = Copy(nb::cast<Array<float>>(ranks["context"]), n_ * kContext, "context");
    }

    // From the vector of a measurement to the newest slot of the ring.
    bool Normalise()
    {
        double squares = 0;
        for (size_t i = 0; i < at_.size; ++i) {
            raw_[i] = raw_[i] * unit_[i] + offset_[i];
            squares += raw_[i] * raw_[i];
        }
        if (!std::isfinite(squares)) {
            return false;
        }
        newest_ = seen_ % ring_.size();
        for (size_t i = 0; i < at_.size; ++i) {
            const double clipped = std::max(std::min(raw_[i], most_[i]), least_[i]);
            ring_[newest_][i] = static_cast<float>((i < at_.rtt ? clipped : std::log(clipped)) * gain_[i]);
        }
        if (seen_++ == 0) {
            std::fill(ring_.begin(), ring_.end(), std::vector<float>(ring_[newest_]));
        }
        return true;
    }

    void Observe()
    {
        const float *now = ring_[newest_].data(), *before = ring_[(newest_ + 1) % ring_.size()].data();
        for (size_t i = 0; ranked_ && i < n_; ++i) {
            next_[i] = std::expm1(before[at_.next + i] * ranks_.gain);
        }
        for (size_t i = begin_; i < end_; ++i) {
            const auto area = static_cast<size_t>(area_[i]);
            float *row = obs_.data() + i * obs_dim_;
            const float first[kOwn + kUpper] = {now[at_.limit + i],       now[at_.rtt + i],        now[at_.goodput + i],
                                                now[at_.wait + i],        now[at_.bytes + i],      now[at_.flows + i],
                                                before[at_.upper + area], before[at_.queue + area]};
            std::copy_n(first, kOwn + kUpper, row);
            Pool(i, before, row + kOwn + kUpper);
            if (ranked_) {
                Compare(i, now, before, row + kOwn + kUpper + kPooled);
            }
            for (size_t k = 0; k < obs_dim_; ++k) {
                row[k] = std::min(row[k], ceiling_);
            }
        }
    }

    // `POOLED` of pooling.py.
    void Pool(size_t host, const float *before, float *row) const
    {
        std::fill_n(row, kPooled, 0.0F);
        if (near_n_ == 0) {
            row[kPooled - 1] = std::min(share_[host], 1.0F);
            return;
        }
        const size_t told[3] = {at_.throughput, at_.mean_wait, at_.bytes};
        const int64_t *near = near_.data() + host * near_n_;
        size_t busy = 0;
        for (size_t j = 0; j < near_n_; ++j) {
            busy += before[at_.flows + near[j]] > 0;
            for (size_t k = 0; k < 3; ++k) {
                const float value = before[told[k] + near[j]];
                row[k] += value;
                row[3 + k] = j ? std::max(row[3 + k], value) : value;
            }
        }
        for (size_t k = 0; k < 3; ++k) {
            row[k] /= static_cast<float>(near_n_);
        }
        row[6] = static_cast<float>(static_cast<double>(busy) / static_cast<double>(near_n_));
        row[7] = static_cast<float>(std::min(share_[host] / static_cast<double>(1 + busy), 1.0));
    }

    // `RANKED` of pooling.py.
    void Compare(size_t host, const float *now, const float *before, float *row) const
    {
        const int64_t *near = near_.data() + host * near_n_;
        const float *links = ranks_.links.data() + host * near_n_;
        const float mine = now[at_.next + host], left = std::expm1(mine * ranks_.gain);
        float much_take = 0, shorter_take = 0;
        size_t alike = 0;
        for (size_t j = 0; j < near_n_; ++j) {
            const int64_t other = near[j];
            if (!(before[at_.flows + other] > 0)) {
                continue;
            }
            const float theirs = next_[static_cast<size_t>(other)] * links[j];
            const float sent = before[at_.throughput + other], limit = before[at_.limit + other];
            const bool held = sent + ranks_.start >= ranks_.held * std::min(limit, 1.0F);
            const float takes = (held ? 1.0F : std::min(ranks_.growth * sent + ranks_.start, 1.0F)) * links[j];
            const bool much = theirs + ranks_.slack * links[j] < left / ranks_.alike;
            much_take += much ? takes : 0;
            shorter_take += theirs < left ? takes : 0;
            alike += !much && theirs <= (left + ranks_.slack) * ranks_.alike;
        }
        const float room = std::max(share_[host] - much_take, 0.0F),
                    behind = std::max(share_[host] - shorter_take, 0.0F);
        const float ranked[kRanked - kContext] = {
            mine,
            before[at_.next + host],
            before[at_.flows + host],
            std::min(room, 1.0F),
            std::min(behind, 1.0F),
            static_cast<float>(std::min(room / static_cast<double>(1 + alike), 1.0))};
        std::copy_n(ranked, kRanked - kContext, row);
        std::copy_n(ranks_.context.data() + host * kContext, kContext, row + kRanked - kContext);
    }

    void Forward()
    {
        const float *in = obs_.data() + begin_ * obs_dim_;
        const size_t n = end_ - begin_;
        for (size_t k = 0; k < layers_.size(); ++k) {
            const Layer &layer = layers_[k];
            // In turns, so that the last layer's sums are in `logits_`.
            float *out = ((layers_.size() - k) % 2 ? logits_ : hidden_).data() + begin_ * layer.outputs;
            ncc::Affine(in, n, layer.inputs, layer.weights.data(), layer.bias.data(), layer.outputs, out);
            if (k + 1 < layers_.size()) {
                ncc::Tanh(out, n * layer.outputs);
            }
            in = out;
        }
    }

    // Below this no limit of a host goes; 0: any may be.
    double Guarded(size_t host) const
    {
        const float *row = obs_.data() + host * obs_dim_;
        if (!guard_.any || !(row[guard_.before] > 0)) {
            return 0;
        }
        return (row[guard_.others] == 0 ? 1 : guard_.frac) * static_cast<double>(row[guard_.share]) * link_bps_[host];
    }

    // The likeliest action's limit, of equals the first one's.
    bool Choose(Limits limits) const
    {
        const size_t actions = frac_.size();
        for (size_t i = begin_; i < end_; ++i) {
            const float *row = logits_.data() + i * actions;
            if (!std::all_of(row, row + actions, [](float logit) { return std::isfinite(logit); })) {
                return false;
            }
            const double frac = frac_[static_cast<size_t>(std::max_element(row, row + actions) - row)];
            const double unit =
                observed_ < 0 ? unit_bps_[i]
                              : static_cast<double>(obs_[i * obs_dim_ + static_cast<size_t>(observed_)]) * link_bps_[i];
            limits(i) = std::max({frac * unit, floor_bps_[i], Guarded(i)});
        }
        return true;
    }

    size_t n_, areas_;
    Columns at_;
    size_t near_n_, obs_dim_ = 0, newest_ = 0, seen_ = 0;
    size_t begin_ = 0, end_ = n_; // hosts that are decided for
    float ceiling_;
    int observed_; // number of the observation that is a limit's unit, in the host's link rates; -1: `unit_bps_` is
    Guard guard_ = {};
    bool ranked_ = false;
    Ranks ranks_ = {};
    std::vector<double> unit_, offset_, least_, most_, gain_, link_bps_, frac_, unit_bps_, floor_bps_, raw_;
    std::vector<int64_t> area_, near_;
    std::vector<float> share_, next_, obs_, hidden_, logits_;
    std::vector<std::vector<float>> ring_; // of measurements, the newest and as many before it as news are old
    std::vector<Layer> layers_;
};

} // namespace

void bind_decide(nb::module_ &m)
{
    nb::class_<Decider>(m, "Decider")
        .def(nb::init<size_t, const Array<double> &, const Array<double> &, const Array<double> &,
                      const Array<double> &, const Array<double> &, const Array<double> &, const Array<int64_t> &,
                      const Array<int64_t> &, const Array<float> &, double, size_t, const nb::object &,
                      const std::vector<std::pair<Array<float>, Array<float>>> &, const Array<double> &,
                      const Array<double> &, const Array<double> &, int, const nb::object &>(),
             nb::kw_only(), "areas"_a, "unit"_a, "offset"_a, "least"_a, "most"_a, "gain"_a, "link_bps"_a, "area"_a,
             "near"_a, "share"_a, "ceiling"_a, "delay"_a, "ranks"_a.none(), "layers"_a, "frac"_a, "unit_bps"_a,
             "floor_bps"_a, "observed"_a, "guard"_a.none())
        .def("decide", &Decider::Decide, "rate_limit"_a.noconvert(), "goodput"_a.noconvert(),
             "throughput"_a.noconvert(), "rtt"_a.noconvert(), "wait"_a.noconvert(), "queued"_a.noconvert(),
             "next"_a.noconvert(), "flows"_a.noconvert(), "upper_throughput"_a.noconvert(), "upper_queue"_a.noconvert(),
             "limits"_a.noconvert())
        .def("among", &Decider::Among, "begin"_a, "end"_a)
        .def_prop_ro("obs", &Decider::Obs, nb::rv_policy::automatic)
        .def_prop_ro("logits", &Decider::Logits, nb::rv_policy::automatic);
}
