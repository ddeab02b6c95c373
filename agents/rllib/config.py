# SPDX-License-Identifier: BSD-3-Clause
"""Settings of RLlib's PPO, and the learner. Ray and PyTorch are loaded when a training begins."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from msgspec import Meta

from ncc.agents.checkpoints import Checkpoints
from ncc.agents.settings import LearnerSettings
from ncc.core.errors import ConfigError
from ncc.core.extras import require_extra
from ncc.core.value import Count
from ncc.harness.batch import EnvFactory
from ncc.harness.learner import Report

ROLLOUT_EPOCHS = 800
"""Periods that an env runner collects for an update, unless `rollout` says otherwise."""


class RllibConfig(LearnerSettings, frozen=True):
    """PPO (Schulman et al., 2017) of Ray RLlib with A3C's networks, scales of rewards and Adam."""

    env_runners: Annotated[int, Meta(ge=0, le=1024)] = 2
    """Processes that collect, on this machine or in the cluster. 0: the training process itself collects."""
    passes: Annotated[int, Meta(ge=1, le=1000)] = 4
    """Passes of an update over the collected samples."""
    minibatches: Count = 8
    """Gradient steps of a pass. One host in one period is one sample."""
    checkpoint_epochs: Count = 20_000
    """Periods between checkpoints."""
    address: str | None = None
    """Address of an existing Ray cluster: auto, or host:port of its head. null: start a private Ray on this machine."""

    def check(self) -> None:
        """Check settings against each other."""
        super().check()
        check_cluster(self.address, "RllibConfig.")

    @staticmethod
    def called(settings: Mapping[str, Any]) -> str:
        """Return the name of an agent with these settings: that of its file in configs/agent, without `.yaml`."""
        return "rllib_ppo_pairs" if settings.get("value_coef") == 0 else "rllib_ppo"

    @property
    def collectors(self) -> int:
        return max(1, self.env_runners)

    @property
    def made_by(self) -> dict[str, Any]:
        return {"learner": "rllib", "algorithm": "ppo"}

    def build(self, *, batching: bool = False) -> Self:
        """Make the learner; `batching`: the datapath steps many racks in one call. Ray is loaded in training.

        Raises:
            ConfigError: Ray or PyTorch is not installed.
        """
        require_extra("rllib", "agent=rllib_*")
        racks = self.racks_each(batching=batching)
        return self.replace(racks=racks, rollout=self.rollout or max(1, ROLLOUT_EPOCHS // racks))

    def fit(self, make_env: EnvFactory, checkpoints: Checkpoints, report: Report, *, resume: bool) -> Path:
        """Train; see `ncc.harness.learner.Learner`.

        Ctrl-C or SIGTERM ends the training after the current update and leaves a checkpoint. A resumed run continues
        with new episodes. An env runner that dies is started again; the samples since its last answer are lost.
        A checkpoint is a folder with RLlib's own files and `run.json`.

        Raises:
            ConfigError: the cluster cannot be reached, or Ray does not start here.
            InvalidRunError: rewards or losses that are not finite.
        """
        from ncc.agents.rllib.run import train

        return train(self, make_env, checkpoints, report, resume=resume)


def check_cluster(address: str | None, of: str = "agent.") -> None:
    """Check the form of a Ray cluster's address; nothing is contacted.

    Args:
        address: auto, host:port of the head, or None for no cluster.
        of: prefix of the setting's name in the message.

    Raises:
        ConfigError: it is malformed.
    """
    if address not in (None, "auto"):
        _, _, port = str(address).partition(":")
        if not re.fullmatch(r"[\w.-]+:[0-9]{1,5}", str(address), re.ASCII) or not 0 < int(port) < 2**16:
            raise ConfigError(
                f"{of}address must be auto or host:port of a Ray cluster's head, such as 10.0.0.1:6379, got "
                f"{address!r}; null starts a Ray of the run's own"
            )


CONFIG = RllibConfig
