# SPDX-License-Identifier: BSD-3-Clause
# Names and parameters of all headers, and connections that are driven by hand.
nanobind_add_module(_baselines NB_STATIC "${NCC_BASELINES}/binding.cpp")
target_link_libraries(_baselines PRIVATE ncc_controllers)
target_compile_options(_baselines PRIVATE -Wall -Wextra)
install(TARGETS _baselines LIBRARY DESTINATION ncc/baselines)
