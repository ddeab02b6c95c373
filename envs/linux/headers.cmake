# SPDX-License-Identifier: BSD-3-Clause
# Module ncc/envs/linux/_headers: what the headers of baselines/ say, for user space: names, parameters, and the keys of
# flow orders.
nanobind_add_module(_headers NB_STATIC NB_DOMAIN ncc_linux "${NCC_ENVS}/linux/headers.cc")
target_link_libraries(_headers PRIVATE ncc_controllers)
target_include_directories(_headers PRIVATE "${NCC_ENVS}/native")
target_compile_options(_headers PRIVATE -Wall -Wextra -O3)
install(TARGETS _headers LIBRARY DESTINATION ncc/envs/linux)
