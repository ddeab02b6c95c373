# SPDX-License-Identifier: BSD-3-Clause
"""Data that go to env runners, and the arrays that come back: some epochs of all hosts of their racks."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ncc.harness.batch import ActionArray, EnvFactory, ObsArray

Float = npt.NDArray[np.float32]
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class EnvSettings:
    """Settings of the environment, sent to every env runner in RLlib's `env_config`."""

    make_env: EnvFactory
    seed: int
    rollout: int
    """Epochs of each rack in one answer."""
    reward_scale: float
    """Factor 1 - gamma on rewards, so that values are in units of the mean reward per epoch."""
    episodes: tuple[int, ...]
    """First episode number of each env runner."""

    @staticmethod
    def worker(index: int | None) -> int:
        """Index of the environment: RLlib counts remote env runners from 1, and calls the local one 0."""
        return max(0, (index or 0) - 1)


@dataclass(frozen=True, eq=False)
class RackRollout:
    """T consecutive epochs of R racks of N hosts. RLlib treats it as an "episode" and only asks for lengths."""

    obs: ObsArray
    """[T, R, N, obs_dim] observations acted on."""
    actions: ActionArray
    """[T, R, N]"""
    logits: Float
    """[T, R, N, n_actions] of the policy that acted; of numbers: their mean and the logarithm of their deviation."""
    rewards: Float
    """[T, R, N] scaled by 1 - gamma."""
    terminated: Bool
    """[T, R]"""
    truncated: Bool
    """[T, R]"""
    last_obs: ObsArray
    """[R, N, obs_dim] observations after the last epoch."""
    cut: tuple[tuple[int, int], ...]
    """(t, rack) of episodes that were truncated."""
    cut_obs: ObsArray
    """[len(cut), N, obs_dim] last observation of each of them."""

    def __len__(self) -> int:
        return int(self.terminated.size)

    def env_steps(self) -> int:
        """Environment epochs, summed over racks."""
        return len(self)

    def agent_steps(self) -> int:
        """Number of samples, which are epochs of a host."""
        return int(self.actions.size)


@dataclass(frozen=True)
class FailedRollout:
    """Message of an env runner that cannot continue; the learner raises it, where RLlib would restart forever."""

    message: str

    def __len__(self) -> int:
        return 1
