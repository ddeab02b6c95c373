# SPDX-License-Identifier: BSD-3-Clause
"""Pages of experiments: an index with a verdict for each datapath, a page per system, and tables of all numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

from ncc.results.captions import WARNED
from ncc.results.grid import markdown_grid, markdown_table
from ncc.study.league import League
from ncc.study.page import DASH, README, number, plain, point, render, spread
from ncc.study.result import FULL
from ncc.study.spec import Experiment

Results = dict[str, dict[str, Any]]
"""Results of an experiment by datapath, as `ncc.study.result.Result.to_dict` returns them."""
Rows = list[list[str]]
WORDS = {True: "holds", False: "**does not hold**", None: "not judged"}
NARROWLY = ", narrowly"
FEW_POINTS = 3
"""If a check holds at more points than these, its page shows the numbers of the first and the last point only."""


WRITTEN = "Written by `ncc report`"
"""Text that marks a page of a system as written by this module."""


def pages(
    published: Mapping[str, Results], experiments: Mapping[str, Experiment], old: Mapping[str, Sequence[str]]
) -> dict[str, str]:
    """Write all pages, as Markdown by file name.

    Args:
        published: results of experiments, by the experiment's name.
        experiments: experiments by name, for their texts. One without a result has only a row in the index.
        old: datapaths whose result is of an earlier version of the experiment, by the experiment's name.
    """
    datapaths = sorted({datapath for results in published.values() for datapath in results})
    shown = [_experiment(name, published[name], experiments[name], old.get(name, ())) for name in published]
    rows = {
        entry["name"]: [
            f"[{entry['name']}]({entry['system']}.md#{entry['name']})",
            *(plain(words) for words in (entry["title"], entry["paper"]["figure"])),
            *(entry["verdicts"].get(datapath, "") for datapath in datapaths),
        ]
        for entry in shown
    }
    for name in experiments.keys() - published.keys():
        words = experiments[name]
        rows[name] = [f"{name} *not run*", plain(words.title), plain(words.paper.figure), *[""] * len(datapaths)]
    index = render("experiments.md.jinja", datapaths=datapaths, rows=[row for _, row in sorted(rows.items())])
    systems = {entry["system"]: [one for one in shown if one["system"] == entry["system"]] for entry in shown}
    return {README: index} | {
        f"{system}.md": render("experiments_system.md.jinja", system=system, shown=of, written=WRITTEN)
        for system, of in systems.items()
    }


def full_tables(name: str, results: Results) -> str:
    """Table of all numbers of an experiment, as Markdown.

    It has a row for each measure, point and contender, and a column for each datapath.
    """
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    notes = []
    for datapath, result in results.items():
        warned = result.get("warnings", {})
        named = {key: plain(text) + f" {WARNED}" * (key in warned) for key, text in result["contenders"].items()}
        for cell in result["cells"]:
            measure = result["measures"][cell["measure"]]
            row = rows.setdefault((plain(measure["title"]), *map(point, cell["at"]), named[cell["contender"]]), {})
            row[datapath] = _cell(cell, measure)
        notes.append(f"{_runs(result)} {result['n_flows']:,} flows, {result['cpu_s']:,.0f} CPU s.")
        notes += [
            f"{WARNED} {plain(result['contenders'][key])}: {plain('; '.join(why))}." for key, why in warned.items()
        ]
        if result["problems"]:
            problems = plain("; ".join(result["problems"]))
            notes.append(f"Invalid runs count as they ended, and against their contenders: {problems}.")
    axes = [plain(axis["label"]) for axis in next(iter(results.values()))["axes"].values()]
    table = markdown_table(
        ["means over seeds [95 % bootstrap interval]", *axes, "contender", *results],
        [[*key, *(values.get(datapath, DASH) for datapath in results)] for key, values in rows.items()],
    )
    return "\n\n".join([f"### {name}: every number", *notes, table]) + "\n"


def _experiment(name: str, results: Results, now: Experiment, old: Sequence[str]) -> dict[str, Any]:
    """Collect the data of an experiment for the template of a page."""
    return {
        "name": name,
        "system": name.partition("_")[0],
        "title": now.title,
        "paper": now.paper.to_dict(),
        "notes": now.notes,
        "reduced": now.presets[FULL].reduced if FULL in now.presets else "",
        "verdicts": {at: _verdict(result) + (" *old*" if at in old else "") for at, result in results.items()},
        "runs": [_runs(result) for result in results.values()],
        "checks": _checks(results, now),
        "beside": _beside(results),
        "leagues": [_league(result) for result in results.values() if "per_seed" in result],
        "sources": [value["source"] for result in results.values() for value in result["values"]],
    }


def _league(result: Mapping[str, Any]) -> dict[str, Any]:
    """Tables of ranks as Markdown, and the needs that are not met."""
    league = League(result)
    cannot = [[plain(text) for text in entry] for entry in league.cannot()]
    return {"grids": [markdown_grid(grid) for grid in league.grids()], "cannot": cannot}


def _verdict(result: Mapping[str, Any]) -> str:
    judged = [check["holds"] for check in result["checks"] if check["holds"] is not None]
    narrow = sum(check.get("narrow", False) for check in result["checks"])
    counted = f"{sum(judged)} of {len(judged)}" + (f", {narrow} narrowly" if narrow else "")
    return f"{WORDS[result['holds']]} ({counted})"


def _runs(result: Mapping[str, Any]) -> str:
    """Describe the runs of a result in a sentence."""
    seeds, bad, warned = result["seeds"], len(result["problems"]), result.get("warnings", {})
    parts = [result.get("runs_text") or f"{len(seeds)} seeds", f"commit {', '.join(result['commits'])}"]
    parts += [f"invalid runs, which count against their contenders: {bad}"] * bool(bad)
    parts += [f"with warnings: {', '.join(plain(result['contenders'][name]) for name in warned)}"] * bool(warned)
    return f"On {result['datapath']}: {'; '.join(parts)}."


def _checks(results: Results, now: Experiment) -> Rows:
    """Make a row for each check: its claim, then its outcome on each datapath."""
    rows = []
    for name, check in now.checks.items():
        cells = [
            next(
                (_outcome(judged) for judged in result["checks"] if judged["name"] == name), "not judged in this result"
            )
            for result in results.values()
        ]
        rows.append([plain(check.claim), *cells])
    return rows


def _outcome(check: Mapping[str, Any]) -> str:
    """Text with the outcome of a check and its numbers, shortened as `FEW_POINTS` says."""
    points = plain(check["numbers"]).split("; ")
    if check["holds"] and len(points) > FEW_POINTS:
        points[1:-1] = ["..."]
    return f"{WORDS[check['holds']]}{NARROWLY * check.get('narrow', False)}: {'; '.join(points)}"


def _beside(results: Results) -> list[str]:
    """Texts, one for each measure, that put the paper's values beside ours on each datapath."""
    rows_of: dict[str, dict[str, dict[str, str]]] = {}
    for datapath, result in results.items():
        for cell in result["cells"]:
            if cell["paper"] is None:
                continue
            measure = result["measures"][cell["measure"]]
            at = [f"{axis} {point(x)}" for axis, x in zip(result["axes"], cell["at"], strict=True)]
            where = plain(", ".join([result["contenders"][cell["contender"]], *at]))
            values = rows_of.setdefault(plain(measure["title"]), {}).setdefault(where, {})
            for column, value in (("paper", cell["paper"]), (datapath, cell["value"])):
                values[column] = number(value, measure["scale"], measure["digits"])
    columns = ["paper", *results]
    return [
        f"{title}, {' / '.join(columns)}: "
        + "; ".join(f"{at}: {' / '.join(values.get(name, DASH) for name in columns)}" for at, values in rows.items())
        for title, rows in rows_of.items()
    ]


def _cell(cell: Mapping[str, Any], measure: Mapping[str, Any]) -> str:
    value = spread(cell["value"], cell["low"], cell["high"], measure["scale"], measure["digits"])
    bad = cell.get("n_invalid", 0)
    return f"{value} ({bad} invalid)" if bad else value
