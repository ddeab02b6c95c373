# SPDX-License-Identifier: BSD-3-Clause
"""Parts of the warm start: the memory of samples, and the losses beside their plain formulas."""

import numpy as np
import pytest
import torch

from ncc.agents.a3c.network import ActorCritic, NetShape, initial_params, policy_layers
from ncc.agents.a3c.samples import Batch, Samples
from tests.agents.reference import logits_and_values

SHAPE = NetShape(3, (8,), 4)


def batch(first: int, rows: int) -> Batch:
    numbers = torch.arange(first, first + rows)
    return Batch(numbers[:, None].float().repeat(1, 3), numbers % 4, numbers / 10, torch.ones(rows))


def scattered(seed: int) -> torch.Tensor:
    noise = torch.randn(SHAPE.size, generator=torch.Generator().manual_seed(seed))
    return initial_params(SHAPE, seed, None) + 0.3 * noise


def kept(samples: Samples) -> set[int]:
    drawn = samples.draw(np.random.default_rng(1), 2000)
    assert torch.equal(drawn.obs[:, 2] / 10, drawn.returns), "rows stay together"
    assert torch.equal(drawn.obs[:, 0].long() % 4, drawn.labels)
    return set(drawn.obs[:, 0].long().tolist())


def test_the_newest_samples_are_kept() -> None:
    samples = Samples(10, 3)
    samples.add(batch(0, 4))
    assert (len(samples), kept(samples)) == (4, set(range(4)))
    samples.add(batch(4, 4))
    samples.add(batch(8, 5))
    assert (len(samples), kept(samples)) == (10, set(range(3, 13)))
    samples.add(batch(13, 25))
    assert (len(samples), kept(samples)) == (10, set(range(28, 38)))
    samples.add(batch(38, 1))
    assert kept(samples) == set(range(29, 39))


def test_frequencies_are_those_of_what_is_kept() -> None:
    samples = Samples(6, 3)
    samples.add(batch(0, 5))  # labels 0 1 2 3 0
    assert samples.frequencies(5).tolist() == pytest.approx([0.4, 0.2, 0.2, 0.2, 0])
    samples.add(batch(5, 3))  # 2 3 0 | 1 2 3
    assert samples.frequencies(5).tolist() == pytest.approx([1 / 6, 1 / 6, 1 / 3, 1 / 3, 0])


def test_returns_of_others_are_forgotten_and_samples_are_not() -> None:
    samples = Samples(10, 3)
    samples.add(batch(0, 6))
    samples.forget_returns()
    samples.add(batch(6, 2))
    drawn = samples.draw(np.random.default_rng(1), 500)
    assert torch.equal(drawn.counts, (drawn.obs[:, 0] >= 6).float())
    assert kept(samples) == set(range(8))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_gradient_is_that_of_cross_entropy_and_squared_errors(*, weighted: bool, smoothing: float) -> None:
    generator = torch.Generator().manual_seed(2)
    counts = torch.tensor([1.0, 0, 1, 1, 0, 1])
    labels, returns = torch.tensor([0, 3, 1, 1, 2, 0]), torch.randn(6, generator=generator)
    samples = Batch(torch.randn(6, 3, generator=generator), labels, returns, counts)
    params = scattered(5).requires_grad_()
    model = ActorCritic(SHAPE)
    model.load(params.detach())
    weights = torch.tensor([0.5, 2.0, 1.0, 3.0]) if weighted else torch.ones(4)
    model.imitate(samples, weights=weights if weighted else None, smoothing=smoothing, value_coef=0.7)

    logits, values = logits_and_values(SHAPE, params, samples.obs)
    log_probs, each = torch.log_softmax(logits, -1), weights[labels]
    targets = (1 - smoothing) * torch.eye(4)[labels] + smoothing / 4
    policy = -(targets * weights * log_probs).sum() / each.sum()
    value = 0.5 * (counts * (returns - values) ** 2).sum() / 4
    torch.autograd.backward([policy + 0.7 * value])
    assert params.grad is not None
    assert model.gradient.numpy() == pytest.approx(params.grad.numpy(), abs=1e-6)


def test_the_value_does_not_learn_from_nothing() -> None:
    samples, model = batch(0, 6)._replace(counts=torch.zeros(6)), ActorCritic(SHAPE)
    model.load(scattered(5))
    for coef in (0.7, 0.0):
        model.imitate(samples, weights=None, smoothing=0.0, value_coef=coef)
        policy, value = SHAPE.split(model.gradient)
        assert not any(part.any() for layer in value for part in layer)
        assert all(part.any() for layer in policy for part in layer)


def test_distance_from_the_anchor() -> None:
    rng = np.random.default_rng(3)
    obs, actions = rng.standard_normal((6, 3)).astype(np.float32), rng.integers(4, size=6)
    params, anchor = scattered(5).requires_grad_(), scattered(6)
    zeros, values = np.zeros(6, np.float32), np.empty(6, np.float32)

    def learn(layers: torch.Tensor, kl_coef: float) -> tuple[float, torch.Tensor]:
        model = ActorCritic(SHAPE, policy_layers(SHAPE, layers))
        model.load(params.detach())
        assert model.act(obs, rng.random(6), np.empty(6, np.int64), values)
        losses = model.learn(actions, zeros, values, value_coef=1.0, entropy_coef=0.0, kl_coef=kl_coef)
        return losses.kl, model.gradient

    near, nothing = learn(params.detach(), 2.0)
    assert near == pytest.approx(0, abs=1e-6)
    assert nothing.numpy() == pytest.approx(np.zeros(SHAPE.size), abs=1e-6)
    kl, gradient = learn(anchor, 2.0)
    ours, theirs = (logits_and_values(SHAPE, p, torch.from_numpy(obs))[0].log_softmax(-1) for p in (params, anchor))
    expected = (theirs.exp() * (theirs - ours)).sum(-1).mean()
    assert kl == pytest.approx(expected.item(), rel=1e-5)
    torch.autograd.backward([2 * expected])
    assert params.grad is not None
    assert gradient.numpy() == pytest.approx(params.grad.numpy(), abs=1e-6)
