# SPDX-License-Identifier: BSD-3-Clause
"""Settings of RLlib's algorithms; importing them loads neither Ray nor PyTorch."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta

from ncc.core.errors import ConfigError
from ncc.core.plausible import usual
from ncc.core.value import Count, Fraction, NonNegative, Positive, Value

if TYPE_CHECKING:
    from ncc.agents.rllib.learner import RllibLearner

BATCHED_RACKS = 16
"""As in A3C: beyond it, the cost around a rack hardly falls any more."""
OFFLINE = ("marwil", "bc")
"""Algorithms that learn from recorded episodes, and never step an environment."""
PPO_EPOCHS = 800
"""Environment epochs that an env runner collects for an update of PPO, unless `rollout` says otherwise."""
VTRACE_EPOCHS = 160
"""And for one of APPO or IMPALA."""


class RllibConfig(Value, frozen=True):
    """PPO, APPO, IMPALA, MARWIL and BC of Ray RLlib (new API stack) with A3C's networks.

    One policy serves all hosts. As in A3C, rewards are scaled by 1 - gamma, so that values are in units of the mean
    reward per epoch, value_coef weighs half the squared error, and Adam's eps is 1e-5: coefficients mean the same.
    """

    algorithm: Literal["ppo", "appo", "impala", "marwil", "bc"] = "ppo"
    form: Literal["batched", "multi_agent"] = "batched"
    """batched: all hosts of all racks in one forward pass and in whole arrays. multi_agent: RLlib's own way, a
    dictionary per epoch and an episode per host; for comparison, and many times slower."""
    env_runners: Annotated[int, Meta(ge=0, le=1024)] = 2
    """Processes that collect, on this machine or in the cluster. 0: the training process itself collects."""
    racks: Annotated[int, Meta(ge=1, le=1024)] | None = None
    """Racks in each env runner. null: `BATCHED_RACKS` where the datapath steps many racks in one call (packetsim),
    else 1, for then each needs a process (ns-3); 1 in the form multi_agent."""
    epochs: Annotated[Count, usual(high=1e8)] = 200_000
    """Environment epochs to train for, summed over racks and env runners; rounded up to whole updates."""
    rollout: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    """Epochs between updates. null: enough for `PPO_EPOCHS` or `VTRACE_EPOCHS` from the racks of an env runner; of
    recorded ones `PPO_EPOCHS`."""
    gamma: Annotated[float, Meta(ge=0, lt=1)] = 0.99
    gae_lambda: Fraction = 1.0
    """Of PPO; APPO and IMPALA use V-trace (Espeholt et al., ICML 2018), which has none."""
    learning_rate: Annotated[float, Meta(gt=0, le=1), usual(high=0.1)] = 1e-3
    learning_rate_final: Annotated[float, Meta(ge=0, le=1)] | None = None
    """Where set, `learning_rate` goes there linearly over the training."""
    entropy_coef: NonNegative = 0.01
    entropy_coef_final: NonNegative | None = None
    """Where set, `entropy_coef` goes there linearly over the training."""
    value_coef: Positive = 0.5
    max_grad_norm: Positive = 0.5
    clip: Positive = 0.2
    """Of PPO and APPO: by how much the ratio of new to old probability may leave 1."""
    passes: Annotated[int, Meta(ge=1, le=1000)] = 4
    """Of PPO: how often an update goes over what was collected."""
    minibatch: Count = 3200
    """Of PPO, MARWIL and BC: samples of a gradient step. One host's epoch is one sample (RLlib: an agent step)."""
    hidden: tuple[Annotated[int, Meta(ge=1, le=4096)], ...] = (64, 64)
    """Sizes of the tanh layers, of the policy and of the value alike."""
    initial_unlimited_prob: Annotated[float, Meta(gt=0, lt=1)] | None = None
    """Probability of the last action ("no limit") before training; null: all actions alike."""
    checkpoint_epochs: Count = 20_000
    """Epochs between checkpoints."""
    keep_checkpoints: Annotated[int, Meta(ge=1, le=1000)] = 3
    address: str | None = None
    """An existing Ray cluster: auto, or host:port of its head. null: a Ray of this run's own on this machine."""
    wheel: str | None = None
    """Path of ncc's wheel (a .whl file), handed to the cluster's workers; null: they have ncc installed."""
    episodes: str | None = None
    """Of marwil and bc: a file, a folder or a pattern (runs/record_*) of recorded episodes."""
    beta: Fraction = 1.0
    """Of marwil: actions weigh exp(beta * advantage over its root mean square); 0 is bc with a value."""

    def check(self) -> None:
        """Cross-field checks."""
        if not self.hidden:
            raise ConfigError("RllibConfig.hidden must name at least one layer, for instance [64, 64]")
        if self.offline and self.episodes is None:
            raise ConfigError(
                f"RllibConfig.algorithm {self.algorithm} learns from recorded episodes; set agent.episodes to the "
                "Parquet that ncc evaluate record=true wrote"
            )
        if not self.offline and self.episodes is not None:
            raise ConfigError(
                f"RllibConfig.episodes is for marwil and bc; {self.algorithm} collects its own: leave it null"
            )
        if self.offline and (self.env_runners or self.entropy_coef):
            raise ConfigError(
                f"RllibConfig.env_runners and entropy_coef must be 0 with {self.algorithm}, where nobody collects and "
                f"the loss has no entropy, got {self.env_runners} and {self.entropy_coef}"
            )
        if self.offline and self.address is not None:
            raise ConfigError(
                f"RllibConfig.address is for env runners, which {self.algorithm} has none of: leave it null"
            )
        if self.form == "multi_agent" and self.offline:
            raise ConfigError(f"RllibConfig.form multi_agent steps environments, which {self.algorithm} never does")
        if self.form == "multi_agent" and self.racks not in (None, 1):
            raise ConfigError(f"RllibConfig.racks must be 1 in the form multi_agent, got {self.racks}")
        check_cluster(self.address, self.wheel, "RllibConfig.")

    @staticmethod
    def called(settings: Mapping[str, Any]) -> str:
        """What an agent with these settings is called."""
        return f"rllib_{settings.get('algorithm', 'ppo')}"

    @property
    def offline(self) -> bool:
        """Whether it learns from recorded episodes."""
        return self.algorithm in OFFLINE

    @property
    def total_epochs(self) -> int:
        """Epochs of the whole training."""
        return self.epochs

    @property
    def needs_expert(self) -> bool:
        """Whether the environment must know somebody to imitate: never, recorded episodes do."""
        return False

    @property
    def collectors(self) -> int:
        """Environments stepped at a time: one in each env runner, or that of the training process."""
        return max(1, self.env_runners)

    def build(self, *, batching: bool = False) -> "RllibLearner":
        """The learner, for a datapath that steps many racks in one call or not; it loads Ray in training.

        Raises:
            ConfigError: Ray or PyTorch is not installed, or `wheel` is not there.
        """
        from ncc.agents.rllib.learner import RllibLearner, require_installed

        require_installed()
        if self.wheel is not None:
            require_wheel(self.wheel)
        several = batching and self.form == "batched" and not self.offline
        racks = (BATCHED_RACKS if several else 1) if self.racks is None else self.racks
        at_once = VTRACE_EPOCHS if self.algorithm in ("appo", "impala") else PPO_EPOCHS
        rollout = max(1, at_once // racks) if self.rollout is None else self.rollout
        return RllibLearner(self.replace(racks=racks, rollout=rollout))


def check_cluster(address: str | None, wheel: str | None, of: str = "agent.") -> None:
    """Whether that can name a Ray cluster and what its workers get; nothing is looked up.

    Args:
        address: auto, host:port of the head, or None: no cluster.
        wheel: path of ncc's wheel, or None.
        of: what stands before the settings' names in the message.

    Raises:
        ConfigError: it cannot.
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
    """`ConfigError` unless the wheel is a file."""
    if not Path(wheel).is_file():
        raise ConfigError(f"agent.wheel: there is no file {wheel}; build it with: pip wheel . --no-deps")


CONFIG = RllibConfig
