# SPDX-License-Identifier: BSD-3-Clause
"""Writes the C++ side of the table of signals: ``python signals_header.py ncc/core/signals.py signals.h``.

The build runs this (signals.cmake) without having installed anything, so it imports the standard library only.
"""

import runpy
import sys
from pathlib import Path

HEAD = """// SPDX-License-Identifier: BSD-3-Clause
// Made from ncc/core/signals.py by signals_header.py, as the build does.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace ncc
{

constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kNotCounted = -1;
"""
COLUMNS = """
// Columns of an epoch, one for each signal of this scope, in arrays of the caller's: [kReals, n] and [kCounts, n].
struct {struct} {{
    static constexpr size_t kReals = {n_reals}, kCounts = {n_counts};
    double {reals};
    int64_t {counts};

    // Nothing is measured yet.
    {struct}(double *real, int64_t *count, size_t n)
        : {members}
    {{
        std::fill_n(real, kReals * n, kNotMeasured);
        std::fill_n(count, kCounts * n, kNotCounted);
    }}
}};
"""
ROW = """
// All signals of a {scope} over a run; nothing is measured yet.
struct {struct} {{
    double {reals};
    int64_t {counts};

    // Calls visit(name, member) for each signal, in the order of the table.
    template <typename Visit>
    static void Each(const Visit &visit)
    {{
{visits}
    }}
}};
"""


def columns(struct: str, reals: list[str], counts: list[str], prefix: str) -> str:
    """A struct of pointers to the columns of a scope."""
    rows = {
        name.removeprefix(prefix): f"{kind} + {i} * n"
        for kind, of in (("real", reals), ("count", counts))
        for i, name in enumerate(of)
    }
    return COLUMNS.format(
        struct=struct,
        n_reals=len(reals),
        n_counts=len(counts),
        reals=", ".join("*" + name.removeprefix(prefix) for name in reals),
        counts=", ".join("*" + name.removeprefix(prefix) for name in counts),
        members=", ".join(f"{name}({at})" for name, at in rows.items()),
    )


def row(struct: str, scope: str, names: list[str], reals: list[str]) -> str:
    """A struct of the values of one flow or port."""
    return ROW.format(
        struct=struct,
        scope=scope,
        reals=", ".join(f"{name} = kNotMeasured" for name in reals),
        counts=", ".join(f"{name} = kNotCounted" for name in names if name not in reals),
        visits="\n".join(f'        visit("{name}", &{struct}::{name});' for name in names),
    )


def header(table: Path) -> str:
    """The whole header."""
    names = runpy.run_path(str(table), run_name="signals")["names"]
    text = HEAD
    for struct, scope, prefix in (("HostColumns", "host", ""), ("UplinkColumns", "uplink", "upper_")):
        text += columns(struct, names(scope, count=False), names(scope, count=True), prefix)
    for struct, scope in (("FlowRow", "flow"), ("PortRow", "port")):
        text += row(struct, scope, names(scope), names(scope, count=False))
    return text + "\n} // namespace ncc\n"


if __name__ == "__main__":
    out = Path(sys.argv[2])
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(header(Path(sys.argv[1])), encoding="utf-8")
