# SPDX-License-Identifier: BSD-3-Clause
"""The page of the report: a text written by hand, with a table between the two marks of each part."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ncc.core.errors import ConfigError
from ncc.palette import label

Part = Mapping[str, Any]
GOALS = "goals"
DECIDES = {"rule": "a rule that decides anew each period", "policy": "the trained policy, with its order"}
LABELS = {"ncc_fifo": "NCC, no order"}


def filled(text: str, results: Mapping[str, Part]) -> str:
    """The page with the tables of `results` between their marks; a part without results says so.

    Raises:
        ConfigError: the page lacks the marks of a part.
    """
    for name, table in TABLES.items():
        body = f"{table(results[name])}\n\n{_made(name, results[name])}" if name in results else "Not measured yet."
        text = put(text, name, body)
    return put(text, GOALS, _goals(results))


def put(text: str, name: str, body: str) -> str:
    """The text with another body between the marks of `name`.

    Raises:
        ConfigError: it lacks them.
    """
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    found = re.search(f"{re.escape(begin)}\n.*?{re.escape(end)}", text, re.DOTALL)
    if found is None:
        raise ConfigError(f"the page lacks a place for {name}: a line {begin!r}, then a line {end!r}")
    return text[: found.start()] + f"{begin}\n{body}\n{end}" + text[found.end() :]


def _goals(results: Mapping[str, Part]) -> str:
    """What was aimed at beside what was measured; a row per case, the worst of its runs."""
    rows = []
    for decides, title in DECIDES.items():
        found = [row for row in results.get("deadlines", {}).get("rows", []) if row["decides"] == decides]
        for key, goal, what in (("missed_frac", 0.002, "missed periods"), ("cpu_frac", 0.15, "CPU of the agent")):
            if found:
                worst = 100 * max(row[key] for row in found)
                rows.append(_goal(f"{what}, {title}", f"< {100 * goal:g} %", f"{worst:.2g} %", worst < 100 * goal))
    for row in results.get("effect", {}).get("rows", []):
        ms = row["p50_us"] / 1e3
        rows.append(_goal(f"decision to effect, {row['flows']} flows, p50", "< 1 ms", f"{ms:.2f} ms", ms < 1))
    for row in results.get("rates", {}).get("rows", []):
        if row["datapath"] == "linux":
            span, met = f"{row['lowest']:.3f} to {row['highest']:.3f}", row["hosts_within_goal_frac"] == 1
            rows.append(_goal(f"sent over allowed, {row['case']}; {row['decides']}", "0.95 to 1.05", span, met))
    if (found := results.get("faults", {}).get("rows", [])) != []:
        passed = sum(row["outcome"] == "passed" for row in found)
        again = sum(row.get("tries", 1) > 1 for row in found)
        said = f"{passed} of {len(found)}" + (f"; {again} needed more than one try" if again else "")
        rows.append(_goal("tests of faults", "all pass", said, passed == len(found)))
    return _table(("what", "goal", "measured, worst run", "met"), rows, 1) if rows else "Not measured yet."


def _goal(what: str, goal: str, measured: str, met: bool) -> tuple[str, str, str, str]:
    return what, goal, measured, "yes" if met else "**no**"


def _made(name: str, part: Part) -> str:
    made, load = part["provenance"], part.get("load")
    loads = [load] if load else [row["load"] for row in part.get("rows", []) if "load" in row]
    said = f"`ncc host report --parts {name}`, preset {part['preset']['name']}, {made['written_at'][:16]} UTC"
    said += f", commit {str(made['git']['commit'])[:9]}{' with changes' if made['git']['dirty'] else ''}"
    if loads:
        busy = _span([100 * each["busy_frac_before"] for each in loads], 0)
        ends = [each[key] for each in loads for key in ("load_average_before", "load_average_after")]
        said += f"; before it others used {busy} % of the cores, load average {_span(ends, 1)}"
    return f"<sub>{said}.</sub>"


def _span(values: Sequence[float], digits: int) -> str:
    low, high = f"{min(values):.{digits}f}", f"{max(values):.{digits}f}"
    return low if low == high else f"{low} to {high}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    lines = [head, ["---" if i < left else "---:" for i in range(len(head))], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(spread: Mapping[str, Any], digits: int) -> str:
    if spread["mean"] is None:
        return "–"  # noqa: RUF001
    middle = f"{spread['mean']:.{digits}f}"
    low, high = (None if spread[key] is None else f"{spread[key]:.{digits}f}" for key in ("low", "high"))
    return middle if low is None or low == high == middle else f"{middle} [{low}, {high}]"


def _name(controller: str) -> str:
    return LABELS.get(controller) or label(controller)


def _deadlines(part: Part) -> str:
    rows = [
        (
            DECIDES[row["decides"]],
            f"{row['periods']:,}",
            str(row["missed"]),
            f"{100 * row['missed_frac']:.3f}",
            *(f"{row['late_us'][q]:.0f}" for q in ("p50", "p99", "max")),
            *(f"{1e3 * row[name]:.1f}" for name in ("late_periods_s", "waited_s")),
            f"{100 * row['cpu_frac']:.1f}",
            f"{100 * row['decider_cpu_frac']:.1f}",
            str(row["shim"]["fallbacks"]),
        )
        for row in part["rows"]
    ]
    head = ("who decides", "periods", "missed", "%", "late p50 (us)", "p99", "max", "more than a period late (ms)")
    return _table((*head, "waited (ms)", "CPU, all (%)", "of it deciding", "fallbacks"), rows)


def _timer(part: Part) -> str:
    late = part["late_us"]
    return (
        f"Of {part['periods']:,} periods {part['late']} ({100 * part['late'] / part['periods']:.3f} %) began more than "
        f"a period late: p50 {late['p50']:.0f} us, p99 {late['p99']:.0f}, max {late['max']:.0f}. For "
        f"{1e3 * part['waited_s']:.1f} ms in all the loop was ready and another task ran. The hypervisor says that it "
        f"took {part['stolen_s']:.2f} s of all cores meanwhile."
    )


def _pauses(part: Part) -> str:
    rows = [
        (
            f"{row['periods']:,}",
            str(row["missed_periods"]),
            f"{1e3 * row['waited_s']:.1f}",
            str(row["gaps"]),
            f"{1e3 * row['gaps_s']:.0f}",
            f"{1e3 * row['longest_s']:.1f}",
            str(row["idle"]),
            str(row["together"]),
        )
        for row in part["rows"]
    ]
    head = ("periods", "missed", "waited (ms)", f"gaps over {1e3 * part['gap_s']:g} ms", "in all (ms)", "longest (ms)")
    together = f"begin within the same {1e3 * part['within_s']:g} of {1e3 * part['every_s']:g} ms"
    return _table((*head, "of an idle core", together), rows, 0)


def _effect(part: Part) -> str:
    rows = [
        (
            str(row["flows"]),
            f"{row['effects']:,}",
            f"{row['p50_us'] / 1e3:.2f}",
            f"{row['p99_us'] / 1e3:.2f}",
            f"{100 * row['flows_with_ack_frac']:.1f}",
            f"{100 * row['hosts_with_ack_frac']:.1f}",
        )
        for row in part["rows"]
    ]
    head = ("flows", "effects", "p50 (ms)", "p99 (ms)", "flows with an ACK in the period (%)", "hosts with one (%)")
    return _table(head, rows)


def _cost(part: Part) -> str:
    found = part["ns_per_ack"]
    base = sorted(found["kernel's cubic"])
    rows = []
    for name, values in found.items():
        middle = sorted(values)[len(values) // 2]
        shown = name if name == "kernel's cubic" else _name(name)
        rows.append((shown, f"{middle:.0f}", _span(values, 0), f"{middle / base[len(base) // 2]:.1f}"))
    return _table(("controller", "ns per ACK, median", "range", "over the kernel's CUBIC"), rows)


def _callbacks(part: Part) -> str:
    return str(part["sentence"])


def _verifier(part: Part) -> str:
    rows = [
        (f"`{name}`", str(len(programs)), f"{max(programs.values()):,}", f"{sum(programs.values()):,}")
        for name, programs in part["objects"].items()
    ]
    return _table(("object", "programs", "the longest", "all"), rows)


_FIGURES = (
    ("goodput_mbps", "goodput (Mbit/s)", 1),
    ("queue_kb", "mean queue (KB)", 1),
    ("marked_pct", "marked (%)", 1),
    ("retransmitted_pct", "retransmitted (%)", 3),
    ("rtt_mean_us", "mean RTT (us)", 0),
    ("acks_per_packet", "ACKs per packet", 2),
    ("jain", "Jain index", 2),
)


def _figures(row: Part) -> list[str]:
    return [_cell(row[key], digits) for key, _, digits in _FIGURES]


HELD, LEFT_OUT = "Runs with problems, which the figures hold all the same", "Invalid runs, which are left out"


def _problems(rows: Iterable[Part], name: Callable[[Part], str], what: str = HELD) -> str:
    said = [f"{name(row)}, {problem}" for row in rows for problem in row["problems"]]
    return f"\n\n{what}:\n\n- " + "\n- ".join(said) if said else ""


def _parity(part: Part) -> str:
    rows = [(str(r["rate_mbps"]), _name(r["controller"]), r["datapath"], *_figures(r)) for r in part["rows"]]
    head = ("Mbit/s", "controller", "datapath", *(title for _, title, _ in _FIGURES))
    return _table(head, rows, 3) + _problems(
        part["rows"], lambda r: f"{_name(r['controller'])} at {r['rate_mbps']} Mbit/s"
    )


def _variants(part: Part) -> str:
    rows = [(r["what"], _name(r["controller"]), r["datapath"], *_figures(r)) for r in part["rows"]]
    head = ("what is changed", "controller", "datapath", *(title for _, title, _ in _FIGURES))
    return _table(head, rows, 3) + _problems(part["rows"], lambda r: f"{r['what']}, {_name(r['controller'])}")


def _rates(part: Part) -> str:
    rows = [
        (
            row["case"],
            row["decides"],
            row["datapath"],
            f"{_cell(row['hosts'], 3)}",
            f"{row['lowest']:.3f} to {row['highest']:.3f}",
            f"{100 * row['hosts_within_goal_frac']:.0f}",
            "–" if row["windows_within_goal_frac"] is None else f"{100 * row['windows_within_goal_frac']:.0f}",  # noqa: RUF001
            f"{100 * row['missed_frac']:.2f}",
        )
        for row in part["rows"]
    ]
    head = ("flows", "who decides", "datapath", "sent over allowed", "hosts, range", "hosts within 5 % (%)")
    more = (f"windows of {part['window_periods']} periods within 5 % (%)", "periods missed (%)")
    return _table((*head, *more), rows, 3) + _problems(
        part["rows"], lambda r: f"{r['case']}, {r['decides']}, {r['datapath']}", LEFT_OUT
    )


def _compared(part: Part) -> str:
    said = []
    for name, found in part["datapaths"].items():
        missed = ", ".join(f"{_name(of)} {100 * frac:.2f}" for of, frac in found["missed_frac"].items())
        said.append(found["markdown"].strip() + (f"\n\nPeriods missed (%): {missed}." if name == "linux" else ""))
    return "\n\n".join(said)


def _faults(part: Part) -> str:
    rows = [
        (
            f"`{row['test'].split('::')[-1]}`",
            row["outcome"] + (f", try {row['tries']}" if row.get("tries", 1) > 1 else ""),
            (row["measured"] or row["why"] or "").replace("|", "/"),
        )
        for row in part["rows"]
        if row["measured"] or row["outcome"] != "passed" or row.get("tries", 1) > 1
    ]
    return _table(("test", "outcome", "measured"), rows, 3)


TABLES: dict[str, Callable[[Part], str]] = {
    "deadlines": _deadlines,
    "timer": _timer,
    "pauses": _pauses,
    "effect": _effect,
    "cost": _cost,
    "callbacks": _callbacks,
    "verifier": _verifier,
    "parity": _parity,
    "variants": _variants,
    "rates": _rates,
    "table": _compared,
    "faults": _faults,
}
"""What is made of the results of each part."""
