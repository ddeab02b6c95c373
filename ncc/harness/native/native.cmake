# SPDX-License-Identifier: BSD-3-Clause
# Modules of ncc/harness/native: _network, the networks of policies and values, and _local, the formula LOCAL.
foreach(module network local)
  nanobind_add_module(_${module} NB_STATIC NB_DOMAIN ncc_${module} "${NCC_HARNESS}/native/${module}.cc")
  target_compile_options(_${module} PRIVATE -Wall -Wextra -O3)
  install(TARGETS _${module} LIBRARY DESTINATION ncc/harness/native)
endforeach()
