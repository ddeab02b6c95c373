# SPDX-License-Identifier: BSD-3-Clause
"""The learner that A3C and RLlib have in common; their settings do the training."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ncc.agents.checkpoints import Checkpoints
from ncc.agents.settings import LearnerSettings
from ncc.harness.batch import EnvFactory
from ncc.harness.learner import Report


class PolicyLearner:
    """A `ncc.harness.learner.Learner` that trains by `fit` of its settings `config`.

    The settings' `racks` and `rollout` must be set. Training writes three things into the run folder:
    `policy_untrained.ncc` (the initial weights) at its start, `checkpoints/` on the way, and `policy.ncc` at its end.
    Both policy files record learner, seed and number of periods in `training`.
    """

    def __init__(self, config: LearnerSettings) -> None:
        self.config = config
        self.racks_per_env = config.racks or 1
        self.processes = self.racks_per_env * config.collectors
        self.total_epochs = config.epochs

    def check_env(self, n_actions: int, copies: int) -> None:
        self.config.check_env(n_actions, copies)

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
        made_by = {**self.config.made_by, "seed": seed}
        checkpoints = Checkpoints(folder, self.config.keep_checkpoints, made_by, meta)
        return self.config.fit(make_env, checkpoints, report, resume=resume)
