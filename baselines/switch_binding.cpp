// SPDX-License-Identifier: BSD-3-Clause
// Python binding of a switch's decisions: the functions of step_mark.h, red.h and dynamic_threshold.h.
#include <nanobind/nanobind.h>

extern "C" {
#include "dynamic_threshold.h"
#include "red.h"
#include "step_mark.h"
}

namespace nb = nanobind;
using namespace nb::literals;

namespace
{

int step_mark(ncc_u64 size_bytes, ncc_u64 mark_threshold_bytes, ncc_u64 queue_bytes, ncc_u32 packet_bytes,
              bool ecn_capable)
{
    const ncc_step_mark p{size_bytes, mark_threshold_bytes};
    return ncc_step_mark_admit(&p, queue_bytes, packet_bytes, ecn_capable);
}

int red(ncc_u64 min_bytes, ncc_u64 max_bytes, ncc_u64 max_prob, ncc_u64 queue_bytes, bool ecn_capable, ncc_u32 random)
{
    if (max_bytes <= min_bytes || max_bytes - min_bytes >= NCC_RED_ONE || max_prob > NCC_RED_ONE) {
        throw nb::value_error("max_bytes must be above min_bytes by less than 2^32, and max_prob at most RED_ONE");
    }
    const ncc_red p{min_bytes, max_bytes, max_prob};
    return ncc_red_admit(&p, queue_bytes, ecn_capable, random);
}

int dynamic_threshold(ncc_u64 private_bytes, ncc_u64 shared_bytes, ncc_u64 alpha, ncc_u64 queue_bytes,
                      ncc_u64 used_bytes, ncc_u32 packet_bytes)
{
    if (alpha < 1 || alpha > NCC_DT_ALPHA_MAX || shared_bytes > NCC_DT_SHARED_MAX_BYTES || used_bytes > shared_bytes) {
        throw nb::value_error("alpha must be from 1 to DT_ALPHA_MAX, shared_bytes at most DT_SHARED_MAX_BYTES, and "
                              "used_bytes at most shared_bytes");
    }
    const ncc_dynamic_threshold p{private_bytes, shared_bytes, alpha};
    return ncc_dynamic_threshold_admit(&p, queue_bytes, used_bytes, packet_bytes);
}

} // namespace

void bind_switch(nb::module_ &m)
{
    m.attr("PASS") = static_cast<int>(NCC_PASS);
    m.attr("MARK") = static_cast<int>(NCC_MARK);
    m.attr("DROP") = static_cast<int>(NCC_DROP);
    m.attr("RED_ONE") = NCC_RED_ONE;
    m.attr("DT_ALPHA_ONE") = NCC_DT_ALPHA_ONE;
    m.attr("DT_ALPHA_MAX") = NCC_DT_ALPHA_MAX;
    m.attr("DT_SHARED_MAX_BYTES") = NCC_DT_SHARED_MAX_BYTES;
    m.def("step_mark", &step_mark, nb::kw_only(), "size_bytes"_a, "mark_threshold_bytes"_a, "queue_bytes"_a,
          "packet_bytes"_a, "ecn_capable"_a);
    m.def("red", &red, nb::kw_only(), "min_bytes"_a, "max_bytes"_a, "max_prob"_a, "queue_bytes"_a, "ecn_capable"_a,
          "random"_a);
    m.def("dynamic_threshold", &dynamic_threshold, nb::kw_only(), "private_bytes"_a, "shared_bytes"_a, "alpha"_a,
          "queue_bytes"_a, "used_bytes"_a, "packet_bytes"_a);
}
