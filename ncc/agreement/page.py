# SPDX-License-Identifier: BSD-3-Clause
"""The report as Markdown: an overview, and a page of figures per controller."""

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ncc.agreement.cases import JITTER_NS
from ncc.agreement.compare import (
    FEW_DROPS,
    FEW_FLOWS,
    FEW_FLOWS_P99,
    LOSS_FACTOR,
    MEAN_FRAC,
    P99_FRAC,
    QUEUE_FRAC,
    THROUGHPUT_FRAC,
    Figure,
)
from ncc.agreement.report import SHARES, Compared, Report
from ncc.agreement.small import FCT_FRAC, PACKETS, SMALL_CASES, SmallRow
from ncc.harness.atomic import write_text
from ncc.metrics.catalogue import CATALOGUE
from ncc.metrics.stats import Interval
from ncc.palette import label

SPDX = "<!-- SPDX-License-Identifier: BSD-3-Clause -->"
CAUSES = "causes.md"
"""Written by hand beside the report, which takes it over."""
_OWN = {
    "throughput_bps": ("Throughput of the uplink (Gbps)", 1e-9, 3),
    "queue_bytes": ("Queue at the uplink, mean (KB)", 1e-3, 2),
}


def write_pages(report: Report, folder: Path) -> None:
    """Write `README.md`, `<controller>.md` for each, and `results.json`; pictures lie beside them already."""
    for controller in report.controllers:
        write_text(folder / f"{controller}.md", _controller_page(report, controller))
    write_text(folder / "README.md", _overview(report, folder))
    write_text(folder / "results.json", _json(report.to_dict()))


def _json(data: dict[str, Any]) -> str:
    """A line per key, and per element of a list of records, so that two reports can be compared line by line."""
    lines = []
    for key, value in data.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            records = ",\n".join(f"  {json.dumps(each, allow_nan=False)}" for each in value)
            lines.append(f"{json.dumps(key)}: [\n{records}\n]")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _overview(report: Report, folder: Path) -> str:
    ours, reference = report.ours, report.reference
    causes = folder / CAUSES
    parts = [
        SPDX,
        f"# Agreement of {ours} with {reference}",
        "Written by `make agreement` (`ncc agreement`), the section on causes apart. The same flows and the "
        "same controller headers on both. " + ("All bounds hold." if report.agrees else "Not all bounds hold."),
        _facts(report),
        "## Small cases",
        f"No chance is involved: flow by flow. Bounds: FCT within {FCT_FRAC:.0%}, retransmissions and marks within "
        f"{PACKETS} packet. Shown is the worst flow of each case: difference of FCT; retransmissions, timeouts and "
        f"marks as {ours} / {reference} where they differ. Bold: outside.",
        _small_table(report),
        _list(f"`{case.name}`: {case.what}" for case in SMALL_CASES),
        "![Small cases](small.png)",
        "## Under load",
        f"Bounds on the ratio of {ours} over {reference}: FCT slowdown per size of flow within {MEAN_FRAC:.0%} in the "
        f"mean and {P99_FRAC:.0%} at the 99th percentile, throughput within {THROUGHPUT_FRAC:.0%}, mean queue within "
        f"{QUEUE_FRAC:.0%}, loss within a factor of {LOSS_FACTOR:g}. Flows of all seeds are pooled; the interval "
        "resamples seeds, in pairs. The verdict is on the estimate. Figures on fewer than "
        f"{FEW_FLOWS} flows ({FEW_FLOWS_P99} for a 99th percentile, {FEW_DROPS} drops for loss) are shown and not "
        "judged.",
        f"The yardstick is {reference} against itself with every flow starting up to {JITTER_NS / 1000:g} us later, "
        "each by its own draw: the order of two packets decides who is marked, single flows then go separate ways, and "
        "the tails of few flows with them. No simulator can be held to more than that.",
        _sameness(report),
        "Figures outside their bound, of those judged; in brackets how many are outside for the yardstick:",
        _load_table(report),
        "## Where they differ and why",
        causes.read_text(encoding="utf-8").removeprefix(SPDX).strip() if causes.exists() else "Nothing is written yet.",
        "## Figures by controller",
        _list(f"[{label(c)}]({c}.md)" for c in report.controllers),
    ]
    return "\n\n".join(parts) + "\n"


def _facts(report: Report) -> str:
    made = {side: ", ".join(commits) for side, commits in report.made_of.items()}
    git = report.provenance["git"]
    rows = [
        ("preset", report.preset),
        ("seeds", f"{len(report.seeds)} ({report.seeds[0]} to {report.seeds[-1]})"),
        ("commit of the comparison", f"{str(git['commit'])[:10]}{' with changes' if git['dirty'] else ''}"),
        *((f"runs of {side} made at", f"{made[side]} ({report.cpu_s[side]:,.0f} CPU s)") for side in made),
        ("wall time of this command", f"{report.wall_s:,.0f} s"),
        ("machine", f"{report.provenance['processor']}, {report.provenance['cpus_usable']} cores"),
    ]
    return _table(("", ""), rows, "ll")


def _small_table(report: Report) -> str:
    rows = []
    for case in dict.fromkeys(row.case for row in report.small):
        cells = [f"`{case}`"]
        for controller in report.controllers:
            mine = [row for row in report.small if (row.case, row.controller) == (case, controller)]
            cells.append(_worst(mine))
        rows.append(cells)
    return _table(("", *(label(c) for c in report.controllers)), rows, "l" + "r" * len(report.controllers))


def _worst(rows: Sequence[SmallRow]) -> str:
    worst = max(rows, key=lambda row: (not row.inside, abs(row.fct_error_frac)))
    parts = ["0" if abs(worst.fct_error_frac) < 5e-8 else f"{100 * worst.fct_error_frac:+.4f} %"]
    for name, what in (("retransmitted_pkts", "rtx"), ("timeouts", "rto"), ("ce_pkts", "ce")):
        a, b = getattr(worst, name)
        if a != b:
            parts.append(f"{what} {a} / {b}")
    return _bold(", ".join(parts), not worst.inside)


def _sameness(report: Report) -> str:
    flows = [c.flows for c in report.compared]
    total = sum(len(f.ratio) for f in flows)
    same, noise = sum(f.same(f.ratio) for f in flows), sum(f.same(f.noise) for f in flows)
    return (
        f"Of {total:,} flows, {same:,} ({same / total:.1%}) took the same time on both to the nanosecond; of the "
        f"yardstick's, {noise:,} ({noise / total:.1%})."
    )


def _load_table(report: Report) -> str:
    cases = list(dict.fromkeys(c.case.name for c in report.compared))
    rows = []
    for case in cases:
        cells = [f"`{case}`"]
        for controller in report.controllers:
            (found,) = (c for c in report.of(controller) if c.case.name == case)
            outside, judged = found.count("outside"), found.count("outside") + found.count("inside")
            noisy = sum(_outside(figure) for figure in found.figures)
            text = f"{outside} of {judged} ({noisy})" + ("; invalid runs" if found.problems else "")
            cells.append(_bold(text, bool(outside or found.problems)))
        rows.append(cells)
    return _table(("", *(label(c) for c in report.controllers)), rows, "l" + "r" * len(report.controllers))


def _outside(figure: Figure) -> bool:
    """Whether the yardstick is outside where the figure is judged."""
    if figure.verdict not in ("inside", "outside") or math.isnan(figure.noise.estimate):
        return False
    return not (figure.low or 0.0) <= figure.noise.estimate <= (figure.high or math.inf)


def _controller_page(report: Report, controller: str) -> str:
    compared = report.of(controller)
    parts = [
        SPDX,
        f"# {label(controller)}: {report.ours} against {report.reference}",
        "Part of the [agreement report](README.md). Ratios with 95 % interval; *yardstick*: "
        f"{report.reference} perturbed over {report.reference}.",
        f"![Ratios with intervals](ratios_{controller}.png)",
        f"![Flow by flow](flows_{controller}.png)",
        "## Flow by flow",
        f"Share of flows with the FCT that they have on {report.reference}, to the nanosecond or nearly; and the same "
        "for the yardstick.",
        _flow_table(compared),
        *(part for c in compared for part in _case(report, c)),
    ]
    return "\n\n".join(parts) + "\n"


def _flow_table(compared: Sequence[Compared]) -> str:
    near = [f"within {share:.0%}" for share in SHARES]
    head = ("", "flows", "same", *near, *(f"yardstick: {name}" for name in ("same", *near)))
    rows = [
        [
            f"`{c.case.name}`",
            f"{len(c.flows.ratio):,}",
            *(
                f"{share:.1%}"
                for ratio in (c.flows.ratio, c.flows.noise)
                for share in (c.flows.same(ratio) / len(ratio), *c.flows.shares(ratio))
            ),
        ]
        for c in compared
    ]
    return _table(head, rows, "l" + "r" * (len(head) - 1))


def _case(report: Report, compared: Compared) -> list[str]:
    head = ("", "n", report.reference, report.ours, "ratio", "yardstick", "bound", "verdict")
    rows = [
        [
            _title(figure.key),
            f"{figure.n:,}",
            _value(figure.key, figure.reference),
            _value(figure.key, figure.ours),
            _ratio(figure.ratio),
            _ratio(figure.noise),
            "" if figure.low is None else f"{figure.low:.2f} to {figure.high:.2f}",
            _bold(figure.verdict, figure.verdict == "outside"),
        ]
        for figure in compared.figures
    ]
    problems = [f"Runs that must not be used: {'; '.join(compared.problems)}"] if compared.problems else []
    return [f"## {compared.case.name}", f"{compared.case.what}.", *problems, _table(head, rows, "lrrrrrll")]


def _title(key: str) -> str:
    title = _OWN[key][0] if key in _OWN else CATALOGUE[key].title
    return title.replace("<", "&lt;").replace(">", "&gt;")


def _value(key: str, value: float) -> str:
    if key in _OWN:
        _, scale, digits = _OWN[key]
        return f"{value * scale:.{digits}f}"
    return CATALOGUE[key].text(value)


def _ratio(interval: Interval) -> str:
    if math.isnan(interval.estimate):
        return ""
    if math.isnan(interval.low):
        return f"{interval.estimate:.3f}"
    return f"{interval.estimate:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def _bold(text: str, wanted: bool) -> str:
    return f"**{text}**" if wanted else text


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], align: str) -> str:
    lines = [head, ["---" if side == "l" else "---:" for side in align], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
