# SPDX-License-Identifier: BSD-3-Clause
"""The contract between the training main and learners such as A3C and RLlib."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ncc.harness.batch import EnvFactory


@dataclass(frozen=True)
class Progress:
    """A learner's report, about once per update. The first has `epochs` only: the point where it starts or resumes."""

    epochs: int
    """Periods simulated so far, summed over racks and workers."""
    total_epochs: int
    returns: tuple[float, ...] = ()
    """Mean reward per host and period of each episode that ended since the last report."""
    scalars: Mapping[str, float] = field(default_factory=dict)
    """Losses, entropy and gradient norms by name, for TensorBoard."""


Report = Callable[[Progress], None]


class Learner(Protocol):
    """A learner that trains a policy and keeps all its state in one folder."""

    racks_per_env: int
    """Racks that each environment should hold, stepped in one call if the datapath can, else in a process each."""
    processes: int
    """Number of racks simulated at a time."""
    total_epochs: int
    """Periods that `train` will simulate, summed over racks."""

    def check_env(self, n_actions: int, copies: int) -> None:
        """Raise `ConfigError` if it cannot learn from a `ncc.harness.batch.BatchedEnv` with these values."""
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

        Policy files are readable without torch. Before training it writes `policy_untrained.ncc`, which evaluations
        compare with the trained policy.

        Args:
            make_env: makes the environment of worker i in the process that steps it; picklable.
            folder: run folder for `checkpoints/` and the policy file; each file is written atomically.
            meta: plain data for the policy file that describes its observations and actions.
            resume: continue from the newest checkpoint in `folder`.

        Raises:
            WorkerDiedError: a worker process ended early; the last checkpoint is on disk and can be resumed.
            ResultError: `resume` without a usable checkpoint, or one of another shape.
        """
        ...
