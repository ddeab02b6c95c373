# SPDX-License-Identifier: BSD-3-Clause
# Module ncc/agents/a3c/_kernels: the learner's networks. Their inner loops are built once per instruction set.
set(NCC_A3C "${CMAKE_CURRENT_SOURCE_DIR}/ncc/agents/a3c/src")
foreach(kernels kPlain kAvx2)
  add_library(ncc_a3c_${kernels} OBJECT "${NCC_A3C}/kernels.cc")
  set_target_properties(ncc_a3c_${kernels} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_compile_definitions(ncc_a3c_${kernels} PRIVATE NCC_KERNELS=${kernels})
  target_compile_options(ncc_a3c_${kernels} PRIVATE -Wall -Wextra -Wno-psabi -O3)
endforeach()
target_compile_options(ncc_a3c_kAvx2 PRIVATE -mavx2 -mfma)

nanobind_add_module(_kernels NB_STATIC "${NCC_A3C}/module.cc" "${NCC_A3C}/actor_critic.cc"
                    $<TARGET_OBJECTS:ncc_a3c_kPlain> $<TARGET_OBJECTS:ncc_a3c_kAvx2>)
target_compile_options(_kernels PRIVATE -Wall -Wextra -O3)
install(TARGETS _kernels LIBRARY DESTINATION ncc/agents/a3c)
