// SPDX-License-Identifier: BSD-3-Clause
// Module ncc.envs.observation._observation. `Observer` makes the observations of hosts. `Decider` also runs a trained
// policy on them and returns the hosts' limits, in one call. ncc/envs/action.py defines what an action means.
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
            observer_.Commit(row, false, arrivals ? arrivals->data() + row * messages : nullptr, 0, t.n);
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
        observer_.Commit(row, true, nullptr, 0, t.n);
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
    Decider(const nb::dict &tables, const std::vector<std::pair<Array<float>, Array<float>>> &layers,
            const Array<double> &frac, const Array<double> &unit_bps, const Array<double> &floor_bps,
            const Array<double> &link_bps, int observed, const nb::object &guard)
        : observer_(ncc::Tables(tables), 1), n_(observer_.tables().n), obs_dim_(observer_.tables().entries.size()),
          end_(n_), observed_(observed), layers_(ncc::LayersOf(layers))
    {
        frac_ = Copy(frac, frac.size(), "frac");
        unit_bps_ = Copy(unit_bps, n_, "unit_bps");
        floor_bps_ = Copy(floor_bps, n_, "floor_bps");
        link_bps_ = Copy(link_bps, n_, "link_bps");
        if (!guard.is_none()) {
            const auto at = [&](const char *name) { return nb::cast<size_t>(guard[name]); };
            guard_ = {true, nb::cast<double>(guard["frac"]), at("share"), at("others"), at("before")};
        }
        if (layers_.Inputs() != obs_dim_ || layers_.Outputs() != frac_.size() ||
            observed >= static_cast<int>(obs_dim_) ||
            std::max({guard_.share, guard_.others, guard_.before}) >= obs_dim_) {
            throw std::invalid_argument("tables of observations, layers and actions do not fit each other");
        }
        obs_.resize(n_ * obs_dim_);
        logits_.resize(n_ * frac_.size());
    }

    // Fills `limits` [n_agents]; false, and nothing taken in, if a number that was measured is not finite.
    bool Decide(const std::vector<ncc::Signal::Any> &arrays, Limits limits)
    {
        if (limits.size() != n_) {
            throw std::invalid_argument("there must be a limit for each host");
        }
        if (!observer_.Measure(0, SignalsOf(arrays, 1, observer_.tables()), 0)) {
            return false;
        }
        observer_.Commit(0, false, nullptr, begin_, end_);
        if (begin_ == end_) {
            return true;
        }
        observer_.Observe(0, obs_.data(), begin_, end_);
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
    nb::ndarray<nb::numpy, const float> Logits() const { return View(logits_, frac_.size()); }

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
        const size_t actions = frac_.size();
        layers_.Keep(0);
        const float *out = layers_.Forward(obs_.data() + begin_ * obs_dim_, end_ - begin_);
        for (size_t i = begin_; i < end_; ++i, out += layers_.Width()) {
            std::copy_n(out, actions, logits_.data() + i * actions);
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
    int observed_; // number of the observation that is a limit's unit, in the host's link rates; -1: `unit_bps_` is
    Guard guard_ = {};
    std::vector<double> frac_, unit_bps_, floor_bps_, link_bps_;
    std::vector<float> obs_, logits_;
    ncc::Layers layers_;
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
                      const Array<double> &, const Array<double> &, const Array<double> &, const Array<double> &, int,
                      const nb::object &>(),
             nb::kw_only(), "tables"_a, "layers"_a, "frac"_a, "unit_bps"_a, "floor_bps"_a, "link_bps"_a, "observed"_a,
             "guard"_a.none())
        .def("decide", &Decider::Decide, "signals"_a, "limits"_a.noconvert())
        .def("among", &Decider::Among, "begin"_a, "end"_a)
        .def_prop_ro("obs", &Decider::Obs, nb::rv_policy::automatic)
        .def_prop_ro("logits", &Decider::Logits, nb::rv_policy::automatic);
}
