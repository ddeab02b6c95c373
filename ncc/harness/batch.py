# SPDX-License-Identifier: BSD-3-Clause
"""The contract between environments and learners: arrays over racks and hosts, no per-host objects.

Agents and envs never import each other; both know this.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

ObsArray = npt.NDArray[np.float32]
ActionArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Transition:
    """One epoch of every rack. Racks that ended have been reset: `obs` is already the next episode's first."""

    obs: ObsArray
    """[n_racks, n_agents, obs_dim] what to act on next."""
    reward: npt.NDArray[np.float32]
    """[n_racks, n_agents]"""
    terminated: npt.NDArray[np.bool_]
    """[n_racks] every flow was delivered: nothing follows, the value is 0."""
    truncated: npt.NDArray[np.bool_]
    """[n_racks] time was up: bootstrap from `final_obs`."""
    final_obs: ObsArray
    """[n_racks, n_agents, obs_dim] last observation of the episode where one ended, equal to `obs` elsewhere."""


class BatchedEnv(Protocol):
    """Racks stepped together. Episodes of rack r are numbered from 0 and drawn from (seed, r, episode)."""

    n_racks: int
    n_agents: int
    obs_dim: int
    n_actions: int

    def reset(self, episode: int = 0) -> ObsArray:
        """Start every rack at that episode number and return [n_racks, n_agents, obs_dim]."""
        ...

    def step(self, actions: ActionArray) -> Transition:
        """One epoch with action indices of shape [n_racks, n_agents], each in [0, n_actions)."""
        ...

    @property
    def episode(self) -> int:
        """Episodes finished so far by the slowest rack, plus the number that `reset` was given."""
        ...

    def close(self) -> None:
        """Free simulators and processes; may be called twice."""
        ...


@dataclass(frozen=True)
class Advice:
    """What an expert makes of the state that was observed last, both [n_racks, n_agents] action indices."""

    label: ActionArray
    """What a learner should answer to that observation."""
    drive: ActionArray
    """What to do for the expert to be in charge: the same, unless it is a transport, which nobody must limit."""


@runtime_checkable
class Advising(Protocol):
    """A `BatchedEnv` that knows an expert, for imitation (warm start)."""

    def advice(self) -> Advice:
        """The expert's on the observations that `reset` or `step` returned last.

        Raises:
            ConfigError: the environment was given no expert.
        """
        ...


@runtime_checkable
class Telling(Protocol):
    """A `BatchedEnv` that tells what happens in it, for logs."""

    def told(self) -> Mapping[str, float]:
        """Means since the last call, by name with unit (`network/fct_s`); what is undefined is left out."""
        ...


EnvFactory = Callable[[int], BatchedEnv]
"""Picklable; called with a worker's index, in the process that will step it."""
