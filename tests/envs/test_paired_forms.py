# SPDX-License-Identifier: BSD-3-Clause
"""Pairs in the environments of other people's learners."""

from contextlib import closing
from typing import Any

import gymnasium
import numpy as np
import pytest

import ncc  # noqa: F401 - registers
from ncc.core.errors import ConfigError
from ncc.envs.gym import RackEnv
from ncc.envs.make import env_spec
from ncc.envs.packetsim.datapath import PacketsimDatapath
from ncc.envs.pairs import Pairs, paired
from ncc.envs.parallel import RackParallelEnv
from ncc.envs.rack import RackBatch
from ncc.envs.sb3 import HostVecEnv
from ncc.envs.vector import RackVectorEnv
from tests.envs.cases import listed, poisson, rack

LENGTH = 25
SETTINGS: dict[str, Any] = {"scenario": rack(poisson(0.9), periods=LENGTH), "action": "log"}
BOTH = pytest.mark.parametrize("pairs", [Pairs(noise_periods=5), Pairs(paid="mean", copies=4)])


def reference(pairs: Pairs, n_racks: int, seed: int) -> Any:
    """Environment of our own learners."""
    made = env_spec(pairs=pairs, **SETTINGS)
    return paired(RackBatch(made, PacketsimDatapath, seed, n_racks=n_racks, copies=pairs.copies), pairs, seed)


def drawn(n: int, steps: int) -> np.ndarray:
    return np.random.default_rng(1).uniform(-1, 1, (steps, n)).astype(np.float32)


@BOTH
def test_hosts_of_stable_baselines_are_paid_as_ours(pairs: Pairs) -> None:
    with (
        closing(HostVecEnv(num_racks=8, seed=3, pairs=pairs, **SETTINGS)) as env,
        closing(reference(pairs, 8, 3)) as our,
    ):
        assert env.observation_space.shape == (our.obs_dim,)
        np.testing.assert_array_equal(env.reset(), our.reset().reshape(32, -1))
        for step, numbers in enumerate(drawn(32, LENGTH + 2), 1):
            obs, reward, done, infos = env.step(numbers[:, None])
            moved = our.step(numbers.reshape(8, 4))
            np.testing.assert_array_equal(obs, moved.obs.reshape(32, -1))
            np.testing.assert_array_equal(reward, moved.reward.ravel())
            np.testing.assert_allclose([info["earned"] for info in infos], moved.earned.ravel())
            assert done.tolist() == [step == LENGTH] * 32
            if step == LENGTH:
                last = np.array([info["terminal_observation"] for info in infos])
                np.testing.assert_array_equal(last, moved.final_obs.reshape(32, -1))
                assert not last[:, -pairs.n_noise or 99 :].any()
                assert all(info["TimeLimit.truncated"] for info in infos)
    with closing(HostVecEnv(num_racks=8, pairs=pairs, **SETTINGS)) as env, closing(reference(pairs, 8, 9)) as our:
        env.seed(9)
        np.testing.assert_array_equal(env.reset(), our.reset().reshape(32, -1))
        np.testing.assert_array_equal(env.reset(), our.reset(1).reshape(32, -1))


@pytest.mark.parametrize("name", ["ncc/Rack-v0", "ncc/RackBox-v0", "ncc/RackOne-v0"])
def test_racks_of_gymnasium_have_the_seed_of_their_first_copy(name: str) -> None:
    pairs, n = Pairs(paid="mean"), 4
    env = gymnasium.make_vec(name, n, scenario=SETTINGS["scenario"], pairs="mean")
    single = [gymnasium.make(name, scenario=SETTINGS["scenario"]) for _ in range(n)]
    env.action_space.seed(1)
    obs, _ = env.reset(seed=5)
    alone = [one.reset(seed=5 + i - i % 2) for i, one in enumerate(single)]
    np.testing.assert_array_equal(obs, [seen for seen, _ in alone])
    paid = np.zeros(n)
    for step in range(2 * LENGTH + 1):
        if step == LENGTH:  # the step that begins the next episode
            obs, reward, _, _, _ = env.step(env.action_space.sample())
            np.testing.assert_array_equal(obs, [one.reset()[0] for one in single])
            assert not reward.any()
            continue
        actions = env.action_space.sample()
        obs, reward, _, truncated, info = env.step(actions)
        moved = [one.step(action) for one, action in zip(single, actions, strict=True)]
        np.testing.assert_array_equal(obs, [each[0] for each in moved])
        earned = np.array([each[4]["host_rewards"] for each in moved])
        np.testing.assert_array_equal(info["host_earned"], earned)
        np.testing.assert_array_equal(info["host_rewards"], pairs.reward(earned))
        np.testing.assert_allclose(reward, pairs.reward(earned).mean(axis=1))
        assert truncated.tolist() == [each[3] for each in moved]
        paid += reward
    np.testing.assert_allclose(paid.reshape(-1, 2).sum(axis=1), 0, atol=1e-5)
    assert paid.all()
    env.close()


def test_seeds_and_masks_of_copies() -> None:
    with closing(gymnasium.make_vec("ncc/RackBox-v0", 4, pairs="mean", **SETTINGS)) as env:
        first = env.reset()[0]  # without a seed copies have one, too
        seen = np.array([env.step(np.zeros((4, 4), np.float32))[0] for _ in range(LENGTH - 1)])
        np.testing.assert_array_equal(seen[:, ::2], seen[:, 1::2])
        assert (seen[:, 0] != seen[:, 2]).any()
        again = env.reset(seed=[7, 8, None, 9])[0]  # type: ignore[arg-type]
        assert again.shape == first.shape
        info = env.reset(options={"reset_mask": np.array([False, False, True, True])})[1]
        assert info["episode_number"].tolist() == [0, 0, 2, 2]
        with pytest.raises(ConfigError, match="reset_mask must have all 2 copies of a rack or none"):
            env.reset(options={"reset_mask": np.array([True, False, False, False])})


@BOTH
def test_hosts_of_all_copies_are_agents_of_pettingzoo(pairs: Pairs) -> None:
    n = pairs.copies
    with closing(RackParallelEnv(pairs=pairs, **SETTINGS)) as env:
        obs, _ = env.reset(seed=2)
        assert env.possible_agents[:: 4 * n - 1] == ["host_h0_copy0", f"host_h3_copy{n - 1}"]
        plain = RackParallelEnv(**SETTINGS)
        alone, _ = plain.reset(seed=2)
        for numbers in drawn(4, LENGTH):  # the same in all copies
            for copy in range(n):
                for name in plain.agents:
                    np.testing.assert_array_equal(obs[f"{name}_copy{copy}"][: len(alone[name])], alone[name])
            np.testing.assert_array_equal(env.state(), np.concatenate(list(obs.values())))
            if pairs.n_noise:
                noise = np.array([seen[-1] for seen in obs.values()])
                assert noise.all()
                np.testing.assert_array_equal(noise[:4], -noise[4:])
            alone, earned, _, _, _ = plain.step(dict(zip(plain.agents, numbers, strict=True)))
            obs, rewards, _, over, infos = env.step(dict(zip(env.agents, np.tile(numbers, n), strict=True)))
            np.testing.assert_array_equal([*rewards.values()], 0)
            assert [infos[f"{name}_copy1"]["earned"] for name in earned] == [*earned.values()]
            assert all(over.values()) == (not env.agents)
        assert env.agents == plain.agents == []
        plain.close()
        env.reset(seed=2)
        some = {agent: np.full(1, -1.0 if agent.endswith("_copy0") else 1.0) for agent in env.agents}
        paid = sum(np.array([*env.step(some)[1].values()]) for _ in range(LENGTH))
        assert isinstance(paid, np.ndarray)
        assert paid.reshape(n, 4)[0].sum() < 0 < paid.reshape(n, 4)[1:].sum()


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (RackEnv, {"pairs": "mean"}, "this environment is one rack: use gymnasium.make_vec without"),
        (
            RackVectorEnv,
            {"pairs": "mirror", "num_envs": 2},
            "pairs.paid must be mean for an agent that decides for the",
        ),
        (RackVectorEnv, {"pairs": "mean", "num_envs": 3}, "groups of 2 racks with the same flows, got 3 racks"),
        (HostVecEnv, {"pairs": {"copies": 4}, "num_racks": 6}, "groups of 4 racks with the same flows, got 6 racks"),
        (HostVecEnv, {"pairs": "mirror"}, "groups of 2 racks with the same flows, got 1 racks"),
        (HostVecEnv, {"pairs": "men"}, r"env.pairs.paid.*'men'.*Allowed: mean, mirror"),
        (HostVecEnv, {"pairs": {"copy": 2}}, r"env.pairs.*copy.*Allowed: .*copies"),
        (HostVecEnv, {"pairs": 2}, r"pairs must be a value, a mapping of its fields or a name \(its paid\), got int"),
        (HostVecEnv, {"pairs": {"noise_periods": 0}}, "env.pairs.noise_periods"),
        (RackParallelEnv, {"pairs": {"copies": 3}}, "pairs.copies must be even with mirror images, got 3"),
        (
            RackParallelEnv,
            {"pairs": "mirror", "action": "levels"},
            "pairs add noise to numbers, got action.kind 'levels'",
        ),
        (
            RackParallelEnv,
            {"pairs": "mean", "scenario": rack(listed((0.0, "h0", 1000)))},
            "pairs need episodes of equal length, and scenario 'small' ends with its last flow",
        ),
    ],
)
def test_what_cannot_be_paired_is_refused(kind: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        kind(**SETTINGS | settings)
