# SPDX-License-Identifier: BSD-3-Clause
"""``ncc host report``: everything that the Linux datapath has to show, measured on this machine."""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from ncc.core.errors import ConfigError, DatapathError
from ncc.envs.linux.check import can_run, check_machine
from ncc.harness.atomic import write_text
from ncc.harness.manifest import provenance
from ncc.host.costs import callbacks, cost, verifier
from ncc.host.deadlines import deadlines, effect, timer
from ncc.host.faults import faults
from ncc.host.page import filled
from ncc.host.parity import parity, variants
from ncc.host.pauses import pauses
from ncc.host.policy import rates, table
from ncc.host.runs import FULL, QUICK, Preset

PARTS: dict[str, Callable[[Preset], dict[str, Any]]] = {
    "deadlines": deadlines,
    "timer": timer,
    "pauses": pauses,
    "effect": effect,
    "cost": cost,
    "callbacks": callbacks,
    "verifier": verifier,
    "parity": parity,
    "variants": variants,
    "rates": rates,
    "table": table,
    "faults": faults,
}
"""In the order in which they are measured."""
PAGE, RESULTS = "README.md", "results.json"
DOCS = Path("docs/linux")


def report(console: Console, out: Path | None, parts: Sequence[str] | None, *, quick: bool) -> int:
    """Measure parts (None: all; none: nothing, the page is only made anew) and write the page and its figures.

    What is not measured stays as it was. The page's text is written by hand: it is taken from `out`, or else from
    docs/linux, and the tables between its marks are made anew.

    Raises:
        ConfigError: an unknown part, or no page to fill.
        DatapathError: the machine cannot run all this.
    """
    chosen = tuple(PARTS) if parts is None else tuple(parts)
    if unknown := [name for name in chosen if name not in PARTS]:
        raise ConfigError(f"the report has no part {unknown[0]!r}; it has: {', '.join(PARTS)}")
    if chosen and not can_run(rows := check_machine()):
        missing = next(row for row in rows if row.needed and row.state.value != "yes")
        raise DatapathError(f"No run on linux is possible here: {missing.name}: {missing.sentence}.")
    preset = QUICK if quick else FULL
    folder = out or (Path("runs/host") / preset.name if quick else DOCS)
    page = next((path for path in (folder / PAGE, DOCS / PAGE) if path.is_file()), None)
    if page is None:
        raise ConfigError(f"{DOCS / PAGE} is not here: run the report in the root of a checkout")
    results = json.loads((folder / RESULTS).read_text()) if (folder / RESULTS).is_file() else {}
    for name in chosen:
        began = time.monotonic()
        with console.status(f"measuring: {name}"):
            found = PARTS[name](preset)
        made = provenance()
        results[name] = {"preset": preset.to_dict(), "provenance": made, **found}
        console.print(f"{name}: {time.monotonic() - began:.0f} s", highlight=False)
        write_text(folder / RESULTS, _json(results))  # what was measured stays, whatever comes next
    write_text(folder / PAGE, filled(page.read_text(), results))
    console.print(f"Written to {folder}", highlight=False)
    return 0


def _json(results: dict[str, Any]) -> str:
    """A line per row of a part, so that two reports can be compared line by line."""
    parts = []
    for name in (name for name in PARTS if name in results):
        fields = []
        for key, value in results[name].items():
            if isinstance(value, list) and value and isinstance(value[0], dict):
                rows = ",\n".join(f"   {json.dumps(row, allow_nan=False)}" for row in value)
                fields.append(f"  {json.dumps(key)}: [\n{rows}\n  ]")
            else:
                fields.append(f"  {json.dumps(key)}: {json.dumps(value, allow_nan=False)}")
        parts.append(f" {json.dumps(name)}: {{\n" + ",\n".join(fields) + "\n }")
    return "{\n" + ",\n".join(parts) + "\n}\n"
