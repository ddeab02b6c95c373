# SPDX-License-Identifier: BSD-3-Clause
# Module ncc/envs/packetsim/_packetsim: the packet engine. It is compiled as one unit, so that the functions that every
# packet passes through can be inlined. Message transports are apart from it, because GCC would inline less of TCP.
include("${NCC_ENVS}/native/native.cmake")
file(GLOB ncc_packetsim_sources CONFIGURE_DEPENDS "${NCC_ENVS}/packetsim/src/*.cc")
nanobind_add_module(_packetsim NB_STATIC NB_DOMAIN ncc_packetsim ${ncc_packetsim_sources})
set_source_files_properties("${NCC_ENVS}/packetsim/src/message.cc" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
set_target_properties(_packetsim PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
target_link_libraries(_packetsim PRIVATE ncc_controllers ncc_native)
target_compile_options(_packetsim PRIVATE -Wall -Wextra $<$<NOT:$<CONFIG:Debug>>:-O3>)
install(TARGETS _packetsim LIBRARY DESTINATION ncc/envs/packetsim)
