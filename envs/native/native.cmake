# SPDX-License-Identifier: BSD-3-Clause
# Target ncc_native: what the simulators' extension modules share. Include it before such a module.
include_guard(GLOBAL)
include("${CMAKE_CURRENT_LIST_DIR}/signals.cmake")
file(GLOB ncc_native_sources CONFIGURE_DEPENDS "${NCC_ENVS}/native/*.cc")
add_library(ncc_native STATIC ${ncc_native_sources})
target_include_directories(ncc_native PUBLIC "${NCC_ENVS}/native")
target_link_libraries(ncc_native PUBLIC ncc_controllers)
target_compile_options(ncc_native PRIVATE -Wall -Wextra -O3)
option(NCC_TESTS "Add the controller and the program of tests/native" OFF)
set_target_properties(ncc_native PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
set_source_files_properties("${NCC_ENVS}/native/tables.cc" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
if(NCC_TESTS) # that source alone differs, so that a checkout and a wheel share their objects
  set_source_files_properties("${NCC_ENVS}/native/tables.cc" PROPERTIES
    COMPILE_DEFINITIONS NCC_TESTS INCLUDE_DIRECTORIES "${CMAKE_CURRENT_SOURCE_DIR}/tests/native")
endif()
set_target_properties(ncc_native PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden)
