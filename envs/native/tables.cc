// SPDX-License-Identifier: BSD-3-Clause
// Rows of the registered headers by name. With NCC_TESTS there are those of tests/native too, and with
// NCC_PLAY the one that a browser's user writes. No other file of the simulators includes the headers, so a change to
// one compiles this file alone.
#include "controllers.h"
#include "programs.h"
#include "transports.h"

#include "ncc_controllers.h"

#include <algorithm>
#include <iterator>

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

namespace
{

// Returns the row of that name in a table of registered headers, or null.
template <class Ops, size_t n>
const Ops *RowIn(const Ops *const (&table)[n], const std::string &name)
{
    const auto found = std::find_if(std::begin(table), std::end(table), [&](auto *ops) { return name == ops->name; });
    return found == std::end(table) ? nullptr : *found;
}

} // namespace

const ncc_order_ops &FindOrder(const std::string &name) { return *RowIn(ncc_order_table, name); }

const ncc_tag_ops &FindTags(const std::string &name) { return *RowIn(ncc_tag_table, name); }

const ncc_front_ops &FindFront(const std::string &name) { return *RowIn(ncc_front_table, name); }

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
