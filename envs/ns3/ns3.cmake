# SPDX-License-Identifier: GPL-2.0-only
# Module ncc/envs/ns3/_ns3: ns-3 in process, against the libraries and headers of the pinned `ns3` wheel,
# or with -DNCC_NS3_ROOT=<prefix> against your own build (a folder with include/ and lib64/ or lib/).
set(NCC_NS3_ROOT "" CACHE PATH "ns-3 prefix to build against instead of the ns3 wheel")
if(NCC_NS3_ROOT)
  set(ncc_ns3_root "${NCC_NS3_ROOT}")
  set(ncc_ns3_rpath "${NCC_NS3_ROOT}/lib64;${NCC_NS3_ROOT}/lib")
else()
  # The wheel's own CMake and pkg-config files name folders of the machine that built it.
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c "import importlib.metadata as m; print(m.distribution('ns3').locate_file('ns3'), end='')"
    OUTPUT_VARIABLE ncc_ns3_root RESULT_VARIABLE ncc_ns3_missing ERROR_QUIET)
  if(ncc_ns3_missing)
    message(FATAL_ERROR "The Python package 'ns3' is not installed for ${Python_EXECUTABLE}: "
                        "pip install 'ns3==3.44.post0', or pass -DNCC_NS3_ROOT=<prefix of an ns-3 3.44 build>.")
  endif()
  set(ncc_ns3_rpath "$ORIGIN/../../../ns3/lib64") # from site-packages/ncc/envs/ns3/ to site-packages/ns3/
endif()

# The version is part of the libraries' names: take it from the core library.
file(GLOB ncc_ns3_core "${ncc_ns3_root}/lib64/libns3.*-core*.so" "${ncc_ns3_root}/lib/libns3.*-core*.so")
if(NOT ncc_ns3_core OR NOT EXISTS "${ncc_ns3_root}/include/ns3/core-module.h")
  message(FATAL_ERROR "No ns-3 in '${ncc_ns3_root}': expected include/ns3/core-module.h and lib64/libns3.<version>-core.so.")
endif()
list(GET ncc_ns3_core 0 ncc_ns3_core)
get_filename_component(ncc_ns3_libdir "${ncc_ns3_core}" DIRECTORY)
get_filename_component(ncc_ns3_core_name "${ncc_ns3_core}" NAME)
string(REGEX MATCH "^libns3\\.([0-9]+)-core(.*)\\.so$" ncc_ns3_match "${ncc_ns3_core_name}")
set(ncc_ns3_minor "${CMAKE_MATCH_1}")
set(ncc_ns3_suffix "${CMAKE_MATCH_2}") # "-optimized" and the like in own builds

include("${NCC_ENVS}/native/native.cmake")
file(GLOB ncc_ns3_sources CONFIGURE_DEPENDS "${NCC_ENVS}/ns3/src/*.cc")
nanobind_add_module(_ns3 NB_STATIC NB_DOMAIN ncc_ns3 ${ncc_ns3_sources})
target_link_libraries(_ns3 PRIVATE ncc_controllers ncc_native)
target_include_directories(_ns3 SYSTEM PRIVATE "${ncc_ns3_root}/include")
# The headers' inline functions must agree with the libraries; these are the wheel's.
set(NCC_NS3_DEFINITIONS "NS3_BUILD_PROFILE_RELEASE;NS3_LOG_ENABLE;NS3_ASSERT_ENABLE" CACHE STRING
    "Compile definitions that the ns-3 libraries were built with (an optimised build: NS3_BUILD_PROFILE_OPTIMIZED)")
target_compile_definitions(_ns3 PRIVATE ${NCC_NS3_DEFINITIONS})
target_compile_options(_ns3 PRIVATE -Wall -Wextra -O3)
foreach(module internet point-to-point traffic-control network core)
  set(ncc_ns3_library "${ncc_ns3_libdir}/libns3.${ncc_ns3_minor}-${module}${ncc_ns3_suffix}.so")
  if(NOT EXISTS "${ncc_ns3_library}")
    message(FATAL_ERROR "ns-3 in '${ncc_ns3_root}' lacks the module ${module}: no ${ncc_ns3_library}.")
  endif()
  target_link_libraries(_ns3 PRIVATE "${ncc_ns3_library}")
endforeach()
target_link_options(_ns3 PRIVATE "-Wl,-rpath-link,${ncc_ns3_libdir}" "-Wl,--disable-new-dtags")
set_target_properties(_ns3 PROPERTIES INSTALL_RPATH "${ncc_ns3_rpath}" BUILD_RPATH "${ncc_ns3_libdir}")
install(TARGETS _ns3 LIBRARY DESTINATION ncc/envs/ns3)
