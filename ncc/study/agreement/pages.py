# SPDX-License-Identifier: BSD-3-Clause
"""The comparison as Markdown: an overview, and a page of figures per controller."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from ncc.harness.atomic import write_text
from ncc.metrics.catalogue import CATALOGUE
from ncc.study.agreement import compare
from ncc.study.agreement.cases import JITTER_NS
from ncc.study.agreement.run import Summary
from ncc.study.agreement.small import FCT_FRAC, PACKETS, Row, fct_error_frac
from ncc.study.page import README, number, render, spread

CAUSES = "causes.md"
"""Written by hand beside the report, which takes it over."""
_OWN = {
    "throughput_bps": ("Throughput of the uplink (Gbps)", 1e-9, 3),
    "queue_bytes": ("Queue at the uplink, mean (KB)", 1e-3, 2),
}


def write_pages(summary: Summary, folder: Path) -> None:
    """Write `README.md` and `<controller>.md` for each; pictures lie beside them already."""
    causes = folder / CAUSES
    bounds = {name: value for name, value in vars(compare).items() if name.isupper()}
    found = {
        "bounds": {**bounds, "FCT_FRAC": FCT_FRAC, "PACKETS": PACKETS, "JITTER_US": JITTER_NS / 1000},
        "small_rows": _by_controller(summary["small"], summary["controllers"], _worst),
        "load_rows": _by_controller(summary["load"], summary["controllers"], _counts),
        "same": sum(case["flows_same"] for case in summary["load"]),
        "same_noise": sum(case["flows_same_noise"] for case in summary["load"]),
        "total": sum(case["n_flows"] for case in summary["load"]),
        "causes": causes.read_text(encoding="utf-8").partition("\n")[2].strip() if causes.exists() else "",
    }
    write_text(folder / README, render("agreement.md.jinja", **summary, **found))
    for controller in summary["controllers"]:
        cases = [case for case in summary["load"] if case["controller"] == controller]
        rows = {case["case"]: [_figure(key, figure) for key, figure in case["figures"].items()] for case in cases}
        page = render("agreement_controller.md.jinja", **summary, controller=controller, cases=cases, rows=rows)
        write_text(folder / f"{controller}.md", page)


def _by_controller(
    rows: Sequence[Row], controllers: Iterable[str], cell: Callable[[list[Row]], str]
) -> list[list[str]]:
    """A row per case, a cell per controller."""
    groups: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        groups.setdefault(row["case"], {}).setdefault(row["controller"], []).append(row)
    return [[f"`{case}`", *(cell(by[name]) for name in controllers)] for case, by in groups.items()]


def _worst(rows: Sequence[Row]) -> str:
    """The flow of a small case that is furthest off."""
    worst = max(rows, key=lambda row: (not row["inside"], abs(fct_error_frac(row))))
    error = fct_error_frac(worst)
    parts = ["0" if abs(error) < 5e-8 else f"{100 * error:+.4f} %"]
    for name, what in (("retransmitted_pkts", "rtx"), ("timeouts", "rto"), ("ce_pkts", "ce")):
        a, b = worst[name]
        if a != b:
            parts.append(f"{what} {a} / {b}")
    text = ", ".join(parts)
    return text if worst["inside"] else f"**{text}**"


def _counts(rows: Sequence[Row]) -> str:
    """Figures of a loaded case that are outside, of those judged, and how many of them the yardstick is outside of."""
    (case,) = rows
    judged = [f for f in case["figures"].values() if f["verdict"] in ("inside", "outside")]
    out = sum(f["verdict"] == "outside" for f in judged)
    noisy = sum(f["noise"][0] is not None and not f["bound"][0] <= f["noise"][0] <= f["bound"][1] for f in judged)
    text = f"{out} of {len(judged)} ({noisy})" + ("; invalid runs" if case["problems"] else "")
    return f"**{text}**" if out or case["problems"] else text


def _figure(key: str, figure: Row) -> list[str]:
    title, scale, digits = _OWN.get(key) or (CATALOGUE[key].title, CATALOGUE[key].scale, CATALOGUE[key].digits)
    ratios = [spread(*figure[name]) if figure[name][0] is not None else "" for name in ("ratio", "noise")]
    return [
        title.replace("<", "&lt;").replace(">", "&gt;"),
        f"{figure['n']:,}",
        number(figure["reference"], scale, digits),
        number(figure["ours"], scale, digits),
        *ratios,
        "{:.2f} to {:.2f}".format(*figure["bound"]) if figure["bound"] else "",
        "**outside**" if figure["verdict"] == "outside" else figure["verdict"] or "",
    ]
