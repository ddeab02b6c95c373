# SPDX-License-Identifier: BSD-3-Clause
# Module ncc/harness/native/_network: the networks of policies and values.
nanobind_add_module(_network NB_STATIC NB_DOMAIN ncc_network "${NCC_HARNESS}/native/network.cc")
target_compile_options(_network PRIVATE -Wall -Wextra -O3)
install(TARGETS _network LIBRARY DESTINATION ncc/harness/native)
