# SPDX-License-Identifier: BSD-3-Clause
# signals.h: the table of signals in C++, made when cmake runs, which it does again when the table has changed.
include_guard(GLOBAL)
find_package(Python 3.11 COMPONENTS Interpreter REQUIRED)
set(ncc_signals "${CMAKE_CURRENT_LIST_DIR}/signals_header.py" "${NCC_CORE}/signals.py")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ncc_signals})
execute_process(COMMAND "${Python_EXECUTABLE}" -I ${ncc_signals} "${CMAKE_CURRENT_BINARY_DIR}/generated/signals.h"
                COMMAND_ERROR_IS_FATAL ANY)
