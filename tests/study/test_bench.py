# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark measures something and judges it rightly; no test asks how fast anything is."""

import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from inspect import signature

import numpy as np
import pytest

from ncc.bench import main
from ncc.core.scenario import Scenario
from ncc.envs.packetsim import PacketsimDatapath
from ncc.study.bench import GROUPS, batch, engine, environment, learners, scale, vectors
from ncc.study.bench.cases import FABRICS, full_rack, incast
from ncc.study.bench.rows import Row, in_turn, over, table
from ncc.study.bench.runs import Simulation, data_pkts, flows_of, work
from tests.envs.cases import poisson, rack, spec
from tests.support.extras import needs_extra

SMALL = rack(poisson(), hosts=2, periods=60)


@pytest.mark.parametrize(
    ("measure", "expected", "repeats"),
    [
        (lambda: environment.on_ns3(epochs=5, repeats=2, spec=spec(SMALL)), 5, 2),
        (lambda: vectors.entry_points(epochs=5, repeats=2, scenario=SMALL, racks=2), 3, 2),
        (lambda: engine.over_ns3(flow_pkts=20, repeats=2, laps=2), 6, 2),
        (lambda: engine.over_bare(flow_pkts=100, repeats=2), 6, 2),
        (lambda: scale.many_hosts(repeats=1, epochs=1, tiny=True), 2 * len(FABRICS) + 1, 1),
        (lambda: batch.racks_together(epochs=3, repeats=1, racks=(2, 3)), 5, 1),
        (lambda: learners.over_ns3(epochs=20, repeats=1, racks=2, longer=2), 4, 1),
    ],
)
def test_every_row_is_measured(measure: Callable[[], list[Row]], expected: int, repeats: int) -> None:
    rows = measure()
    assert len(rows) == expected
    for row in rows:
        assert len(row.values) == repeats
        assert all(value > 0 for value in row.values)
    assert table("some", rows).row_count == expected


def test_every_group_names_functions_that_take_what_it_gives() -> None:
    for group in GROUPS.values():
        for name, presets in group["rows"].items():
            module, _, function = name.partition(".")
            taken = signature(getattr(import_module(f"ncc.study.bench.{module}"), function))
            for preset in ("quick", "full"):
                taken.bind(**presets[preset])


@pytest.mark.parametrize("make", [incast, full_rack])
def test_the_link_that_is_meant_to_be_the_bottleneck_is(make: Callable[[int], Scenario]) -> None:
    """16 flows through the incast's 10 Gbit/s, or the rack's 144: as long as they take there, and a start."""
    scenario = make(400 * 1460)
    flows = flows_of(scenario)
    assert data_pkts(scenario, flows) == 16 * 400
    simulation = Simulation(PacketsimDatapath, scenario, flows)
    assert sum(simulation.epochs_until_finished()) > 0
    wire_s = 16 * 400 * 1502 * 8 / (10e9 if make is incast else 144e9)
    finish_s = np.max(simulation.network.flow_records()["finish_s"])
    assert wire_s < finish_s < wire_s + 0.5e-3


def test_work_is_counted_from_start_to_end() -> None:
    scenario = incast(100 * 1460)
    done = work(scenario, flows_of(scenario))
    # Data and half as many ACKs cross two links each; SYN, SYN-ACK and ACK come on top.
    assert done.events > 16 * 100 * 3
    assert done.sim_ns >= 16 * 100 * 1502 * 8 / 10
    assert 1 <= done.waiting < 1000


def test_fabrics_have_the_hosts_that_the_rows_say() -> None:
    for small, large, smallest in FABRICS.values():
        assert [len(topology.build().hosts) for topology in (small, large)] == [16, 1024]
        assert len(smallest.build().hosts) < 16


def test_tasks_take_turns_from_both_ends() -> None:
    seen: list[float] = []

    def task(number: float) -> Callable[[], float]:
        def run() -> float:
            seen.append(number)
            return number

        return run

    assert in_turn(3, task(1), task(2)) == [(1, 1, 1), (2, 2, 2)]
    assert seen == [1, 2, 2, 1, 1, 2]
    assert over((4.0, 9.0), (2.0, 3.0)) == (2.0, 3.0)


@pytest.mark.parametrize(
    ("values", "verdict"), [((49.0, 51.0, 40.0), "met"), ((49.0, 51.0, 52.0), "missed"), ((50.0,), "met")]
)
def test_the_median_is_held_against_the_target(values: tuple[float, ...], verdict: str) -> None:
    assert Row("a", values, "us", at_most=50).cells()[3:] == ("<= 50", verdict)
    assert Row("a", tuple(-value for value in values), "x", at_least=-50).cells()[3:] == (">= -50", verdict)


def test_a_figure_without_a_target_is_not_judged() -> None:
    assert Row("a", (1.0, 2.0, 4.0), "ms").cells() == ("a", "2 ms", "1 to 4", "", "")


def test_an_unknown_group_is_refused_with_those_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["sped"])
    said = capsys.readouterr().err
    assert "'sped'" in said
    assert all(group in said for group in GROUPS)


@needs_extra("ns3")
def test_without_the_extension_it_says_what_to_do() -> None:
    code = (
        "import sys; sys.modules['ncc.envs.ns3._ns3'] = None\n"
        "from ncc.bench import main\nsys.exit(main(['--quick', 'environment']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "make build" in done.stdout
    assert "Traceback" not in done.stderr
