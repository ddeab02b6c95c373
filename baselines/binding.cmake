# SPDX-License-Identifier: BSD-3-Clause
# The controllers, the orders among flows and the decisions of a switch, for Python: tests, golden curves, and the names
# and ranges of parameters.
nanobind_add_module(_baselines NB_STATIC "${NCC_BASELINES}/binding.cpp" "${NCC_BASELINES}/switch_binding.cpp"
  "${NCC_BASELINES}/order_binding.cpp")
target_link_libraries(_baselines PRIVATE ncc_controllers)
target_compile_options(_baselines PRIVATE -Wall -Wextra)
install(TARGETS _baselines LIBRARY DESTINATION ncc/baselines)
