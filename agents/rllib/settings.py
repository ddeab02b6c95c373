# SPDX-License-Identifier: BSD-3-Clause
"""Data that an env runner needs beside RLlib's own settings."""

from dataclasses import dataclass

from ncc.harness.batch import EnvFactory


@dataclass(frozen=True)
class EnvSettings:
    """Settings of the environment, sent to every env runner in `env_config`."""

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
