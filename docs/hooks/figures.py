# SPDX-License-Identifier: BSD-3-Clause
"""Tables in pages, made from committed results and the table of signals, so that no number is typed or out of date.

A page contains `<!-- figures: NAME -->` on a line of its own, which code hosts do not show; the site shows a table
there. A word after the name chooses a part: `<!-- figures: experiments bcc -->`.
"""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from docs.hooks import pages
from ncc.core.errors import NccError
from ncc.core.signals import SIGNALS
from ncc.results.grid import markdown_table
from ncc.study.experiments_page import full_tables
from ncc.study.report import read_all

MARK = re.compile(r"^<!-- figures: ([\w-]+)(?: (\w+))? -->$", re.MULTILINE)


class FiguresError(NccError):
    """A page asks for a table that does not exist, or a result lacks what the table shows."""


def filled(text: str, page: str) -> str:
    """Replace each mark in `text` by its table.

    Raises:
        FiguresError: no table has that name, or its result lacks something.
    """

    def table(mark: re.Match[str]) -> str:
        name = mark[1]
        if name not in TABLES:
            raise FiguresError(
                f"{page} asks for figures {name!r}; there are {', '.join(sorted(TABLES))}: name one of them."
            )
        folder, written = TABLES[name]
        try:
            return written(pages.ROOT / "docs" / folder, *filter(None, [mark[2]]))
        except (KeyError, IndexError, OSError, ValueError, TypeError) as error:
            wanted = f"{page} shows figures {name!r} of docs/{folder}, where {type(error).__name__} {error} came up"
            raise FiguresError(f"{wanted}: write that folder anew, or change docs/hooks/figures.py.") from error

    return MARK.sub(table, text)


def _read(path: Path) -> Mapping[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _agreement(folder: Path) -> str:
    result = _read(folder / "results.json")
    rows = []
    for name in result["controllers"]:
        load = [case for case in result["load"] if case["controller"] == name]
        small = [flow["same"] for flow in result["small"] if flow["controller"] == name]
        flows, same = sum(case["n_flows"] for case in load), sum(case["flows_same"] for case in load)
        rows.append((name, f"{sum(small)} of {len(small)}", f"{flows:,}", f"{same:,}"))
    head = ("controller", "equal flows of small cases", "flows under load", "of them equal to the nanosecond")
    return markdown_table(head, rows, "lr") + f"\n\n{_origin(result['git']['commit'], result['written_at'])}"


def _experiments(folder: Path, system: str = "") -> str:
    """Every number of a system's experiments; without one, a row per system."""
    if system:
        found = {name: results for name, results in read_all(folder).items() if name.startswith(f"{system}_")}
        return "## Every number\n\n" + "\n".join(full_tables(name, results) for name, results in found.items())
    counted: dict[str, list[tuple[bool, int, int]]] = {}
    for path in sorted(folder.glob("*.json")):
        family = path.stem.split("_")[0]
        for result in _read(path)["results"].values():
            held = [check["holds"] for check in result["checks"]]
            counted.setdefault(family, []).append((result["holds"], sum(map(bool, held)), len(held)))
    rows = [
        (
            f"`{name}_*`",
            len(of),
            sum(holds for holds, _, _ in of),
            f"{sum(n for _, n, _ in of)} of {sum(n for _, _, n in of)}",
        )
        for name, of in sorted(counted.items())
    ]
    every = [one for of in counted.values() for one in of]
    rows.append(
        (
            "all",
            len(every),
            sum(holds for holds, _, _ in every),
            f"{sum(n for _, n, _ in every)} of {sum(n for _, _, n in every)}",
        )
    )
    return markdown_table(("experiments", "results", "whose shape holds", "checks that hold"), rows, "lr")


def _signals(_: Path) -> str:
    rows = []
    for signal in SIGNALS.values():
        shared = signal.scope in {"host", "uplink"} and ("yes" if signal.shared_as else "no")
        how = signal.how or "as it says"
        rows.append((f"`{signal.name}`", signal.scope, signal.unit, signal.meaning, how, shared or ""))
    return markdown_table(("column", "scope", "unit", "meaning", "how it is computed", "sent to neighbours"), rows)


def _origin(commit: str, written_at: str) -> str:
    return f"From commit {commit[:10]}, written {written_at[:10]}."


TABLES: dict[str, tuple[str, Callable[..., str]]] = {
    "agreement": ("agreement", _agreement),
    "experiments": ("experiments", _experiments),
    "signals": ("", _signals),
}
"""Tables by name: the folder in docs/ with the results, if any, and the function that makes the table."""
