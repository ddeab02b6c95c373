// SPDX-License-Identifier: BSD-3-Clause
// Python module `ncc.agents.a3c._kernels`; ncc/agents/a3c/network.py is its only user.
#include "actor_critic.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <tuple>

namespace nb = nanobind;
using namespace nb::literals;

namespace
{

template <typename T, size_t D>
using Array = nb::ndarray<T, nb::ndim<D>, nb::c_contig, nb::device::cpu>;

void Want(bool right, const char *what)
{
    if (!right) {
        throw std::invalid_argument(what);
    }
}

using Net = ncc::a3c::ActorCritic;

bool Act(Net &net, Array<const float, 2> obs, size_t at, Array<const double, 1> uniform, Array<int64_t, 1> actions,
         Array<float, 1> values)
{
    const size_t rows = obs.shape(0);
    Want(obs.shape(1) == net.obs_dim() && uniform.shape(0) == rows && actions.shape(0) == rows &&
             values.shape(0) == rows,
         "rows or width differ");
    Want(at <= net.capacity() && rows <= net.capacity() - at, "more samples than there is room for");
    nb::gil_scoped_release release;
    return net.Act(obs.data(), rows, at, uniform.data(), actions.data(), values.data());
}

void Value(Net &net, Array<const float, 2> obs, Array<float, 1> values)
{
    Want(obs.shape(1) == net.obs_dim() && values.shape(0) == obs.shape(0), "rows or width differ");
    nb::gil_scoped_release release;
    net.Value(obs.data(), obs.shape(0), values.data());
}

std::tuple<double, double, double> Gradient(Net &net, Array<const int64_t, 1> actions, Array<const float, 1> advantages,
                                            Array<const float, 1> returns, double value_coef, double entropy_coef,
                                            Array<float, 1> gradient)
{
    const size_t rows = actions.shape(0);
    Want(rows > 0 && rows <= net.capacity() && advantages.shape(0) == rows && returns.shape(0) == rows &&
             gradient.shape(0) == net.size(),
         "lengths differ");
    for (size_t i = 0; i < rows; ++i) {
        Want(actions(i) >= 0 && actions(i) < static_cast<int64_t>(net.n_actions()), "an action out of range");
    }
    nb::gil_scoped_release release;
    const auto losses = net.Gradient(rows, actions.data(), advantages.data(), returns.data(), value_coef, entropy_coef,
                                     gradient.data());
    return {losses.policy, losses.value, losses.entropy};
}

} // namespace

NB_MODULE(_kernels, m)
{
    m.doc() = "Small networks and their gradient: see ncc.agents.a3c.network";
    nb::class_<Net>(m, "ActorCritic")
        .def(nb::init<size_t, std::vector<size_t>, size_t, size_t>(), "obs_dim"_a, "hidden"_a, "n_actions"_a,
             "capacity"_a)
        .def_prop_ro("size", &Net::size)
        .def(
            "load",
            [](Net &net, Array<const float, 1> params) {
                Want(params.shape(0) == net.size(), "wrong number of weights");
                net.Load(params.data());
            },
            "params"_a)
        .def("act", &Act, "obs"_a, "at"_a, "uniform"_a, "actions"_a, "values"_a)
        .def("value", &Value, "obs"_a, "values"_a)
        .def("gradient", &Gradient, "actions"_a, "advantages"_a, "returns"_a, "value_coef"_a, "entropy_coef"_a,
             "gradient"_a);
}
