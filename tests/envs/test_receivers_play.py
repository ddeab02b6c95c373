# SPDX-License-Identifier: BSD-3-Clause
"""Receivers as agents in every kind of environment, and what they learn there."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from pettingzoo.test import parallel_api_test  # type: ignore[import-untyped]

from ncc.agents.a3c.config import A3cConfig
from ncc.agents.policy import load_policy, save_policy
from ncc.core.errors import ConfigError
from ncc.envs.action import ActionSpec, RuleSetting
from ncc.envs.make import env_spec
from ncc.envs.observation import ObservationSpec, obs_dim, rule_of
from ncc.envs.packetsim import PacketsimDatapath
from ncc.envs.parallel import RackParallelEnv
from ncc.envs.rack import RackBatch
from ncc.envs.ranges import trained_ranges
from ncc.envs.vector import RackVectorEnv
from ncc.harness.networks import InProcesses
from ncc.harness.run import run_once
from ncc.policies.export import ExportSpec, Source, describe
from ncc.policies.header import Origin
from ncc.run.controllers import load_controller
from ncc.run.limiters import LimiterFactory
from ncc.run.racks import RackFactory
from tests.agents.fitting import fit
from tests.envs.cases import rack
from tests.envs.test_receivers import BACKLOG, GYM, HOLD, PAIRS, SENDERS, SETTINGS, STAR, TOP, spec
from tests.support.extras import needs_extra


def test_an_environment_that_chooses_the_rule_plays_what_an_evaluation_plays() -> None:
    env = RackBatch(spec(), PacketsimDatapath, seed=5)
    env.reset()
    flows = STAR.flows(spec().episode_seed(5, 0, 0))
    rule, datapath = rule_of(STAR).build(), PacketsimDatapath()
    rule.reset(STAR, 0)
    measurement = datapath.start(STAR, flows, HOLD, 0)
    for _ in range(190):
        decision = rule.decide(measurement)
        datapath.tell(decision.grants)
        measurement = datapath.step(decision.limits_bps)
        known = float(measurement.edges.flows.sum())
        moved = env.step(np.full((1, 1), TOP))
        assert moved.reward.tolist() == [[pytest.approx(-known / BACKLOG.flows_scale)]]
    assert measurement.flows_finished > 0


@pytest.mark.parametrize("seen", [SENDERS, PAIRS])
def test_racks_side_by_side_are_as_if_alone(seen: ObservationSpec) -> None:
    """In one call of packetsim and in processes: messages and what receivers know belong to each rack."""
    rng = np.random.default_rng(1)
    rows = seen.rows_per_receiver
    actions = rng.integers(0, SETTINGS.n_actions, (80, 2, rows))
    alone = [RackBatch(spec(seen), PacketsimDatapath, 3, i) for i in range(2)]
    batch = RackBatch(spec(seen), PacketsimDatapath, 3, n_racks=2, threads=2)
    processes = RackBatch(spec(seen), InProcesses(PacketsimDatapath), 3, n_racks=2)
    try:
        first = np.concatenate([env.reset() for env in alone])
        np.testing.assert_array_equal(batch.reset(), first)
        np.testing.assert_array_equal(processes.reset(), first)
        busy = 0.0
        for chosen in actions:
            one = [env.step(chosen[i : i + 1]) for i, env in enumerate(alone)]
            for several in (batch, processes):
                moved = several.step(chosen)
                np.testing.assert_array_equal(moved.obs, np.concatenate([each.obs for each in one]))
                np.testing.assert_array_equal(moved.reward, np.concatenate([each.reward for each in one]))
            busy += float(one[0].reward.sum())
        assert busy < 0
    finally:
        processes.close()


@needs_extra("ns3")
def test_receivers_decide_on_ns3_too() -> None:
    env = RackBatch(spec(), InProcesses(_ns3()), 3)
    try:
        env.reset()
        rewards = [float(env.step(np.full((1, 1), TOP)).reward.sum()) for _ in range(60)]
        assert min(rewards) < 0
    finally:
        env.close()


def _ns3() -> Any:
    from ncc.envs.ns3.datapath import Ns3Datapath

    return Ns3Datapath


@pytest.mark.filterwarnings("error:.*:UserWarning")
@pytest.mark.parametrize("name", ["ncc/Rack-v0", "ncc/RackOne-v0"])
def test_gymnasiums_own_checks(name: str) -> None:
    check_env(gymnasium.make(name, **GYM).unwrapped)


def test_a_vector_is_what_its_racks_are() -> None:
    vector, one = RackVectorEnv(2, **GYM), gymnasium.make("ncc/Rack-v0", **GYM)
    first, _ = vector.reset(seed=4)
    np.testing.assert_array_equal(first[0], one.reset(seed=4)[0])
    rng = np.random.default_rng(2)
    for _ in range(30):
        chosen = rng.integers(0, SETTINGS.n_actions, (2, 3))
        seen, paid, *_ = vector.step(chosen)
        alone = one.step(chosen[0])
        np.testing.assert_array_equal(seen[0], alone[0])
        assert paid[0] == pytest.approx(alone[1])
    vector.close()


def test_pettingzoos_own_checks_and_names() -> None:
    env = RackParallelEnv(**GYM)
    assert env.possible_agents == ["receiver_receiver_1", "receiver_receiver_2", "receiver_receiver_3"]
    parallel_api_test(env, num_cycles=50)
    assert RackParallelEnv(**GYM | {"observation": "senders"}).possible_agents == ["receiver_receiver"]


def _returns(env: RackBatch, policy: Any, episodes: int) -> float:
    obs, rewards = env.reset(), 0.0
    for _ in range(episodes * 200):
        moved = env.step(policy(obs))
        obs, rewards = moved.obs, rewards + float(moved.reward.mean())
    return rewards / episodes


def test_a_policy_of_pairs_learns_to_leave_holds_alone(tmp_path: Path) -> None:
    """Seven of eight settings hold a flow for 1.5 ms or more. A2C begins with all alike and ends within 5 % of the
    rule's return, and greedy within 1 %."""
    pytest.importorskip("torch", reason="training needs the torch extra")
    holds = ActionSpec(kind="settings", settings=tuple(RuleSetting(wait_periods=15 + i) for i in range(7)))
    where = spec(ObservationSpec(neighbours="pairs"), action=holds)
    config = A3cConfig(
        mode="sync", racks=2, rollout=25, epochs=3000, gamma=0.95, learning_rate=5e-3, hidden=(16,), entropy_coef=1e-3
    )
    fit(config, lambda worker: RackBatch(where, PacketsimDatapath, 1, n_racks=2), tmp_path)
    trained, _ = load_policy(tmp_path / "policy.npz")
    untrained, _ = load_policy(tmp_path / "policy_untrained.npz")
    judged, rng = RackBatch(where, PacketsimDatapath, 2), np.random.default_rng(0)
    rule = _returns(judged, lambda obs: np.full((1, 8), 7), 5)
    assert _returns(judged, lambda obs: untrained.act(obs, rng), 5) < 1.1 * rule
    assert _returns(judged, lambda obs: trained.act(obs, rng), 5) > 1.05 * rule
    assert _returns(judged, lambda obs: trained.act(obs, None), 5) > 1.01 * rule


def test_a_trained_policy_is_a_controller(tmp_path: Path) -> None:
    layers = [(np.zeros((SETTINGS.n_actions, obs_dim(SENDERS, STAR)), np.float32), np.eye(SETTINGS.n_actions)[TOP])]
    meta = {
        "observation": SENDERS.to_dict(),
        "action": SETTINGS.to_dict(),
        "reward": BACKLOG.to_dict(),
        "scenario": STAR.to_dict(),
        "stack": HOLD.to_dict(),
        "trained": trained_ranges([STAR]).to_dict(),
    }
    save_policy(tmp_path / "policy.npz", layers, meta)
    factory = LimiterFactory(tmp_path)
    finish_s = {}
    for name in ("trained", "receiver_rule"):
        controller = factory.resolved(load_controller(name))
        limiter = factory(controller, STAR)
        done = run_once(PacketsimDatapath(), STAR, controller, limiter, 1, flow_seed=2).require_valid()
        finish_s[name] = done.records.flows.finish_s
    np.testing.assert_array_equal(finish_s["trained"], finish_s["receiver_rule"])
    with pytest.raises(ConfigError, match="decides for receivers, and scenario 'small' has none"):
        factory(factory.resolved(load_controller("trained")), rack())
    origin = Origin(source="run", policy_sha256="0" * 64, seed=1, recipe={}, facts={}, provenance={}, exported_by="0")
    with pytest.raises(ConfigError, match="is a policy of receivers, and agents on hosts only set limits"):
        describe(ExportSpec(run="run"), Source(tmp_path / "policy.npz", "ncc", origin), None)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"scenario": rack()}, "neighbourhoods=uplink goes with hosts that choose rates"),
        ({"observation": "pooled", "action": "levels"}, "neighbourhoods=receivers goes with receivers that choose"),
        ({"action": "levels"}, "'settings' and observation.neighbours 'senders' or 'pairs' need each other"),
        ({"observation": "ranked"}, "need each other: receivers choose settings, hosts rates"),
        ({"observation": {"neighbours": "pairs", "ages": True}}, "ages must be false with neighbours 'pairs'"),
        ({"observation": {"neighbours": "pairs", "senders": 0}}, "senders must be `int` >= 1"),
        ({"reward": "utility"}, "reward.kind must be 'backlog' for receivers"),
        ({"reward": {"kind": "backlog", "left_frac": 1.0}}, "reward.kind must be 'backlog' for receivers"),
        (
            {"action": {"kind": "settings", "settings": [{"ahead_frac": 0.6, "window_frac": 0.5}]}},
            "does not fit the buffer, got 0.6 and 0.5",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        env_spec(**GYM | change)


def test_bad_choices_are_refused_by_name() -> None:
    env = RackBatch(spec(PAIRS), PacketsimDatapath, 1)
    env.reset()
    with pytest.raises(ConfigError, match=r"rack 0: action of host receiver_2 is 10; allowed: whole numbers 0 to 9"):
        env.step(np.array([[0, 10]]))
    with pytest.raises(ConfigError, match=r"actions must have shape \(1, 2\), got \(1, 3\)"):
        env.step(np.zeros((1, 3), int))
    with pytest.raises(ConfigError, match="has action"):
        RackVectorEnv(1, space="box", **GYM)


def test_families_are_refused() -> None:
    from ncc.run.compose import composed
    from ncc.run.plan import TrainPlan, planned

    plain = planned(composed("train", ("experiment=ncc", "env=receivers", "env/reward=backlog")))
    plan = TrainPlan.from_plain(plain | {"families": {**plain["families"]}})
    with pytest.raises(ConfigError, match="families are of hosts that choose rates"):
        RackFactory(spec(), PacketsimDatapath, 1, families=plan.families)
