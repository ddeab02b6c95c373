# SPDX-License-Identifier: BSD-3-Clause
"""Episodes of groups: what each rack earned, and what exploring hosts did."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ncc.agents.groups.config import GroupsConfig
from ncc.agents.groups.network import Float, Shape
from ncc.core.errors import InvalidRunError
from ncc.harness.batch import BatchedEnv, ObsArray

Index = npt.NDArray[np.int64]


def play(env: BatchedEnv, episode: int, act: Callable[[int, ObsArray], Float]) -> Float:
    """Play one episode of every rack; return the sums of their hosts' rewards [T, racks], 0 once an episode is over.

    Raises:
        InvalidRunError: a reward is not finite.
    """
    obs, running = env.reset(episode), np.ones(env.n_racks, np.bool_)
    paid: list[Float] = []
    while running.any():
        moved = env.step(act(len(paid), obs))  # type: ignore[arg-type] # numbers: `GroupsRun` has checked
        paid.append(np.where(running, moved.reward.sum(axis=-1), 0).astype(np.float32))
        if not np.isfinite(paid[-1]).all():
            raise InvalidRunError(f"a reward in epoch {len(paid)} of episode {episode} is not finite; check env.reward")
        running &= ~(moved.terminated | moved.truncated)
        obs = moved.obs
    return np.stack(paid)


@dataclass(frozen=True)
class Samples:
    """Decisions of exploring hosts."""

    epoch: Index
    """[n] in the episode."""
    rack: Index
    """[n]"""
    obs: ObsArray
    """[n, obs_dim]"""
    taken: Float
    """[n] numbers chosen, before they were cut to [-1, 1]."""
    error: Float
    """[n] those less the greedy ones, in standard deviations."""


class Explorer:
    """A policy in which, by windows, one host of some racks decides otherwise; copy 0 of each group is greedy.

    Args:
        config: settings.
        shape: of the network.
        weights: [size]
        noise: standard deviation of what is added to a host's number.
        rng: draws racks, hosts and noise.
    """

    def __init__(
        self, config: GroupsConfig, shape: Shape, weights: Float, noise: float, rng: np.random.Generator
    ) -> None:
        self._config, self._shape, self._weights, self._noise, self._rng = config, shape, weights, noise, rng
        self._seen: list[tuple[Index, Index, ObsArray, Float, Float]] = []

    def __call__(self, epoch: int, obs: ObsArray) -> Float:
        """Return numbers [racks, hosts] for observations [racks, hosts, obs_dim]."""
        numbers = self._shape.numbers(self._weights, obs)
        if epoch % self._config.window == 0:
            self._draw(*numbers.shape)
        racks, hosts = self._racks, self._hosts
        taken = numbers[racks, hosts] + self._error * np.float32(self._noise)
        self._seen.append((np.full(len(racks), epoch), racks, obs[racks, hosts], taken, self._error))
        numbers[racks, hosts] = np.clip(taken, -1, 1)
        return numbers

    def samples(self) -> Samples:
        """Return all that exploring hosts have done."""
        return Samples(*map(np.concatenate, zip(*self._seen, strict=True)))

    def _draw(self, n_racks: int, n_hosts: int) -> None:
        """Draw a window: which racks, a host of each, and its noise."""
        explores = self._rng.random(n_racks) < self._config.explore_prob
        self._racks = np.flatnonzero(explores & (np.arange(n_racks) % self._config.copies > 0))
        self._hosts = self._rng.integers(n_hosts, size=len(self._racks))
        self._error = self._rng.normal(size=len(self._racks)).astype(np.float32)


def advantages(rewards: Float, samples: Samples, *, copies: int, gamma: float) -> Float:
    """Return [n]: discounted returns of samples' racks from their epochs on, less those of their greedy twins.

    They are over twice their median size where they are not 0, and cut to -3 to 3.
    """
    later = np.zeros((len(rewards) + 1, rewards.shape[1]), np.float32)
    for epoch in range(len(rewards) - 1, -1, -1):
        later[epoch] = rewards[epoch] + np.float32(gamma) * later[epoch + 1]
    twin = samples.rack - samples.rack % copies
    gained = later[samples.epoch, samples.rack] - later[samples.epoch, twin]
    different = np.abs(gained[gained != 0])
    unit = 2 * float(np.median(different)) if len(different) else 1.0
    cut: Float = np.clip(gained / np.float32(unit), -3, 3)
    return cut
