# SPDX-License-Identifier: BSD-3-Clause
# Module ncc/envs/linux/_linux: the C++ part of the Linux datapath in user space. reports.cc: signals from the
# connections of a run; live.cc: signals from real traffic (both by reports.h); gates.cc: flows that wait for their
# receivers; classes.cc: limits.
include("${NCC_ENVS}/native/signals.cmake")
nanobind_add_module(_linux NB_STATIC NB_DOMAIN ncc_linux "${NCC_ENVS}/linux/module.cc" "${NCC_ENVS}/linux/reports.cc"
                    "${NCC_ENVS}/linux/live.cc" "${NCC_ENVS}/linux/gates.cc" "${NCC_ENVS}/linux/classes.cc")
target_link_libraries(_linux PRIVATE ncc_controllers)
target_include_directories(_linux PRIVATE "${NCC_ENVS}/native")
target_compile_options(_linux PRIVATE -Wall -Wextra -O3)
install(TARGETS _linux LIBRARY DESTINATION ncc/envs/linux)
