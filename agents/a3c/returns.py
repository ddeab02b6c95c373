# SPDX-License-Identifier: BSD-3-Clause
"""Advantages and n-step returns, for all racks and hosts at once."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Float = npt.NDArray[np.float32]
Bool = npt.NDArray[np.bool_]


def following_values(values: Float, last: Float, cut: Iterable[tuple[int, int]], cut_values: Iterable[Float]) -> Float:
    """Values [T, n_racks, n_agents] of the observation after each step in the same episode.

    Args:
        values: [T, n_racks, n_agents] value of the observation acted on in each step.
        last: [n_racks, n_agents] value of the observation after the last step.
        cut: (t, rack) of episodes that were truncated.
        cut_values: [n_agents] value of the last observation of each of them.
    """
    following = np.concatenate([values[1:], last[None]])
    for (t, rack), value in zip(cut, cut_values, strict=True):
        following[t, rack] = value
    return following


def advantages(
    rewards: Float,
    values: Float,
    next_values: Float,
    *,
    terminated: Bool,
    truncated: Bool,
    gamma: float,
    gae_lambda: float,
) -> tuple[Float, Float]:
    """Estimate generalised advantages (Schulman et al., ICLR 2016, eq. 16) up to the ends of episodes.

    With ``gae_lambda=1`` the returns are the n-step returns of Mnih et al. (2016): rewards up to the end of the rollout
    or the episode, then the value of the next observation. Truncated episodes are bootstrapped; terminated ones are
    not.

    Args:
        rewards: [T, n_racks, n_agents] reward of step t.
        values: [T, n_racks, n_agents] value of the observation acted on in step t.
        next_values: [T, n_racks, n_agents] value of the observation after step t *in the same episode*, that is of
            `final_obs` where the episode ended; ignored where it terminated.
        terminated: [T, n_racks] the episode reached its end in step t.
        truncated: [T, n_racks] time was up in step t.
        gamma: discount per epoch.
        gae_lambda: 1 for n-step returns, 0 for one-step ones.

    Returns:
        Advantages and returns (advantage + value), each [T, n_racks, n_agents].
    """
    following_values: Float = np.where(terminated[..., None], np.float32(0), next_values)
    goes_on = np.where(terminated | truncated, np.float32(0), np.float32(1))[..., None]
    deltas: Float = rewards + np.float32(gamma) * following_values - values
    decay = np.float32(gamma * gae_lambda) * goes_on
    result = np.empty_like(deltas)
    following = np.zeros_like(deltas[0])
    for t in range(len(deltas) - 1, -1, -1):
        following = deltas[t] + decay[t] * following
        result[t] = following
    return result, result + values
