# SPDX-License-Identifier: BSD-3-Clause
"""What an env runner hands to the learner: some epochs of all hosts of its racks, as arrays."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ncc.harness.batch import ActionArray, ObsArray

Float = npt.NDArray[np.float32]
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class RackRollout:
    """T consecutive epochs of R racks of N hosts. To RLlib it is an "episode": it asks for lengths only."""

    obs: ObsArray
    """[T, R, N, obs_dim] what was acted on."""
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
    """[R, N, obs_dim] what follows the last epoch."""
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
        """Samples: epochs of a host."""
        return int(self.actions.size)


@dataclass(frozen=True)
class FailedRollout:
    """What an env runner hands over that cannot go on, so that the learner says why: RLlib would restart it forever."""

    message: str

    def __len__(self) -> int:
        return 1
