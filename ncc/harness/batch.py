# SPDX-License-Identifier: BSD-3-Clause
"""The contract between environments and learners: arrays over racks and hosts, no objects per host.

A rack is one simulated network whose hosts are the agents. Learners and environments never import each other; both
import this module.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

ObsArray = npt.NDArray[np.float32]
ActionArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Transition:
    """One period of every rack. A rack whose episode ended has been reset: its `obs` begins the next episode."""

    obs: ObsArray
    """[n_racks, n_agents, obs_dim] observations to act on next."""
    reward: npt.NDArray[np.float32]
    """[n_racks, n_agents] reward of each host for the period."""
    terminated: npt.NDArray[np.bool_]
    """[n_racks] true if every flow was delivered: the value of the next state is 0."""
    truncated: npt.NDArray[np.bool_]
    """[n_racks] true if time was up: bootstrap from `final_obs`."""
    final_obs: ObsArray
    """[n_racks, n_agents, obs_dim] last observation of the episode if it ended, else equal to `obs`."""
    earned: npt.NDArray[np.float32] | None = None
    """[n_racks, n_agents] each host's own reward, where `reward` is a difference (`ncc.envs.pairs`); else None."""


class BatchedEnv(Protocol):
    """Racks that are stepped together. Episodes of rack r are numbered from 0 and drawn from (seed, r, episode)."""

    n_racks: int
    n_agents: int
    """Number of hosts in each rack."""
    obs_dim: int
    n_actions: int
    """Number of actions to choose from; 0: actions are real numbers."""
    copies: int
    """Number of consecutive racks with equal flows (`ncc.envs.pairs`); 1: each rack has its own.

    With noise, the second half of the copies has the noise of the first half with the opposite sign.
    """
    n_noise: int
    """Number of noise entries at the end of an observation, 0 or 1 (`ncc.envs.pairs`); the learner adds this noise."""

    def reset(self, episode: int = 0) -> ObsArray:
        """Start every rack at that episode number and return observations [n_racks, n_agents, obs_dim]."""
        ...

    def step(self, actions: ActionArray) -> Transition:
        """Run one period with actions [n_racks, n_agents].

        Args:
            actions: indices in [0, n_actions); if `n_actions` is 0, real numbers, which are clipped to [-1, 1].
        """
        ...

    @property
    def episode(self) -> int:
        """The number given to `reset`, plus the episodes that the slowest rack has finished since."""
        ...

    def take_metrics(self) -> Mapping[str, float]:
        """Return means since the last call, by name with unit (`network/fct_s`); undefined means are left out."""
        ...

    def close(self) -> None:
        """Free simulators and processes; may be called twice."""
        ...


EnvFactory = Callable[[int], BatchedEnv]
"""Function that makes the environment of the worker with this index. It is picklable, and is called in the process
that steps the environment."""
