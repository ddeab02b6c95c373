# SPDX-License-Identifier: BSD-3-Clause
# Finds every controller header by its NCC_CC_REGISTER line, every program of a switch by its NCC_SW_REGISTER line, every
# order of orders/ by NCC_ORDER_REGISTER, every tag of tags/ by NCC_TAG_REGISTER, every message transport of transports/
# by NCC_TP_REGISTER and every front end of fronts/ by NCC_FRONT_REGISTER, and writes the tables of all of them: adding
# one edits nothing else.
#
# ncc_registered(<folder> <regex> <suffix> <rows>): includes of the headers with a line <regex>(<name of the file>,
# appended to ncc_includes, and rows of their table in <rows>.
function(ncc_registered folder macro suffix rows)
  set(includes "")
  set(table "")
  file(GLOB headers CONFIGURE_DEPENDS "${NCC_BASELINES}/${folder}*.h")
  foreach(header IN LISTS headers)
    get_filename_component(name "${header}" NAME_WE)
    file(STRINGS "${header}" registered REGEX "^${macro}\\(${name},")
    if(registered)
      string(APPEND includes "#include \"${folder}${name}.h\"\n")
      string(APPEND table "    &${name}${suffix},\n")
    endif()
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${header}")
  endforeach()
  set(ncc_includes "${ncc_includes}${includes}" PARENT_SCOPE)
  set(${rows} "${table}" PARENT_SCOPE)
endfunction()
ncc_registered("" "NCC_CC_REGISTER(_RATE|_WITH)?" _ops ncc_rows)
ncc_registered("" "NCC_SW_REGISTER(_INGRESS|_ROUTE|_QUEUES)?" _program ncc_program_rows)
ncc_registered("orders/" NCC_ORDER_REGISTER _order ncc_order_rows)
ncc_registered("tags/" NCC_TAG_REGISTER _tags ncc_tag_rows)
ncc_registered("transports/" "NCC_TP_REGISTER(_LEAVES)?" _transport ncc_tp_rows)
set(ncc_others "${ncc_includes}")
set(ncc_includes "")
ncc_registered("fronts/" "NCC_FRONT_REGISTER(_TICK)?" _front ncc_front_rows)
file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/generated/ncc_fronts.h" CONTENT
"/* Written by controllers.cmake; the traffic program on Linux takes nothing else. */
#pragma once
#include \"front.h\"
@ncc_includes@
static const struct ncc_front_ops *const ncc_front_table[] = {
@ncc_front_rows@};
" @ONLY)
file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/generated/ncc_controllers.h" CONTENT
"/* Written by controllers.cmake. */
#pragma once
#include \"flow_order.h\"
#include \"flow_tag.h\"
#include \"ncc_fronts.h\"
#include \"switch.h\"
#include \"transport.h\"
@ncc_others@
static const struct ncc_cc_ops *const ncc_cc_table[] = {
@ncc_rows@};

static const struct ncc_order_ops *const ncc_order_table[] = {
@ncc_order_rows@};

static const struct ncc_sw_ops *const ncc_program_table[] = {
@ncc_program_rows@};

static const struct ncc_tag_ops *const ncc_tag_table[] = {
@ncc_tag_rows@};

static const struct ncc_tp_ops *const ncc_tp_table[] = {
@ncc_tp_rows@};
" @ONLY)
add_library(ncc_controllers INTERFACE)
target_include_directories(ncc_controllers INTERFACE "${NCC_BASELINES}" "${CMAKE_CURRENT_BINARY_DIR}/generated")
