# SPDX-License-Identifier: BSD-3-Clause
"""What is run and what is kept, and what the perturbation does: on the fluid datapath, which is exact."""

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ncc.agreement.cases import FULL, JITTER_NS, QUICK, LoadCase, Perturbed, PerturbedFactory, load_cases
from ncc.agreement.runs import Runs, Side, build_of, do_runs, sides
from ncc.core.errors import ConfigError, UnknownNameError
from ncc.core.workload import offered_load
from ncc.harness.datapath import HostStack
from tests.support.experiments import controller, small_rack
from tests.support.fluid import FluidDatapath

CASE = LoadCase("small_rack", "a small rack", small_rack())
OURS, THEIRS = Side("ours", "fluid", FluidDatapath, "1"), Side("theirs", "water", FluidDatapath, "7")


def run(folder: Path, *who: Side, keep: tuple[str, ...] = (), case: LoadCase = CASE) -> Runs:
    return do_runs([case], who, [controller("fluid")], [0, 1], folder, workers=1, keep=keep)


def written(runs: Runs) -> dict[tuple[str, int], int]:
    return {
        (side, stored.seed): (stored.folder / "manifest.json").stat().st_mtime_ns
        for (_, side, _), each in runs.items()
        for stored in each
    }


def test_only_what_changed_runs_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = written(run(tmp_path, OURS, THEIRS))
    assert set(first) == {("ours", 0), ("ours", 1), ("theirs", 0), ("theirs", 1)}
    assert written(run(tmp_path, OURS, THEIRS)) == first

    rebuilt = written(run(tmp_path, replace(OURS, build="2"), replace(THEIRS, build="8"), keep=("water",)))
    assert {key for key in first if first[key] != rebuilt[key]} == {("ours", 0), ("ours", 1)}

    (tmp_path / CASE.name / "theirs" / "fluid" / "1" / "flows.parquet").write_bytes(b"rubbish")
    with caplog.at_level(logging.WARNING):
        repaired = written(run(tmp_path, THEIRS))
    assert repaired[("theirs", 0)] == rebuilt[("theirs", 0)]
    assert repaired[("theirs", 1)] != rebuilt[("theirs", 1)]
    assert "cannot be used" in caplog.text

    other = written(run(tmp_path, THEIRS, case=replace(CASE, scenario=small_rack(duration_s=0.05))))
    assert all(other[key] != repaired[key] for key in other)


def test_the_perturbed_start_later_and_are_paired_row_by_row() -> None:
    scenario = small_rack()
    flows = scenario.flows(3)
    shift = Perturbed(FluidDatapath())
    plain = FluidDatapath()
    finish = []
    for datapath in (plain, shift):
        measurement = datapath.start(scenario, flows, HostStack(transport="fluid"), 5)
        while measurement.flows_finished < len(flows):
            measurement = datapath.step(np.full(scenario.n_agents, np.inf))
        finish.append(datapath.finish().flows.finish_s)
        datapath.close()
    seen = shift._inner._flows  # type: ignore[attr-defined]
    order = shift._order
    later_ns = (seen.start_s - flows.start_s[order]) * 1e9
    assert ((later_ns > -0.5) & (later_ns < JITTER_NS + 0.5)).all()
    assert len(np.unique(np.rint(later_ns))) > len(flows) / 2
    assert (np.diff(seen.start_s) >= 0).all()
    assert np.array_equal(seen.size_bytes, flows.size_bytes[order])
    # A fluid knows no chaos: nobody's completion time moves by more than a few shifts.
    assert finish[1] == pytest.approx(finish[0], abs=1e-4)
    assert not np.array_equal(finish[0], finish[1])
    assert PerturbedFactory(FluidDatapath)().name == "fluid_perturbed"


def test_the_full_preset_is_what_is_promised() -> None:
    cases = {case.name: case.scenario for case in load_cases(FULL)}
    assert FULL.seeds >= 5
    racks = {f"rack_{table}_{load}" for table in ("websearch", "hadoop") for load in (40, 60, 80)}
    assert set(cases) == racks | {"incast"}
    for name in racks:
        (load,) = offered_load(cases[name].workload, cases[name].network()).values()
        assert load == pytest.approx(int(name[-2:]) / 100)
        assert len(cases[name].network().agent_hosts) == 16


def test_a_preset_can_be_changed_and_says_so() -> None:
    assert QUICK.changed(None, None) is QUICK
    changed = QUICK.changed(5, 0.01)
    assert (changed.name, changed.seeds, changed.duration_s, changed.incast_duration_s) == ("custom", 5, 0.01, 0.01)
    with pytest.raises(ConfigError, match="above 0"):
        QUICK.changed(0, None)


def test_builds_differ_between_datapaths_and_unknown_ones_are_refused() -> None:
    assert build_of("ns3") == build_of("ns3") != build_of("packetsim")
    with pytest.raises(UnknownNameError, match="packetsim"):
        sides("packetsin", "ns3")


def test_nothing_to_compare_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="at least one case"):
        do_runs([], [OURS], [controller("fluid")], [1], tmp_path, workers=1)
