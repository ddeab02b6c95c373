# SPDX-License-Identifier: BSD-3-Clause
"""The learner that `ncc train` uses. Ray is loaded when `train` is called."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ncc.agents.rllib.config import RllibConfig
from ncc.core.extras import require_extra
from ncc.harness.batch import EnvFactory
from ncc.harness.learner import Report, refuse_numbers


def require_installed() -> None:
    """Raise `MissingExtraError` unless all that RLlib needs is installed; nothing is imported."""
    require_extra("rllib", "agent=rllib_*")


class RllibLearner:
    """A learner configured by `RllibConfig`; see `ncc.harness.learner.Learner`.

    It writes into the run folder the files that A3C writes: `policy_untrained.ncc` at the start, `checkpoints/`, and
    `policy.ncc` when training is complete. A checkpoint is a folder with RLlib's own files and `run.json`.
    """

    def __init__(self, config: RllibConfig) -> None:
        self.config = config
        self.racks_per_env = config.racks or 1
        self.processes = self.racks_per_env * config.collectors
        self.total_epochs = config.epochs

    def check_env(self, n_actions: int, copies: int) -> None:
        """Check settings against an environment; see `ncc.harness.learner.Learner`."""
        config = self.config
        if n_actions:
            return
        if config.offline:
            refuse_numbers(f"agent.algorithm={config.algorithm}")
        if config.form == "multi_agent":
            refuse_numbers("agent.form=multi_agent")

    def train(
        self,
        make_env: EnvFactory,
        folder: Path,
        seed: int,
        *,
        resume: bool,
        report: Report,
        meta: Mapping[str, Any],
    ) -> Path:
        """Train to the configured number of epochs and return the policy file.

        Ctrl-C or SIGTERM ends the training after the current update and leaves a checkpoint. A resumed run continues
        with new episodes. An env runner that dies is started again; the samples since its last answer are lost.

        Raises:
            ConfigError: Ray or PyTorch is missing, the cluster cannot be reached, or Ray does not start here.
            WorkerDiedError: no env runner is left; the last checkpoint can be resumed.
            ResultError: `resume` without a usable checkpoint, or with one of another algorithm, shape or seed; no
                `resume` but checkpoints of an earlier run; or the file system refused.
            InvalidRunError: rewards, logits or losses that are not finite.
        """
        require_installed()
        from ncc.agents.rllib.run import Job, train

        return train(Job(self.config, make_env, folder, seed, meta), report, resume=resume)
