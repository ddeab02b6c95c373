# SPDX-License-Identifier: BSD-3-Clause
"""The contract between the training main and whatever learns: A3C here, RLlib elsewhere."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ncc.harness.batch import EnvFactory


@dataclass(frozen=True)
class Progress:
    """What a learner says: first, with nothing else, where it starts or resumes; then after each update or so."""

    epochs: int
    """Environment epochs consumed so far, summed over racks and workers."""
    total_epochs: int
    returns: tuple[float, ...] = ()
    """Mean reward per host and epoch of each episode that ended since the last report."""
    scalars: Mapping[str, float] = field(default_factory=dict)
    """Losses, entropy, gradient norms: name -> value, for TensorBoard."""


Report = Callable[[Progress], None]


class Learner(Protocol):
    """Learns a policy and keeps everything it needs to go on under one folder."""

    racks_per_env: int
    """Racks that each environment should hold: stepped in one call where the datapath can, else by a process each."""
    processes: int
    """How many racks are simulated at a time; for forecasts."""
    total_epochs: int
    """Environment epochs that `train` will consume, summed over racks."""
    online_epochs: int
    """Those of them in which it learns from its own reward: all, unless it first imitates."""

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
        """Train to the configured number of epochs and return the policy file (readable without torch).

        Args:
            make_env: builds the environments of worker i in the process that steps them; picklable.
            folder: `checkpoints/` and the policy file go here; each file is written under a temporary name and renamed.
            meta: plain data that goes into the policy file, so that it says what it sees and does.
            resume: continue from the newest checkpoint in `folder`.

        Raises:
            WorkerDiedError: a worker process ended early; the last checkpoint is on disk and can be resumed.
            ResultError: `resume` without a usable checkpoint, or one of another shape.
        """
        ...
