# SPDX-License-Identifier: BSD-3-Clause
"""Traces of jobs: rows of a CSV file become flows that wait for each other."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.graph import check_graph
from ncc.core.scenario import Scenario, scenario_from_dict

STEP = """src,dst,size_bytes,after,think_s,request
0,1,1000,,,0
2,1,2000,,1e-4,0
1,1,0,0 1,5e-4,0
1,0,3000,2,,1
1,2,3000,2,,1
"""
"""Two flows, a computation when both have come, and two flows after it."""


def traced(rows: Any, **settings: Any) -> Scenario:
    return scenario_from_dict(
        {
            "name": "job",
            "topology": {"kind": "many_to_one", "senders": 4},
            "duration_s": 0.01,
            "drain_s": None,
            "workload": {"job": {"kind": "trace", "hosts": "senders", "rows": rows} | settings},
        }
    )


def test_rows_wait_for_those_that_they_name(tmp_path: Path) -> None:
    (tmp_path / "job.csv").write_text(STEP)
    scenario = traced(str(tmp_path / "job.csv"))
    assert "job.csv" not in scenario.to_json(), "a result can be reproduced without the file"
    flows, hosts = scenario.flows(1), scenario.network().group("senders")
    check_graph(flows)
    graph = flows.graph
    assert graph is not None
    sends = np.flatnonzero(flows.size_bytes)
    assert flows.src[sends].tolist() == [hosts[0], hosts[1], hosts[1], hosts[2]]
    assert flows.size_bytes[sends].tolist() == [1000, 3000, 3000, 2000]
    assert flows.start_s[sends] == pytest.approx([0, 0, 0, 1e-4])
    (computing,) = np.flatnonzero((flows.size_bytes == 0) & (graph.think_s == 5e-4))
    joins = np.flatnonzero(graph.group == graph.after[computing])
    assert set(graph.after[joins]) == {graph.group[sends[0]], graph.group[sends[3]]}
    assert (graph.after[sends[1:3]] == graph.group[computing]).all()
    assert graph.request[sends].tolist() == [0, 1, 1, 0]


def test_places_may_be_drawn() -> None:
    rows = [{"src": 0, "dst": 1, "size_bytes": 10}]
    pairs = {(int(f.src[0]), int(f.dst[0])) for seed in range(20) for f in [traced(rows, places="random").flows(seed)]}
    assert len(pairs) > 4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("src,dst\n0,1\n", "line 1 must name the columns src, dst, size_bytes and may name .*; got src, dst"),
        ("", "line 1 must name the columns .* got nothing"),
        (STEP.replace("2000,,", "2000,"), "line 3 must have 6 values, one for each column, got 5"),
        (STEP.replace("2,1,2000", "2,1,2 kB"), "line 3: size_bytes must be the payload; .*, got '2 kB'"),
        (STEP.replace("0 1,5e-4", "0;1,5e-4"), "line 4: after must be the numbers of earlier rows"),
        (STEP.replace("0 1,5e-4", "0 2,5e-4"), r"job.rows\[2\].after must name rows before it, got 2"),
        (STEP.replace("1,1,0", "1,1,7"), r"job.rows\[2\] must have bytes and go to another host, or be a computation"),
        (STEP.replace("2,1,2000", "9,1,2000"), r"job.rows\[1\] names host 9; group 'senders' has 4, from 0"),
        (STEP.replace("2,,1", "2,,1000000000000"), r"job.rows\[3\].request must be below the 5 rows, got 1"),
        (STEP.replace("1e-4", "3601"), "think_s"),
        (STEP.replace("1e-4", "0.5"), r"job.rows\[1\].think_s must be below duration_s"),
        ("src,dst,size_bytes\n1,1,0\n", "job.rows must have a flow with bytes"),
    ],
)
def test_a_trace_that_cannot_be_run_is_refused_by_its_line(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "job.csv").write_text(text)
    with pytest.raises(ConfigError, match=said):
        traced(str(tmp_path / "job.csv"))


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match=r"trace 'no\.csv' cannot be read \(No such file or directory\)"):
        traced("no.csv")


def test_earlier_rows_that_a_trace_names_count_as_flows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that wait for different rows have joins of their own: a wait for each row that is named."""
    monkeypatch.setattr("ncc.core.traces.MAX_FLOWS", 5)
    rows = [{"src": 0, "dst": 1, "size_bytes": 10, "after": list(range(number))} for number in range(4)]
    traced(rows[:3])
    with pytest.raises(ConfigError, match=r"job\.rows may name at most 5 earlier rows in all, got 6: let rows"):
        traced(rows)
