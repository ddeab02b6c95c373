# SPDX-License-Identifier: BSD-3-Clause
"""From environment to gradient: the right values follow each step, in the right units, and the gradient is clipped."""

import numpy as np
import pytest

from ncc.agents.a3c.config import A3cConfig
from ncc.agents.a3c.network import ActorCritic, NetShape, initial_params, policy_layers
from ncc.agents.a3c.rollout import Collector
from ncc.agents.a3c.update import gradients
from ncc.agents.policy import MlpPolicy
from ncc.agents.settings import scheduled
from ncc.harness.batch import ActionArray, ObsArray, Transition

STEPS, RACKS, HOSTS, OBS = 6, 2, 3, 4
GAMMA = 0.5
TERMINATED, TRUNCATED, BOTH = (2, 0), (3, 1), (4, 0)
"""(step, rack) of the episode ends; an episode that is done as time runs out is done."""


class ScriptedEnv:
    """Shows and pays random numbers drawn in advance."""

    n_racks, n_agents, obs_dim, n_actions, copies, n_noise, episode = RACKS, HOSTS, OBS, 2, 1, 0, 0

    def __init__(self) -> None:
        rng = np.random.default_rng(8)
        self.obs = rng.standard_normal((STEPS + 1, RACKS, HOSTS, OBS)).astype(np.float32)
        self.final = rng.standard_normal((STEPS, RACKS, HOSTS, OBS)).astype(np.float32)
        self.reward = rng.standard_normal((STEPS, RACKS, HOSTS)).astype(np.float32)
        self.terminated, self.truncated = np.zeros((2, STEPS, RACKS), np.bool_)
        self.terminated[TERMINATED] = self.truncated[TRUNCATED] = True
        self.terminated[BOTH] = self.truncated[BOTH] = True
        self._t = 0
        # One buffer, overwritten by each step, as environments over shared memory do it.
        self._shown = np.empty((RACKS, HOSTS, OBS), np.float32)

    def reset(self, episode: int = 0) -> ObsArray:
        return self._show()

    def step(self, actions: ActionArray) -> Transition:
        t, self._t = self._t, self._t + 1
        ended = (self.terminated[t] | self.truncated[t])[:, None, None]
        final = np.where(ended, self.final[t], self.obs[t + 1])
        return Transition(self._show(), self.reward[t], self.terminated[t], self.truncated[t], final)

    def take_metrics(self) -> dict[str, float]:
        return {}

    def close(self) -> None:
        pass

    def _show(self) -> ObsArray:
        self._shown[:] = self.obs[self._t]
        return self._shown


@pytest.fixture
def model() -> ActorCritic:
    shape = NetShape(OBS, (8,), 2)
    model = ActorCritic(shape)
    model.load(initial_params(shape, 1))
    return model


def gradient(model: ActorCritic, config: A3cConfig) -> tuple[ScriptedEnv, dict[str, float]]:
    env = ScriptedEnv()
    collector = Collector(env, np.random.default_rng(1), STEPS, 0)
    return env, next(gradients(model, collector.collect(model, STEPS), config, 0.5))


def test_returns_use_the_value_of_what_followed_in_the_same_episode(model: ActorCritic) -> None:
    env, scalars = gradient(model, A3cConfig(mode="sync", gamma=GAMMA))

    def value(obs: ObsArray) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        return model.value(obs).astype(np.float64)

    # Rewards count (1 - gamma), so that values are in units of the mean reward per epoch.
    scaled = (1 - GAMMA) * env.reward.astype(np.float64)
    errors = []
    for rack in range(RACKS):
        following = value(env.obs[STEPS, rack])
        for t in reversed(range(STEPS)):
            if env.terminated[t, rack]:
                following = np.zeros(HOSTS)
            elif env.truncated[t, rack]:
                following = value(env.final[t, rack])
            following = scaled[t, rack] + GAMMA * following
            errors.append(following - value(env.obs[t, rack]))
    assert scalars["loss/value"] == pytest.approx(0.5 * np.mean(np.square(errors)), rel=1e-5)
    assert scalars["value/mean"] == pytest.approx(value(env.obs[:STEPS]).mean(), rel=1e-5)


def test_explained_variance_is_that_of_the_returns(model: ActorCritic) -> None:
    # gamma 0: returns are the rewards, advantages are what the value misses of them
    env, scalars = gradient(model, A3cConfig(mode="sync", gamma=0.0))
    value = model.value(env.obs[:STEPS])
    expected = 1 - np.var(env.reward - value) / np.var(env.reward)
    assert scalars["value/explained_variance"] == pytest.approx(expected, rel=1e-4)


def test_advantages_are_brought_to_mean_square_one_together_or_in_each_rack(model: ActorCritic) -> None:
    losses = {}
    for per_rack in (False, True):
        env = ScriptedEnv()
        env.reward[:, 1] *= 100
        rollout = Collector(env, np.random.default_rng(1), STEPS, 0).collect(model, STEPS)
        observed = model.observed().reshape(STEPS, RACKS, HOSTS, OBS)
        # gamma 0: an advantage is a reward less its value.
        advantage = env.reward - rollout.values
        rms = np.sqrt(np.mean(advantage**2, axis=(0, 2) if per_rack else None, keepdims=True))
        log_prob = np.log(chosen(model, observed, rollout.actions))
        config = A3cConfig(mode="sync", gamma=0.0, normalize_per_rack=per_rack)
        losses[per_rack] = next(gradients(model, rollout, config, 0.5))["loss/policy"]
        assert losses[per_rack] == pytest.approx(float(-(log_prob * advantage / rms).mean()), rel=1e-4)
    assert losses[True] != pytest.approx(losses[False], rel=0.05)


def chosen(model: ActorCritic, obs: ObsArray, actions: ActionArray) -> np.ndarray:
    """Probabilities that the policy gives to the actions taken."""
    shape = NetShape(OBS, (8,), 2)
    layers = policy_layers(shape, initial_params(shape, 1))
    logits = MlpPolicy(layers).logits(obs)
    odds = np.exp(logits - logits.max(-1, keepdims=True))
    return np.take_along_axis(odds / odds.sum(-1, keepdims=True), actions[..., None], -1)[..., 0]


def test_the_gradient_is_clipped_by_its_norm(model: ActorCritic) -> None:
    _, free = gradient(model, A3cConfig(mode="sync", gamma=GAMMA, max_grad_norm=1e6))
    direction = model.gradient.clone()
    assert float(direction.norm()) == pytest.approx(free["update/grad_norm"])
    _, clipped = gradient(model, A3cConfig(mode="sync", gamma=GAMMA, max_grad_norm=0.01))
    assert clipped["update/grad_norm"] == pytest.approx(free["update/grad_norm"])
    assert float(model.gradient.norm()) == pytest.approx(0.01, rel=1e-5)
    assert model.gradient.numpy() == pytest.approx((direction * 0.01 / direction.norm()).numpy(), abs=1e-6)


def test_schedules_are_linear(model: ActorCritic) -> None:
    assert scheduled(1e-3, None, 0.7) == 1e-3
    assert [scheduled(1.0, 0.5, fraction) for fraction in (0.0, 0.5, 1.0, 1.5)] == [1.0, 0.75, 0.5, 0.5]
    config = A3cConfig(
        mode="sync", learning_rate=1e-3, learning_rate_final=0.0, entropy_coef=0.02, entropy_coef_final=0.01
    )
    _, scalars = gradient(model, config)
    assert scalars["update/learning_rate"] == pytest.approx(5e-4)
    assert scalars["policy/entropy_coef"] == pytest.approx(0.015)
