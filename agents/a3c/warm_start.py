# SPDX-License-Identifier: BSD-3-Clause
"""Settings of the warm start. Importing them loads no training framework."""

from typing import Annotated

from msgspec import Meta

from ncc.core.errors import ConfigError
from ncc.core.value import Count, Fraction, Value


class WarmStart(Value, frozen=True):
    """Supervised learning from the environment's expert before reinforcement learning (wang2021 section 5.3.2.3).

    First the expert acts and the policy learns its answers (behaviour cloning). Then the policy acts and the expert
    only says what it would have done, so that the policy also learns in states that its own mistakes reach (DAgger:
    Ross et al., AISTATS 2011, with beta_i = 1 first and 0 after). Samples are kept and learnt from several times.
    """

    epochs: Count = 100_000
    """Environment epochs to imitate for, summed over racks, rounded up to whole steps of all racks. They are added to
    those of reinforcement learning."""
    learning_rate: Annotated[float, Meta(gt=0, le=1)] = 1e-3
    """Learning rate of Adam; the default is that of wang2021."""
    learning_rate_final: Annotated[float, Meta(ge=0, le=1)] | None = None
    """Value that `learning_rate` reaches linearly at the end of the warm start; null: it stays constant."""
    driven_frac: Fraction = 0.5
    """Share of `epochs`, from the start, during which the expert acts. 1: behaviour cloning only."""
    rollout: Annotated[int, Meta(ge=1, le=10_000)] = 50
    """Epochs of each rack between two rounds of learning. Returns are summed up to there and then bootstrapped; several
    times 1 / (1 - gamma) gives good value targets from the start."""
    every: Count = 1
    """Learn from one epoch in this many. Neighbouring epochs are nearly alike, so skipping some draws the same number
    of samples from more episodes."""
    passes: Annotated[float, Meta(gt=0, le=100)] = 4.0
    """Mean number of times that each sample is learnt from; the cost of a round is proportional to it."""
    batch_size: Annotated[int, Meta(ge=1, le=1_000_000)] = 512
    """Samples in an Adam step, drawn at random from all that are kept. One host in one epoch is one sample."""
    memory_samples: Annotated[int, Meta(ge=1, le=100_000_000)] = 200_000
    """Number of samples to keep, the newest; each takes 4 bytes per observed number and 20 more."""
    balance: Fraction = 0.5
    """Power of a label's inverse frequency that weighs its samples, bounded by `imitation.MAX_WEIGHT`. 0: all weigh the
    same and the policy learns the expert's probabilities, but with an expert that rarely limits it learns only "no
    limit" for a long time. 1: all labels count equally, and rare ones are chosen far too often where the observation
    does not decide."""
    label_smoothing: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    """Share of the target that is spread over all actions, so that even a confident policy explores."""
    value: bool = True
    """Train the value network too, on the returns of the expert's driving and then on those of the policy's."""

    def check(self) -> None:
        """Check settings against each other."""
        if self.memory_samples < self.batch_size:
            raise ConfigError(
                f"WarmStart.memory_samples must be at least batch_size ({self.batch_size}), got {self.memory_samples}"
            )
