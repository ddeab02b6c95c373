# SPDX-License-Identifier: BSD-3-Clause
# Module ncc/envs/observation/_observation: the observations and rewards of hosts, and the limits of their decisions.
nanobind_add_module(_observation NB_STATIC NB_DOMAIN ncc_observation "${NCC_ENVS}/observation/observation.cc")
target_include_directories(_observation PRIVATE "${NCC_HARNESS}/native")
target_compile_options(_observation PRIVATE -Wall -Wextra -O3)
install(TARGETS _observation LIBRARY DESTINATION ncc/envs/observation)
