# SPDX-License-Identifier: BSD-3-Clause
"""Settings of RLlib's algorithms, and the learner. Ray and PyTorch are loaded when a training begins."""

import re
from collections.abc import Mapping
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
"""Racks per env runner beyond which the cost per rack hardly falls any more, as in A3C."""
PPO_EPOCHS = 800
"""Periods that an env runner collects for an update of PPO, unless `rollout` says otherwise."""
VTRACE_EPOCHS = 160
"""Periods that an env runner collects for an update of APPO or IMPALA, unless `rollout` says otherwise."""


class RllibConfig(Value, frozen=True):
    """PPO, APPO and IMPALA of Ray RLlib (new API stack) with A3C's networks.

    One policy serves all hosts. As in A3C, rewards are scaled by 1 - gamma, so that values are in units of the mean
    reward per period, value_coef weighs half the squared error, and Adam's eps is 1e-5, so coefficients are comparable.
    """

    algorithm: Literal["ppo", "appo", "impala"] = "ppo"
    env_runners: Annotated[int, Meta(ge=0, le=1024)] = 2
    """Processes that collect, on this machine or in the cluster. 0: the training process itself collects."""
    racks: Annotated[int, Meta(ge=1, le=1024)] | None = None
    """Racks in each env runner. null: `BATCHED_RACKS` where the datapath steps many racks in one call (packetsim), else
    1, because each rack then needs a process (ns-3)."""
    epochs: Annotated[Count, usual(high=1e8)] = 200_000
    """Periods to train for, summed over racks and env runners; rounded up to whole updates."""
    rollout: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    """Periods between updates. null: `PPO_EPOCHS` or `VTRACE_EPOCHS` divided by the racks of an env runner."""
    gamma: Annotated[float, Meta(ge=0, lt=1)] = 0.99
    gae_lambda: Fraction = 1.0
    """Lambda of generalised advantage estimation in PPO. APPO and IMPALA use V-trace (Espeholt et al., ICML 2018),
    which has none."""
    learning_rate: Annotated[float, Meta(gt=0, le=1), usual(high=0.1)] = 1e-3
    learning_rate_final: Annotated[float, Meta(ge=0, le=1)] | None = None
    """Value that `learning_rate` reaches linearly at the end of training; null: it stays constant."""
    entropy_coef: NonNegative = 0.01
    entropy_coef_final: NonNegative | None = None
    """Value that `entropy_coef` reaches linearly at the end of training; null: it stays constant."""
    noise: Positive = 0.17
    """Standard deviation of actions that are numbers (`env.action.kind` residual, linear or log)."""
    noise_final: Positive | None = 0.08
    """Value that `noise` reaches linearly at the end of training; null: it stays constant."""
    value_coef: NonNegative = 0.5
    """Weight of the critic's error; 0: there is no critic. Rewards over copies (`env.pairs`) need none."""
    max_advantage: Positive | None = None
    """Largest size of a normalised advantage, in PPO; null: any."""
    max_grad_norm: Positive = 0.5
    clip: Positive = 0.2
    """Largest deviation from 1 of the ratio of new to old probability, in PPO and APPO."""
    passes: Annotated[int, Meta(ge=1, le=1000)] = 4
    """Passes of a PPO update over the collected samples."""
    minibatch: Count = 3200
    """Samples in a gradient step of PPO. One host in one period is one sample (an agent step in RLlib)."""
    hidden: tuple[Annotated[int, Meta(ge=1, le=4096)], ...] = (64, 64)
    """Sizes of the tanh layers, the same for the policy and the value network."""
    checkpoint_epochs: Count = 20_000
    """Periods between checkpoints."""
    keep_checkpoints: Annotated[int, Meta(ge=1, le=1000)] = 3
    address: str | None = None
    """Address of an existing Ray cluster: auto, or host:port of its head. null: start a private Ray on this machine."""
    wheel: str | None = None
    """Path of ncc's wheel (a .whl file) to send to the cluster's workers; null: they have ncc installed."""

    def check(self) -> None:
        """Check settings against each other."""
        if not self.hidden:
            raise ConfigError("RllibConfig.hidden must name at least one layer, for instance [64, 64]")
        if self.algorithm != "ppo" and not self.value_coef:
            raise ConfigError(
                f"RllibConfig.value_coef must be above 0 with {self.algorithm}, whose loss needs a critic, got 0: set "
                "it, or algorithm to ppo"
            )
        if self.max_advantage is not None and self.algorithm != "ppo":
            raise ConfigError(f"RllibConfig.max_advantage is for ppo, got {self.algorithm}: leave it null")
        check_cluster(self.address, self.wheel, "RllibConfig.")

    @staticmethod
    def called(settings: Mapping[str, Any]) -> str:
        """The name of an agent with these settings."""
        return f"rllib_{settings.get('algorithm', 'ppo')}" + ("_pairs" if settings.get("value_coef") == 0 else "")

    @property
    def collectors(self) -> int:
        """Number of environments stepped at a time: one per env runner, or that of the training process."""
        return max(1, self.env_runners)

    def build(self, *, batching: bool = False) -> "RllibLearner":
        """Make the learner; `batching`: the datapath steps many racks in one call. Ray is loaded in training.

        Raises:
            ConfigError: Ray or PyTorch is not installed, or `wheel` is not there.
        """
        require_extra("rllib", "agent=rllib_*")
        if self.wheel is not None:
            require_wheel(self.wheel)
        racks = (BATCHED_RACKS if batching else 1) if self.racks is None else self.racks
        at_once = PPO_EPOCHS if self.algorithm == "ppo" else VTRACE_EPOCHS
        rollout = max(1, at_once // racks) if self.rollout is None else self.rollout
        return RllibLearner(self.replace(racks=racks, rollout=rollout))


def check_cluster(address: str | None, wheel: str | None, of: str = "agent.") -> None:
    """Check the form of a Ray cluster's address and of the wheel for its workers; nothing is contacted.

    Args:
        address: auto, host:port of the head, or None for no cluster.
        wheel: path of ncc's wheel, or None.
        of: prefix of the settings' names in the message.

    Raises:
        ConfigError: one of them is malformed.
    """
    if address not in (None, "auto"):
        _, _, port = str(address).partition(":")
        if not re.fullmatch(r"[\w.-]+:[0-9]{1,5}", str(address), re.ASCII) or not 0 < int(port) < 2**16:
            raise ConfigError(
                f"{of}address must be auto or host:port of a Ray cluster's head, such as 10.0.0.1:6379, got "
                f"{address!r}; null starts a Ray of the run's own"
            )
    if wheel is None:
        return
    if address is None:
        raise ConfigError(f"{of}wheel is for the workers of a cluster; set address, or leave wheel null")
    if not wheel.endswith(".whl"):
        raise ConfigError(f"{of}wheel must be a .whl file, got {wheel!r}; build it with: pip wheel . --no-deps")


def require_wheel(wheel: str) -> None:
    """Raise `ConfigError` unless the wheel is a file."""
    if not Path(wheel).is_file():
        raise ConfigError(f"the wheel {wheel} is not a file; build it with: pip wheel . --no-deps")


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
        """Accept every environment; see `ncc.harness.learner.Learner`."""

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

        Ctrl-C or SIGTERM ends the training after the current update and leaves a checkpoint. A resumed run continues
        with new episodes. An env runner that dies is started again; the samples since its last answer are lost.

        Raises:
            ConfigError: the cluster cannot be reached, or Ray does not start here.
            InvalidRunError: rewards, logits or losses that are not finite.
        """
        from ncc.agents.rllib.run import Job, train

        return train(Job(self.config, make_env, folder, seed, meta), report, resume=resume)


CONFIG = RllibConfig
