# SPDX-License-Identifier: BSD-3-Clause
"""Settings and learner of A3C and A2C. PyTorch is loaded when a training begins."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from ncc.core.errors import ConfigError
from ncc.core.extras import require_extra
from ncc.core.plausible import usual
from ncc.core.value import Count, Fraction, NonNegative, Positive, Value
from ncc.harness.batch import EnvFactory
from ncc.harness.learner import Report

BATCHED_RACKS = 16
"""Racks per environment beyond which the cost per rack hardly falls any more (`ncc bench`) and updates become rare."""


def scheduled(start: float, final: float | None, fraction: float) -> float:
    """Value of a setting after `fraction` of the training, linear from `start` to `final`; None keeps it at `start`."""
    return start if final is None else start + (final - start) * min(fraction, 1.0)


class A3cConfig(Value, frozen=True):
    """Asynchronous advantage actor-critic (Mnih et al., ICML 2016, Alg. S3) with Adam shared by the workers.

    One policy serves all hosts; each host of each rack is one sample. Rewards are scaled by 1 - gamma, so that values
    are in units of the mean reward per period whatever the horizon, and advantages to mean square 1 per update,
    so that `entropy_coef` means the same for every reward. Both deviate from the paper.
    """

    mode: Literal["async", "sync"] = "async"
    """async: A3C, `workers` processes that update one model as they go. sync: A2C in one process, where equal seeds
    give bit-equal weights and a resumed run equals an uninterrupted one."""
    workers: Annotated[int, Meta(ge=1, le=256)] = 2
    """Processes of `async`, at most one per core: with more, throughput collapses. `sync` does not use it."""
    racks: Annotated[int, Meta(ge=1, le=1024)] | None = None
    """Racks in each environment: per worker in `async`, in total in `sync`. null: `BATCHED_RACKS` where the datapath
    steps many racks in one call (packetsim), else 1, because each rack then needs a process (ns-3)."""
    epochs: Annotated[Count, usual(high=1e8)] = 200_000
    """Periods to train for, summed over racks and workers, rounded up to whole steps of all racks."""
    rollout: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    """Periods between updates (t_max of the paper). null: 5 from `BATCHED_RACKS` racks on, 20 below, because many racks
    need fewer periods for an update."""
    gamma: Annotated[float, Meta(ge=0, lt=1)] = 0.99
    gae_lambda: Fraction = 1.0
    """1: n-step returns, as in the paper. Below 1: generalised advantage estimation (Schulman et al., 2016)."""
    normalize_per_rack: bool = False
    """Normalise the advantages of each rack on their own, so that among networks of different kinds (`families`) the
    one with the largest rewards does not decide alone."""
    entropy_coef: NonNegative = 0.01
    """Weight of the entropy of discrete actions; real-valued actions have `noise` instead."""
    entropy_coef_final: NonNegative | None = None
    """Value that `entropy_coef` reaches linearly at the end of training; null: it stays constant."""
    noise: Positive = 0.17
    """Standard deviation of actions that are numbers (`env.action.kind` residual, linear or log)."""
    noise_final: Positive | None = 0.08
    """Value that `noise` reaches linearly at the end of training; null: it stays constant."""
    value_coef: NonNegative = 0.5
    """Weight of the critic's error; 0: there is no critic. Rewards over copies (`env.pairs`) need none."""
    passes: Annotated[int, Meta(ge=1, le=1000)] = 1
    """Gradient steps per rollout, each over all its samples. 1: A3C's loss; more: PPO's loss."""
    clip: Annotated[float, Meta(gt=0, lt=1)] = 0.2
    """Largest deviation from 1 of the ratio of new to old probability, if there are several passes."""
    max_advantage: Positive | None = None
    """Largest size of a normalised advantage; null: any."""
    evolve_frac: Fraction = 0.0
    """Share of the periods, at the end, for an evolution strategy over pairs (`evolve`). 0: none."""
    evolve_noise: Positive = 0.04
    """Standard deviation of the noise on weights."""
    evolve_rate: Positive = 0.015
    """Root mean square of a step of the weights; it falls linearly to a tenth."""
    max_grad_norm: Positive = 0.5
    learning_rate: Annotated[float, Meta(gt=0, le=1), usual(high=0.1)] = 1e-3
    """wang2021 uses 1e-3 to imitate and 1e-4 online."""
    learning_rate_final: Annotated[float, Meta(ge=0, le=1)] | None = None
    """Value that `learning_rate` reaches linearly at the end of training; null: it stays constant."""
    hidden: tuple[Annotated[int, Meta(ge=1, le=4096)], ...] = (64, 64)
    """Sizes of the tanh layers, the same for the policy and the value network."""
    checkpoint_epochs: Count = 10_000
    """Periods between checkpoints. `sync` then waits for the end of the episode, for at most as many periods again."""
    keep_checkpoints: Annotated[int, Meta(ge=1, le=1000)] = 3

    def check(self) -> None:
        """Check settings against each other."""
        if not self.hidden:
            raise ConfigError("A3cConfig.hidden must name at least one layer, for instance [64, 64]")
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

    def build(self, *, batching: bool = False) -> "A3cLearner":
        """Make the learner; `batching`: the datapath steps many racks in one call. PyTorch is loaded later.

        Raises:
            MissingExtraError: PyTorch or TensorBoard is not installed.
        """
        require_extra("torch", "training")

        racks = (BATCHED_RACKS if batching else 1) if self.racks is None else self.racks
        rollout = (5 if racks >= BATCHED_RACKS else 20) if self.rollout is None else self.rollout
        return A3cLearner(self.replace(racks=racks, rollout=rollout))


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
        """Train; see `ncc.harness.learner.Learner`.

        Asynchronous training that ends early (a worker died, Ctrl-C, a full disk) leaves a checkpoint of that moment;
        synchronous training goes back to its last one, so that it can continue bit-for-bit. A checkpoint of a finished
        run resumes with larger `epochs` at a new episode. Policy files hold `meta` and `training` (learner, seed).

        Raises:
            ConfigError: `meta` is not JSON, `make_env` cannot be pickled, or the environments
                contradict themselves or each other.
            InvalidRunError: rewards, logits or gradients that are not finite.
        """
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


CONFIG = A3cConfig
