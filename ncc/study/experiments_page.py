# SPDX-License-Identifier: BSD-3-Clause
"""All experiments in one page: the paper's values beside ours, what was expected and whether it is so, the figures."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from ncc.results.captions import WARNED
from ncc.study.page import DASH, number, plain, point, render, spread
from ncc.study.spec import Experiment

Results = dict[str, dict[str, Any]]
"""`ncc.study.result.Result.to_dict` by datapath."""
AGREE_FRAC = 0.05
"""Ratios of two datapaths further from 1 are set in bold."""
Rows = list[list[str]]
WORDS = {True: "holds", False: "**does not hold**", None: "not judged"}
NARROWLY = ", narrowly"


def markdown_page(
    found: Mapping[str, Results],
    stale: Mapping[str, str],
    missing: Sequence[str],
    experiments: Mapping[str, Experiment],
) -> str:
    """The page as Markdown.

    Args:
        stale: by experiment, why its result is not that of the experiment as it is now.
        missing: experiments without a result.
        experiments: as they are now: their words stand in the page. Without one, those of its result do.
    """
    datapaths = sorted({datapath for results in found.values() for datapath in results})
    shown = [_experiment(name, results, stale.get(name, ""), experiments.get(name)) for name, results in found.items()]
    return render(
        "experiments.md.jinja",
        datapaths=datapaths,
        overview=[_overview(each, datapaths) for each in shown],
        missing=missing,
        experiments=shown,
        warned=WARNED,
    )


def html_page(markdown: str) -> str:
    """The Markdown page as one HTML file."""
    from markdown_it import MarkdownIt

    _, _, text = markdown.partition("\n\n")  # without the licence, which the HTML has a line of its own for
    return render("experiments.html.jinja", body=MarkdownIt("commonmark").enable("table").render(text))


def _overview(shown: Mapping[str, Any], datapaths: Sequence[str]) -> list[str]:
    name, paper = shown["name"], shown["paper"]
    old = " (older than the experiment)" if shown["stale"] else ""
    verdicts = [_verdict(shown["results"][d]) if d in shown["results"] else "" for d in datapaths]
    return [f"[{name}](#{name}){old}", f"{plain(paper['title'])}, {plain(paper['figure'])}", *verdicts]


def _verdict(result: Mapping[str, Any]) -> str:
    judged = [check["holds"] for check in result["checks"] if check["holds"] is not None]
    shape = "shape holds" if result["holds"] else "**shape does not hold**"
    narrow = sum(check.get("narrow", False) for check in result["checks"])
    return f"{shape}, {sum(judged)} of {len(judged)} checks" + (f", {narrow} narrowly" if narrow else "")


def _experiment(name: str, results: Results, stale: str, now: Experiment | None) -> dict[str, Any]:
    """The template's data of an experiment, in the words of the experiment as it is now, if there is one."""
    first = next(iter(results.values()))
    before = {check["name"]: check["claim"] for result in results.values() for check in result["checks"]}
    words = {key: first[key] for key in ("title", "paper", "notes")}
    if now is not None:
        words = {"title": now.title, "paper": now.paper.to_dict(), "notes": now.notes}
    claims = before if now is None else {key: check.claim for key, check in now.checks.items()}
    return {
        "name": name,
        "results": results,
        "stale": stale,
        **words,
        "checks": _checks(results, claims, {key: text for key, text in before.items() if key not in claims}),
        "beside": _beside(results),
        "sources": [value["source"] for result in results.values() for value in result["values"]],
        "numbers": {datapath: _values(result) for datapath, result in results.items()},
        "ratios": _ratios(results),
    }


def _checks(results: Results, claims: Mapping[str, str], dropped: Mapping[str, str]) -> Rows:
    """Every check of the experiment; at the end those of results that it no longer has."""
    rows = []
    for name, text in [*claims.items(), *dropped.items()]:
        cells = []
        for result in results.values():
            found = [check for check in result["checks"] if check["name"] == name]
            said = [f"{WORDS[c['holds']]}{NARROWLY * c.get('narrow', False)}: {plain(c['numbers'])}" for c in found]
            cells += said or ["not judged in this result"]
        rows.append([plain(text) + (" (no longer a check of the experiment)" if name in dropped else ""), *cells])
    return rows


def _beside(results: Results) -> Rows:
    """The paper's values and ours."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for i, result in enumerate(results.values()):
        for cell in result["cells"]:
            if cell["paper"] is None:
                continue
            measure = result["measures"][cell["measure"]]
            at = ", ".join(f"{axis} {point(x)}" for axis, x in zip(result["axes"], cell["at"], strict=True))
            key = (plain(measure["title"]), plain(result["contenders"][cell["contender"]]), plain(at))
            paper = number(cell["paper"], measure["scale"], measure["digits"])
            rows.setdefault(key, [paper, *[""] * len(results)])[1 + i] = _cell(cell, measure)
    return [[*key, *row] for key, row in rows.items()]


def _values(result: Mapping[str, Any]) -> tuple[list[str], Rows]:
    """Head and rows of every number: a row per measure and point, a column per contender."""
    cells = {(c["measure"], c["contender"], tuple(c["at"])): c for c in result["cells"]}
    rows = []
    for name, measure in result["measures"].items():
        for at in product(*(axis["points"] for axis in result["axes"].values())):
            shown = [_cell(cells[name, contender, at], measure) for contender in result["contenders"]]
            rows.append([plain(measure["title"]), *map(point, at), *shown])
    warned = result.get("warnings", {})
    names = [plain(called) + (f" {WARNED}" if name in warned else "") for name, called in result["contenders"].items()]
    return ["", *(plain(axis["label"]) for axis in result["axes"].values()), *names], rows


def _ratios(results: Results) -> tuple[list[str], Rows] | None:
    """Head and rows of one datapath's means over the other's; None unless both ran the same on the same seeds."""
    one, other = max(results), min(results)  # packetsim and ns3, which is what others are held against
    ours, theirs = results[one], results[other]
    if one == other or any(ours.get(key) is None or ours[key] != theirs.get(key) for key in ("runs", "seeds")):
        return None
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    found = {(c["measure"], c["contender"], tuple(c["at"])): c["value"] for c in theirs["cells"]}
    for cell in ours["cells"]:
        measure, contender, at = key = (cell["measure"], cell["contender"], tuple(cell["at"]))
        row = rows.setdefault((plain(ours["measures"][measure]["title"]), *map(point, at)), {})
        row[contender] = _ratio(cell["value"], found.get(key))
    heads = [*(axis["label"] for axis in ours["axes"].values()), *ours["contenders"].values()]
    return ["", *map(plain, heads)], [[*key, *(row[name] for name in ours["contenders"])] for key, row in rows.items()]


def _ratio(ours: float | None, theirs: float | None) -> str:
    if ours == theirs and ours is not None:
        return "1.000"
    if ours is None or not theirs:
        return DASH
    text = f"{ours / theirs:.3f}"
    return f"**{text}**" if abs(ours / theirs - 1) > AGREE_FRAC else text


def _cell(cell: Mapping[str, Any], measure: Mapping[str, Any]) -> str:
    value = spread(cell["value"], cell["low"], cell["high"], measure["scale"], measure["digits"])
    bad = cell.get("n_invalid", 0)
    return f"{value} ({bad} invalid)" if bad else value
