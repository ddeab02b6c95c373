# SPDX-License-Identifier: BSD-3-Clause
"""The summary of a matrix as Markdown and JSON."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ncc.harness.atomic import write_text
from ncc.matrix.run import METRICS, Summary
from ncc.metrics.catalogue import CATALOGUE

README, JSON = "README.md", "results.json"
DEPTH = 4
"""Of results.json: summary, cases, a case, its controllers."""
SPDX = "<!-- SPDX-License-Identifier: BSD-3-Clause -->"


def write(summary: Summary, folder: Path) -> None:
    """Write both into `folder`."""
    write_text(folder / JSON, _json(summary, DEPTH) + "\n")
    write_text(folder / README, page(summary))


def _json(value: Any, depth: int, indent: str = " ") -> str:
    """Mappings open over so many levels, what is below on one line: a line per case, controller and metric."""
    if depth == 0 or not isinstance(value, Mapping) or not value:
        return json.dumps(value, allow_nan=False)
    entries = [f"{indent}{json.dumps(key)}: {_json(part, depth - 1, indent + ' ')}" for key, part in value.items()]
    return "{\n" + ",\n".join(entries) + f"\n{indent[:-1]}}}"


def page(summary: Summary) -> str:
    """The Markdown page."""
    seeds, cases = summary["seeds"], summary["cases"]
    total = sum(entry["flows"] for case in cases.values() for entry in case["controllers"].values())
    cpu_s = sum(entry["cpu_s"] for case in cases.values() for entry in case["controllers"].values())
    parts = [
        SPDX,
        "# Every controller in every kind of network",
        f"Written by `{summary['command']}` from the runs of commit {', '.join(summary['commits'])}; per seed in "
        f"[{JSON}]({JSON}). {len(summary['controllers'])} controllers x {len(cases)} networks x {len(seeds)} seeds "
        f"({seeds[0]} to {seeds[-1]}) on {summary['datapath']}: **{total:,} flows, every one delivered**, in "
        f"{cpu_s:.0f} s of CPU time on {summary['processor']}. A run with a flow that is not delivered fails the "
        "command, by name.",
        "This says what runs and roughly how, not who is best: parameters are the defaults of the headers unless a "
        "table says otherwise, and NCC's policies come from trainings so short that they show that it runs. Values "
        "are means over seeds [95 % bootstrap interval]; seeds share their flows.",
    ]
    parts += [text for name, case in cases.items() for text in _case(name, case, summary["controllers"])]
    if summary["trainings"]:
        rows = [
            [name, t["scenario"], ", ".join(f"{key} {value}" for key, value in t["agent"].items()), str(t["seed"])]
            for name, t in summary["trainings"].items()
        ]
        parts += ["## Trainings", _table(["policy", "scenario", "agent", "seed"], rows)]
    return "\n\n".join(parts) + "\n"


def _case(name: str, case: Mapping[str, Any], labels: Mapping[str, str]) -> list[str]:
    told = [
        f"{labels[controller]}: {', '.join(f'{key} = {value}' for key, value in entry['params'].items())}"
        for controller, entry in case["controllers"].items()
        if entry["params"]
    ]
    metrics = [
        metric
        for metric in METRICS
        if any(entry["metrics"][metric]["mean"] is not None for entry in case["controllers"].values())
    ]
    head = ["", "flows", "delivered", *(CATALOGUE[metric].title.replace("<", "&lt;") for metric in metrics)]
    rows = [
        [
            labels[controller],
            f"{entry['flows']:,}",
            f"{entry['finished']:,}",
            *(_cell(metric, entry["metrics"][metric]) for metric in metrics),
        ]
        for controller, entry in case["controllers"].items()
    ]
    about = f"`{' '.join(case['overrides'])}`; {case['hosts']} hosts, arrivals for {case['duration_s']:g} s."
    if told:
        about += f" Told of the network: {'; '.join(told)}."
    return [f"## {case['title']}", f"`{name}`: {about}", _table(head, rows)]


def _cell(metric: str, cell: Mapping[str, Any]) -> str:
    """Mean and interval, in the catalogue's unit; of one value, or of equal ones, without an interval."""
    row = CATALOGUE[metric]
    if cell["mean"] is None:
        return "–"  # noqa: RUF001
    text = row.text(cell["mean"])
    if cell["low"] is None or cell["low"] == cell["high"]:
        return text
    return f"{text} [{row.text(cell['low'])}, {row.text(cell['high'])}]"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    ruler = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ruler, *rows])
