# SPDX-License-Identifier: BSD-3-Clause
"""The learner that `ncc train agent=groups` uses. PyTorch is loaded when `train` is called."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ncc.agents.groups.config import GroupsConfig
from ncc.core.extras import require_extra
from ncc.harness.batch import EnvFactory
from ncc.harness.learner import Report


class GroupsLearner:
    """A learner configured by `GroupsConfig`; see `ncc.harness.learner.Learner`.

    It writes into the run folder the files that A3C writes: `policy_untrained.npz` at the start, `checkpoints/`, and
    `policy.npz` when training is complete.
    """

    def __init__(self, config: GroupsConfig) -> None:
        self.config, self.copies = config, config.copies
        self.indices_only: str | None = None
        self.racks_per_env = self.processes = config.copies * config.lists
        self.total_epochs = self.online_epochs = config.epochs

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

        Equal seeds give equal weights. Training that ends early goes back to its last checkpoint when it is resumed,
        and then ends as if it had not been interrupted.

        Raises:
            ConfigError: PyTorch is missing, or the environment takes no numbers or has other racks than copies x lists.
            ResultError: `resume` without a usable checkpoint, or with one of another shape or seed; no `resume` but
                checkpoints of an earlier run; or the file system refused.
            InvalidRunError: a reward or weight is not finite.
        """
        require_extra("torch", "training")
        from ncc.agents.groups.run import GroupsRun

        with GroupsRun(self.config, make_env, folder, seed, meta, resume=resume) as run:
            return run.train(report)
