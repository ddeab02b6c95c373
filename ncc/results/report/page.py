# SPDX-License-Identifier: BSD-3-Clause
"""The report: one HTML file with a section for each run folder. It refers to no other file."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any

import ncc
from ncc.harness.manifest import now
from ncc.metrics.catalogue import CATALOGUE
from ncc.metrics.catalogue import HEADLINE as BRIEF
from ncc.results.captions import few_seeds, warning_lines
from ncc.results.closeup import Drawing
from ncc.results.comparison import Comparison
from ncc.results.figure_layout import SCREEN, FigureLayout
from ncc.results.grid import BEST, Grid
from ncc.results.palette import Style, label, styles
from ncc.results.plot import laid_out
from ncc.results.report.figures import closeup_figures, curve_figure, embedded, slowdown_figures
from ncc.results.report.sources import Source
from ncc.results.report.words import scenario_rows, training_rows
from ncc.results.table import BETTER, WORSE, differences, full_table, sentences
from ncc.results.verdict import opponent, subjects

GENERATOR = "ncc.report 1"
"""Text by which a page is known to be a report; a newer report may replace such a page."""
HEADLINE = "slowdown_all_mean", "slowdown_all_p99", "goodput_bps", "queue_delay_mean_s"
"""Metrics in the overview of all folders."""
PHONE = FigureLayout(width_in=3.5)
"""Layout of figures that narrow screens show in place of the others."""
SIDE_BY_SIDE = 4
"""Number of controllers that are drawn side by side unless they are named."""
_LINES = {"-": "solid", "--": "dashed", "-.": "dashed", ":": "dotted"}
_MARKS = {BEST: "best", BETTER: "better", WORSE: "worse"}


Part = dict[str, Any]
"""Content of the section of one folder, by the names that `page.html.jinja` uses."""


def part_of(
    source: Source,
    earlier: Sequence[Part],
    *,
    timeline: Sequence[str] | None = None,
    seed: int | None = None,
    windows: bool = False,
) -> Part:
    """Compute the content of a section.

    Args:
        earlier: sections above this one. A network that one of them describes is not described again.
        timeline: controllers that are drawn side by side; None: the first `SIDE_BY_SIDE`, one of them the reference.
        seed: seed of the runs that are drawn side by side; None: the smallest.
        windows: draw their congestion windows too, for which the runs are done again.

    Raises:
        UnknownNameError: `timeline` or `seed` names something that was not run.
        NccError: windows are wanted, and the runs cannot be done again.
    """
    judgement, training = source.judgement, source.training
    names, where = judgement.any.controllers, judgement.judged_by
    reference = reference_of(judgement.any)
    seed = min(judgement.any.seeds) if seed is None else seed
    first = [name for name in names if name != reference][: SIDE_BY_SIDE - 1]
    drawn = [name for name in names if name in (*first, reference)] if timeline is None else [*dict.fromkeys(timeline)]
    same = next((part["anchor"] for part in earlier if part["source"].scenario == source.scenario), "")
    return {
        "anchor": f"run{len(earlier) + 1}",
        "source": source,
        "reference": reference,
        "warnings": warnings(source),
        "scenario": [] if same else scenario_rows(source.scenario),
        "same_as": same,
        "training": [] if training is None else training_rows(training),
        "curve": curve_figure(source),
        "verdicts": [sentence for part in sentences(judgement) for sentence in part],
        "comparison": full_table(judgement),
        "differences": differences(judgement, reference, BRIEF) if len(names) > 1 else None,
        "slowdowns": [drawing for datapath in judgement.datapaths for drawing in slowdown_figures(source, datapath)],
        "closeups": closeup_figures(source.evaluations[where], drawn, seed, windows=windows),
        "seed": seed,
        "provenance": _provenance(source),
        "overview": _overview(source, dict.fromkeys((names[0], reference))),
    }


def reference_of(comparison: Comparison) -> str:
    """Name the controller from which differences are shown: the reference, DCTCP or else the verdict's opponent."""
    names = comparison.controllers
    if comparison.gap_start in names:
        return comparison.gap_start
    return opponent(comparison, subjects(comparison)[0]) or names[-1]


def warnings(source: Source) -> list[str]:
    """Sentences on facts that make numbers unusable, or less reliable than they look."""
    judgement = source.judgement
    texts = [line[0] for line in (*warning_lines(judgement), few_seeds(judgement)) if line is not None]
    for datapath, evaluation in source.evaluations.items():
        fell = evaluation.manifest.facts["fallbacks"]
        texts += [f"Fell back on {datapath}: {who}: {'; '.join(why)}" for who, why in fell.items()]
        texts += _facts(datapath, [run.manifest.facts.get("datapath_facts", {}) for run in evaluation.runs])
    dirty = [name for name, e in source.evaluations.items() if e.manifest.provenance["git"]["dirty"]]
    if dirty:
        texts.append(f"The runs on {' and '.join(dirty)} were made by code with changes that no commit has.")
    return texts


def _facts(datapath: str, facts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Sentences on facts that the datapath reported about its runs and that a reader must know."""
    lines = []
    if busy := sum(bool(one.get("busy")) for one in facts):
        lines.append(f"On {datapath} the machine was busy with something else before {busy} of {len(facts)} runs.")
    if missed := sum(one.get("missed_periods", 0) for one in facts):
        lines.append(f"On {datapath} {missed} of {sum(one.get('periods', 0) for one in facts)} periods were missed.")
    texts = dict.fromkeys(text for one in facts for text in one.get("not_honoured", ()))
    return lines + [f"On {datapath}: {text}" for text in texts]


def _provenance(source: Source) -> list[tuple[str, str]]:
    """Title and JSON text of the configuration and the provenance of the training, if any, and of each evaluation."""
    manifests = {f"the evaluation on {name}": evaluation.manifest for name, evaluation in source.evaluations.items()}
    plain = {what: {**manifest.facts, **manifest.provenance} for what, manifest in manifests.items()}
    if source.training is not None:
        made = source.training.manifest.provenance
        plain = {"the training": {"config": source.training.config, **made}, **plain}
    return [(f"Configuration and provenance of {what}", json.dumps(of, indent=1)) for what, of in plain.items()]


def drawings(part: Part) -> list[Drawing]:
    """All figures of a section."""
    return [*([part["curve"]] if part["curve"] else []), *part["slowdowns"], *part["closeups"]]


def render(parts: Sequence[Part], title: str | None, before_drawing: Callable[[Drawing], None] = lambda _: None) -> str:
    """Render the HTML text of the page.

    Args:
        parts: the sections, as `part_of` returns them.
        title: title of the page; None: a title made of the scenarios' names.
        before_drawing: function that is called before each figure is drawn.
    """

    def shown(drawing: Drawing, anchor: str, narrow: bool) -> str:
        before_drawing(drawing)
        with laid_out(PHONE if narrow else SCREEN):
            return embedded(drawing, f"{anchor}-narrow" if narrow else anchor)

    names = list(dict.fromkeys(name for part in parts for name in _named(part)))
    looks = {style.label: swatch(style) for style in styles(names).values()}
    scenarios = ", ".join(dict.fromkeys(part["source"].scenario.name for part in parts))
    return _rendered(
        "page.html.jinja",
        title=title or f"Report: {scenarios}",
        parts=parts,
        headline=[CATALOGUE[key].title for key in HEADLINE],
        looks=looks,
        embedded=shown,
    )


def render_ranks(title: str, lead: Sequence[str], grids: Sequence[Grid], cannot: Sequence[tuple[str, str, str]]) -> str:
    """Render the HTML text of a page of tables without figures.

    Args:
        lead: paragraphs below the title.
        cannot: who cannot run, where, and why; listed below the tables.
    """
    return _rendered("ranks.html.jinja", title=title, lead=lead, grids=grids, cannot=cannot, looks={})


def _rendered(template: str, **data: Any) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    folder = Path(str(files("ncc.results.report")))
    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["groupby_section"] = lambda rows: [
        (section, list(same)) for section, same in groupby(rows, key=lambda row: row.section)
    ]
    page: str = environment.get_template(template).render(
        generator=GENERATOR,
        style=(folder / "page.css").read_text(encoding="utf-8"),
        written=now()[:16].replace("T", " ") + " UTC",
        version=ncc.__version__,
        marks=_MARKS,
        label=label,
        **data,
    )
    return page


def _overview(source: Source, names: Iterable[str]) -> list[list[str]]:
    """Rows of a folder in the overview: label, datapath and metrics of each controller, on the reference datapath."""
    judgement = source.judgement
    return [
        [
            label(name),
            judgement.judged_by,
            *(CATALOGUE[key].text(judgement.any.cell(name, key).estimate) for key in HEADLINE),
        ]
        for name in names
    ]


def swatch(style: Style) -> str:
    """CSS of a border that looks like the controller's line."""
    return f"border-top: 3px {_LINES[style.line]} {style.colour}"


def _named(part: Part) -> tuple[str, ...]:
    comparison = part["source"].judgement.any
    return (*comparison.controllers, *comparison.bounds)
