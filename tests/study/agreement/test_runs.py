# SPDX-License-Identifier: BSD-3-Clause
"""The cases under load, and what the perturbation does: on the fluid datapath, which is exact."""

import numpy as np
import pytest

from ncc.core.workload import offered_load
from ncc.harness.datapath import HostStack
from ncc.run.compose import load_datapath
from ncc.study.agreement.cases import JITTER_NS, PRESETS, Perturbed, load_cases, perturbed
from tests.support.experiments import small_rack
from tests.support.fluid import FluidDatapath


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
    assert shift.name == "fluid_perturbed"


def test_a_perturbed_datapath_has_runs_of_its_own() -> None:
    plain = load_datapath("packetsim")
    assert perturbed(plain).name == "packetsim_perturbed"
    assert perturbed(plain).identity != plain.identity
    assert isinstance(perturbed(plain).load()(), Perturbed)


def test_the_full_preset_is_what_is_promised() -> None:
    full = PRESETS["full"]
    cases = {case.name: case.scenario for case in load_cases(full)}
    assert full.seeds >= 5
    racks = {f"rack_{table}_{load}" for table in ("websearch", "hadoop") for load in (40, 60, 80)}
    assert set(cases) == racks | {"incast"}
    assert {scenario.transport.recovery for scenario in cases.values()} == {"classic"}
    for name in racks:
        (load,) = offered_load(cases[name].workload, cases[name].network()).values()
        assert load == pytest.approx(int(name[-2:]) / 100)
        assert len(cases[name].network().agent_hosts) == 16
