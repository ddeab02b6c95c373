// SPDX-License-Identifier: BSD-3-Clause
// Module ncc.envs.observation._observation. `Observer` makes the observations of hosts. `Decider` also runs a trained
// policy on them, in one call. If that chooses among rates, it returns the hosts' limits; if not, whoever asks makes
// them of the outputs. ncc/envs/action.py defines what an action means.
#include "layers.h"
#include "observer.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

namespace nb = nanobind;
using namespace nb::literals;
using ncc::Array;
using ncc::Copy;

namespace
{

using Limits = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Rows = nb::ndarray<float, nb::c_contig, nb::device::cpu>;
using Arrivals = nb::ndarray<const bool, nb::c_contig, nb::device::cpu>;
using Ages = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

ncc::Signals SignalsOf(const std::vector<ncc::Signal::Any> &arrays, size_t networks, const ncc::Tables &tables)
{
    ncc::Signals signals;
    for (const auto &array : arrays) {
        signals.emplace_back(array, networks);
    }
    for (const ncc::Column &column : tables.columns) {
        if (signals.at(column.signal).Size() != column.size ||
            (column.over >= 0 && signals.at(static_cast<size_t>(column.over)).Size() != column.size)) {
            throw std::invalid_argument("a signal has the wrong length");
        }
    }
    return signals;
}

// Several networks that are observed together.
class Observer
{
  public:
    Observer(const nb::dict &tables, size_t networks) : observer_(ncc::Tables(tables), networks), networks_(networks) {}

    // Fills obs [networks, n, entries]. Returns the first network that measured a number that is not finite, and then
    // has taken nothing in; or -1.
    int Observe(const std::vector<ncc::Signal::Any> &arrays, const std::optional<Arrivals> &arrivals, Rows obs)
    {
        const ncc::Tables &t = observer_.tables();
        const ncc::Signals signals = SignalsOf(arrays, networks_, t);
        const size_t size = t.n * t.entries.size(), messages = t.n * (t.neighbours + 1);
        if (obs.size() != networks_ * size || (arrivals && arrivals->size() != networks_ * messages)) {
            throw std::invalid_argument("an array of observations or messages has the wrong size");
        }
        for (size_t row = 0; row < networks_; ++row) {
            if (!observer_.Measure(row, signals, row)) {
                return static_cast<int>(row);
            }
        }
        for (size_t row = 0; row < networks_; ++row) {
            observer_.Commit(row, false, {.arrivals = arrivals ? arrivals->data() + row * messages : nullptr}, 0, t.n);
            observer_.Observe(row, obs.data() + row * size, 0, t.n);
        }
        return -1;
    }

    // Begins one of the networks anew and fills obs [n, entries]; false: as above.
    bool Begin(size_t row, const std::vector<ncc::Signal::Any> &arrays, Rows obs)
    {
        const ncc::Tables &t = observer_.tables();
        if (row >= networks_ || obs.size() != t.n * t.entries.size()) {
            throw std::invalid_argument("there is no such network, or the observations have the wrong size");
        }
        if (!observer_.Measure(row, SignalsOf(arrays, 1, t), 0)) {
            return false;
        }
        observer_.Commit(row, true, {}, 0, t.n);
        observer_.Observe(row, obs.data(), 0, t.n);
        return true;
    }

  private:
    ncc::Observer observer_;
    size_t networks_;
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
    // `rates` has the parts of `RateTable.tables`; without them it makes outputs alone.
    Decider(const nb::dict &tables, const std::vector<std::pair<Array<float>, Array<float>>> &layers,
            const std::optional<nb::dict> &rates)
        : observer_(ncc::Tables(tables), 1), n_(observer_.tables().n), obs_dim_(observer_.tables().entries.size()),
          end_(n_), layers_(ncc::LayersOf(layers)), outputs_(layers_.Outputs())
    {
        if (rates) {
            const auto reals = [&](const char *name, size_t size) {
                return Copy(nb::cast<Array<double>>((*rates)[name]), size, name);
            };
            frac_ = reals("frac", outputs_);
            unit_bps_ = reals("unit_bps", n_);
            floor_bps_ = reals("floor_bps", n_);
            link_bps_ = reals("link_bps", n_);
            observed_ = nb::cast<int>((*rates)["observed"]);
            if (const nb::object guard = (*rates)["guard"]; !guard.is_none()) {
                const auto at = [&](const char *name) { return nb::cast<size_t>(guard[name]); };
                guard_ = {true, nb::cast<double>(guard["frac"]), at("share"), at("others"), at("before")};
            }
        }
        if (layers_.Inputs() != obs_dim_ || observed_ >= static_cast<int>(obs_dim_) ||
            std::max({guard_.share, guard_.others, guard_.before}) >= obs_dim_) {
            throw std::invalid_argument("tables of observations, layers and actions do not fit each other");
        }
        obs_.resize(n_ * obs_dim_);
        logits_.resize(n_ * outputs_);
    }

    // Takes in what has been heard of the epoch that was decided on last, in place of what was known of it then. False,
    // and nothing taken in, if a number is not finite.
    bool Correct(const std::vector<ncc::Signal::Any> &arrays)
    {
        if (!observer_.Measure(0, SignalsOf(arrays, 1, observer_.tables()), 0)) {
            return false;
        }
        observer_.Correct(0);
        return true;
    }

    // Fills `limits` [n_agents] if there are rates; false, and nothing taken in, if a number that was measured is not
    // finite. With `ages` [hosts, and uplinks], states of others are so many periods older than they should be, and
    // this is period number `period` for all hosts.
    bool Decide(const std::vector<ncc::Signal::Any> &arrays, Limits limits, const std::optional<Ages> &ages,
                size_t period)
    {
        const ncc::Tables &t = observer_.tables();
        if (limits.size() != n_ || (ages && ages->size() != n_ + t.Areas())) {
            throw std::invalid_argument("there must be a limit for each host, and an age for each host and uplink");
        }
        if (!observer_.Measure(0, SignalsOf(arrays, 1, t), 0)) {
            return false;
        }
        observer_.Commit(0, false, {.ages = ages ? ages->data() : nullptr, .period = period}, begin_, end_);
        observer_.Observe(0, obs_.data(), begin_, end_);
        Forward();
        return frac_.empty() || Choose(limits);
    }

    // From now on `Decide` decides for hosts `begin` to `end` - 1 only, and leaves other limits as they are.
    void Among(size_t begin, size_t end)
    {
        if (begin > end || end > n_) {
            throw std::invalid_argument("there are no such hosts");
        }
        begin_ = begin, end_ = end;
    }

    nb::ndarray<nb::numpy, const float> Obs() const { return View(obs_, obs_dim_); }
    nb::ndarray<nb::numpy, const float> Logits() const { return View(logits_, outputs_); }

  private:
    nb::ndarray<nb::numpy, const float> View(const std::vector<float> &rows, size_t width) const
    {
        const size_t size = n_ * width;
        auto *copy = new float[size];
        std::copy_n(rows.data(), size, copy);
        const nb::capsule owner(copy, [](void *p) noexcept { delete[] static_cast<float *>(p); });
        return {copy, {n_, width}, owner};
    }

    void Forward()
    {
        layers_.Keep(0);
        const float *out = layers_.Forward(obs_.data() + begin_ * obs_dim_, end_ - begin_);
        for (size_t i = begin_; i < end_; ++i, out += layers_.Width()) {
            std::copy_n(out, outputs_, logits_.data() + i * outputs_);
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

    ncc::Observer observer_;
    size_t n_, obs_dim_, begin_ = 0, end_; // hosts `begin_` to `end_` - 1 are decided for
    int observed_ = -1; // number of the observation that is a limit's unit, in link rates; -1: `unit_bps_` is
    Guard guard_ = {};
    std::vector<double> frac_, unit_bps_, floor_bps_, link_bps_; // empty if the policy does not choose among rates
    std::vector<float> obs_, logits_;
    ncc::Layers layers_;
    size_t outputs_;
};

} // namespace

NB_MODULE(_observation, m)
{
    nb::set_leak_warnings(false); // a failed run is still referenced by the traceback at exit
    nb::class_<Observer>(m, "Observer")
        .def(nb::init<const nb::dict &, size_t>(), "tables"_a, "networks"_a)
        .def("observe", &Observer::Observe, "signals"_a, "arrivals"_a.none(), "obs"_a.noconvert())
        .def("begin", &Observer::Begin, "row"_a, "signals"_a, "obs"_a.noconvert());
    nb::class_<Decider>(m, "Decider")
        .def(nb::init<const nb::dict &, const std::vector<std::pair<Array<float>, Array<float>>> &,
                      const std::optional<nb::dict> &>(),
             nb::kw_only(), "tables"_a, "layers"_a, "rates"_a.none())
        .def("correct", &Decider::Correct, "signals"_a)
        .def("decide", &Decider::Decide, "signals"_a, "limits"_a.noconvert(), "ages"_a.none() = nb::none(),
             "period"_a = 0)
        .def("among", &Decider::Among, "begin"_a, "end"_a)
        .def_prop_ro("obs", &Decider::Obs, nb::rv_policy::automatic)
        .def_prop_ro("logits", &Decider::Logits, nb::rv_policy::automatic);
}
