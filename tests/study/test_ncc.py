# SPDX-License-Identifier: BSD-3-Clause
"""The experiments that show what NCC is worth: held out of its training, alike for all, enough seeds."""

from dataclasses import replace

import pytest

from ncc.core.scenario import Nic, Scenario
from ncc.core.workload import Poisson
from ncc.run.compose import experiment_names
from ncc.run.config_files import config_paths
from ncc.study.checks import AnyCheck, Rank
from ncc.study.load import runs_digest
from ncc.study.result import Result
from ncc.study.table import Table
from tests.policies.files import HOST_POLICIES
from tests.study.grids import grid

NAMES = tuple(name for name in experiment_names() if name.startswith("ncc_"))
TRAINED_ON = {"cachefollower", "webserver", "datamining"}
SIMPLE = {"dctcp", "dctcp, tuned", "local_tuned", "receiver_rule"}
"""Controllers by which NCC is judged in every table."""
BLIND = {"local_tuned_blind": "local_tuned", "receiver_rule_blind": "receiver_rule"}
"""Those of `ncc_blind`, whose hosts know no sizes."""


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


@pytest.mark.parametrize("name", NAMES)
def test_ncc_is_judged_against_the_strongest_of_the_simple_over_a_modern_tcp(name: str) -> None:
    found = grid(name)

    def controllers(check: AnyCheck) -> tuple[str, ...]:
        named = (found.experiment.contenders[each] for each in check.names())
        return tuple(BLIND.get(each.controller, each.controller) + (", tuned" if each.tuned else "") for each in named)

    judged = [controllers(check) for check in found.experiment.checks.values() if isinstance(check, Rank)]
    assert any(one == "ncc" and set(others) >= SIMPLE for one, *others in judged), judged
    assert {cell.scenario.transport.recovery for cell in found.cells} == {"modern"}


@pytest.mark.parametrize("name", ["ncc_blind", "ncc_faults", "ncc_worth"])
def test_settings_of_tuned_contenders_are_theirs_alone(name: str) -> None:
    """Their threshold is set on a topology that a case of an axis gives to all."""
    found = grid(name)
    own = {contender for contender, spec in found.experiment.contenders.items() if not (spec.tuned or spec.changes)}
    marks: dict[tuple[float | str, ...], set[int]] = {}
    for cell in found.cells:
        if cell.contender in own:
            marks.setdefault(cell.point, set()).add(cell.scenario.topology.mark_threshold_bytes)
    assert all(len(each) == 1 for each in marks.values()), marks


def test_the_incast_is_the_same_in_every_table() -> None:
    def one(name: str, cell: str) -> Scenario:
        (found,) = {c.scenario for c in grid(name).cells if (c.contender, *c.point) == ("ncc", cell)}
        same = {"name": "same", "duration_s": 1.0, "neighbourhoods": "both", "nic": Nic()}
        return found.replace(**same)

    assert one("ncc_worth", "incast of 32") == one("ncc_faults", "incast") == one("ncc_blind", "incast")


def test_packaged_policies_have_a_recipe() -> None:
    assert set(HOST_POLICIES) <= set(config_paths("recipe"))


def test_results_of_seeds_that_something_was_chosen_by_are_not_published() -> None:
    """If a preset begins later, its results are others, and those of the seeds before are not the experiment."""
    found = grid("ncc_wan")
    full = found.experiment.presets["full"]
    assert full.first_seed > 0
    earlier = replace(found, experiment=found.experiment.replace(presets={"full": full.replace(first_seed=0)}))
    assert runs_digest(earlier) != runs_digest(found)
    result = Result(
        grid=found, datapath="packetsim", seeds=tuple(range(full.seeds)),
        table=Table(axes={}, contenders=(), values={}), findings={}, problems=(), n_flows=1, wall_s=1.0, cpu_s=1.0,
        commits=(),
    )  # fmt: skip
    assert not result.complete
    assert replace(result, seeds=tuple(range(full.first_seed, full.first_seed + full.seeds))).complete
