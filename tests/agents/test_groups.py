# SPDX-License-Identifier: BSD-3-Clause
"""Learning from copies of one list of flows."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ncc.agents.a3c.adam import TrainState
from ncc.agents.groups import run
from ncc.agents.groups.config import GroupsConfig
from ncc.agents.groups.critic import Critic
from ncc.agents.groups.network import Float, Shape
from ncc.agents.groups.play import Explorer, Samples, advantages, over_lists, play
from ncc.agents.policy import NumberPolicy, load_policy
from ncc.core.errors import ConfigError, InvalidRunError, ResultError
from ncc.core.seeding import generator
from ncc.core.value import from_dict
from ncc.harness.batch import TRUTH_DIM, ActionArray, ObsArray, Transition
from tests.agents.fitting import fit
from tests.agents.toy_envs import IdentityEnv, cut

CONFIG = GroupsConfig(copies=4, lists=2, epochs=18_000, hidden=(8,), judge_every=2, noise=0.3, explore_prob=0.2)


class AimingEnv:
    """Each host sees a number and earns minus the square of its own's distance; copies of a list see the same."""

    n_agents, obs_dim, n_actions, copies, n_noise = 3, 2, 0, 1, 0

    def __init__(self, n_racks: int = 8, copies: int = 4, length: int = 20) -> None:
        self.n_racks, self._copies, self._length = n_racks, copies, length
        self.closed = False

    def reset(self, episode: int = 0) -> ObsArray:
        self._episode, self._t = episode, 0
        lists = self.n_racks // self._copies
        drawn = generator(1, episode).uniform(-0.8, 0.8, (self._length + 1, lists, self.n_agents))
        self._aims = drawn.repeat(self._copies, axis=1).astype(np.float32)
        return self._observe()

    def step(self, actions: ActionArray) -> Transition:
        assert np.abs(actions).max() <= 1
        reward = -((actions - self._aims[self._t]) ** 2).astype(np.float32)
        self._t += 1
        over, final = np.full(self.n_racks, self._t == self._length), self._observe()
        if over[0]:
            self.reset(self._episode + 1)
        return Transition(self._observe(), reward, np.zeros_like(over), over, final)

    def truth(self) -> ObsArray:
        return np.zeros((self.n_racks, self.n_agents, TRUTH_DIM), np.float32)

    @property
    def episode(self) -> int:
        return self._episode

    def close(self) -> None:
        self.closed = True

    def _observe(self) -> ObsArray:
        aims = self._aims[self._t]
        return np.stack([aims, np.ones_like(aims)], axis=-1)


def weights_of(path: Path) -> list[Float]:
    return [array for layer in load_policy(path)[0].layers for array in layer]


def missed(path: Path) -> float:
    """Root mean square of the distance of a policy's numbers from what it should aim at."""
    aims = np.linspace(-0.8, 0.8, 33, dtype=np.float32)
    policy = NumberPolicy(load_policy(path)[0].layers)
    numbers = policy.act(np.stack([aims, np.ones_like(aims)], axis=-1), None)
    return float(np.sqrt(np.mean((numbers - aims) ** 2)))


def test_it_learns_from_the_untrained_formula(tmp_path: Path) -> None:
    reports = fit(CONFIG, lambda _: AimingEnv(), tmp_path)
    assert missed(tmp_path / "policy_untrained.npz") == pytest.approx(missed_by_zero := 0.4761, abs=1e-3)
    assert missed(tmp_path / "policy.npz") < 0.3 * missed_by_zero
    assert reports[0].epochs == 0
    assert reports[-1].epochs >= CONFIG.epochs


@pytest.mark.parametrize(
    "settings",
    [
        {"polish_frac": 0.0},
        {"polish_frac": 1.0},
        {"explorers": "all", "baseline": "mean"},
        {"baseline": "greedy"},
        {"baseline": "critic", "polish_frac": 0.0},
    ],
)
def test_each_part_learns_alone(settings: dict[str, Any], tmp_path: Path) -> None:
    fit(CONFIG.replace(**settings), lambda _: AimingEnv(), tmp_path)
    assert missed(tmp_path / "policy.npz") < 0.7 * missed(tmp_path / "policy_untrained.npz")


def test_equal_seeds_give_equal_weights_and_a_resumed_run_those_of_one_without_a_break(tmp_path: Path) -> None:
    config = CONFIG.replace(epochs=6000, checkpoint_updates=2)
    for name in ("one", "two"):
        fit(config, lambda _: AimingEnv(), tmp_path / name)
    with pytest.raises(KeyboardInterrupt):
        fit(config, lambda _: cut(AimingEnv(), 570), tmp_path / "cut")  # type: ignore[type-var]
    assert not (tmp_path / "cut" / "policy.npz").exists()
    fit(config, lambda _: AimingEnv(), tmp_path / "cut", resume=True)
    fit(config, lambda _: AimingEnv(), tmp_path / "other", seed=2)
    one, two, resumed, other = (weights_of(tmp_path / n / "policy.npz") for n in ("one", "two", "cut", "other"))
    for a, b, c in zip(one, two, resumed, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, c)
    assert any((a != b).any() for a, b in zip(one, other, strict=True))


def test_the_learning_rate_falls_to_a_tenth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[float] = []
    updates = run._updates

    def noting(*made_for: Any) -> Any:
        improve = updates(*made_for)

        def noted(*args: Any, rate: float, **kwargs: Any) -> Any:
            rates.append(rate)
            return improve(*args, rate=rate, **kwargs)

        return noted

    monkeypatch.setattr(run, "_updates", noting)
    fit(CONFIG.replace(epochs=3000, polish_frac=0.0), lambda _: AimingEnv(), tmp_path)
    assert rates[0] == CONFIG.learning_rate
    assert rates == sorted(rates, reverse=True)
    assert 0.1 * CONFIG.learning_rate <= rates[-1] < 0.25 * CONFIG.learning_rate


def test_a_resumed_run_has_the_critic_of_its_checkpoint(tmp_path: Path) -> None:
    config = CONFIG.replace(baseline="critic", polish_frac=0.0, checkpoint_updates=2, epochs=3000)
    fit(config, lambda _: AimingEnv(), tmp_path / "one")
    with pytest.raises(KeyboardInterrupt):
        fit(config, lambda _: cut(AimingEnv(), 170), tmp_path / "cut")  # type: ignore[type-var]
    fit(config, lambda _: AimingEnv(), tmp_path / "cut", resume=True)
    for a, b in zip(weights_of(tmp_path / "one/policy.npz"), weights_of(tmp_path / "cut/policy.npz"), strict=True):
        np.testing.assert_array_equal(a, b)


def test_one_host_of_a_rack_explores_for_a_window_and_the_first_copy_never() -> None:
    shape = Shape(2, (4,))
    config = CONFIG.replace(window=5, explore_prob=0.5, baseline="greedy")
    weights, env = shape.initial(np.random.default_rng(1)), AimingEnv()
    explorer = Explorer(config, shape, weights, env, noise=0.3, rng=np.random.default_rng(2))
    told: list[Float] = []

    def act(t: int, obs: ObsArray) -> Float:
        told.append(explorer(t, obs))
        return told[-1]

    play(env, 0, act)
    differs = np.stack(told) != 0  # untrained weights say 0
    assert not differs[:, ::4].any()
    assert (differs.sum(axis=2) <= 1).all()
    for window in differs.reshape(4, 5, 8, 3):
        np.testing.assert_array_equal(window, window[:1].repeat(5, axis=0))
    samples = explorer.samples()
    assert len(samples.rack) == differs.sum()
    np.testing.assert_allclose(samples.taken, 0.3 * samples.error, rtol=1e-6)


def test_copies_are_mirror_images_in_pairs() -> None:
    shape, env = Shape(2, (4,)), AimingEnv()
    weights = shape.initial(np.random.default_rng(1))
    for explorers, most in (("one", 1), ("all", 3)):
        config = CONFIG.replace(explore_prob=1.0, explorers=explorers)
        told = Explorer(config, shape, weights, env, noise=0.3, rng=np.random.default_rng(2))(0, env.reset())
        assert ((told != 0).sum(axis=1) == most).all()
        first, second = told.reshape(2, 2, 2, 3).swapaxes(0, 1)
        np.testing.assert_array_equal(first, -second)


class Halves(AimingEnv):
    """Racks of two networks with two hosts each."""

    n_agents = 4

    def networks_of_racks(self) -> Any:
        return np.full(self.n_racks, 2)


def test_one_host_of_each_network_explores() -> None:
    shape, env = Shape(2, (4,)), Halves()
    config, weights = CONFIG.replace(explore_prob=1.0, baseline="greedy"), shape.initial(np.random.default_rng(1))
    explorer = Explorer(config, shape, weights, env, noise=0.3, rng=np.random.default_rng(2))
    differs = explorer(0, env.reset()) != 0
    assert not differs[::4].any()
    others = np.delete(differs, [0, 4], axis=0).reshape(6, 2, 2)
    assert (others.sum(axis=2) == 1).all()
    assert others.any(axis=0).all(), "any host may be drawn"


def test_advantages_by_hand() -> None:
    rewards = np.array([[0, 1, 0, 0], [0, 2, 0, 4], [1, 1, 0, 0]], np.float32)
    rewards = np.stack([rewards, 0 * rewards, rewards - rewards[:, ::2].repeat(2, axis=1)], axis=-1)
    nothing, rack = np.zeros(5, np.float32), np.array([1, 1, 1, 3, 2])
    at = Samples(np.array([0, 1, 2, 0, 2]), rack, np.zeros(5, np.int64), nothing[:, None], nothing, nothing)
    # Host 0 of rack 1 less that of rack 0: 1 + 0.5 (2 + 0.5 (1 - 1)), 2, 0; of rack 3 less of rack 2: 0.5 x 4. Over
    # twice the median of those of the list that are not 0.
    two = GroupsConfig(copies=2, gamma=0.5, baseline="greedy")
    gained = advantages(rewards, at, two)
    np.testing.assert_allclose(gained, np.array([2 / 4, 2 / 4, 0, 2 / 4, 0]))
    # What another network of the rack earned is nothing to a host.
    of_other = Samples(at.epoch, at.rack, at.host + 1, at.obs, at.taken, at.error)
    np.testing.assert_array_equal(advantages(rewards, of_other, two), 0)
    same = advantages(np.ones((3, 4, 3), np.float32), at, two)
    np.testing.assert_array_equal(same, 0)
    # Of two copies, the mean of all others is the other one.
    at.rack[4], at.epoch[4] = 2, 0
    for baseline in ("mean", "mirror"):
        gained = advantages(rewards, at, two.replace(baseline=baseline))
        np.testing.assert_allclose(gained, np.array([2 / 4, 2 / 4, 0, 2 / 4, -2 / 4]))


def test_advantages_over_a_critic_by_hand() -> None:
    rewards = np.array([[0, 0], [-1, 0], [-2, 0]], np.float32)[..., None]
    values = np.array([[-3, 0], [-2, 0], [-1, 0]], np.float32)[..., None]
    nothing, zeros = np.zeros(3, np.float32), np.zeros(3, np.int64)
    at = Samples(np.arange(3), zeros, zeros, nothing[:, None], nothing, nothing)
    # With gamma 1/2 what stays at the end is worth -4: the errors are 0 - 1 + 3, -1 - 1/2 + 2 and -2 - 2 + 1, and each
    # counts half of a half of the next one's.
    config = GroupsConfig(copies=2, gamma=0.5, baseline="critic", critic_lambda=0.5)
    last, middle = -3.0, 0.5 - 3 / 4
    first = 2 + middle / 4
    np.testing.assert_allclose(advantages(rewards, at, config, values), np.array([first, middle, last]) / (2 * first))


def test_a_critic_sees_a_network_as_a_set_of_hosts_and_no_other_network() -> None:
    rng, critic = np.random.default_rng(1), Critic(GroupsConfig(), 5)
    weights = torch.from_numpy(critic.initial(rng) + np.float32(0.1))
    states = rng.normal(size=(3, 2, 8, 5)).astype(np.float32)
    networks = np.array([2, 4])
    values = critic.values(weights, states, networks)
    moved = states[:, :, ::-1].copy()
    np.testing.assert_allclose(critic.values(weights, moved, networks), values[:, :, ::-1], rtol=1e-5)
    changed = states.copy()
    changed[:, :, 0] += 1
    differs = critic.values(weights, changed, networks) != values
    np.testing.assert_array_equal(differs.all(axis=0), np.arange(8) < np.array([[4], [2]]))
    assert (differs.any(axis=0) == differs.all(axis=0)).all()


def test_a_critic_learns_what_is_to_come() -> None:
    rng, critic = np.random.default_rng(1), Critic(GroupsConfig(copies=2), 3)
    states = rng.uniform(size=(40, 4, 6, 3)).astype(np.float32)
    later = (states[..., 0] - states[..., 1].mean(axis=2, keepdims=True)) * 20  # own, and all hosts'
    train = TrainState.fresh(torch.from_numpy(critic.initial(rng)))
    networks = np.ones(4, np.int64)
    losses = [critic.fit(train, states, later, networks, rate=0.01, rng=rng)["loss/critic"] for _ in range(60)]
    assert losses[-1] < 0.02 * losses[0]
    assert np.abs(critic.values(train.params, states, networks) - later).mean() < 0.15 * np.abs(later).mean()


def test_what_is_left_at_the_end_counts_as_if_it_stayed() -> None:
    rewards = np.array([[0, 0], [0, -1]], np.float32)[..., None]
    nothing, one = np.zeros(1, np.float32), np.array([1])
    at = Samples(np.array([0]), one, np.array([0]), nothing[:, None], nothing, nothing)
    assert advantages(rewards, at, GroupsConfig(copies=2, gamma=0.9))[0] == -0.5
    # Copy 0 earned 0 and copy 1 -1 - 1 / (1 - 0.9); over the mean's size that is 1 and -1.
    np.testing.assert_allclose(over_lists(rewards, copies=2, gamma=0.9), [1, -1])


def test_every_list_counts_alike() -> None:
    # Two lists of two copies: -1 and -3, and a hundred times as much the other way round.
    rewards = np.array([[-1, -3, -300, -100], [0, 0, 0, 0]], np.float32)[..., None]
    np.testing.assert_allclose(over_lists(rewards, copies=2, gamma=0.9), 0, atol=1e-9)


def test_racks_with_weights_of_their_own() -> None:
    shape, rng = Shape(5, (7, 3)), np.random.default_rng(1)
    several = rng.normal(size=(4, shape.size)).astype(np.float32)
    obs = rng.normal(size=(4, 6, 5)).astype(np.float32)
    together = shape.numbers(several, obs)
    assert together.shape == (4, 6)
    for weights, seen, numbers in zip(several, obs, together, strict=True):
        np.testing.assert_allclose(shape.numbers(weights, seen[None])[0], numbers, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(NumberPolicy(shape.layers(weights)).act(seen, None), numbers, rtol=1e-5, atol=1e-6)


def test_a_number_has_no_odds_to_draw_from() -> None:
    policy = NumberPolicy(Shape(2, (3,)).layers(Shape(2, (3,)).initial(np.random.default_rng(1))))
    with pytest.raises(ConfigError, match="set greedy to true"):
        policy.act(np.zeros((1, 2), np.float32), np.random.default_rng(1))


def test_bad_environments_and_folders_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"takes 4 action indices: set action.kind to residual"):
        fit(CONFIG, lambda _: IdentityEnv(1, (5,) * 8), tmp_path)
    with pytest.raises(ConfigError, match="copies x lists = 8 racks, got 4"):
        fit(CONFIG, lambda _: AimingEnv(n_racks=4), tmp_path)
    with pytest.raises(ResultError, match="no checkpoint to resume from"):
        fit(CONFIG, lambda _: AimingEnv(), tmp_path, resume=True)
    short = CONFIG.replace(epochs=100, polish_frac=0.0)
    fit(short, lambda _: AimingEnv(), tmp_path)
    with pytest.raises(ResultError, match="belongs to an earlier training"):
        fit(short, lambda _: AimingEnv(), tmp_path)
    with pytest.raises(ResultError, match="was made with seed 1, not 2"):
        fit(short, lambda _: AimingEnv(), tmp_path, resume=True, seed=2)
    with pytest.raises(ResultError, match="was made on flows of another scenario or of other families"):
        fit(short, lambda _: AimingEnv(), tmp_path, resume=True, meta={"scenario": {"name": "other"}})
    with pytest.raises(ResultError, match=r"networks of shape 2-8-1 .* ask for 2-9-1"):
        fit(short.replace(hidden=(9,)), lambda _: AimingEnv(), tmp_path, resume=True)


def test_rewards_that_are_not_finite_end_it(tmp_path: Path) -> None:
    env = AimingEnv()
    env.n_agents = 3
    step = env.step

    def broken(actions: ActionArray) -> Transition:
        moved = step(actions)
        moved.reward[3, 1] = np.nan
        return moved

    env.step = broken  # type: ignore[method-assign]
    with pytest.raises(InvalidRunError, match="a reward in epoch 1 of episode 0 is not finite"):
        fit(CONFIG, lambda _: env, tmp_path)
    assert env.closed


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"copies": 1}, "copies"),
        ({"copies": 3}, "must be even"),
        ({"hidden": ()}, "at least one layer"),
        ({"clip": 0.0}, "clip"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        from_dict(GroupsConfig, settings, "agent")


def test_it_takes_a_datapath_that_steps_many_racks() -> None:
    with pytest.raises(ConfigError, match=r"agent=groups replays each list of flows.*train on packetsim"):
        CONFIG.build(batching=False)
    with pytest.raises(ConfigError, match=r"agent.baseline=critic sees all hosts .* train on packetsim"):
        CONFIG.replace(baseline="critic").build(batching=False)
