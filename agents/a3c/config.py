# SPDX-License-Identifier: BSD-3-Clause
"""Settings and learner of A3C and A2C. PyTorch is loaded when a training begins."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from msgspec import Meta

from ncc.agents.checkpoints import Checkpoints
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
    """Normalise the advantages of each rack separately. Otherwise the network with the largest rewards would dominate
    an update over networks of different kinds (`families`)."""
    evolve_frac: Fraction = 0.0
    """Fraction of the periods, at the end, that train by an evolution strategy (`evolve`); needs `sync` and `pairs`."""
    evolve_noise: Positive = 0.04
    """Standard deviation of the noise that the evolution strategy adds to the weights."""
    evolve_rate: Positive = 0.015
    """Root mean square of a step of the weights in the evolution strategy; it falls linearly to a tenth."""

    def check(self) -> None:
        """Check settings against each other."""
        super().check()
        if not self.gradient_epochs:
            raise ConfigError(f"A3cConfig.evolve_frac must leave A3C some epochs, got {self.evolve_frac}")

    @staticmethod
    def called(settings: Mapping[str, Any]) -> str:
        """Return the name of an agent with these settings: that of its file in configs/agent, without `.yaml`."""
        if settings.get("value_coef") == 0:  # pairs replace the critic
            return "a3c_pairs"
        return "a2c" if settings.get("mode") == "sync" else "a3c"

    @property
    def gradient_epochs(self) -> int:
        """Periods of A3C itself, before the evolution strategy."""
        return round(self.epochs * (1 - self.evolve_frac))

    def deviation(self, epochs: int) -> float:
        """Return the standard deviation of real-valued actions after `epochs` periods of the training."""
        return scheduled(self.noise, self.noise_final, epochs / self.gradient_epochs)

    def step_size(self, epochs: int) -> float:
        """Return the root mean square of the evolution strategy's next step, after `epochs` periods of the training.

        It falls linearly from `evolve_rate` at `gradient_epochs` to a tenth of that at the end. Only with
        `evolve_frac` > 0.
        """
        done = (epochs - self.gradient_epochs) / (self.epochs - self.gradient_epochs)
        return scheduled(self.evolve_rate, 0.1 * self.evolve_rate, done)

    @property
    def steps(self) -> int:
        """Periods of each rack between two updates: `rollout`, or 20 as long as `build` has not set it."""
        return 20 if self.rollout is None else self.rollout

    @property
    def collectors(self) -> int:
        return self.workers if self.mode == "async" else 1

    @property
    def made_by(self) -> dict[str, Any]:
        return {"learner": "a3c", "mode": self.mode}

    def build(self, *, batching: bool = False) -> Self:
        """Make the learner; `batching`: the datapath steps many racks in one call. PyTorch is loaded later.

        Without `rollout`, an update uses 5 periods of each rack if there are at least `BATCHED_RACKS`, otherwise 20.

        Raises:
            MissingExtraError: PyTorch or TensorBoard is not installed.
        """
        require_extra("torch", "training")
        racks = self.racks_each(batching=batching)
        return self.replace(racks=racks, rollout=self.rollout or (5 if racks >= BATCHED_RACKS else 20))

    def check_env(self, n_actions: int, copies: int) -> None:
        if self.evolve_frac and (copies % 2 or n_actions or self.mode == "async"):
            raise ConfigError(
                "agent.evolve_frac compares mirror images whose actions are numbers: set env.pairs with an even number "
                "of copies, env.action.kind=residual and agent.mode=sync, or agent.evolve_frac=0"
            )

    def fit(self, make_env: EnvFactory, checkpoints: Checkpoints, report: Report, *, resume: bool) -> Path:
        """Train; see `ncc.harness.learner.Learner`.

        Asynchronous training that ends early (a worker died, Ctrl-C) writes a checkpoint of that moment. Synchronous
        training does not: it resumes from its last checkpoint and repeats what followed bit for bit. A finished run
        can be resumed with larger `epochs`; it begins with a new episode.

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
