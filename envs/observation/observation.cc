// SPDX-License-Identifier: BSD-3-Clause
// Module ncc.envs.observation._observation. `Observer` makes the observations of hosts. `Rates` turns their decisions
// into limits. `Rewards` pays them.
#include "from_python.h"
#include "observer.h"
#include "rates.h"
#include "rewards.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <vector>

namespace nb = nanobind;
using namespace nb::literals;

namespace
{

using Given = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;
using Seen = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;
using Filled = nb::ndarray<double, nb::c_contig, nb::device::cpu>;
using Rows = nb::ndarray<float, nb::c_contig, nb::device::cpu>;
using Arrivals = nb::ndarray<const bool, nb::c_contig, nb::device::cpu>;
using Ages = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

ncc::Signals SignalsOf(const std::vector<ncc::AnySignal> &arrays, size_t networks)
{
    ncc::Signals signals;
    for (const auto &array : arrays) {
        signals.push_back(ncc::SignalOf(array, networks));
    }
    return signals;
}

ncc::Signals SignalsOf(const std::vector<ncc::AnySignal> &arrays, size_t networks, const ncc::Tables &tables)
{
    ncc::Signals signals = SignalsOf(arrays, networks);
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
    Observer(const nb::dict &tables, size_t networks)
        : observer_(ncc::Tables(ncc::FromPython(tables)), networks), networks_(networks), end_(observer_.tables().n)
    {
    }

    // Fills obs [networks, n, entries]. Returns the first network that measured a number that is not finite, and
    // then changes nothing; or -1.
    int Observe(const std::vector<ncc::AnySignal> &arrays, const std::optional<Arrivals> &arrivals, Rows obs)
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
    bool Begin(size_t row, const std::vector<ncc::AnySignal> &arrays, Rows obs)
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

    // Replaces the state that was observed last, with messages that arrived since. False, without a change, if a number
    // is not finite.
    bool Correct(const std::vector<ncc::AnySignal> &arrays)
    {
        if (!observer_.Measure(0, SignalsOf(arrays, 1, observer_.tables()), 0)) {
            return false;
        }
        observer_.Correct(0);
        return true;
    }

    // Fills the rows of `Among` in period number `period` from messages; `ages` [hosts, and uplinks] are extra periods
    // of the states of others. False: as above.
    bool ObserveMessages(const std::vector<ncc::AnySignal> &arrays, const Ages &ages, size_t period, Rows obs)
    {
        const ncc::Tables &t = observer_.tables();
        if (ages.size() != t.n + t.Areas() || obs.size() != (end_ - begin_) * t.entries.size()) {
            throw std::invalid_argument("there must be a row for each host, and an age for each host and uplink");
        }
        if (!observer_.Measure(0, SignalsOf(arrays, 1, t), 0)) {
            return false;
        }
        observer_.Commit(0, false, {.ages = ages.data(), .period = period}, begin_, end_);
        observer_.Observe(0, obs.data(), begin_, end_);
        return true;
    }

    // From now on `ObserveMessages` observes for hosts `begin` to `end` - 1 only.
    void Among(size_t begin, size_t end)
    {
        if (begin > end || end > observer_.tables().n) {
            throw std::invalid_argument("there are no such hosts");
        }
        begin_ = begin, end_ = end;
    }

  private:
    ncc::Observer observer_;
    size_t networks_, begin_ = 0, end_;
};

// Limits [..., hosts] for decisions of hosts on their observations.
void Limits(const ncc::Rates &rates, const Given &given, const Seen &obs, Filled limits, size_t first)
{
    const size_t hosts = given.ndim() ? given.shape(given.ndim() - 1) : 0, width = obs.shape(obs.ndim() - 1);
    if (obs.size() != given.size() * width || limits.size() != given.size() || width < rates.Width() ||
        first + hosts > rates.Hosts()) {
        throw std::invalid_argument("decisions, observations and limits do not fit each other or the hosts");
    }
    for (size_t k = 0; k < given.size(); ++k) {
        limits.data()[k] = rates.Limit(first + k % hosts, obs.data() + k * width, given.data()[k]);
    }
}

// Fills rewards [hosts] or [networks, hosts].
void Pay(ncc::Rewards &rewards, const std::vector<ncc::AnySignal> &arrays, Rows to)
{
    const size_t networks = to.ndim() == 2 ? to.shape(0) : 1, hosts = rewards.Hosts();
    const ncc::Signals signals = SignalsOf(arrays, networks);
    if (to.size() != networks * hosts || signals.size() != ncc::Rewards::kSignals ||
        !std::all_of(signals.begin(), signals.end(), [=](const auto &signal) { return signal.Size() == hosts; })) {
        throw std::invalid_argument("a reward needs its signals, with a number for each host");
    }
    for (size_t row = 0; row < networks; ++row) {
        rewards.Pay(signals, row, to.data() + row * hosts);
    }
}

} // namespace

NB_MODULE(_observation, m)
{
    nb::set_leak_warnings(false); // a failed run is still referenced by the traceback at exit
    nb::class_<Observer>(m, "Observer")
        .def(nb::init<const nb::dict &, size_t>(), "tables"_a, "networks"_a)
        .def("observe", &Observer::Observe, "signals"_a, "arrivals"_a.none(), "obs"_a.noconvert())
        .def("begin", &Observer::Begin, "row"_a, "signals"_a, "obs"_a.noconvert())
        .def("correct", &Observer::Correct, "signals"_a)
        .def("observe_messages", &Observer::ObserveMessages, "signals"_a, "ages"_a, "period"_a, "obs"_a.noconvert())
        .def("among", &Observer::Among, "begin"_a, "end"_a);
    nb::class_<ncc::Rates>(m, "Rates")
        .def(
            "__init__",
            [](ncc::Rates *made, const nb::dict &numbers) { new (made) ncc::Rates(ncc::FromPython(numbers)); },
            "numbers"_a)
        .def("limits", &Limits, "given"_a, "obs"_a, "limits"_a.noconvert(), "first"_a = 0);
    nb::class_<ncc::Rewards>(m, "Rewards")
        .def(
            "__init__",
            [](ncc::Rewards *made, const nb::dict &numbers) { new (made) ncc::Rewards(ncc::FromPython(numbers)); },
            "numbers"_a)
        .def("pay", &Pay, "signals"_a, "rewards"_a.noconvert());
}
