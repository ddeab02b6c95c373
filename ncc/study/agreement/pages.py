# SPDX-License-Identifier: BSD-3-Clause
"""The page that compares two datapaths: a table with a row for each controller, and a list of all that differs."""

from ncc.metrics.catalogue import CATALOGUE
from ncc.results.palette import label
from ncc.study.agreement.compare import Row
from ncc.study.agreement.run import Summary, differing
from ncc.study.page import render

_OWN = {"throughput_bps": "throughput of the uplink", "queue_bytes": "queue at the uplink, mean"}


def page(summary: Summary) -> str:
    """Render the page, as Markdown."""
    return render(
        "agreement.md.jinja",
        **summary,
        cases={case["case"]: case["what"] for case in summary["load"]},
        rows=[_row(summary, name) for name in summary["controllers"]],
        differ=[*(_small(row) for row in summary["small"] if not row["same"]), *_loaded(summary)],
    )


def _row(summary: Summary, controller: str) -> list[str]:
    small, load = ([row for row in summary[key] if row["controller"] == controller] for key in ("small", "load"))
    n_figures = sum(len(case["figures"]) for case in load)
    return [
        label(controller),
        f"{sum(row['same'] for row in small)} of {len(small)}",
        f"{sum(case['flows_same'] for case in load):,} of {sum(case['n_flows'] for case in load):,}",
        f"{n_figures - sum(len(differing(case)) for case in load)} of {n_figures}",
    ]


def _small(row: Row) -> str:
    """Describe the differences of a flow of a small case."""
    ours_s, reference_s = row["fct_s"]
    parts = [f"FCT {(ours_s - reference_s) * 1e9:+.0f} ns"]
    for name, what in (("retransmitted_pkts", "retransmissions"), ("timeouts", "timeouts"), ("ce_pkts", "marks")):
        a, b = row[name]
        parts += [f"{what} {a} / {b}"] * (a != b)
    return f"`{row['case']}`, {label(row['controller'])}, flow {row['flow']}: {', '.join(parts)}"


def _loaded(summary: Summary) -> list[str]:
    """Describe the flows and figures under load that differ, and runs that are invalid on one datapath."""
    lines = []
    for case in summary["load"]:
        where = f"`{case['case']}`, {label(case['controller'])}"
        lines += [f"{where}: invalid on one of both: {problem}" for problem in case["problems"]]
        if other := case["n_flows"] - case["flows_same"]:
            lines.append(f"{where}: {other} flows take another time")
        for key in differing(case):
            title = _OWN[key] if key in _OWN else CATALOGUE[key].title
            lines.append(f"{where}: {title}: {case['figures'][key][0]} / {case['figures'][key][1]}")
    return lines
