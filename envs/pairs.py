# SPDX-License-Identifier: BSD-3-Clause
"""Pairs: copies of a network play the same flows, and a host's reward is its own reward less that in other copies.

Flows change a reward far more than the noise of a learner does. The own reward of a host therefore says almost nothing
about its limits. A critic cannot help, because it does not know the future flows. All copies have the same flows, so
their effect cancels in the difference.

- ``paid: mean``: the reward is the own one less the mean of the other copies. It is for learners that draw actions.
- ``paid: mirror``: the environment draws the noise, as the last number of an observation, in standard deviations. The
  action is ``mean(observation without noise) + deviation * noise``. The noise lasts `noise_periods`, as long as a
  transport takes to react, and its sign is reversed in the other copy of the pair. The reward is the own one less that
  of the mirror image. Neither the mean nor a critic may see the noise: a critic would remove its effect.

These rewards have a mean of 0 and do not measure how good a policy is; `Transition.earned` does.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from ncc.core.errors import ConfigError
from ncc.core.seeding import generator
from ncc.core.value import Count, Value
from ncc.harness.batch import ActionArray, BatchedEnv, ObsArray, Transition

Float = npt.NDArray[np.float32]


class Pairs(Value, frozen=True):
    """Settings of pairs: kind of reward (`paid`), number of copies, and length of the noise."""

    paid: Literal["mirror", "mean"] = "mirror"
    copies: Annotated[int, Meta(ge=2, le=256)] = 2
    """Number of racks with the same flows; even with ``mirror``."""
    noise_periods: Count = 10
    """Periods for which one draw of the noise lasts, with ``mirror``."""

    def check(self) -> None:
        if self.paid == "mirror" and self.copies % 2:
            raise ConfigError(
                f"pairs.copies must be even with mirror images, got {self.copies}; or set pairs.paid to mean"
            )

    @property
    def n_noise(self) -> int:
        """Number of noise entries at the end of an observation: 1 with ``mirror``, otherwise 0."""
        return int(self.paid == "mirror")

    def reward(self, own: Float) -> Float:
        """Turn hosts' own rewards [n_racks, ...] into differences between copies, as `paid` says.

        Copies of a rack have consecutive rows.
        """
        of, half = own.reshape(-1, self.copies, *own.shape[1:]), self.copies // 2
        if self.paid == "mirror":
            paid: Float = of - np.concatenate([of[:, half:], of[:, :half]], axis=1)
        else:
            paid = (of - of.mean(axis=1, keepdims=True)) * np.float32(self.copies / (self.copies - 1))
        return paid.reshape(own.shape)

    def noise(self, rng: np.random.Generator, shape: tuple[int, int]) -> Float:
        """Draw standard normal noise [n_racks, n_agents]; each group's second half has minus the noise of the first."""
        groups, half = shape[0] // self.copies, self.copies // 2
        drawn = rng.normal(size=(groups, half, shape[1])).astype(np.float32)
        return np.concatenate([drawn, -drawn], axis=1).reshape(shape)


class Noise:
    """The noise of ``mirror``, which is appended to each host's observation; with ``mean`` nothing is appended."""

    def __init__(self, pairs: Pairs, n_racks: int, n_agents: int) -> None:
        self._pairs, self._shape = pairs, (n_racks, n_agents)

    def begin(self, seed: int, index: int, episode: int) -> None:
        """Begin an episode; `seed`, `index` and `episode` determine its noise."""
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
    """A `BatchedEnv` around another whose racks come in copies. It turns rewards into differences between copies.

    Args:
        env: racks of which `Pairs.copies` at a time have the same flows.
        pairs: definition of the rewards.
        seed: seed of the noise, which also depends on `index` and on the episode number given to `reset`.
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
        """Number of the episode that the slowest rack is in."""
        return self._env.episode

    def reset(self, episode: int = 0) -> ObsArray:
        """Start episode `episode` on every rack; return observations [n_racks, n_agents, obs_dim]."""
        obs = self._env.reset(episode)
        self._noise.begin(self._seed, self._index, episode)
        return self._noise.onto(obs)

    def step(self, actions: ActionArray) -> Transition:
        """Run one period with actions [n_racks, n_agents]; continuous actions are clipped to [-1, 1].

        Rewards are differences between copies (see the module); `Transition.earned` has the hosts' own rewards.
        """
        moved = self._env.step(actions)
        paid, obs = self._pairs.reward(moved.reward), self._noise.onto(moved.obs)
        final = obs if moved.final_obs is moved.obs else moved.final_obs
        if self.n_noise and final is not obs:
            final = np.pad(final, ((0, 0), (0, 0), (0, 1)))
        return Transition(obs, paid, moved.terminated, moved.truncated, final, earned=moved.reward)

    def take_metrics(self) -> Mapping[str, float]:
        """Return the metrics of the racks; see `ncc.harness.batch.BatchedEnv`."""
        return self._env.take_metrics()

    def close(self) -> None:
        """Free the networks; may be called twice."""
        self._env.close()


def paired(env: BatchedEnv, pairs: Pairs | None, seed: int, index: int = 0) -> BatchedEnv:
    """Return `Paired` racks; the racks themselves if `pairs` is None."""
    return env if pairs is None else Paired(env, pairs, seed, index)
