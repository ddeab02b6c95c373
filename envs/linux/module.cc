// SPDX-License-Identifier: BSD-3-Clause
// Python module `ncc.envs.linux._linux`.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

void bind_reports(nb::module_ &m); // reports.cc
void bind_live(nb::module_ &m);    // live.cc
void bind_gates(nb::module_ &m);   // gates.cc
void bind_classes(nb::module_ &m); // classes.cc

NB_MODULE(_linux, m)
{
    nb::set_leak_warnings(false); // a failed run is still referenced by the traceback at exit
    bind_reports(m);
    bind_live(m);
    bind_gates(m);
    bind_classes(m);
}
