# SPDX-License-Identifier: BSD-3-Clause
"""The arrays that an env runner sends to the learner: some epochs of all hosts of its racks."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ncc.harness.batch import ActionArray, ObsArray

Float = npt.NDArray[np.float32]
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class RackRollout:
    """T consecutive epochs of R racks of N hosts. RLlib treats it as an "episode" and only asks for lengths."""

    obs: ObsArray
    """[T, R, N, obs_dim] observations acted on."""
    actions: ActionArray
    """[T, R, N]"""
    logits: Float
    """[T, R, N, n_actions] of the policy that acted."""
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
