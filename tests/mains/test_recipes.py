# SPDX-License-Identifier: BSD-3-Clause
"""Recipes of training by command: `ncc train recipe=<name>`, and training on families."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ncc.agents.policy import load_policy
from ncc.core.scenario import Scenario, scenario_from_dict
from ncc.core.workload import Incast, Poisson
from ncc.envs.families import Choice, Families, Family
from ncc.harness.manifest import read_manifest
from ncc.policies import load_policy_file
from ncc.run import compose
from ncc.run.config_files import config_paths
from ncc.run.folders import read_learning
from ncc.run.plan import TrainPlan, planned
from ncc.study.load import load_experiment
from tests.mains.commands import TINY, ncc


@cache
def composed(*overrides: str) -> dict[str, Any]:
    """The settings that `ncc train` makes of a command line, as the plan takes them."""
    return planned(compose.composed("train", overrides))


@pytest.mark.parametrize("name", config_paths("recipe"))
def test_every_recipe_is_a_plan(name: str) -> None:
    plan = TrainPlan.from_plain(composed(f"recipe={name}"))
    assert plan.families.of or plan.env.action.kind == "residual"


@pytest.mark.parametrize("hold", [True, False])
def test_a_training_leaves_it_to_the_rule_of_receivers_whether_flows_wait(hold: bool) -> None:
    plan = TrainPlan.from_plain(composed("evaluation.controllers=[ncc,trained]", f"+stack.hold={not hold!s}"))
    own, (beside, alone) = plan.evaluation.load()[0], plan.controllers()
    assert own.stack.hold
    assert beside.stack == own.stack
    held = own.replace(stack=own.stack.replace(hold=hold, answer_frac=None))
    assert held.over(plan.stack).stack == plan.stack.replace(hold=hold)
    assert alone.stack == plan.stack


def test_the_command_line_wins_over_a_recipe_and_the_recipe_over_the_defaults() -> None:
    default, recipe = composed(), composed("recipe=ncc")
    assert (default["stack"]["order"], recipe["stack"]["order"]) == ("fifo", "srpt")
    assert (default["env"]["observation"]["neighbours"], recipe["env"]["observation"]["neighbours"]) == (
        "each",
        "ordered",
    )
    typed = ("recipe=ncc", "agent=a2c", "stack.order=fifo", "agent.racks=3", "families.of.uplink.weight=7")
    changed = composed(*typed)
    assert (changed["stack"]["order"], changed["agent"]["racks"], changed["agent"]["mode"]) == ("fifo", 3, "sync")
    assert changed["families"]["of"]["uplink"]["weight"] == 7
    assert changed["families"]["of"]["incast"] == recipe["families"]["of"]["incast"]


def test_what_ncc_is_judged_by_is_held_out_of_its_training() -> None:
    families = TrainPlan.from_plain(composed("recipe=ncc")).families
    drawn = [families.draw(1, slot, episode) for slot in range(40) for episode in range(3)]
    drawn += [scenario for name in families.of for scenario in families.tried(name)]
    assert {t.distribution for s in drawn for _, t in s.workload if isinstance(t, Poisson)} == {
        "cachefollower",
        "webserver",
        "datamining",
    }
    assert {scenario.n_agents for scenario in drawn} == {2, 4, 8, 16, 32}
    assert {s.name for s in drawn} == {"uplink", "slow_uplink", "fast_hosts", "incast"}
    assert all(isinstance(t, Poisson | Incast) for s in drawn for _, t in s.workload)
    # The uplink and the WAN that NCC is judged on cannot be drawn; incasts are judged inside their family's ranges.
    wan = scenario_from_dict(load_experiment("ncc_wan")[1]).topology.to_dict()
    assert wan["kind"] == "two_datacentres"
    assert not [each for each, family in families.of.items() if may_draw(family, wan)]
    for name in ("rack", "rack_10g"):
        judged = scenario_of(name).topology.to_dict()
        assert not [each for each, family in families.of.items() if may_draw(family, judged)]
    assert may_draw(families.of["incast"], {**drawn_incast(families), "delay_s": 10e-6, "buffer_bytes": 100_000})


def drawn_incast(families: Families) -> dict[str, Any]:
    return families.tried("incast")[0].topology.to_dict()


def may_draw(family: Family, topology: dict[str, Any]) -> bool:
    """True if every field of a topology is the family's own, or lies in the range that the family varies it in."""
    own = scenario_from_dict({**family.scenario, "duration_s": 0.1}).topology.to_dict()
    if own["kind"] != topology["kind"]:
        return False
    draws = {key.removeprefix("topology."): draw for key, draw in family.varies.items() if key.startswith("topology.")}

    def fits(key: str, value: Any) -> bool:
        draw = draws.get(key)
        if draw is None:
            return bool(value == own[key])
        return value in draw.values if isinstance(draw, Choice) else draw.low <= value <= draw.high

    return all(fits(key, value) for key, value in topology.items())


def scenario_of(name: str) -> Scenario:
    return TrainPlan.from_plain(composed(f"scenario={name}", "evaluation.seeds=1")).scenario


def test_training_on_families_from_end_to_end(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="training needs the torch extra")
    few = ("agent=a2c", "agent.racks=2", "agent.epochs=120", "families.epochs=15", "families.drain_epochs=0")
    judged = ("evaluation.seeds=1", "evaluation.datapaths=[packetsim]", "evaluation.controllers=[ncc,dctcp]")
    fewer = (f"~families.of.{name}" for name in ("slow_uplink", "fast_hosts"))
    done = ncc("train", "recipe=thesis", *TINY, *few, *fewer, *judged, "out=run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Training a2c on incast, uplink (32 hosts to a slot, packetsim)" in done.stdout
    run = tmp_path / "run"
    assert "policy.ncc" in read_manifest(run, "training").files
    assert sum(len(row["returns"]) for row in read_learning(run)) == 8, "four of each of two slots"
    _, meta = load_policy(run / "policy.ncc")
    plan = TrainPlan.load(run)
    assert meta["families"] == json.loads(plan.families.to_json())
    assert json.loads((run / "config.json").read_text())["families"]["epochs"] == 15
    elsewhere = ("run=run", "controller=ncc", "scenario=incast", "datapath=packetsim", "duration_s=0.05", "seeds=1")
    done = ncc("evaluate", *elsewhere, cwd=tmp_path)
    assert done.returncode == 0, f"32 hosts in place of 4: {done.stderr}"


def test_multiples_of_a_formula_from_end_to_end(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="training needs the torch extra")
    few = ("agent.mode=sync", "agent.racks=8", "agent.rollout=25", "agent.epochs=3200", "agent.evolve_frac=0.5")
    shorter = ("families.epochs=40", "families.drain_epochs=10")
    short = ("evaluation.duration_s=0.05", "evaluation.seeds=1", "evaluation.datapaths=[packetsim]")
    done = ncc("train", "recipe=ncc_short", *few, *shorter, *short, "out=run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (
        "Training a3c_pairs on incast, uplink, slow_uplink, fast_hosts (32 hosts to a slot, packetsim)" in done.stdout
    )
    assert "judged on incast and uplink" in done.stdout
    assert [line.split(":")[0] for line in done.stdout.splitlines()[-3:]] == ["incast", "uplink", "Picture"]
    assert (tmp_path / "run/evaluation_uplink/comparison.json").is_file()
    run = tmp_path / "run"
    policy, meta = load_policy(run / "policy.ncc")
    assert (policy.n_actions, meta["action"]["formula"]) == (1, "local_hold")
    untrained, _ = load_policy(run / "policy_untrained.ncc")
    assert not untrained.layers[-1][0].any()
    elsewhere = ("run=run", "scenario=incast", "datapath=packetsim", "duration_s=0.05", "seeds=1")
    done = ncc("evaluate", *elsewhere, "controller=[ncc,ncc_formula]", cwd=tmp_path)
    assert done.returncode == 0, f"32 hosts in place of 16: {done.stderr}"
    done = ncc("evaluate", *elsewhere, "controller=ncc_untrained", "out=drawn", cwd=tmp_path)
    assert done.returncode != 0
    assert "decides on numbers and has no odds" in done.stderr
    done = ncc("export", "run=run", "out=mine.ncc", "stack={transport: cubic}", "within={hosts: [2, 8]}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    changed = load_policy_file(tmp_path / "mine.ncc").header
    assert changed.stack.to_dict() == {
        **load_policy_file(run / "policy.ncc").header.stack.to_dict(),
        "transport": "cubic",
    }
    assert changed.fallback.stack.transport == "cubic"
    assert changed.action.to_dict()["within"]["hosts"] == (2, 8)
