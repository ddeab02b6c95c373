# SPDX-License-Identifier: BSD-3-Clause
# Programs for the kernel (bpf/*.bpf.c) and helper programs (programs/*.c), beside each other in ncc/envs/linux/objects,
# and module ncc/envs/linux/_bpf, which loads the former (objects.cc). Without clang or libbpf neither is built: `ncc host
# check` says so, and everything else works.
set(NCC_LINUX "${NCC_ENVS}/linux")
set(NCC_LINUX_OBJECTS "${CMAKE_CURRENT_BINARY_DIR}/linux")
file(MAKE_DIRECTORY "${NCC_LINUX_OBJECTS}")

# These are looked for in PATH in every build. Nothing is cached, so that programs installed later are found.
find_program(NCC_CLANG NAMES clang clang-19 clang-18 clang-17 clang-16 clang-15 clang-14
             NO_CACHE NO_CMAKE_SYSTEM_PATH NO_CMAKE_INSTALL_PREFIX)
find_path(NCC_LIBBPF_HEADERS bpf/bpf_helpers.h NO_CACHE)
find_library(NCC_LIBBPF bpf NO_CACHE)
set(ncc_bpf_missing "")
if(NOT NCC_CLANG)
  set(ncc_bpf_missing "clang was not found (package clang)")
elseif(NOT NCC_LIBBPF_HEADERS OR NOT NCC_LIBBPF)
  set(ncc_bpf_missing "libbpf was not found (package libbpf-dev)")
else()
  execute_process(COMMAND "${NCC_CLANG}" -print-targets OUTPUT_VARIABLE ncc_clang_targets ERROR_QUIET)
  if(NOT ncc_clang_targets MATCHES "bpf")
    set(ncc_bpf_missing "${NCC_CLANG} has no BPF target")
  endif()
endif()

set(ncc_bpf_objects "")
# ncc_bpf(<object> <source> <flags>...): objects/<object>.bpf.o
function(ncc_bpf name source)
  set(object "${NCC_LINUX_OBJECTS}/${name}.bpf.o")
  add_custom_command(
    OUTPUT "${object}"
    COMMAND "${NCC_CLANG}" -O2 -g -Wall -Wextra -Wno-unused-parameter -Werror -target bpf -mcpu=v3 -D__TARGET_ARCH_x86
            "-I${NCC_BASELINES}" "-I${NCC_LINUX}/bpf" "-I${NCC_LIBBPF_HEADERS}" ${ARGN}
            -MD -MF "${object}.d" -c "${source}" -o "${object}"
    DEPENDS "${source}" DEPFILE "${object}.d" VERBATIM COMMENT "BPF object ${name}")
  set(ncc_bpf_objects "${ncc_bpf_objects};${object}" PARENT_SCOPE)
endfunction()

if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  message(WARNING "ncc: programs of the Linux datapath are built for x86_64, and this is ${CMAKE_SYSTEM_PROCESSOR}: "
                  "no run on linux is possible here. Everything else works.")
endif()
if(ncc_bpf_missing)
  message(WARNING "ncc: no programs for the Linux datapath are built: ${ncc_bpf_missing}. Everything else works.")
else()
  file(GLOB ncc_bpf_sources CONFIGURE_DEPENDS "${NCC_LINUX}/bpf/*.bpf.c")
  foreach(source IN LISTS ncc_bpf_sources)
    get_filename_component(name "${source}" NAME)
    string(REPLACE ".bpf.c" "" name "${name}")
    if(name STREQUAL "shim") # once for each controller that registers itself
      file(GLOB headers CONFIGURE_DEPENDS "${NCC_BASELINES}/*.h")
      foreach(header IN LISTS headers)
        get_filename_component(controller "${header}" NAME_WE)
        file(STRINGS "${header}" registered REGEX "^NCC_CC_REGISTER(_RATE|_WITH)?\\(${controller},")
        if(registered AND NOT registered MATCHES "NCC_CC_(TIMER|HOPS|ECT1)")
          set(signals "")
          if(registered MATCHES "NCC_CC_SIGNALS")
            set(signals "-DNCC_SIGNALS")
          endif()
          string(SUBSTRING "ncc_${controller}" 0 15 congestion) # the kernel's longest name
          ncc_bpf("shim_${controller}" "${source}" "-DNCC_CONTROLLER=${controller}" "-DNCC_CONGESTION=\"${congestion}\""
                  "-DNCC_CONTROLLER_HEADER=\"${controller}.h\"" ${signals})
        endif()
      endforeach()
    elseif(name STREQUAL "tag") # once for each tag
      file(GLOB headers CONFIGURE_DEPENDS "${NCC_BASELINES}/tags/*.h")
      foreach(header IN LISTS headers)
        get_filename_component(tag "${header}" NAME_WE)
        ncc_bpf("tag_${tag}" "${source}" "-DNCC_TAG=${tag}" "-DNCC_TAG_HEADER=\"tags/${tag}.h\"")
      endforeach()
    else()
      ncc_bpf("${name}" "${source}")
    endif()
    if(name STREQUAL "switch") # and once for each program of ports whose needs the kernel meets (NCC_SW_KERNEL)
      file(GLOB headers CONFIGURE_DEPENDS "${NCC_BASELINES}/*.h")
      foreach(header IN LISTS headers)
        get_filename_component(program "${header}" NAME_WE)
        file(STRINGS "${header}" registered REGEX "^NCC_SW_REGISTER\\(${program},")
        if(registered AND NOT registered MATCHES "NCC_SW_(RANKED|DEQUEUE|TRIMS)")
          ncc_bpf("switch_${program}" "${source}" "-DNCC_PROGRAM=${program}"
                  "-DNCC_PROGRAM_HEADER=\"${program}.h\"")
        endif()
      endforeach()
    endif()
  endforeach()
  add_custom_target(ncc_linux_bpf ALL DEPENDS ${ncc_bpf_objects})
  install(FILES ${ncc_bpf_objects} DESTINATION ncc/envs/linux/objects)
  nanobind_add_module(_bpf NB_STATIC NB_DOMAIN ncc_bpf "${NCC_LINUX}/objects.cc")
  target_include_directories(_bpf PRIVATE "${NCC_LIBBPF_HEADERS}")
  target_link_libraries(_bpf PRIVATE "${NCC_LIBBPF}")
  target_compile_options(_bpf PRIVATE -Wall -Wextra)
  install(TARGETS _bpf LIBRARY DESTINATION ncc/envs/linux)
endif()

include(CheckLanguage)
check_language(C)
file(GLOB ncc_linux_programs CONFIGURE_DEPENDS "${NCC_LINUX}/programs/*.c")
if(CMAKE_C_COMPILER)
  enable_language(C)
  foreach(source IN LISTS ncc_linux_programs)
    get_filename_component(name "${source}" NAME_WE)
    add_executable("ncc_${name}" "${source}")
    set_target_properties("ncc_${name}" PROPERTIES
      OUTPUT_NAME "${name}" RUNTIME_OUTPUT_DIRECTORY "${NCC_LINUX_OBJECTS}" C_STANDARD 11)
    target_compile_options("ncc_${name}" PRIVATE -Wall -Wextra -O2)
    target_include_directories("ncc_${name}" PRIVATE "${NCC_LINUX}/bpf" "${NCC_ENVS}/native")
    target_link_libraries("ncc_${name}" PRIVATE ncc_controllers)
    install(TARGETS "ncc_${name}" RUNTIME DESTINATION ncc/envs/linux/objects)
  endforeach()
else()
  message(WARNING "ncc: the Linux datapath's helper programs are not built: no C compiler was found (package gcc).")
endif()
