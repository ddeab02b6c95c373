# SPDX-License-Identifier: BSD-3-Clause
"""Equal flows and figures by hand, and the page that says what differs."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ncc.harness.results import save_run
from ncc.study.agreement.cases import LoadCase
from ncc.study.agreement.compare import Row, compare_runs, same
from ncc.study.agreement.pages import page
from ncc.study.agreement.run import Summary, differing, summarised
from ncc.study.agreement.small import is_same
from tests.support.experiments import fluid_run, small_rack

CASE = LoadCase("rack_fluid_60", "a small rack", small_rack())


def test_flows_of_the_same_nanosecond_are_counted() -> None:
    assert same(np.array([1.0, 1 + 4e-10, 1 - 6e-10, 1.01]), np.ones(4)) == 2


def test_equal_runs_are_equal_and_others_differ(tmp_path: Path) -> None:
    ours, shared = (
        [save_run(fluid_run(seed, share=share), tmp_path / f"{share}{seed}", config={}) for seed in (1, 2)]
        for share in (False, True)
    )
    found = compare_runs(CASE, "fluid", ours, ours)
    assert found["n_flows"] == found["flows_same"] > 0
    assert (found["problems"], differing(found)) == ([], [])
    other = compare_runs(CASE, "fluid", shared, ours)
    assert other["flows_same"] < other["n_flows"]
    assert "queue_bytes" in differing(other)


def test_a_problem_that_both_sides_have_is_no_difference(tmp_path: Path) -> None:
    runs = [fluid_run(1), replace(fluid_run(1), problems=("flow 3 was not delivered",))]
    fine, starved = (save_run(run, tmp_path / str(n), config={}) for n, run in enumerate(runs))
    assert compare_runs(CASE, "fluid", [starved], [starved])["problems"] == []
    assert len(compare_runs(CASE, "fluid", [starved], [fine])["problems"]) == 1


def small(fct_s: float = 1.0, retransmitted: int = 1) -> Row:
    row: Row = {"case": "one_flow", "controller": "dctcp", "flow": 0, "fct_s": [fct_s, 1.0]}
    row |= {"retransmitted_pkts": [retransmitted, 1], "timeouts": [0, 0], "ce_pkts": [2, 2]}
    return {**row, "same": is_same(row)}


def loaded(flows_same: int = 10, queue: float = 3.0, problems: tuple[str, ...] = ()) -> Row:
    return {
        "case": CASE.name,
        "what": CASE.what,
        "controller": "dctcp",
        "n_flows": 10,
        "flows_same": flows_same,
        "problems": list(problems),
        "figures": {"queue_bytes": [queue, 3.0], "mark_frac": [0.1, 0.1]},
    }


def summary(row: Row, flow: Row) -> Summary:
    about = {
        "ours": "packetsim",
        "reference": "ns3",
        "preset": "quick",
        "controllers": ["dctcp"],
        "seeds": [1, 2, 3],
        "git": {"commit": "0123456789", "dirty": False},
        "machine": "a machine",
        "runs_made_at": {"packetsim": ["0123456789"], "ns3": ["0123456789+"]},
        "cpu_s": {"packetsim": 1.0, "ns3": 20.0},
        "wall_s": 3.0,
    }
    return summarised(about, [flow], [row])


def test_a_small_flow_is_the_same_to_the_nanosecond_and_in_each_count() -> None:
    assert is_same(small(1 + 4e-10))
    assert not is_same(small(1 + 6e-10))
    assert not is_same(small(retransmitted=2))


@pytest.mark.parametrize(
    ("row", "flow"),
    [
        (loaded(flows_same=9), small()),
        (loaded(queue=3.1), small()),
        (loaded(problems=("flow 3 was not delivered",)), small()),
        (loaded(), small(1.01)),
    ],
)
def test_a_report_agrees_only_if_all_is_equal(row: Row, flow: Row) -> None:
    assert summary(loaded(), small())["agrees"]
    assert not summary(row, flow)["agrees"]


def test_the_page_says_what_was_found() -> None:
    data = summary(loaded(8, 3.1, ("seed 1: lost a flow",)), small(1 + 2e-9, retransmitted=2))
    overview = page(data)
    assert "**Not everything is equal.**" in overview
    assert "| DCTCP | 0 of 1 | 8 of 10 | 1 of 2 |" in overview
    for line in (
        "`one_flow`, DCTCP, flow 0: FCT +2 ns, retransmissions 2 / 1",
        "`rack_fluid_60`, DCTCP: invalid on one of both: seed 1: lost a flow",
        "`rack_fluid_60`, DCTCP: 2 flows take another time",
        "`rack_fluid_60`, DCTCP: queue at the uplink, mean: 3.1 / 3.0",
    ):
        assert f"- {line}\n" in overview
    assert json.loads(json.dumps(data, allow_nan=False))["agrees"] is False
    assert "Not equal" not in page(summary(loaded(), small()))
