# SPDX-License-Identifier: BSD-3-Clause
"""Pairs: copies of a network play one list of flows, and a host is paid what it earns more than in the other copies.

Flows change a reward far more than a learner's noise does. So a host's own reward says almost nothing about its
limits, and a critic cannot help: it does not know which flows will come. The copies have them in common.

- ``paid: mean`` pays a host its reward less the mean of the other copies. It is for learners with noise of their own.
- ``paid: mirror`` brings the noise along, as the last number of an observation, in standard deviations. A policy adds
  it: ``mean(observation without noise) + deviation * noise``, a Gaussian number as ever. The noise lasts
  `noise_periods`, as long as a transport takes to react, and has the other sign in the other copy of the pair. A host
  is paid its reward less that of its mirror image. Neither mean nor critic may see the noise: a critic would take its
  effect out again.

Rewards are differences then. Their mean is 0, and they do not tell how good a policy is; `Transition.earned` does.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from ncc.core.errors import ConfigError
from ncc.core.seeding import generator
from ncc.core.value import Count, Value
from ncc.harness.batch import ActionArray, BatchedEnv, Measuring, ObsArray, Transition

Float = npt.NDArray[np.float32]


class Pairs(Value, frozen=True):
    """Number of copies, pay of a host, and length of the noise."""

    paid: Literal["mirror", "mean"] = "mirror"
    copies: Annotated[int, Meta(ge=2, le=256)] = 2
    """Racks with the same flows."""
    noise_periods: Count = 10
    """Periods for which noise lasts, with ``mirror``."""

    def check(self) -> None:
        if self.paid == "mirror" and self.copies % 2:
            raise ConfigError(
                f"pairs.copies must be even with mirror images, got {self.copies}; or set pairs.paid to mean"
            )

    @property
    def n_noise(self) -> int:
        """Number of the last numbers of an observation that are noise: 0 or 1."""
        return int(self.paid == "mirror")

    def reward(self, own: Float) -> Float:
        """Return what hosts are paid, for their rewards [n_racks, ...] of racks whose copies follow each other."""
        of = own.reshape(-1, self.copies, *own.shape[1:])
        if self.paid == "mirror":
            paid = of - np.roll(of, self.copies // 2, axis=1)
        else:
            paid = (of - of.mean(axis=1, keepdims=True)) * np.float32(self.copies / (self.copies - 1))
        return paid.reshape(own.shape)

    def noise(self, rng: np.random.Generator, shape: tuple[int, int]) -> Float:
        """Draw noise [n_racks, n_agents], of which the second half of the copies has that of the first with minus."""
        groups, half = shape[0] // self.copies, self.copies // 2
        drawn = rng.normal(size=(groups, half, shape[1])).astype(np.float32)
        return np.concatenate([drawn, -drawn], axis=1).reshape(shape)


class Noise:
    """The noise of racks in copies, as the last number of their observations; nothing without mirror images."""

    def __init__(self, pairs: Pairs, n_racks: int, n_agents: int) -> None:
        self._pairs, self._shape = pairs, (n_racks, n_agents)

    def begin(self, seed: int, index: int, episode: int) -> None:
        """Begin an episode, whose noise these numbers determine."""
        self._rng, self._seen = generator(seed, "pairs", index, episode), 0

    def onto(self, obs: ObsArray) -> ObsArray:
        """Append the noise of the next period to observations [n_racks, n_agents, obs_dim]."""
        if not self._pairs.n_noise:
            return obs
        if self._seen % self._pairs.noise_periods == 0:
            self._now = self._pairs.noise(self._rng, self._shape)[..., None]
        self._seen += 1
        return np.concatenate([obs, self._now], axis=-1)


class Paired:
    """A `BatchedEnv` over another whose racks come in copies; see above.

    Args:
        env: racks of which `Pairs.copies` at a time have the same flows.
        pairs: what hosts are paid.
        seed: seed of the noise, with `index` and the number of the episode given to `reset`.
        index: number of the worker.
    """

    def __init__(self, env: BatchedEnv, pairs: Pairs, seed: int, index: int = 0) -> None:
        self._env, self._pairs, self._seed, self._index = env, pairs, seed, index
        self.n_racks, self.n_agents, self.n_actions = env.n_racks, env.n_agents, env.n_actions
        self.copies, self.n_noise = pairs.copies, pairs.n_noise
        self.obs_dim = env.obs_dim + self.n_noise
        self._noise = Noise(pairs, env.n_racks, env.n_agents)

    @property
    def episode(self) -> int:
        """Episode of the slowest rack."""
        return self._env.episode

    def reset(self, episode: int = 0) -> ObsArray:
        """Start every rack at that episode; return observations [n_racks, n_agents, obs_dim]."""
        obs = self._env.reset(episode)
        self._noise.begin(self._seed, self._index, episode)
        return self._noise.onto(obs)

    def step(self, actions: ActionArray) -> Transition:
        """Run one epoch; rewards are what hosts are paid. Numbers beyond [-1, 1] are cut."""
        moved = self._env.step(actions if self.n_actions else np.clip(actions, -1, 1))
        paid = self._pairs.reward(moved.reward)
        final = np.pad(moved.final_obs, ((0, 0), (0, 0), (0, 1))) if self.n_noise else moved.final_obs
        return replace(moved, obs=self._noise.onto(moved.obs), reward=paid, final_obs=final, earned=moved.reward)

    def take_metrics(self) -> Mapping[str, float]:
        """Return the metrics of the racks; see `ncc.harness.batch.Measuring`."""
        return self._env.take_metrics() if isinstance(self._env, Measuring) else {}

    def close(self) -> None:
        """Free the networks; may be called twice."""
        self._env.close()


def paired(env: BatchedEnv, pairs: Pairs | None, seed: int, index: int = 0) -> BatchedEnv:
    """Return `Paired` racks, or the racks as they are where hosts are paid their own rewards."""
    return env if pairs is None else Paired(env, pairs, seed, index)
