# SPDX-License-Identifier: BSD-3-Clause
"""A critic that sees all hosts of a network, and the true sizes of their flows. It serves training alone."""

import numpy as np
import torch
from torch import Tensor

from ncc.agents.a3c.adam import TrainState
from ncc.agents.groups.config import GroupsConfig
from ncc.agents.groups.network import Float, split
from ncc.agents.groups.play import Index

HIDDEN = 32
"""Size of each tanh layer."""
BATCH = 256
"""Epochs of racks in a minibatch."""
MAX_EPOCHS = 8192
"""Most epochs of racks that an update learns from, drawn at random."""


class Critic:
    """Estimate of what a host is still to earn, from the states of all hosts of its network.

    Each host's state is what the host observes and what the simulator knows (`ncc.harness.batch.Telling`). A tanh
    layer takes each state, and the mean over the network's hosts is what all of them are together (Zaheer et al.,
    "Deep Sets", 2017, eq. 4); a second layer takes that beside the host's own. So the order of hosts does not matter,
    nor their number. The network itself says a mean reward: values times 1 - gamma.

    Args:
        config: settings.
        state_dim: numbers in a host's state.
    """

    def __init__(self, config: GroupsConfig, state_dim: int) -> None:
        self._config = config
        self._sizes = [(state_dim, HIDDEN), (2 * HIDDEN, HIDDEN), (HIDDEN, 1)]

    def initial(self, rng: np.random.Generator) -> Float:
        """Draw weights [size]: of tanh layers by 1 / sqrt(inputs), zeros in the last one and in biases."""
        parts = [
            np.concatenate([rng.normal(0, inputs**-0.5 if outputs > 1 else 0, inputs * outputs), np.zeros(outputs)])
            for inputs, outputs in self._sizes
        ]
        return np.concatenate(parts).astype(np.float32)

    def values(self, weights: Tensor, states: Float, networks: Index) -> Float:
        """Return what hosts are to earn [T, racks, hosts], discounted.

        Args:
            weights: [size]
            states: [T, racks, hosts, state_dim]
            networks: number of networks in each rack [racks].
        """
        with torch.no_grad():
            found = [self._values(weights, torch.from_numpy(epoch), networks).numpy() for epoch in states]
        return (np.stack(found) / (1 - self._config.gamma)).astype(np.float32)

    def fit(
        self, train: TrainState, states: Float, later: Float, networks: Index, *, rate: float, rng: np.random.Generator
    ) -> dict[str, float]:
        """Regress on what hosts earned from each epoch on, `later` [T, racks, hosts]; return scalars for logs.

        Errors are over the standard deviation of their list of flows, so that all lists count alike, but for those in
        which next to nothing happens.
        """
        config = self._config
        target = later * np.float32(1 - config.gamma)
        of_lists = target.reshape(len(target), -1, config.copies, target.shape[-1])
        spread = of_lists.std(axis=(0, 2, 3))
        unit = np.maximum(spread, 0.1 * spread.mean() + 1e-9).repeat(config.copies)
        drawn = rng.permutation(target.shape[0] * target.shape[1])[:MAX_EPOCHS]
        epoch, rack = np.divmod(drawn, target.shape[1])
        losses = []
        for _ in range(config.passes):
            for part in np.array_split(rng.permutation(len(drawn)), -(-len(drawn) // BATCH)):
                at = epoch[part], rack[part]
                weights = train.params.clone().requires_grad_()
                values = self._values(weights, torch.from_numpy(states[at]), networks[at[1]])
                error = (values - torch.from_numpy(target[at])) / torch.from_numpy(unit[at[1]])[:, None]
                loss = error.square().mean()
                (grads,) = torch.autograd.grad(loss, weights)
                grads *= min(1.0, config.max_grad_norm / (grads.norm().item() + 1e-9))
                train.apply(grads, rate, 0)
                losses.append(loss.item())
        return {"loss/critic": float(np.mean(losses))}

    def _values(self, weights: Tensor, states: Tensor, networks: Index) -> Tensor:
        """Return values [n, hosts] of states [n, hosts, state_dim] with so many networks in each row [n]."""
        (first, first_bias), (second, second_bias), (last, last_bias) = split(weights, self._sizes)
        own = torch.tanh(states @ first.T + first_bias)
        together = torch.empty_like(own)
        n_hosts = own.shape[1]
        for several in np.unique(networks):
            rows = torch.from_numpy((networks == several).nonzero()[0])
            each = own[rows].view(len(rows), int(several), n_hosts // int(several), HIDDEN)
            together[rows] = each.mean(dim=2, keepdim=True).expand_as(each).reshape(len(rows), n_hosts, HIDDEN)
        both = torch.tanh(torch.cat([own, together], dim=-1) @ second.T + second_bias)
        values: Tensor = (both @ last.T + last_bias)[..., 0]
        return values
