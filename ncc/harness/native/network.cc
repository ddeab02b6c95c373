// SPDX-License-Identifier: BSD-3-Clause
// Module ncc.harness.native._network: neural networks of tanh layers, for learners written in Python.
#include "dense.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace nb = nanobind;
using namespace nb::literals;

namespace
{

template <typename T, int Dimensions>
using In = nb::ndarray<const T, nb::ndim<Dimensions>, nb::c_contig, nb::device::cpu>;
template <typename T, int Dimensions>
using Out = nb::ndarray<T, nb::ndim<Dimensions>, nb::c_contig, nb::device::cpu>;

void Check(bool fits, const char *what)
{
    if (!fits) {
        throw std::invalid_argument(what);
    }
}

class Network
{
  public:
    explicit Network(const std::vector<size_t> &sizes) : layers_(sizes) {}

    size_t Size() const { return layers_.Weights(); }

    void Load(In<float, 1> weights)
    {
        Check(weights.size() == layers_.Weights(), "the vector of weights has the wrong size");
        layers_.Load(weights.data());
        layers_.Keep(0);
    }

    void Begin() { layers_.Keep(0); }

    auto Forward(In<float, 2> rows)
    {
        Pass(rows);
        return Array(rows.shape(0), layers_.Outputs(), [&](float *to) {
            const size_t width = layers_.Width();
            for (size_t r = 0; r < rows.shape(0); ++r) {
                std::copy_n(last_ + r * width, layers_.Outputs(), to + r * layers_.Outputs());
            }
        });
    }

    auto Look(In<float, 2> rows)
    {
        const size_t kept = layers_.Rows();
        auto outputs = Forward(rows);
        layers_.Keep(kept);
        return outputs;
    }

    bool Act(In<float, 2> rows, In<double, 1> uniform, Out<int64_t, 1> actions)
    {
        Check(uniform.size() == rows.shape(0) && actions.size() == rows.shape(0), "a row needs a number and an action");
        Pass(rows);
        drawn_.assign(last_, last_ + rows.shape(0) * layers_.Width());
        return ncc::Draw(drawn_.data(), rows.shape(0), layers_.Outputs(), layers_.Width(), uniform.data(),
                         actions.data());
    }

    auto Kept(bool outputs)
    {
        return Array(layers_.Rows(), outputs ? layers_.Outputs() : layers_.Inputs(),
                     [&](float *to) { layers_.Kept(outputs, to); });
    }

    void Backward(In<float, 2> outputs, Out<float, 1> gradient)
    {
        Check(outputs.shape(0) == layers_.Rows() && outputs.shape(1) == layers_.Outputs(), "a gradient per output");
        Check(gradient.size() == layers_.Weights(), "the vector of the gradient has the wrong size");
        layers_.Backward(outputs.data(), gradient.data());
    }

  private:
    void Pass(const In<float, 2> &rows)
    {
        Check(rows.shape(1) == layers_.Inputs(), "rows do not have the network's number of inputs");
        last_ = layers_.Forward(rows.data(), rows.shape(0));
    }

    template <typename Fill>
    nb::ndarray<nb::numpy, float> Array(size_t rows, size_t columns, Fill fill)
    {
        auto *made = new float[rows * columns];
        const nb::capsule owner(made, [](void *p) noexcept { delete[] static_cast<float *>(p); });
        fill(made);
        return {made, {rows, columns}, owner};
    }

    ncc::Layers layers_;
    const float *last_ = nullptr;
    std::vector<float> drawn_;
};

} // namespace

NB_MODULE(_network, m)
{
    nb::set_leak_warnings(false); // a network of a failed run is still referenced by the traceback at exit
    nb::class_<Network>(m, "Network")
        .def(nb::init<const std::vector<size_t> &>(), "sizes"_a)
        .def_prop_ro("size", &Network::Size)
        .def("load", &Network::Load, "weights"_a)
        .def("begin", &Network::Begin)
        .def("forward", &Network::Forward, "rows"_a)
        .def("look", &Network::Look, "rows"_a)
        .def("act", &Network::Act, "rows"_a, "uniform"_a, "actions"_a.noconvert())
        .def("inputs", [](Network &network) { return network.Kept(false); })
        .def("outputs", [](Network &network) { return network.Kept(true); })
        .def("backward", &Network::Backward, "outputs"_a, "gradient"_a.noconvert());
}
