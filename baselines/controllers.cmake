# SPDX-License-Identifier: BSD-3-Clause
# Finds every controller header by its NCC_CC_REGISTER line, and every order of orders/ by its NCC_ORDER_REGISTER line, and
# writes the tables of all of them: adding one edits nothing else.
file(GLOB ncc_headers CONFIGURE_DEPENDS "${NCC_BASELINES}/*.h")
set(ncc_includes "")
set(ncc_rows "")
foreach(header IN LISTS ncc_headers)
  get_filename_component(name "${header}" NAME_WE)
  file(STRINGS "${header}" registered REGEX "^NCC_CC_REGISTER(_RATE)?\\(${name},")
  if(registered)
    string(APPEND ncc_includes "#include \"${name}.h\"\n")
    string(APPEND ncc_rows "    &${name}_ops,\n")
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${header}")
endforeach()
file(GLOB ncc_headers CONFIGURE_DEPENDS "${NCC_BASELINES}/orders/*.h")
set(ncc_order_rows "")
foreach(header IN LISTS ncc_headers)
  get_filename_component(name "${header}" NAME_WE)
  file(STRINGS "${header}" registered REGEX "^NCC_ORDER_REGISTER\\(${name},")
  if(registered)
    string(APPEND ncc_includes "#include \"orders/${name}.h\"\n")
    string(APPEND ncc_order_rows "    &${name}_order,\n")
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${header}")
endforeach()
file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/generated/ncc_controllers.h" CONTENT
"/* Written by controllers.cmake. */
#pragma once
#include \"flow_order.h\"
@ncc_includes@
static const struct ncc_cc_ops *const ncc_cc_table[] = {
@ncc_rows@};

static const struct ncc_order_ops *const ncc_order_table[] = {
@ncc_order_rows@};
" @ONLY)
add_library(ncc_controllers INTERFACE)
target_include_directories(ncc_controllers INTERFACE "${NCC_BASELINES}" "${CMAKE_CURRENT_BINARY_DIR}/generated")
