# SPDX-License-Identifier: BSD-3-Clause
"""All experiments in one page: the paper's values beside ours, what was expected and whether it is so, the figures."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import product
from typing import Any

from ncc.captions import WARNED
from ncc.experiment.gather import Results, figure_name
from ncc.experiment.spec import Experiment

SPDX = "<!-- SPDX-License-Identifier: BSD-3-Clause -->"
HEAD = "# Experiments: the papers' figures, and ours"
AGREE_FRAC = 0.05
"""Ratios of two datapaths further from 1 are set in bold."""
_HTML = """<!DOCTYPE html>
{spdx}
<html lang="en">
<head>
<meta charset="utf-8">
<title>ncc experiments</title>
<style>
body {{ font: 16px/1.5 sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; color: #222; }}
table {{ border-collapse: collapse; margin: 1rem 0; font-size: 90%; }}
th, td {{ border: 1px solid #ccc; padding: 0.25rem 0.6rem; text-align: left; vertical-align: top; }}
th {{ background: #f4f4f4; }}
img {{ max-width: 100%; }}
</style>
</head>
<body>
{body}</body>
</html>
"""


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
    parts = [
        SPDX,
        HEAD,
        "Written by `ncc report` from the JSON files beside it. Each experiment is one YAML in "
        "`configs/experiment/`; `ncc evaluate experiment=<name>` runs it, `preset=quick` in seconds. Values "
        "are means over seeds [95 % bootstrap interval]; hollow marks in figures are the paper's values. A shape is "
        "what the paper's figure says in words; its numbers are of another machine or simulator, and stand beside "
        "ours.",
        _overview(found, stale, experiments),
    ]
    if missing:
        parts.append("Not run yet: " + ", ".join(f"`{name}`" for name in missing) + ".")
    for name, results in found.items():
        parts += _experiment(name, results, stale.get(name, ""), experiments.get(name))
    return "\n\n".join(parts) + "\n"


def html_page(markdown: str) -> str:
    """The Markdown page as one HTML file."""
    from markdown_it import MarkdownIt

    text = markdown.removeprefix(SPDX).lstrip()
    return _HTML.format(spdx=SPDX, body=MarkdownIt("commonmark").enable("table").render(text))


def _overview(found: Mapping[str, Results], stale: Mapping[str, str], experiments: Mapping[str, Experiment]) -> str:
    datapaths = sorted({datapath for results in found.values() for datapath in results})
    rows = []
    for name, results in found.items():
        paper = _words(results, experiments.get(name))["paper"]
        verdicts = [_word(results[d]) if d in results else "" for d in datapaths]
        old = " (older than the experiment)" if name in stale else ""
        rows.append([f"[{name}](#{name})", f"{_plain(paper['title'])}, {_plain(paper['figure'])}", *verdicts])
        rows[-1][0] += old
    return _table(["", "paper", *datapaths], rows)


def _word(result: Mapping[str, Any]) -> str:
    judged = [check["holds"] for check in result["checks"] if check["holds"] is not None]
    return (
        "shape holds" if result["holds"] else "**shape does not hold**"
    ) + f", {sum(judged)} of {len(judged)} checks"


def _words(results: Results, now: Experiment | None) -> dict[str, Any]:
    """Title, paper, notes and what the checks say (by name), of the experiment as it is now where there is one."""
    if now is not None:
        says = {name: check.says for name, check in now.checks.items()}
        return {"title": now.title, "paper": now.paper.to_dict(), "notes": now.notes, "says": says}
    first = next(iter(results.values()))
    return {key: first[key] for key in ("title", "paper", "notes")} | {"says": _says(results)}


def _says(results: Results) -> dict[str, str]:
    """What the checks said when they were judged."""
    return {check["name"]: check["says"] for result in results.values() for check in result["checks"]}


def _experiment(name: str, results: Results, stale: str, now: Experiment | None) -> list[str]:
    words = _words(results, now)
    paper = words["paper"]
    return [
        f"## {name}",
        f"**{_plain(words['title'])}** ({_plain(paper['title'])}, {_plain(paper['figure'])}, section "
        f"{_plain(paper['section'])})",
        f"The paper: {_plain(paper['shows'])}",
        *([f"Set-up: {_plain(words['notes'])}"] if words["notes"] else []),
        *([f"**{stale}**"] if stale else []),
        *(f"![{name} on {datapath}]({figure_name(name, datapath)})" for datapath in results),
        _checks(results, words["says"]),
        *([beside] if (beside := _beside(results)) else []),
        *(_values(datapath, result) for datapath, result in results.items()),
        *([ratios] if (ratios := _ratios(results)) else []),
        *(_facts(datapath, result) for datapath, result in results.items()),
    ]


def _checks(results: Results, says: Mapping[str, str]) -> str:
    """Every check that there is now (`says`), and at the end those that a result has and the experiment no more."""
    rows = []
    dropped = {name: said for name, said in _says(results).items() if name not in says}
    for name, said in [*says.items(), *dropped.items()]:
        cells = []
        for result in results.values():
            found = next((check for check in result["checks"] if check["name"] == name), None)
            if found is None:
                cells.append("not judged in this result")
                continue
            word = {True: "holds", False: "**does not hold**", None: "not judged"}[found["holds"]]
            cells.append(f"{word}: {_plain(found['numbers'])}")
        rows.append([_plain(said) + (" (no check of the experiment any more)" if name in dropped else ""), *cells])
    return _table(["expected", *results], rows)


def _beside(results: Results) -> str:
    """The paper's values and ours."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for datapath, result in results.items():
        for cell in result["cells"]:
            if cell["paper"] is None:
                continue
            measure = result["measures"][cell["measure"]]
            key = (measure["title"], result["contenders"][cell["contender"]], _at(result, cell["at"]))
            row = rows.setdefault(key, [_number(cell["paper"], measure), *[""] * len(results)])
            row[1 + list(results).index(datapath)] = _cell(cell, measure)
    if not rows:
        return ""
    sources = dict.fromkeys(_plain(value["source"]) for result in results.values() for value in result["values"])
    table = _table(["", "", "", "paper", *results], [[*map(_plain, key), *row] for key, row in rows.items()])
    return f"{table}\n\nThe paper's values: {'; '.join(sources)}."


def _values(datapath: str, result: Mapping[str, Any]) -> str:
    """Every number, a table for all: a row per measure and point, a column per contender."""
    cells = {(c["measure"], c["contender"], tuple(c["at"])): c for c in result["cells"]}
    rows = []
    for name, measure in result["measures"].items():
        for point in product(*(axis["points"] for axis in result["axes"].values())):
            shown = [_cell(cells[name, contender, point], measure) for contender in result["contenders"]]
            rows.append([_plain(measure["title"]), *map(_text, point), *shown])
    heads = [axis["label"] for axis in result["axes"].values()]
    warned = result.get("warnings", {})
    names = [_plain(called) + (f" {WARNED}" if name in warned else "") for name, called in result["contenders"].items()]
    runs = f", {result['runs_text']}" if "runs_text" in result else ""
    return f"On {datapath}{runs}:\n\n" + _table(["", *map(_plain, heads), *names], rows)


def _ratios(results: Results) -> str:
    """One datapath's means over the other's, where both ran the same on the same seeds; else nothing."""
    one, other = max(results), min(results)  # packetsim and ns3, which is what others are held against
    ours, theirs = results[one], results[other]
    if one == other or any(ours.get(key) is None or ours[key] != theirs.get(key) for key in ("runs", "seeds")):
        return ""
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    found = {(c["measure"], c["contender"], tuple(c["at"])): c["value"] for c in theirs["cells"]}
    for cell in ours["cells"]:
        measure, contender, at = key = (cell["measure"], cell["contender"], tuple(cell["at"]))
        row = rows.setdefault((ours["measures"][measure]["title"], *map(_text, at)), {})
        row[contender] = _ratio(cell["value"], found.get(key))
    names = ours["contenders"]
    heads = ["", *(_plain(axis["label"]) for axis in ours["axes"].values()), *map(_plain, names.values())]
    table = _table(heads, [[_plain(key[0]), *key[1:], *(row[name] for name in names)] for key, row in rows.items()])
    return (
        f"Agreement: {one} over {other}, means on the same flows; bold where they are more than 5 % apart:\n\n{table}"
    )


def _ratio(ours: float | None, theirs: float | None) -> str:
    if ours == theirs and ours is not None:
        return "1.000"
    if ours is None or not theirs:
        return "–"  # noqa: RUF001
    apart = abs(ours / theirs - 1) > AGREE_FRAC
    return f"**{ours / theirs:.3f}**" if apart else f"{ours / theirs:.3f}"


def _facts(datapath: str, result: Mapping[str, Any]) -> str:
    seeds = result["seeds"]
    facts = [
        f"{datapath}: preset {result['preset']}: {_plain(result['reduced'])}",
        f"seeds {seeds[0]} to {seeds[-1]}" + (f": {result['runs_text']}" if "runs_text" in result else ""),
        f"{result['n_flows']:,} flows",
        f"{result['cpu_s']:,.0f} CPU s",
        f"commit {', '.join(result['commits'])}",
    ]
    what = "invalid runs, which count as they ended and against their contenders"
    bad = [f"{what}: {_plain('; '.join(result['problems']))}"] if result["problems"] else []
    said = [
        f"{WARNED} {_plain(result['contenders'][name])}: {_plain('; '.join(why))}."
        for name, why in result.get("warnings", {}).items()
    ]
    return "\n\n".join(["; ".join([*facts, *bad]) + ".", *said])


def _at(result: Mapping[str, Any], at: Sequence[float | str]) -> str:
    return ", ".join(f"{axis} {_text(x)}" for axis, x in zip(result["axes"], at, strict=True))


def _cell(cell: Mapping[str, Any], measure: Mapping[str, Any]) -> str:
    value = _number(cell["value"], measure)
    if cell["low"] is not None and cell["low"] != cell["high"]:
        value += f" [{_number(cell['low'], measure)}, {_number(cell['high'], measure)}]"
    bad = cell.get("n_invalid", 0)
    return f"{value} ({bad} invalid)" if bad else value


def _number(value: float | None, measure: Mapping[str, Any]) -> str:
    return "–" if value is None else f"{value * measure['scale']:.{measure['digits']}f}"  # noqa: RUF001


def _text(x: float | str) -> str:
    return _plain(x) if isinstance(x, str) else f"{x:g}"


def _plain(text: str) -> str:
    """Text that Markdown and HTML take for text."""
    return escape(" ".join(text.split()), quote=False).replace("|", "\\|")


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *rows])
