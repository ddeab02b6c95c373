# SPDX-License-Identifier: BSD-3-Clause
"""The page of the benchmark, docs/speed.md, and the sentence that says which machine it is from."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ncc.study.bench import GROUPS
from ncc.study.bench.rows import HEAD, Row
from ncc.study.page import plain, render
from ncc.study.result import commits_of

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


def page(found: Mapping[str, Sequence[Row]], preset: str, made_on: str) -> str:
    """The Markdown page of the rows of all groups."""
    groups = [
        {
            "name": name,
            "title": GROUPS[name]["title"],
            "table": (HEAD, [map(plain, row.cells()) for row in rows], "lrrrl"),
            "reasons": [row for row in rows if row.why],
        }
        for name, rows in found.items()
    ]
    return render("speed.md.jinja", groups=groups, preset=preset, made_on=made_on)


def machine(before: Mapping[str, Any], spent_s: float) -> str:
    """The machine and the state of it and of the checkout, as one sentence.

    Args:
        before: `ncc.harness.manifest.provenance` when the benchmark began.
    """
    (commit,) = commits_of([before])
    load = f"load average {before['load_average']['1_min']:.1f} before, {os.getloadavg()[0]:.1f} after"
    return (
        f"{before['processor']}, {before['cpus_usable']} cores, {_caches()}; {load}; "
        f"commit {commit}, {before['written_at'][:10]}, {spent_s:.0f} s."
    )


def _caches() -> str:
    """The data caches of a core, as the kernel lists them."""
    found = []
    for folder in sorted(CACHES.glob("index*")):
        level, kind, size = ((folder / name).read_text().strip() for name in ("level", "type", "size"))
        if kind != "Instruction":
            found.append(f"L{level} {size}")
    return f"caches {', '.join(found)}" if found else "caches unknown"
