# SPDX-License-Identifier: BSD-3-Clause
"""The loss by hand and by finite differences; the network, its export and the optimiser beside references."""

import math

import numpy as np
import pytest
import torch

from ncc.agents.a3c.adam import BETA1, BETA2, EPS, TrainState
from ncc.agents.a3c.loss import LossTerms, actor_critic_loss
from ncc.agents.a3c.network import FlatModel, NetShape, initial_params
from ncc.agents.policy import MlpPolicy

SHAPE = NetShape(5, (8, 7), 4)


def test_two_actions_by_hand() -> None:
    # Both logits 0: pi = (1/2, 1/2), entropy ln 2. Action 0 with advantage 2: -ln(1/2) * 2 = 2 ln 2.
    # Value 1, return 3: (3 - 1)^2 / 2 = 2.
    logits = torch.zeros(1, 2, requires_grad=True)
    values = torch.ones(1, requires_grad=True)
    terms = actor_critic_loss(
        logits,
        values,
        actions=torch.tensor([0]),
        advantages=torch.tensor([2.0]),
        returns=torch.tensor([3.0]),
        value_coef=0.5,
        entropy_coef=0.1,
    )
    assert terms.policy.item() == pytest.approx(2 * math.log(2))
    assert terms.value.item() == pytest.approx(2)
    assert terms.entropy.item() == pytest.approx(math.log(2))
    assert terms.total.item() == pytest.approx(2 * math.log(2) + 1 - 0.1 * math.log(2))
    torch.autograd.backward([terms.total])
    # advantage * (pi - chosen) = 2 * (-1/2, 1/2); the entropy is at its maximum; value_coef * (1 - 3)
    assert logits.grad is not None
    assert values.grad is not None
    assert logits.grad.tolist() == [[-1, 1]]
    assert values.grad.tolist() == [-1]


def test_gradients_match_finite_differences() -> None:
    torch.manual_seed(0)
    logits = torch.randn(3, 2, 4, dtype=torch.float64, requires_grad=True)
    values = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    actions, advantage = torch.randint(4, (3, 2)), torch.randn(3, 2, dtype=torch.float64)
    returns = torch.randn(3, 2, dtype=torch.float64)

    def total(logits: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return terms(logits, values).total

    def terms(logits: torch.Tensor, values: torch.Tensor) -> LossTerms:
        return actor_critic_loss(
            logits, values, actions=actions, advantages=advantage, returns=returns, value_coef=0.7, entropy_coef=0.3
        )

    assert torch.autograd.gradcheck(total, (logits, values))


def test_no_gradient_flows_through_advantages_and_returns() -> None:
    values = torch.ones(3, requires_grad=True)
    terms = actor_critic_loss(
        torch.zeros(3, 2),
        values,
        actions=torch.zeros(3, dtype=torch.int64),
        advantages=5 - values,
        returns=values * 2,
        value_coef=1.0,
        entropy_coef=0.0,
    )
    torch.autograd.backward([terms.total])
    assert values.grad is not None
    assert values.grad.numpy() == pytest.approx(np.full(3, (1 - 2) / 3))


def test_adam_is_adam() -> None:
    generator = torch.Generator().manual_seed(4)
    weights = torch.randn(50, generator=generator)
    reference = torch.nn.Parameter(weights.clone())
    optimiser = torch.optim.Adam([reference], lr=0.01, betas=(BETA1, BETA2), eps=EPS)
    state = TrainState.fresh(weights.clone())
    for _ in range(20):
        grads = torch.randn(50, generator=generator)
        reference.grad = grads
        optimiser.step()
        state.apply(grads, 0.01, epochs=8)
    assert state.params.numpy() == pytest.approx(reference.detach().numpy(), abs=1e-6)
    assert (state.updates, state.epochs) == (20, 160)


def test_epochs_are_handed_out_exactly_once() -> None:
    state = TrainState.fresh(torch.zeros(1))
    # 100 epochs of 8 racks, 5 steps a time: 40, 40, then 20 left, that is 3 steps (24 epochs) to reach them
    assert [state.claim(5, 8, 100) for _ in range(5)] == [5, 5, 3, 0, 0]


def test_weights_live_in_one_vector() -> None:
    model = FlatModel(SHAPE)
    assert model.size == sum(w.numel() for w in model.net.parameters())
    model.params.fill_(0.5)
    assert all((w == 0.5).all() for w in model.net.parameters())
    obs = torch.ones(3, 5)
    torch.autograd.backward([model.net.value(obs).sum() + model.net.logits(obs).sum()])
    parts = [w.grad.reshape(-1) for w in model.net.parameters() if w.grad is not None]
    assert torch.equal(torch.cat(parts), model.grads)
    assert model.grads.norm() > 0


def test_exported_policy_agrees_with_torch() -> None:
    model = FlatModel(SHAPE)
    model.params.copy_(initial_params(SHAPE, 3, None) + 0.1)
    obs = np.random.default_rng(1).standard_normal((2, 16, 5)).astype(np.float32)
    with torch.no_grad():
        expected = model.net.logits(torch.from_numpy(obs)).numpy()
    policy = MlpPolicy(model.policy_layers())
    assert np.abs(policy.logits(obs) - expected).max() < 1e-6
    assert (policy.act(obs, None) == expected.argmax(-1)).all()


def test_training_starts_near_uniform_and_repeats() -> None:
    first, again, other = (initial_params(SHAPE, seed, None) for seed in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    obs = torch.randn(64, 5, generator=torch.Generator().manual_seed(1))
    model = FlatModel(SHAPE)
    model.params.copy_(first)
    probabilities = torch.softmax(model.net.logits(obs), -1).detach().numpy()
    # Hidden units lie in [-1, 1], gain 0.01: |logit| <= 0.01 * sqrt(7) = 0.026
    assert probabilities == pytest.approx(np.full((64, 4), 0.25), abs=0.02)


def test_training_may_start_near_no_limit() -> None:
    model = FlatModel(SHAPE)
    model.params.copy_(initial_params(SHAPE, 3, 0.7))
    obs = torch.randn(64, 5, generator=torch.Generator().manual_seed(1))
    probabilities = torch.softmax(model.net.logits(obs), -1).detach().numpy()
    assert probabilities == pytest.approx(np.tile([0.1, 0.1, 0.1, 0.7], (64, 1)), abs=0.02)
    assert model.net.value(obs).shape == (64,)
