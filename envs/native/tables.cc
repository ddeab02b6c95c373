// SPDX-License-Identifier: BSD-3-Clause
// Rows of the registered headers by name. With NCC_TESTS there are those of tests/native too, and with
// NCC_PLAY the one that a browser's user writes.
#include "controllers.h"
#include "programs.h"
#include "transports.h"

#ifdef NCC_PLAY
#include "mine.h"
#endif
#ifdef NCC_TESTS
#include "test_program.h"
#include "test_transport.h"
#include "test_window.h"
#endif

namespace ncc
{

const ncc_cc_ops *FindController(const std::string &name)
{
#ifdef NCC_PLAY
    if (name == mine_ops.name) {
        return &mine_ops;
    }
#endif
#ifdef NCC_TESTS
    if (name == test_window_ops.name) {
        return &test_window_ops;
    }
#endif
    return RowIn(ncc_cc_table, name);
}

const ncc_sw_ops &FindProgram(const std::string &name)
{
#ifdef NCC_TESTS
    if (name == test_program_program.name) {
        return test_program_program;
    }
#endif
    return *RowIn(ncc_program_table, name);
}

const ncc_tp_ops *FindTransport(const std::string &name)
{
#ifdef NCC_TESTS
    if (name == test_transport_transport.name) {
        return &test_transport_transport;
    }
#endif
    return RowIn(ncc_tp_table, name);
}

bool HasMessages(const Spec &spec)
{
    bool has = false;
    for (size_t stack = 0; stack <= spec.stacks.size(); ++stack) {
        has |= FindTransport(spec.stack(stack).transport) != nullptr;
    }
    return has;
}

} // namespace ncc
