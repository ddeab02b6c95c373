# SPDX-License-Identifier: BSD-3-Clause
"""Settings and learner of A3C and A2C. PyTorch is loaded when a training begins."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from ncc.agents.checkpoints import Checkpoints
from ncc.agents.learner import PolicyLearner
from ncc.agents.settings import BATCHED_RACKS, LearnerSettings, scheduled
from ncc.core.errors import ConfigError
from ncc.core.extras import require_extra
from ncc.core.value import Fraction, Positive
from ncc.harness.batch import EnvFactory
from ncc.harness.learner import Report


class A3cConfig(LearnerSettings, frozen=True):
    """Asynchronous advantage actor-critic (Mnih et al., ICML 2016, Alg. S3) with Adam shared by the workers.

    The scales of rewards and advantages (`LearnerSettings`) deviate from the paper.
    """

    mode: Literal["async", "sync"] = "async"
    """async: A3C, `workers` processes that update one model as they go. sync: A2C in one process, where equal seeds
    give bit-equal weights and a resumed run equals an uninterrupted one."""
    workers: Annotated[int, Meta(ge=1, le=256)] = 2
    """Processes of `async`, at most one per core: with more, throughput collapses. `sync` does not use it."""
    normalize_per_rack: bool = False
    """Normalise the advantages of each rack on their own, so that among networks of different kinds (`families`) the
    one with the largest rewards does not decide alone."""
    evolve_frac: Fraction = 0.0
    """Share of the periods, at the end, for an evolution strategy over pairs (`evolve`), with `sync`. 0: none."""
    evolve_noise: Positive = 0.04
    """Standard deviation of the noise on weights."""
    evolve_rate: Positive = 0.015
    """Root mean square of a step of the weights; it falls linearly to a tenth."""

    def check(self) -> None:
        """Check settings against each other."""
        super().check()
        if not self.gradient_epochs:
            raise ConfigError(f"A3cConfig.evolve_frac must leave A3C some epochs, got {self.evolve_frac}")

    @staticmethod
    def called(settings: Mapping[str, Any]) -> str:
        """The name of an agent with these settings, which is that of its YAML file in configs/agent."""
        if settings.get("value_coef") == 0:  # pairs replace the critic
            return "a3c_pairs"
        return "a2c" if settings.get("mode") == "sync" else "a3c"

    @property
    def gradient_epochs(self) -> int:
        """Periods of A3C itself, before the evolution strategy."""
        return round(self.epochs * (1 - self.evolve_frac))

    def deviation(self, epochs: int) -> float:
        """Standard deviation of real-valued actions after so many periods."""
        return scheduled(self.noise, self.noise_final, epochs / self.gradient_epochs)

    def step_size(self, epochs: int) -> float:
        """Root mean square of a step of the evolution strategy after so many periods."""
        done = (epochs - self.gradient_epochs) / (self.epochs - self.gradient_epochs)
        return scheduled(self.evolve_rate, 0.1 * self.evolve_rate, done)

    @property
    def steps(self) -> int:
        """Periods between updates, once `build` has chosen."""
        return 20 if self.rollout is None else self.rollout

    @property
    def collectors(self) -> int:
        return self.workers if self.mode == "async" else 1

    @property
    def made_by(self) -> dict[str, Any]:
        return {"learner": "a3c", "mode": self.mode}

    def build(self, *, batching: bool = False) -> PolicyLearner:
        """Make the learner; `batching`: the datapath steps many racks in one call. PyTorch is loaded later.

        Without `rollout`, an update has 5 periods from `BATCHED_RACKS` racks on, which need fewer for it, and 20 below.

        Raises:
            MissingExtraError: PyTorch or TensorBoard is not installed.
        """
        require_extra("torch", "training")
        racks = self.racks_each(batching=batching)
        return PolicyLearner(self.replace(racks=racks, rollout=self.rollout or (5 if racks >= BATCHED_RACKS else 20)))

    def check_env(self, n_actions: int, copies: int) -> None:
        if self.evolve_frac and (copies % 2 or n_actions or self.mode == "async"):
            raise ConfigError(
                "agent.evolve_frac compares mirror images whose actions are numbers: set env.pairs with an even number "
                "of copies, env.action.kind=residual and agent.mode=sync, or agent.evolve_frac=0"
            )

    def fit(self, make_env: EnvFactory, checkpoints: Checkpoints, report: Report, *, resume: bool) -> Path:
        """Train; see `ncc.harness.learner.Learner`.

        Asynchronous training that ends early (a worker died, Ctrl-C, a full disk) leaves a checkpoint of that moment;
        synchronous training goes back to its last one, so that it can continue bit-for-bit. A checkpoint of a finished
        run resumes with larger `epochs` at a new episode.

        Raises:
            ConfigError: the policy's meta is not JSON, or an environment contradicts itself.
            InvalidRunError: rewards, logits or gradients that are not finite.
        """
        from ncc.agents.a3c.asynchronous import train_async
        from ncc.agents.a3c.run import TrainingRun
        from ncc.agents.a3c.sync import train_sync

        run = TrainingRun(self, checkpoints, resume=resume)
        if run.loaded is not None and run.loaded.state.epochs >= self.epochs:
            return run.finish(run.loaded.header.shape, run.loaded.state)
        train = train_sync if self.mode == "sync" else train_async
        return train(run, make_env, report)


CONFIG = A3cConfig
