# SPDX-License-Identifier: BSD-3-Clause
"""Contenders that are learned, or that differ from their controller in its stack or its limit."""

from pathlib import Path
from typing import Any

import pytest

from ncc.agents.policy import packaged_policy
from ncc.core.errors import ConfigError, ResultError
from ncc.harness.atomic import file_digest
from ncc.harness.controller import MaxMinLimit, PolicyLimit, ShortestFirstLimit
from ncc.harness.datapath import HostStack
from ncc.run.compose import load_datapath
from ncc.run.controllers import load_controller
from ncc.run.limiters import LimiterFactory
from ncc.study.load import runs_digest
from ncc.study.points import PACKAGED, Grid, grid_of
from ncc.study.run import run_experiment
from ncc.study.spec import experiment_from
from tests.study.toy import toy
from tests.support.experiments import small_rack
from tests.support.here import Here
from tests.support.policies import package
from tests.support.tables import table

RACK: dict[str, Any] = {**small_rack(duration_s=0.05).to_dict(), "name": "toy"}
FCTS: dict[str, Any] = {
    "fct": {"kind": "fct"},
    "least": {"kind": "bound", "sharing": "srpt"},
    "fair": {"kind": "bound", "sharing": "fair"},
}
CHECK: dict[str, Any] = {"claim": "", "measure": "fct", "one": "learned"}


def grid(packaged: Path | None = None, preset: str = "quick", **contenders: dict[str, Any]) -> Grid:
    """The toy on a small rack, with DCTCP and these contenders, and an axis that does nothing."""
    plain = toy(
        scenario=RACK,
        contenders={"dctcp": {"controller": "dctcp"}, **contenders},
        axes={"k": {"label": "k", "cases": {"one": {}}}},
        measures=FCTS,
        checks={"above": {**CHECK, "kind": "order", "one": "dctcp", "other": "dctcp", "relation": ">="}},
        values=[],
        panels=[{"measure": "fct"}],
        presets__quick__axes={},
        presets__quick__seeds=2,
    )
    experiment, scenario = experiment_from(plain, "toy")
    return grid_of(
        "toy", experiment, scenario, preset, policies=LimiterFactory(None, packaged) if packaged else PACKAGED
    )


def made(of: Grid, contender: str) -> Any:
    (cell,) = (cell for cell in of.cells if cell.contender == contender)
    return cell.controller


def test_fields_of_the_stack_and_the_limit_are_merged_over_the_controller_s() -> None:
    of = grid(
        fifo={"controller": "ncc_order", "stack": {"order": "fifo"}},
        sooner={"controller": "ncc_order", "stack": {"order_params": [["omega_milli", 100]]}, "params": {"g_shift": 5}},
        reno={"controller": "shortest_first", "stack": {"transport": "newreno"}, "limit": {"alike": 2}},
        shared={"controller": "shortest_first", "limit": {"kind": "max_min", "headroom_frac": 0.1}},
    )
    own = load_controller("ncc_order").stack
    assert made(of, "fifo").stack == HostStack(transport="dctcp", order="fifo"), "another order has other parameters"
    assert made(of, "sooner").stack == own.replace(order_params=(("omega_milli", 100),), params=(("g_shift", 5),))
    assert made(of, "reno").stack.transport == "newreno"
    assert made(of, "reno").stack.order == "upsilon"
    first = load_controller("shortest_first").limit
    assert isinstance(first, ShortestFirstLimit)
    assert made(of, "reno").limit == first.replace(alike=2.0)
    assert made(of, "shared").limit == MaxMinLimit(headroom_frac=0.1)
    assert grid(a={"controller": "ncc_order"}).digest() != grid(a={"controller": "ncc_order", **FIFO}).digest()


FIFO: dict[str, Any] = {"stack": {"order": "fifo"}}


@pytest.mark.parametrize(("contender", "said"), table(__file__, "refused.yaml")["contenders"])
def test_what_is_no_contender_is_refused_by_name(contender: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=said):
        grid(tmp_path, it=contender)


def test_learned_contenders_run_what_is_packaged_and_its_digest_is_theirs(tmp_path: Path) -> None:
    learned = {"controller": "ncc"}
    with pytest.raises(ConfigError, match=r"contender 'learned', k one: .*none called 'ncc' came with ncc"):
        grid(tmp_path, learned=learned)
    trained = HostStack(transport="newreno", order="upsilon", order_params=(("omega_milli", 500),))
    package(tmp_path, small_rack(), action=1, stack=trained)
    of = grid(tmp_path, learned=learned)
    assert made(of, "learned").stack == trained.replace(hold=True, answer_frac=0.6)
    assert of.cells[1].inputs == {"policy": file_digest(packaged_policy("ncc", tmp_path))}
    assert of.cells[0].inputs == {}
    for change in ({"order": "fifo"}, {"transport": "dctcp"}):
        ablated = made(grid(tmp_path, learned={**learned, "stack": change}), "learned")
        assert ablated.stack != trained
        assert isinstance(ablated.limit, PolicyLimit)
        assert ablated.limit.stack == "own"
    with pytest.raises(ConfigError, match="leave its params out"):
        grid(tmp_path, learned={**learned, "params": {"g_shift": 4}})
    before = of.digest(), runs_digest(of)
    package(tmp_path, small_rack(), action=2, stack=trained)
    after = grid(tmp_path, learned=learned)
    assert before[0] != after.digest(), "another policy is another experiment"
    assert before[1] != runs_digest(after)
    path = packaged_policy("ncc", tmp_path)
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(ResultError, match=r"ncc\.ncc is (no policy file|damaged)"):
        grid(tmp_path, learned=learned)
    package(tmp_path, small_rack(topology={**RACK["topology"], "hosts": 4, "uplink_rate_bps": 1e9}))
    assert grid(tmp_path, learned=learned), "of another network of as many hosts"


def test_an_experiment_runs_a_packaged_policy_between_dctcp_and_the_bounds(tmp_path: Path) -> None:
    package(tmp_path / "pretrained", small_rack(), action=1)
    of = grid(tmp_path / "pretrained", learned={"controller": "ncc"}, oracle={"controller": "shortest_first"})
    packetsim, out = load_datapath("packetsim"), tmp_path / "out"
    result = run_experiment(of, packetsim, (0, 1), out, executor=Here(), config={}, figures=("pdf", "svg"))
    assert not result.problems
    begins = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}
    assert {form: (out / f"figure.{form}").read_bytes()[: len(text)] for form, text in begins.items()} == begins
    value = {name: result.table.value("fct", name, ("one",)) for name in ("dctcp", "learned", "oracle")}
    least, fair = (result.table.value(bound, "dctcp", ("one",)) for bound in ("least", "fair"))
    assert least < fair
    assert least < min(value.values())
    assert value["learned"] > value["dctcp"], "it always takes the lowest limit but one"
    assert result.table.values["least", "learned", ("one",)] == result.table.values["least", "dctcp", ("one",)]
