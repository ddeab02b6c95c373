# SPDX-License-Identifier: BSD-3-Clause
"""The networks, their loss and gradient by hand and beside the plain formulas; their export and the optimiser."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ncc.agents.a3c.network import ActorCritic, NetShape, initial_params
from ncc.agents.a3c.run import BETA1, BETA2, EPS, TrainState

SHAPE = NetShape(5, (8, 7), 4)
Floats = npt.NDArray[np.float32]


def mlp(layers: list[tuple[torch.Tensor, torch.Tensor]], obs: torch.Tensor) -> torch.Tensor:
    """Outputs of tanh layers and a last one without tanh, by PyTorch, whose derivatives are its own."""
    for (weight, bias), _ in pairwise(layers):
        obs = torch.tanh(obs @ weight.T + bias)
    weight, bias = layers[-1]
    return obs @ weight.T + bias


def logits_and_values(shape: NetShape, params: torch.Tensor, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    policy, value = shape.split(params)
    return mlp(policy, obs), mlp(value, obs).squeeze(-1)


def ready(shape: NetShape, params: torch.Tensor) -> ActorCritic:
    model = ActorCritic(shape)
    model.load(params)
    return model


def act(model: ActorCritic, obs: Floats, uniform: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.int64], Floats]:
    actions, values = np.empty(len(obs), np.int64), np.empty(len(obs), np.float32)
    assert model.act(obs, uniform, actions, values)
    return actions, values


def scattered(shape: NetShape, seed: int = 1) -> torch.Tensor:
    """Weights without any symmetry."""
    noise = torch.randn(shape.size, generator=torch.Generator().manual_seed(seed))
    return initial_params(shape, seed) + 0.2 * noise


@settings(deadline=None, max_examples=60)
@given(
    obs_dim=st.integers(1, 70),
    hidden=st.lists(st.integers(1, 40), min_size=1, max_size=3),
    n_actions=st.integers(1, 35),
    rows=st.integers(1, 230),
    parts=st.integers(1, 4),
    entropy_coef=st.sampled_from([0.0, 0.3]),
    seed=st.integers(0, 100),
)
def test_a_rollout_in_parts_gives_the_gradient_of_the_whole(
    *, obs_dim: int, hidden: list[int], n_actions: int, rows: int, parts: int, entropy_coef: float, seed: int
) -> None:
    """Whatever the sizes, and in however many parts the rollout was collected."""
    shape, rng = NetShape(obs_dim, tuple(hidden), n_actions), np.random.default_rng(seed)
    params = scattered(shape, seed).requires_grad_()
    model = ready(shape, params.detach())
    obs, uniform = rng.standard_normal((rows, obs_dim)).astype(np.float32), rng.random(rows)
    actions, values = np.empty(rows, np.int64), np.empty(rows, np.float32)
    for part in np.array_split(np.arange(rows), parts):
        actions[part], values[part] = act(model, obs[part], uniform[part])
    logits, expected = logits_and_values(shape, params, torch.from_numpy(obs))
    np.testing.assert_allclose(values, expected.detach(), atol=3e-6, rtol=1e-5)
    np.testing.assert_allclose(model.value(obs), values, atol=3e-6, rtol=1e-5)
    # The action's share of the distribution holds the uniform number.
    upto = torch.softmax(logits.detach().double(), -1).cumsum(-1).numpy()
    row = np.arange(rows)
    assert (uniform <= upto[row, actions] + 1e-5).all()
    assert (uniform >= np.where(actions > 0, upto[row, actions - 1], 0) - 1e-5).all()

    advantages, returns = rng.standard_normal((2, rows)).astype(np.float32)
    losses = model.learn(actions, advantages, returns, value_coef=0.7, entropy_coef=entropy_coef)
    # Each the mean over samples (Mnih et al., ICML 2016, Alg. S3).
    odds, row_t = torch.log_softmax(logits, dim=-1), torch.arange(rows)
    terms = (
        -(odds[row_t, torch.from_numpy(actions)] * torch.from_numpy(advantages)).mean(),
        0.5 * (torch.from_numpy(returns) - expected).square().mean(),
        -(odds.exp() * odds).sum(dim=-1).mean(),
    )
    assert losses == pytest.approx(tuple(term.item() for term in terms), rel=1e-4, abs=1e-5)
    torch.autograd.backward([terms[0] + 0.7 * terms[1] - entropy_coef * terms[2]])
    assert params.grad is not None
    np.testing.assert_allclose(model.gradient, params.grad, atol=2e-6, rtol=1e-4)


@pytest.mark.parametrize("n_actions", [4, 0])
def test_the_loss_of_ppo_has_the_gradient_that_torch_finds(n_actions: int) -> None:
    shape, rng, n, deviation = NetShape(5, (8, 7), n_actions), np.random.default_rng(3), 400, 0.3
    params = scattered(shape, 2).requires_grad_()
    obs, advantages = rng.standard_normal((n, 5)).astype(np.float32), rng.standard_normal(n).astype(np.float32)
    actions: npt.NDArray[Any] = rng.integers(0, 4, n) if n_actions else rng.uniform(-1, 1, n).astype(np.float32)
    model = ready(shape, params.detach())
    model.deviation = deviation
    model.replay(obs)
    moved = rng.uniform(-0.5, 0.5, n).astype(np.float32)  # logarithms of ratios, half of which are clipped
    before = model.chosen(actions) - moved
    losses = model.learn(actions, advantages, advantages, value_coef=0.7, entropy_coef=0.3, before=before)

    outputs, values = logits_and_values(shape, params, torch.from_numpy(obs))
    taken, advantage = torch.from_numpy(actions), torch.from_numpy(advantages)
    if n_actions:
        odds = torch.log_softmax(outputs, -1)
        chosen, entropy = odds[torch.arange(n), taken], -(odds.exp() * odds).sum(-1).mean()
    else:
        chosen, entropy = -0.5 * ((taken - torch.tanh(outputs[:, 0])) / deviation) ** 2, torch.zeros(())
    ratio = (chosen - torch.from_numpy(before)).exp()
    policy = -torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
    value = 0.5 * (advantage - values).square().mean()
    torch.autograd.backward([policy + 0.7 * value - 0.3 * entropy])
    assert losses == pytest.approx((policy.item(), value.item(), entropy.item()), rel=1e-4, abs=1e-5)
    assert params.grad is not None
    np.testing.assert_allclose(model.gradient, params.grad, atol=2e-6, rtol=1e-4)
    assert 0.2 * n < (np.abs(moved) > 0.2).sum() < 0.8 * n

    advantages[7] = np.nan
    model.replay(obs)
    model.learn(actions, advantages, advantages, value_coef=0.0, entropy_coef=0.0, before=before)
    assert not model.gradient.isfinite().any(), "a number that is not finite reaches the weights, where it is refused"


def test_logits_far_apart_and_not_finite() -> None:
    shape = NetShape(1, (1,), 3)
    params = torch.zeros(shape.size)
    policy, _ = shape.split(params)
    policy[-1][1][:] = torch.tensor([-300.0, 0.0, -300.0])
    model = ready(shape, params)
    obs = np.ones((2, 1), np.float32)
    assert act(model, obs, np.array([1e-12, 1 - 1e-12]))[0].tolist() == [1, 1]
    losses = model.learn(np.array([1, 1]), np.ones(2, np.float32), np.ones(2, np.float32), value_coef=1, entropy_coef=1)
    assert np.isfinite(losses).all()
    assert np.isfinite(model.gradient).all()
    for bad in (math.nan, math.inf):
        policy[-1][1][2] = bad
        model.load(params)
        assert not model.act(obs, np.zeros(2), np.empty(2, np.int64), np.empty(2, np.float32))


def test_adam_is_adam() -> None:
    """Algorithm 1 of Kingma and Ba (2015). The optimiser of torch loads its compiler first, for many seconds."""
    generator = torch.Generator().manual_seed(4)
    weights = torch.randn(50, generator=generator)
    state = TrainState.fresh(weights.clone())
    expected, mean, square = weights.numpy().astype(float), np.zeros(50), np.zeros(50)
    for t in range(1, 21):
        grads = torch.randn(50, generator=generator)
        g = grads.numpy().astype(float)
        mean, square = BETA1 * mean + (1 - BETA1) * g, BETA2 * square + (1 - BETA2) * g**2
        expected -= 0.01 * (mean / (1 - BETA1**t)) / (np.sqrt(square / (1 - BETA2**t)) + EPS)
        state.apply(grads, 0.01, epochs=8)
    assert state.params.numpy() == pytest.approx(expected, abs=1e-6)
    assert (state.updates, state.epochs) == (20, 160)


def test_epochs_are_handed_out_exactly_once() -> None:
    state = TrainState.fresh(torch.zeros(1))
    # 100 epochs of 8 racks, 5 steps a time: 40, 40, then 20 left, that is 3 steps (24 epochs) to reach them
    assert [state.claim(5, 8, 100) for _ in range(5)] == [5, 5, 3, 0, 0]


def test_weights_start_orthogonal_near_uniform_actions_and_repeat() -> None:
    first, again, other = (initial_params(SHAPE, seed) for seed in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    obs = torch.randn(64, 5, generator=torch.Generator().manual_seed(1))
    probabilities = torch.softmax(logits_and_values(SHAPE, first, obs)[0], -1).numpy()
    # Hidden units lie in [-1, 1], gain 0.01: |logit| <= 0.01 * sqrt(7) = 0.026
    assert probabilities == pytest.approx(np.full((64, 4), 0.25), abs=0.02)
    for layers, gain in zip(SHAPE.split(first), (0.01, 1.0), strict=True):
        for weight, bias in layers:
            scale = gain if weight is layers[-1][0] else math.sqrt(2)
            small = weight if weight.shape[0] <= weight.shape[1] else weight.T
            assert (small @ small.T).numpy() == pytest.approx(scale**2 * np.eye(len(small)), abs=1e-5)
            assert not bias.any()
