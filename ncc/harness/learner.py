# SPDX-License-Identifier: BSD-3-Clause
"""The contract between the training main and learners such as A3C and RLlib."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ncc.harness.batch import EnvFactory


@dataclass(frozen=True)
class Progress:
    """A learner's report, made about once per update.

    The first report only tells at which number of periods the training starts or resumes.
    """

    epochs: int
    """Periods simulated so far, summed over racks and workers."""
    total_epochs: int
    """Periods to simulate in total."""
    returns: tuple[float, ...] = ()
    """Mean reward per host and period of each episode that ended since the last report."""
    scalars: Mapping[str, float] = field(default_factory=dict)
    """Losses, entropy and gradient norms by name, for TensorBoard."""


Report = Callable[[Progress], None]


class Learner(Protocol):
    """A learner that trains a policy and keeps all its state in one folder."""

    @property
    def racks_per_env(self) -> int:
        """Racks (simulated networks, `ncc.harness.batch`) that each environment should hold.

        They are stepped in one call if the datapath can do that, else in a process each.
        """
        ...

    @property
    def processes(self) -> int:
        """Number of racks that are simulated at the same time, over all environments."""
        ...

    @property
    def total_epochs(self) -> int:
        """Periods that `train` will simulate, summed over racks."""
        ...

    def check_env(self, n_actions: int, copies: int) -> None:
        """Raise `ConfigError` if the learner cannot use a `ncc.harness.batch.BatchedEnv` with these values."""
        ...

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
        """Train to the configured number of periods and return the policy file (`agents/policy.py`).

        Policy files can be read without torch. Before training, the learner writes `policy_untrained.ncc`, which
        evaluations compare with the trained policy.

        Args:
            make_env: makes the environment of worker i in the process that steps it; picklable.
            folder: run folder for `checkpoints/` and the policy file; each file is written atomically.
            seed: seed of the training.
            resume: continue from the newest checkpoint in `folder`.
            report: called with the progress.
            meta: plain data for the policy file that describes its observations and actions.

        Raises:
            WorkerDiedError: a worker process ended early; the last checkpoint is on disk and can be resumed.
            ResultError: `resume` is set, and there is no usable checkpoint, or it is of a training of another shape.
        """
        ...
