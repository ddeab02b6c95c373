# SPDX-License-Identifier: BSD-3-Clause
"""Writes the C++ side of the table of signals: ``python signals_header.py ncc/core/signals.py signals.h``.

The build runs this (signals.cmake) before anything is installed, so it imports the standard library only.
"""

import runpy
import sys
from pathlib import Path

HEAD = """// SPDX-License-Identifier: BSD-3-Clause
// Made from ncc/core/signals.py by signals_header.py.
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
// Columns of an epoch, not measured yet, in arrays of the caller's: [kReals, n] and [kCounts, n].
struct {struct} {{
    static constexpr size_t kReals = {n_reals}, kCounts = {n_counts};
    {struct}(double *reals, int64_t *counts, size_t n) : {members}
    {{
        std::fill_n(reals, kReals * n, kNotMeasured);
        std::fill_n(counts, kCounts * n, kNotCounted);
    }}
    double {reals};
    int64_t {counts};
}};
"""
ROW = """
// The counts of a {scope} over a run, not measured yet; datapaths count in structs that begin with them.
struct {name}Counts {{
    int64_t {counts};
}};

// The signals of a {scope} over a run, not measured yet; `Each` calls visit(name, member) for all of them.
struct {name}Row : {name}Counts {{
    double {reals};
    template <typename Visit>
    static void Each(const Visit &visit)
    {{
        {visits}
    }}
}};
"""


def header(table: Path) -> str:
    """Return the text of the header for a table of signals."""
    names = runpy.run_path(str(table), run_name="signals")["names"]
    text = HEAD
    for struct, scope, prefix in (("HostColumns", "host", ""), ("UplinkColumns", "uplink", "uplink_")):
        reals, counts = ([name.removeprefix(prefix) for name in names(scope, count=count)] for count in (False, True))
        members = [f"{name}(reals + {i} * n)" for i, name in enumerate(reals)]
        members += [f"{name}(counts + {i} * n)" for i, name in enumerate(counts)]
        text += COLUMNS.format(
            struct=struct,
            n_reals=len(reals),
            n_counts=len(counts),
            members=", ".join(members),
            reals=", ".join(f"*{name}" for name in reals),
            counts=", ".join(f"*{name}" for name in counts),
        )
    for name, scope in (("Flow", "flow"), ("Port", "port")):
        text += ROW.format(
            name=name,
            scope=scope,
            reals=", ".join(f"{signal} = kNotMeasured" for signal in names(scope, count=False)),
            counts=", ".join(f"{signal} = kNotCounted" for signal in names(scope, count=True)),
            visits="\n        ".join(f'visit("{signal}", &{name}Row::{signal});' for signal in names(scope)),
        )
    return text + "\n} // namespace ncc\n"


if __name__ == "__main__":
    out = Path(sys.argv[2])
    out.parent.mkdir(parents=True, exist_ok=True)
    text = header(Path(sys.argv[1]))
    # cmake runs this at every build. Writing the file anew would recompile all files that include it.
    if not out.exists() or out.read_text(encoding="utf-8") != text:
        out.write_text(text, encoding="utf-8")
