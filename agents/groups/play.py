# SPDX-License-Identifier: BSD-3-Clause
"""Episodes of groups: what each rack earned, and what exploring hosts did."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ncc.agents.groups.config import GroupsConfig
from ncc.agents.groups.network import Float, Shape
from ncc.core.errors import InvalidRunError
from ncc.harness.batch import BatchedEnv, Divided, ObsArray, Telling

Index = npt.NDArray[np.int64]


def play(env: BatchedEnv, episode: int, act: Callable[[int, ObsArray], Float]) -> Float:
    """Play one episode of every rack; return rewards [T, racks, hosts], 0 once an episode is over.

    Raises:
        InvalidRunError: a reward is not finite.
    """
    obs, running = env.reset(episode), np.ones(env.n_racks, np.bool_)
    paid: list[Float] = []
    while running.any():
        moved = env.step(act(len(paid), obs))  # type: ignore[arg-type] # numbers: `GroupsRun` has checked
        paid.append(np.where(running[:, None], moved.reward, 0).astype(np.float32))
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
    host: Index
    """[n] in the rack."""
    obs: ObsArray
    """[n, obs_dim]"""
    taken: Float
    """[n] numbers chosen, before they were cut to [-1, 1]."""
    error: Float
    """[n] those less the greedy ones, in standard deviations."""


class Explorer:
    """A policy in which, by windows, one host of some networks decides otherwise.

    By `config.baseline` the second half of a group's copies mirrors the first, or copy 0 is greedy; with a critic all
    copies explore.

    Args:
        config: settings.
        shape: of the network.
        weights: [size]
        env: the racks, each a network or `Divided` into several.
        noise: standard deviation of what is added to a host's number.
        rng: draws networks, hosts and noise.
    """

    def __init__(
        self,
        config: GroupsConfig,
        shape: Shape,
        weights: Float,
        env: BatchedEnv,
        *,
        noise: float,
        rng: np.random.Generator,
    ) -> None:
        self._config, self._shape, self._weights, self._noise, self._rng = config, shape, weights, noise, rng
        self._env = env
        self._seen: list[tuple[Index, Index, Index, ObsArray, Float, Float]] = []
        self._states: list[ObsArray] = []
        self.networks: Index = np.zeros(0, np.int64)
        """Number of networks in each rack [racks], once it has acted."""

    def __call__(self, epoch: int, obs: ObsArray) -> Float:
        """Return numbers [racks, hosts] for observations [racks, hosts, obs_dim]."""
        numbers = self._shape.numbers(self._weights, obs)
        if self._config.baseline == "critic":
            assert isinstance(self._env, Telling), "packetsim's environments all tell"
            self._states.append(np.concatenate([obs, self._env.truth()], axis=-1))
        if epoch % self._config.window == 0:
            self._draw(*numbers.shape)
        racks, hosts = self._racks, self._hosts
        taken = numbers[racks, hosts] + self._error * np.float32(self._noise)
        self._seen.append((np.full(len(racks), epoch), racks, hosts, obs[racks, hosts], taken, self._error))
        numbers[racks, hosts] = np.clip(taken, -1, 1)
        return numbers

    def samples(self) -> Samples:
        """Return all that exploring hosts have done."""
        return Samples(*map(np.concatenate, zip(*self._seen, strict=True)))

    def states(self) -> ObsArray:
        """Return what a critic sees [T, racks, hosts, state_dim]: observations, then what the simulator tells."""
        return np.stack(self._states)

    def _draw(self, n_racks: int, n_hosts: int) -> None:
        """Draw a window: which networks, the hosts that explore there, and their noise."""
        env = self._env
        self.networks = several = networks_of(env)
        racks = np.repeat(np.arange(n_racks), several)
        network = np.arange(len(racks)) - np.repeat(np.cumsum(several) - several, several)
        copy, half = racks % self._config.copies, self._config.copies // 2
        mirrored, greedy = self._config.baseline == "mirror", int(self._config.baseline in ("greedy", "mean"))
        explores = (self._rng.random(len(racks)) < self._config.explore_prob) & (
            (copy < half) if mirrored else (copy >= greedy)
        )
        racks, network, size = racks[explores], network[explores], (n_hosts // several[racks])[explores]
        if self._config.explorers == "one":
            self._racks, self._hosts = racks, network * size + self._rng.integers(size)
        else:
            self._racks = racks.repeat(size)
            within = np.arange(len(self._racks)) - np.repeat(np.cumsum(size) - size, size)
            self._hosts = (network * size).repeat(size) + within
        self._error = self._rng.normal(size=len(self._racks)).astype(np.float32)
        if mirrored:
            self._racks = np.concatenate([self._racks, self._racks + half])
            self._hosts, self._error = np.tile(self._hosts, 2), np.concatenate([self._error, -self._error])


def networks_of(env: BatchedEnv) -> Index:
    """Return the number of networks in each rack [racks]."""
    return env.networks_of_racks() if isinstance(env, Divided) else np.ones(env.n_racks, np.int64)


def to_go(rewards: Float, gamma: float) -> Float:
    """Return discounted rewards [T + 1, racks, hosts] from each epoch on, of rewards [T, racks, hosts].

    What is unfinished at the end counts as if it stayed so for ever.
    """
    later = np.zeros((len(rewards) + 1, *rewards.shape[1:]), np.float32)
    later[-1] = rewards[-1] / np.float32(1 - gamma)
    for epoch in range(len(rewards) - 1, -1, -1):
        later[epoch] = rewards[epoch] + np.float32(gamma) * later[epoch + 1]
    return later


def advantages(rewards: Float, samples: Samples, config: GroupsConfig, values: Float | None = None) -> Float:
    """Return [n]: discounted rewards of samples' hosts from their epochs on, less those of `config.baseline`.

    Of each list of flows, the differences are over twice their median size where they are not 0, and cut to -3 to 3.

    Args:
        rewards: [T, racks, hosts]
        samples: decisions.
        config: settings.
        values: a critic's estimates of `to_go` [T, racks, hosts], if the baseline is one. The differences are then
            those of generalised advantage estimation (Schulman et al., 2016, eq. 16).
    """
    later = to_go(rewards, config.gamma)
    copies = config.copies
    group, own = samples.rack // copies, later[samples.epoch, samples.rack, samples.host]
    if values is not None:
        next_values = np.concatenate([values[1:], later[-1:]])
        gained_of = rewards + np.float32(config.gamma) * next_values - values
        for epoch in range(len(rewards) - 2, -1, -1):
            gained_of[epoch] += np.float32(config.gamma * config.critic_lambda) * gained_of[epoch + 1]
        gained = gained_of[samples.epoch, samples.rack, samples.host]
    elif config.baseline != "mean":
        mirror = group * copies + (samples.rack + copies // 2) % copies
        twin = mirror if config.baseline == "mirror" else group * copies
        gained = own - later[samples.epoch, twin, samples.host]
    else:
        sums = later.reshape(len(later), -1, copies, later.shape[-1]).sum(axis=2)
        gained = own - (sums[samples.epoch, group, samples.host] - own) / np.float32(copies - 1)
    for each in np.unique(group):
        of_list = group == each
        different = np.abs(gained[of_list & (gained != 0)])
        gained[of_list] /= np.float32(2 * np.median(different) if len(different) else 1)
    cut: Float = np.clip(gained, -3, 3)
    return cut


def over_lists(rewards: Float, *, copies: int, gamma: float) -> npt.NDArray[np.float64]:
    """Return [copies]: by how much more each copy earned than the mean of its list, over the mean's size; the mean.

    Every list of flows counts alike. What is unfinished at the end counts for 1 / (1 - gamma) epochs more.
    """
    earned = rewards.sum(axis=0, dtype=np.float64) + rewards[-1] / (1 - gamma)
    of_lists = earned.sum(axis=-1).reshape(-1, copies)
    mean = of_lists.mean(axis=1, keepdims=True)
    found: npt.NDArray[np.float64] = ((of_lists - mean) / np.maximum(np.abs(mean), 1e-9)).mean(axis=0)
    return found
