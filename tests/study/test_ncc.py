# SPDX-License-Identifier: BSD-3-Clause
"""The experiments that show what NCC is worth: held out of its training, alike for all, enough seeds."""

import re
from dataclasses import replace

import pytest

from ncc.agents.packaged import packaged_names
from ncc.core.scenario import Scenario
from ncc.core.workload import Poisson
from ncc.harness.controller import LocalLimit
from ncc.run.compose import experiment_names, recipe_names
from ncc.run.controllers import load_controller
from ncc.study.experiments_page import Results, full_tables
from ncc.study.load import load_experiment, runs_digest
from ncc.study.result import Result
from ncc.study.table import Table
from tests.study.grids import grid

NAMES = tuple(name for name in experiment_names() if name.startswith("ncc_"))
MAIN = ("ncc_uplink", "ncc_incast", "ncc_wan")
TRAINED_ON = {"cachefollower", "webserver", "datamining"}
FORMULAS = {"local", "local_hold", "local_tuned", "local_blind", "local_hold_blind"}
TABLE = FORMULAS | {
    "ncc", "dctcp", "bbr", "cubic", "gemini", "vegas", "bcc", "ncc_order", "max_min", "shortest_first",
    "fixed_share", "dctcp_tuned", "bbr_tuned", "cubic_tuned", "gemini_tuned", "vegas_tuned",
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_flows_are_held_out_and_the_same_for_all_over_ten_seeds(name: str) -> None:
    found = grid(name)
    assert found.experiment.presets["full"].seeds >= 10
    flows: dict[tuple[float | str, ...], set[bytes]] = {}
    for cell in found.cells:
        traffic = [part for _, part in cell.scenario.workload]
        assert not {part.distribution for part in traffic if isinstance(part, Poisson)} & TRAINED_ON
        flows.setdefault(cell.point, set()).add(cell.scenario.flows(0).start_s.tobytes())
    assert all(len(each) == 1 for each in flows.values())


@pytest.mark.parametrize("name", sorted({*NAMES} - {"ncc_linux_learned", "ncc_worth"}))
def test_every_table_has_the_formulas_and_only_those_called_blind_know_no_sizes(name: str) -> None:
    """`ncc_linux_learned` has the kernel's order, and `ncc_worth` the best formulas alone."""
    found = grid(name)
    assert set(found.experiment.contenders) >= {*FORMULAS, "ncc"}
    for cell in found.cells:
        if cell.contender in FORMULAS:
            assert isinstance(cell.controller.limit, LocalLimit)
            assert cell.controller.limit == load_controller(cell.contender).limit
            blind = cell.contender.endswith("_blind")
            assert cell.scenario.nic.knows == ("backlog" if blind else "sizes")
            assert cell.controller.stack.order == ("known" if blind else "upsilon")


@pytest.mark.parametrize("name", MAIN)
def test_the_main_tables_have_every_contender_on_a_switch_as_deep(name: str) -> None:
    found = grid(name)
    assert set(found.experiment.contenders) == TABLE
    for cell in found.cells:
        if cell.contender != "bcc":
            continue
        (dctcp,) = (c for c in found.cells if (c.contender, c.point) == ("dctcp", cell.point))
        assert reach_bytes(cell.scenario) == reach_bytes(dctcp.scenario)
        assert cell.scenario.topology.mark_threshold_bytes == dctcp.scenario.topology.mark_threshold_bytes


@pytest.mark.parametrize("name", sorted({*NAMES} - {"ncc_incast_tcp", "ncc_worth"}))
def test_ncc_is_judged_against_tuned_opponents_over_a_modern_tcp(name: str) -> None:
    """`ncc_incast_tcp` alone also shows what settings change, and `ncc_worth` what Vegas is worth as it is."""
    found = grid(name)
    contenders = found.experiment.contenders
    for other in {"dctcp", "bbr", "cubic", "gemini", "vegas"} & set(contenders):
        tuned = contenders[f"{other}_tuned"]
        assert (tuned.controller, bool(tuned.tuned), tuned.changes) == (contenders[other].controller, True, {})
    for check in found.experiment.checks.values():
        compared = set(check.names())
        assert "dctcp" not in compared or len(compared) == 1 or "dctcp_tuned" in compared
    assert {cell.scenario.transport.recovery for cell in found.cells} == {"modern"}


@pytest.mark.parametrize("name", ["ncc_blind", "ncc_sharing"])
def test_settings_of_tuned_contenders_are_theirs_alone(name: str) -> None:
    """Their threshold is set on a topology that a case of an axis gives to all."""
    found = grid(name)
    own = {contender for contender, spec in found.experiment.contenders.items() if not (spec.tuned or spec.changes)}
    marks: dict[tuple[float | str, ...], set[int]] = {}
    for cell in found.cells:
        if cell.contender in own:
            marks.setdefault(cell.point, set()).add(cell.scenario.topology.mark_threshold_bytes)
    assert all(len(each) == 1 for each in marks.values()), marks


def reach_bytes(scenario: Scenario) -> int:
    """The longest that a lone queue may get at the first uplink."""
    network = scenario.network()
    return network.reach_bytes(network.neighbourhoods[0].uplink_port)


def test_the_two_cells_are_those_of_the_main_tables() -> None:
    def one(name: str, **at: float | str) -> Scenario:
        found = grid(name)
        point = tuple(at[axis] for axis in found.axes)
        return next(c.scenario for c in found.cells if c.contender == "ncc" and c.point == point)

    uplink, incast = (one("ncc_sharing", cell=cell, delay=1.0) for cell in ("uplink", "incast"))
    same = {"name": "same", "duration_s": 1.0}
    assert uplink.replace(**same) == one("ncc_uplink", sizes="websearch", load=80.0).replace(**same)
    assert incast.replace(**same) == one("ncc_incast", sizes="websearch", fan_in=32.0).replace(**same)
    assert load_experiment("ncc_period")[0].axes["cell"] == load_experiment("ncc_sharing")[0].axes["cell"]


def test_packaged_policies_have_a_recipe() -> None:
    assert set(packaged_names()) <= set(recipe_names())


def test_two_datapaths_are_held_against_each_other_on_the_page() -> None:
    def result(datapath: str, value: float | None, seeds: list[int]) -> dict[str, object]:
        cell = {"measure": "m", "contender": "a", "at": [1.0], "value": value, "low": None, "high": None, "paper": None}
        words = {"title": "t", "paper": dict.fromkeys(("title", "figure", "section", "shows"), "x"), "notes": ""}
        facts = {"preset": "full", "reduced": "", "n_flows": 1, "cpu_s": 1, "commits": ["c"], "problems": []}
        return {
            **words, **facts, "datapath": datapath, "runs": "0", "seeds": seeds, "holds": True, "checks": [],
            "contenders": {"a": "A"}, "axes": {"k": {"label": "k", "points": [1.0]}}, "values": [], "cells": [cell],
            "measures": {"m": {"title": "measure", "scale": 1.0, "digits": 3}},
        }  # fmt: skip

    def page(ours: float | None, theirs: float | None, seeds: int = 2) -> str:
        results: Results = {
            "ns3": result("ns3", theirs, [0, 1]),
            "packetsim": result("packetsim", ours, [*range(seeds)]),
        }
        return full_tables("e", results)

    assert "packetsim over ns3" in page(1.0, 1.04)
    assert re.search(r"\| measure \| 1 \| 0\.962 \|", page(1.0, 1.04))
    assert re.search(r"\| measure \| 1 \| \*\*1\.100\*\* \|", page(1.1, 1.0))
    assert re.search(r"\| measure \| 1 \| 1\.000 \|", page(0.0, 0.0))
    assert re.search(r"\| measure \| 1 \| – \|", page(0.1, 0.0))  # noqa: RUF001
    assert "packetsim over ns3" not in page(1.0, 1.0, seeds=3), "on other flows"


def test_results_of_seeds_that_something_was_chosen_by_are_not_published() -> None:
    """If a preset begins later, its results are others, and those of the seeds before are not the experiment."""
    found = grid("ncc_wan")
    full = found.experiment.presets["full"]
    assert full.first_seed > 0
    earlier = replace(
        found, experiment=found.experiment.replace(presets={"full": full.replace(first_seed=0)}), source="as written"
    )
    assert runs_digest(earlier) != runs_digest(found)
    result = Result(
        grid=replace(found, source="as written"), datapath="packetsim", seeds=tuple(range(full.seeds)),
        table=Table(axes={}, contenders=(), values={}), findings={}, problems=(), n_flows=1, wall_s=1.0, cpu_s=1.0,
        commits=(),
    )  # fmt: skip
    assert not result.complete
    assert replace(result, seeds=tuple(range(full.first_seed, full.first_seed + full.seeds))).complete
