# SPDX-License-Identifier: BSD-3-Clause
"""The learner that `ncc train` uses. PyTorch is loaded when `train` is called."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ncc.agents.a3c.config import A3cConfig
from ncc.core.errors import ConfigError
from ncc.core.extras import require_extra
from ncc.harness.batch import EnvFactory
from ncc.harness.learner import Report


class A3cLearner:
    """A learner configured by `A3cConfig`; see `ncc.harness.learner.Learner`.

    It writes into the run folder `policy_untrained.ncc` at the start (the weights before training), `checkpoints/`, and
    `policy.ncc` when training is complete.
    """

    def __init__(self, config: A3cConfig) -> None:
        self.config = config
        self.racks_per_env = config.racks or 1
        self.processes = self.racks_per_env * (config.workers if config.mode == "async" else 1)
        self.total_epochs = config.epochs

    def check_env(self, n_actions: int, copies: int) -> None:
        """Check settings against an environment; see `ncc.harness.learner.Learner`."""
        config = self.config
        if config.evolve_frac and (copies % 2 or n_actions):
            raise ConfigError(
                "agent.evolve_frac compares mirror images whose actions are numbers: set env.pairs with an even number "
                "of copies and env.action.kind=residual, or agent.evolve_frac=0"
            )

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

        Asynchronous training that ends early (a worker died, Ctrl-C, a full disk) leaves a checkpoint of that moment;
        synchronous training goes back to its last one, so that it can continue bit-for-bit. A checkpoint of a finished
        run resumes with larger `epochs` at a new episode. Policy files hold `meta` and, as `training`, what made them.

        Raises:
            ConfigError: PyTorch is missing, `meta` is not JSON, `make_env` cannot be pickled, or the environments
                contradict themselves or each other.
            WorkerDiedError: a worker process ended early; the last checkpoint can be resumed.
            ResultError: `resume` without a usable checkpoint, or with one of another shape, mode or seed; no `resume`
                but checkpoints of an earlier run; or the file system refused.
            InvalidRunError: rewards, logits or gradients that are not finite.
        """
        require_extra("torch", "training")
        from ncc.agents.a3c.asynchronous import train_async
        from ncc.agents.a3c.run import TrainingRun
        from ncc.agents.a3c.sync import train_sync
        from ncc.agents.checkpoints import check_networks

        run = TrainingRun(self.config, folder, seed, meta, resume=resume)
        if run.loaded is not None and run.finished:
            check_networks(run.loaded.shape, replace(run.loaded.shape, hidden=self.config.hidden))
            return run.finish(run.loaded.shape, run.loaded.state)
        train = train_sync if self.config.mode == "sync" else train_async
        return train(run, make_env, report)
