# SPDX-License-Identifier: BSD-3-Clause
"""A3C whose actions are numbers: with noise of its own, in pairs, and with the evolution strategy after it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ncc.agents.a3c.config import A3cConfig
from ncc.agents.a3c.evolve import evolve, numbers, ranked
from ncc.agents.a3c.network import ActorCritic, NetShape, initial_params, policy_layers
from ncc.agents.a3c.rollout import Collector
from ncc.agents.a3c.update import gradients
from ncc.agents.policy import NumberPolicy, load_policy
from ncc.core.seeding import generator
from ncc.envs.pairs import Paired, Pairs
from ncc.harness.batch import ActionArray, BatchedEnv, ObsArray, Transition
from tests.agents.fitting import fit
from tests.agents.toy_envs import cut

CONFIG = A3cConfig(
    mode="sync", racks=8, rollout=10, epochs=12_000, hidden=(8,), noise=0.3, gamma=0.5, value_coef=0.0, entropy_coef=0.0
).replace(learning_rate=0.01, max_grad_norm=5.0, checkpoint_epochs=1000)
SHAPE = NetShape(2, (8,), 0)


class AimingEnv:
    """Each host sees a number and earns minus the square of its own's distance; copies of a list see the same."""

    n_agents, obs_dim, n_actions, copies, n_noise = 3, 2, 0, 1, 0

    def __init__(self, n_racks: int = 8, same: int = 2, length: int = 20, level: float = 0.0) -> None:
        self.n_racks, self._same, self._length, self._level = n_racks, same, length, level

    def reset(self, episode: int = 0) -> ObsArray:
        self._episode, self._t = episode, 0
        lists = self.n_racks // self._same
        rng = generator(1, episode)
        self._aims = rng.uniform(-0.8, 0.8, (self._length + 1, lists, self.n_agents)).repeat(self._same, axis=1)
        self._luck = self._level * rng.normal(size=lists).repeat(self._same)[:, None]
        return self._observe()

    def step(self, actions: ActionArray) -> Transition:
        assert np.abs(actions).max() <= 1
        reward = (self._luck - (actions - self._aims[self._t]) ** 2).astype(np.float32)
        self._t += 1
        over, final = np.full(self.n_racks, self._t == self._length), self._observe()
        if over[0]:
            self.reset(self._episode + 1)
        return Transition(self._observe(), reward, np.zeros_like(over), over, final)

    @property
    def episode(self) -> int:
        return self._episode

    def take_metrics(self) -> dict[str, float]:
        return {}

    def close(self) -> None:
        pass

    def _observe(self) -> ObsArray:
        aims = self._aims[self._t].astype(np.float32)
        return np.stack([aims, np.ones_like(aims)], axis=-1)


def aiming(_: int = 0, **settings: Any) -> BatchedEnv:
    return Paired(AimingEnv(**settings), Pairs(noise_periods=1), 1)


def lucky(worker: int) -> BatchedEnv:
    """Lists of flows differ by 25 times what numbers change."""
    return aiming(worker, level=10.0)


def missed(path: Path) -> float:
    """Root mean square of the distance of a policy's numbers from what it should aim at."""
    aims = np.linspace(-0.8, 0.8, 33, dtype=np.float32)
    found = NumberPolicy(load_policy(path)[0].layers).act(np.stack([aims, np.ones_like(aims)], axis=-1), None)
    return float(np.sqrt(np.mean((found - aims) ** 2)))


def weights(folder: Path) -> np.ndarray:
    return np.concatenate([part.ravel() for layer in load_policy(folder / "policy.ncc")[0].layers for part in layer])


UNTRAINED = 0.4761
"""`missed` of the number 0."""


@pytest.mark.parametrize(
    ("settings", "make_env", "at_most"),
    [
        pytest.param({"value_coef": 0.5}, lambda _: AimingEnv(), 0.4, id="noise of its own and a critic"),
        pytest.param({}, aiming, 0.2, id="pairs"),
        pytest.param({}, lucky, 0.2, id="pairs, and luck that decides more"),
        pytest.param({"passes": 4}, lucky, 0.3, id="passes"),
        pytest.param({"evolve_frac": 0.95, "evolve_noise": 0.1, "evolve_rate": 0.05}, lucky, 0.5, id="evolution"),
        pytest.param({"mode": "async", "workers": 2}, lucky, 0.3, id="two workers"),
    ],
)
def test_it_learns_from_the_untrained_formula(
    settings: dict[str, Any], make_env: Any, at_most: float, tmp_path: Path
) -> None:
    reports = fit(CONFIG.replace(**settings), make_env, tmp_path)
    assert missed(tmp_path / "policy_untrained.ncc") == pytest.approx(UNTRAINED, abs=1e-3)
    assert missed(tmp_path / "policy.ncc") < at_most * UNTRAINED
    assert reports[-1].epochs >= CONFIG.epochs


def test_pairs_show_the_gradient_that_luck_hides() -> None:
    """The cosine of a rollout's gradient with that of the mean squared distance, at the untrained policy."""
    config, params = CONFIG.replace(gamma=0.0, max_grad_norm=1e9), initial_params(SHAPE, 1).requires_grad_()
    aims = torch.linspace(-0.8, 0.8, 101)
    inner = torch.stack([aims, torch.ones(101)], 1)
    for weight, bias in SHAPE.split(params)[0]:
        inner = torch.tanh(inner @ weight.T + bias)
    ((inner[:, 0] - aims) ** 2).mean().backward()  # type: ignore[no-untyped-call]
    uphill = params.grad
    assert uphill is not None

    def cosine(env: BatchedEnv) -> float:
        model = ActorCritic(SHAPE)
        model.load(params.detach())
        model.deviation = 0.3
        rollout = Collector(env, generator(7), 20, 0).collect(model, 20)
        next(gradients(model, rollout, config, 0.0))
        return float(torch.cosine_similarity(model.gradient, uphill, 0))

    assert cosine(aiming(n_racks=128, level=10.0)) > 0.95
    assert cosine(AimingEnv(n_racks=128, level=10.0)) < 0.7


def test_returns_are_those_of_what_hosts_earned(tmp_path: Path) -> None:
    reports = fit(CONFIG.replace(evolve_frac=0.5), aiming, tmp_path)
    returns = [value for report in reports for value in report.returns]
    assert all(-2 < value < 0 for value in returns)
    assert np.mean(returns[-20:]) > np.mean(returns[:20])


@pytest.mark.parametrize("after", [300, 1100], ids=["while A3C learns", "in the evolution strategy"])
def test_a_resumed_run_has_the_weights_of_one_without_a_break(after: int, tmp_path: Path) -> None:
    config = CONFIG.replace(epochs=12_000, evolve_frac=0.5, checkpoint_epochs=1600)
    fit(config, aiming, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        fit(config, lambda _: cut(aiming(), after), tmp_path / "cut")
    fit(config, aiming, tmp_path / "cut", resume=True)
    np.testing.assert_array_equal(weights(tmp_path / "whole"), weights(tmp_path / "cut"))


def test_the_loss_is_that_of_a_gaussian(tmp_path: Path) -> None:
    """d/dmean of -log N(taken; mean, deviation) x advantage, by hand, for a policy that begins at 0."""
    model = ActorCritic(SHAPE)
    model.load(initial_params(SHAPE, 1))
    model.deviation = 0.5
    obs = np.array([[0.3, 1], [-0.2, 1]], np.float32)
    taken: Any = np.empty(2, np.float32)
    assert model.act(obs, np.array([1.0, -2.0]), taken, np.empty(2, np.float32))
    np.testing.assert_allclose(taken, [0.5, -1.0])
    advantage = np.array([2.0, 1.0], np.float32)
    found = model.learn(taken, advantage, np.zeros(2, np.float32), value_coef=0.0, entropy_coef=0.0)
    assert found.policy == pytest.approx((0.5 * 1 * 2 + 0.5 * 4 * 1) / 2)
    # of the last layer's bias: mean of -(taken - mean) / deviation^2 x advantage x (1 - mean^2)
    bias = SHAPE.policy_size - 1
    assert model.gradient[bias].item() == pytest.approx((-0.5 * 4 * 2 + 1.0 * 4 * 1) / 2)
    assert not model.gradient[SHAPE.policy_size :].any()


def test_numbers_of_several_policies_are_those_of_each() -> None:
    rng = generator(3)
    weights = rng.normal(size=(4, SHAPE.policy_size)).astype(np.float32)
    obs = rng.normal(size=(4, 5, 2)).astype(np.float32)
    found = numbers(SHAPE, weights, obs)
    for rack in range(4):
        params = torch.zeros(SHAPE.size)
        params[: SHAPE.policy_size] = torch.from_numpy(weights[rack])
        policy = NumberPolicy(policy_layers(SHAPE, params))
        np.testing.assert_allclose(found[rack], policy.act(obs[rack], None), rtol=1e-5)


def test_ranks_have_the_signs_of_the_differences() -> None:
    np.testing.assert_allclose(ranked(np.array([[0.1, -3.0], [0.0, 100.0]])), [[0.5, -0.75], [0.0, 1.0]])


def test_a_step_of_the_evolution_strategy_points_uphill() -> None:
    """Its cosine with the gradient by differences, over 400 pairs."""
    shape, rng = NetShape(2, (), 0), generator(5)
    params = torch.zeros(shape.size)
    env = Paired(AimingEnv(n_racks=800, length=10), Pairs(), 1)
    step, epochs, earned = evolve(env, 0, shape, params, noise=0.1, rng=rng)
    assert epochs == 8000
    assert -0.5 < earned < 0
    # Number tanh(a x + b) at 0 earns -(x - a x - b)^2: uphill is a alone, by 2 E[x^2].
    uphill = np.array([1.0, 0.0, 0.0])
    found = step.numpy()[: shape.policy_size]
    assert np.sqrt(np.mean(found**2)) == pytest.approx(1)
    assert found @ uphill / np.linalg.norm(found) > 0.95
