# SPDX-License-Identifier: BSD-3-Clause
# Module ncc/envs/packetsim/_packetsim: the packet engine. It is compiled as one unit, so that the functions that every
# packet passes through can be inlined. Message transports are apart from it, because GCC would inline less of TCP.
option(NCC_PROFILE "Compile packetsim by a profile of itself, which takes twice as long (GCC only)" OFF)
include("${NCC_ENVS}/native/native.cmake")
file(GLOB ncc_packetsim_sources CONFIGURE_DEPENDS "${NCC_ENVS}/packetsim/src/*.cc")
set_source_files_properties("${NCC_ENVS}/packetsim/src/message.cc" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
function(ncc_add_packetsim name)
  nanobind_add_module(${name} NB_STATIC NB_DOMAIN ncc_packetsim ${ARGN} ${ncc_packetsim_sources})
  set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
  target_link_libraries(${name} PRIVATE ncc_controllers ncc_native)
  target_compile_options(${name} PRIVATE -Wall -Wextra $<$<NOT:$<CONFIG:Debug>>:-O3>)
endfunction()

ncc_add_packetsim(_packetsim)
install(TARGETS _packetsim LIBRARY DESTINATION ncc/envs/packetsim)

# A second module counts which ways training.py takes through it, and the first is compiled by these counts. Both have
# the same name for what the compiler writes beside an object, so that it finds the counts. Ways that were not taken are
# compiled as without counts.
if(NCC_PROFILE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT CMAKE_CROSSCOMPILING)
  set(profile "${CMAKE_CURRENT_BINARY_DIR}/profile")
  file(MAKE_DIRECTORY "${profile}")
  set(ncc_one_name -dumpdir "${profile}/" -dumpbase packetsim.cc -dumpbase-ext .cc)
  set_source_files_properties("${NCC_ENVS}/packetsim/src/message.cc" PROPERTIES
    COMPILE_OPTIONS "-fno-profile-generate;-fno-profile-use")
  ncc_add_packetsim(_packetsim_counting)
  target_compile_options(_packetsim_counting PRIVATE ${ncc_one_name} -fprofile-generate -fprofile-update=single)
  target_link_options(_packetsim_counting PRIVATE -fprofile-generate)
  set_target_properties(_packetsim_counting PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${profile}")
  add_custom_command(OUTPUT "${profile}/packetsim.gcda"
    COMMAND "${CMAKE_COMMAND}" -E rm -f "${profile}/packetsim.gcda"
    COMMAND "${Python_EXECUTABLE}" "${NCC_ENVS}/packetsim/training.py" "$<TARGET_FILE:_packetsim_counting>"
    DEPENDS _packetsim_counting "${NCC_ENVS}/packetsim/training.py" VERBATIM)
  add_custom_target(ncc_packetsim_profile DEPENDS "${profile}/packetsim.gcda")
  add_dependencies(_packetsim ncc_packetsim_profile)
  target_compile_options(_packetsim PRIVATE ${ncc_one_name} -fprofile-use -fprofile-partial-training
    -fprofile-correction -Wno-missing-profile)
endif()
