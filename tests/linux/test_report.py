# SPDX-License-Identifier: BSD-3-Clause
"""The report of the Linux datapath: its page, and how it counts. What it measures is measured there."""

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.console import Console

from ncc.core.errors import ConfigError, DatapathError
from ncc.envs.linux import layout
from ncc.harness.run import Run
from ncc.host.deadlines import Swinging, _obeyed
from ncc.host.faults import _row, _rows
from ncc.host.page import GOALS, TABLES, filled
from ncc.host.parity import figures, scenario
from ncc.host.policy import _followed
from ncc.host.report import DOCS, PARTS, report
from ncc.host.runs import contender, lab, run_of, spread

MADE = {"written_at": "2026-01-01T00:00:00.000", "git": {"commit": "0123456789abcdef", "dirty": False}}
VERIFIED = {"preset": {"name": "quick"}, "provenance": MADE, "objects": {"shim_x": {"a": 5, "b": 7000}}}


def test_every_part_has_its_table() -> None:
    assert list(TABLES) == list(PARTS)


def test_tables_take_their_places_and_the_text_stays() -> None:
    names = [GOALS, *TABLES]
    page = "Before.\n" + "".join(f"<!-- begin {name} -->\nold\n<!-- end {name} -->\nAfter {name}.\n" for name in names)
    found = filled(page, {"verifier": VERIFIED})
    assert "| `shim_x` | 2 | 7,000 | 7,005 |" in found
    assert "commit 012345678" in found
    assert found.count("Not measured yet.") == len(TABLES)
    assert "old" not in found
    assert found.startswith("Before.\n")
    assert all(f"After {name}.\n" in found for name in names)
    assert filled(found, {"verifier": VERIFIED}) == found


def test_a_goal_is_met_only_by_the_worst_run() -> None:
    page = "".join(f"<!-- begin {name} -->\n<!-- end {name} -->\n" for name in [GOALS, *TABLES])
    late = {"p50": 1.0, "p99": 2.0, "max": 3.0}
    load = {"busy_frac_before": 0.1, "load_average_before": 0.2, "load_average_after": 0.3}
    rows = [
        {"decides": "rule", "periods": 1000, "missed": n, "missed_frac": n / 1000, "late_us": late,
         "late_periods_s": 0.0045, "waited_s": 0.001, "cpu_frac": 0.1, "decider_cpu_frac": 0.0,
         "shim": {"fallbacks": 0}, "load": load}
        for n in (0, 3)
    ]  # fmt: skip
    found = filled(page, {"deadlines": VERIFIED | {"rows": rows}})
    assert "| missed periods, a rule that decides anew each period | < 0.2 % | 0.3 % | **no** |" in found
    assert "| CPU of the agent, a rule that decides anew each period | < 15 % | 10 % | yes |" in found
    assert "| 3 | 0.300 | 1 | 2 | 3 | 4.5 | 1.0 | 10.0 | 0.0 | 0 |" in found
    assert "before it others used 10 % of the cores, load average 0.2 to 0.3" in found


def test_a_page_without_a_place_is_refused() -> None:
    with pytest.raises(ConfigError, match="the page lacks a place for deadlines: a line '<!-- begin deadlines -->'"):
        filled("", {})


def test_an_unknown_part_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the report has no part 'speed'; it has: deadlines, timer, pauses, effect"):
        report(Console(), tmp_path, ["speed"], quick=True)
    assert not list(tmp_path.iterdir())


def test_the_committed_page_is_that_of_its_figures(tmp_path: Path) -> None:
    results = json.loads((DOCS / "results.json").read_text())
    assert set(results) == set(PARTS)
    (tmp_path / "results.json").write_text((DOCS / "results.json").read_text())
    assert report(Console(quiet=True), tmp_path, [], quick=False) == 0
    assert (tmp_path / "README.md").read_text() == (DOCS / "README.md").read_text()
    assert not re.search(r"\bnan\b", (DOCS / "README.md").read_text().replace("got nan", ""))


def test_limits_swing_about_a_part_of_the_fair_share() -> None:
    class Now:
        epoch = 0

    limiter, now = Swinging(), Now()
    limiter.reset(lab("lab_many"), 1)
    found = []
    for now.epoch in (0, 1, 2):
        found.append(limiter.decide(now))  # type: ignore[arg-type]
    assert (found[0] != found[1]).all()
    assert (found[0] == found[2]).all()
    assert np.mean(found[:2]) == pytest.approx(0.9 * 200e6 / 16)


def test_effects_are_those_of_the_last_decision_within_its_period() -> None:
    class Held:
        reports = np.zeros(6, layout.REPORT)
        hosts = np.zeros(1, layout.HOST)
        agent = np.zeros(1, layout.AGENT)

    shim: Any = Held()
    shim.hosts["decision"], shim.agent["beat_ns"] = 7, 1000
    shim.reports["state"] = [layout.LIVE] * 5 + [layout.FINISHED]
    shim.reports["seq"][1] = 1  # being written
    shim.reports["decision"] = [7, 7, 6, 7, 7, 7]
    shim.reports["decided_ns"] = [1400, 1400, 900, 2500, 1100, 1300]
    shim.reports["host"] = [3, 3, 4, 5, 5, 6]
    hosts, took_ns, live = _obeyed(shim, 1000)
    assert hosts.tolist() == [3, 5]
    assert took_ns.tolist() == [400, 100]
    assert live == 4


def test_figures_of_a_run_are_in_their_units() -> None:
    from ncc.compose import load_datapath

    found = figures(run_of(load_datapath("packetsim").load()(), scenario(200), contender("dctcp"), 1))
    assert found["goodput_mbps"] == pytest.approx(200 * 1460 / 1538, rel=0.01)
    assert found["queue_kb"] == pytest.approx(30, rel=0.1)
    assert 20 < found["marked_pct"] < 60
    assert 0.5 <= found["acks_per_packet"] <= 1
    assert found["jain"] > 0.95


def test_what_is_undefined_is_null() -> None:
    assert spread([1.0, float("nan")])["values"] == [1.0, None]
    assert spread([float("nan")])["mean"] is None


def test_a_test_says_what_it_measured() -> None:
    case = ElementTree.fromstring(
        '<testcase file="tests/a.py" classname="tests.a" name="test_b">'
        '<properties><property name="measured" value="1 s"/></properties></testcase>'
    )
    assert _row(case) == {"test": "tests/a.py::test_b", "outcome": "passed", "measured": "1 s", "why": ""}
    case.append(ElementTree.fromstring('<skipped message="linux: not root&#10;more"/>'))
    assert (_row(case)["outcome"], _row(case)["why"]) == ("skipped", "linux: not root")


def test_tries_of_a_test_are_one_row_that_counts_them(tmp_path: Path) -> None:
    (tmp_path / "test_tries.py").write_text(
        "import pytest\n\ntries = []\n\n"
        "@pytest.mark.flaky(reruns=2)\ndef test_second(record_property):\n"
        "    tries.append(1)\n    record_property('measured', f'{len(tries)} s')\n    assert len(tries) == 2\n\n"
        "@pytest.mark.flaky(reruns=2)\ndef test_never():\n    assert 0\n\n"
        "def test_first():\n    pass\n"
    )
    result = tmp_path / "tries.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-o", "junit_family=xunit1", f"--junitxml={result}", "."]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, timeout=60)
    rows = {row["test"].split("::")[1]: row for row in _rows(ElementTree.parse(result).getroot())}
    told = {name: (row["outcome"], row["tries"], row["measured"]) for name, row in rows.items()}
    assert told == {
        "test_second": ("passed", 2, "2 s"),
        "test_never": ("failure", 3, None),
        "test_first": ("passed", 1, None),
    }


def run_with(limit_bps: list[list[float]]) -> Run:
    """What `_followed` reads of a run of 0.5 s, 1 s and so on; hosts always wait and send half their limit."""
    limit = np.array(limit_bps)
    sent = np.where(np.isfinite(limit), limit / 2, 1e9)
    epochs = SimpleNamespace(
        time_s=0.5 * np.arange(1, len(limit) + 1),
        columns={"rate_limit_bps": limit, "throughput_bps": sent, "queued_bytes": np.ones_like(limit)},
    )
    return cast(Run, SimpleNamespace(valid=True, problems=(), epochs=epochs, datapath_facts={}, seed=1))


def test_a_host_without_a_finite_limit_says_nothing_of_sent_over_allowed() -> None:
    found = _followed([run_with([[1e8, np.inf], [2e8, np.inf]])])
    assert found["hosts"]["values"] == [0.5]
    assert (found["lowest"], found["highest"], found["hosts_within_goal_frac"]) == (0.5, 0.5, 0.0)
    json.dumps(found, allow_nan=False)
    with pytest.raises(DatapathError, match="No host had a finite limit"):
        _followed([run_with([[np.inf], [np.inf]])])
