# SPDX-License-Identifier: BSD-3-Clause
from typing import Any

import numpy as np
import pytest

from ncc.core.errors import ConfigError, DatapathError, UnknownNameError
from ncc.envs.gym import RackEnv
from ncc.envs.make import env_spec
from ncc.envs.parallel import RackParallelEnv
from ncc.envs.rack import RackBatch
from ncc.envs.vector import RackVectorEnv
from tests.envs.cases import FLOWS, listed, rack, spec

TOP = np.full(4, 10)
pytestmark = pytest.mark.filterwarnings("error:.*:UserWarning")


def make(**settings: Any) -> RackEnv:
    return RackEnv(datapath=FLOWS, scenario=rack(periods=6), **settings)


def parallel(**settings: Any) -> RackParallelEnv:
    return RackParallelEnv(datapath=FLOWS, scenario=rack(periods=6), **settings)


def test_whole_rack_equals_the_batched_environment() -> None:
    env, batch = make(), RackBatch(spec(rack(periods=6)), FLOWS, seed=11)
    first, _ = env.reset(seed=11)
    np.testing.assert_array_equal(first, batch.reset().ravel())
    rng = np.random.default_rng(0)
    for actions in rng.integers(0, 11, (6, 4)):
        obs, reward, terminated, truncated, info = env.step(actions)
        t = batch.step(actions[None])
        np.testing.assert_array_equal(obs, t.final_obs.ravel())
        np.testing.assert_array_equal(info["host_rewards"], t.reward[0])
        assert reward == pytest.approx(t.reward.mean())
        assert (terminated, truncated) == (t.terminated[0], t.truncated[0])
    np.testing.assert_array_equal(env.reset()[0], batch.reset(episode=1).ravel())
    assert env.reset()[1] == {"episode_number": 2, "time_s": 0.0, "flows_started": 0, "flows_finished": 0}


def test_one_decision_is_taken_by_every_host() -> None:
    one, each = make(space="discrete"), make()
    for env in (one, each):
        env.reset(seed=2)
    for level in (3, 10, 0):
        np.testing.assert_array_equal(one.step(np.int64(level))[0], each.step(np.full(4, level))[0])  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"one whole number per rack, of shape \(\), got shape \(4,\)"):
        one.step(TOP)
    with pytest.raises(ConfigError, match=r"is 11; allowed: whole numbers 0 to 10"):
        one.step(np.int64(11))  # type: ignore[arg-type]


def trajectory(env: RackEnv, seed: int | None) -> np.ndarray:
    env.reset(seed=seed)
    return np.array([env.step(TOP)[0] for _ in range(6)])


def test_a_seed_decides_this_episode_and_the_ones_after_it() -> None:
    one, two = make(), make()
    runs = [trajectory(one, 3), trajectory(one, None), trajectory(one, None)]
    again = [trajectory(two, 3), trajectory(two, None), trajectory(two, None)]
    np.testing.assert_array_equal(runs, again)
    assert not np.array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[1], runs[2])
    np.testing.assert_array_equal(trajectory(one, 3), runs[0])
    assert not np.array_equal(trajectory(two, 4), runs[0])


def test_without_any_seed_runs_differ() -> None:
    assert not np.array_equal(trajectory(make(), None), trajectory(make(), None))
    a, b = parallel(), parallel()
    a.reset()
    b.reset()
    top = dict.fromkeys(a.agents, 10)
    assert not np.array_equal(
        [a.step(top)[0]["host_h0"] for _ in range(6)], [b.step(top)[0]["host_h0"] for _ in range(6)]
    )


def test_one_agent_per_host_sees_and_gets_its_own_row() -> None:
    env, batch = parallel(), RackBatch(spec(rack(periods=6)), FLOWS, seed=11)
    names = ["host_h0", "host_h1", "host_h2", "host_h3"]
    obs, infos = env.reset(seed=11)
    batch.reset()
    assert env.possible_agents == env.agents == names == list(infos)
    np.testing.assert_array_equal(env.state(), np.concatenate([obs[name] for name in names]))
    ended = []
    for k in range(6):
        actions = {name: (i + k) % 11 for i, name in enumerate(names)}
        obs, rewards, _, truncated, _ = env.step(dict(reversed(actions.items())))  # order of a dict means nothing
        t = batch.step(np.array([list(actions.values())]))
        np.testing.assert_array_equal([obs[name] for name in names], t.final_obs[0])
        np.testing.assert_array_equal([rewards[name] for name in names], t.reward[0])
        ended.append(set(truncated.values()))
    assert ended == [{False}] * 5 + [{True}]
    assert env.agents == []
    with pytest.raises(DatapathError, match="reset the environment first"):
        env.step(dict.fromkeys(names, 0))


def test_termination_of_a_finite_list_is_seen_by_all() -> None:
    scenario = rack(listed((0.0, "h1", 100_000)), periods=20)
    env = RackParallelEnv(datapath=FLOWS, scenario=scenario)
    env.reset(seed=1)
    _, _, ended, timed_out, _ = env.step(dict.fromkeys(env.agents, 10))
    assert all(ended.values())
    assert not any(timed_out.values())


def test_bad_input_is_refused_by_name() -> None:
    env = make()
    with pytest.raises(DatapathError, match="reset the environment first"):
        env.step(TOP)
    env.reset(seed=1)
    with pytest.raises(ConfigError, match=r"shape \(4,\)"):
        env.step(np.zeros(5, dtype=np.int64))
    several = parallel()
    several.reset(seed=1)
    with pytest.raises(ConfigError, match="'host_h3' is missing or unknown"):
        several.step({"host_h0": 1, "host_h1": 1, "host_h2": 1})


def test_settings_are_values_or_mappings_and_typos_are_named() -> None:
    plain = {"kind": "backlog", "flows_scale": 3.0}
    assert env_spec(rack(), reward=plain).view.reward.to_dict() == {
        **plain,
        "team_frac": 1.0,
        "left_frac": 0.0,
        "weigh_bytes": 0.0,
    }
    assert env_spec(rack().to_dict()).scenario == rack()
    assert env_spec(rack(), reward=env_spec(reward=plain).view.reward) == env_spec(rack(), reward=plain)
    assert env_spec(rack(), reward="backlog") == env_spec(rack(), reward={"kind": "backlog"})
    assert env_spec(rack(), reward={"rho": 1.0}) == env_spec(rack(), reward={"kind": "utility", "rho": 1.0})
    assert (env_spec(stack="cubic").stack.transport, env_spec(action="log").view.action.kind) == ("cubic", "log")
    assert env_spec(observation="pooled").view.observation.neighbours == "pooled"
    with pytest.raises(ConfigError, match=r"env.reward.*allowed: backlog, profit_penalty, utility"):
        make(reward={"kind": "fame"})
    with pytest.raises(ConfigError, match=r"env.observation.*rtt_scales.*Did you mean.*Allowed: .*rtt_scale"):
        make(observation={"rtt_scales": 1})
    with pytest.raises(
        ConfigError, match=r"action must be a value, a mapping of its fields or a name \(its kind\), got list"
    ):
        make(action=[1])
    with pytest.raises(
        UnknownNameError, match=r"Unknown datapath 'ns4'. Did you mean 'ns3'\? Known: linux, ns3, packetsim."
    ):
        RackEnv(datapath="ns4")


def test_hosts_without_neighbours_at_an_uplink_are_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"neighbourhoods is receivers, and hosts that learn .*: set it to uplink or both"
    ):
        RackEnv(datapath=FLOWS, scenario="spread_incast")


def test_close_twice_and_reset_again() -> None:
    env = make()
    env.close()
    first = env.reset(seed=5)[0]
    env.close()
    env.close()
    np.testing.assert_array_equal(env.reset(seed=5)[0], first)


@pytest.mark.parametrize("make", [RackEnv, RackVectorEnv, RackParallelEnv])
def test_a_slip_is_taken_with_consent_only(make: Any) -> None:
    with pytest.raises(ConfigError, match=r"load_frac is 80, .*; if that is meant, add consent=True$"):
        make(scenario="rack", load_frac=80)
    make(scenario="rack", load_frac=80, consent=True).close()
