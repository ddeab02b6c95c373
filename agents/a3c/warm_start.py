# SPDX-License-Identifier: BSD-3-Clause
"""Settings of the warm start; importing them loads no training framework."""

from typing import Annotated

from msgspec import Meta

from ncc.core.errors import ConfigError
from ncc.core.value import Count, Fraction, Value


class WarmStart(Value, frozen=True):
    """Supervised learning from the environment's expert before reinforcement learning (wang2021 section 5.3.2.3).

    First the expert drives and the policy learns its answers (behaviour cloning); then the policy's own actions drive
    and the expert only says what it would have done, so that the policy also learns where its own mistakes lead
    (DAgger: Ross et al., AISTATS 2011, with beta_i = 1 first and 0 after). Samples are kept and learnt from several
    times.
    """

    epochs: Count = 100_000
    """Environment epochs to imitate for, summed over racks; rounded up to whole steps of all racks. They come on top of
    those of reinforcement learning."""
    learning_rate: Annotated[float, Meta(gt=0, le=1)] = 1e-3
    """Of Adam, as in wang2021."""
    learning_rate_final: Annotated[float, Meta(ge=0, le=1)] | None = None
    """Where set, `learning_rate` goes there linearly over the warm start."""
    driven_frac: Fraction = 0.5
    """Share of `epochs`, from the start, in which the expert drives. 1: behaviour cloning alone."""
    rollout: Annotated[int, Meta(ge=1, le=10_000)] = 50
    """Epochs of each rack between two rounds of learning. Returns are followed up to there, then the value stands in:
    several times 1 / (1 - gamma) makes the value's targets good from the start."""
    every: Count = 1
    """One epoch in so many is learnt from. Neighbouring ones are nearly alike: with more of them left out, the same
    number of samples comes from more episodes."""
    passes: Annotated[float, Meta(gt=0, le=100)] = 4.0
    """How often each sample is learnt from on average: what a round costs is in proportion to what it collected."""
    batch_size: Annotated[int, Meta(ge=1, le=1_000_000)] = 512
    """Samples (hosts in an epoch) of a step of Adam, drawn at random from all that are kept."""
    memory_samples: Annotated[int, Meta(ge=1, le=100_000_000)] = 200_000
    """Samples kept, the newest; each takes 4 bytes per number observed, and 20 more."""
    balance: Fraction = 0.5
    """Weight of a sample by the frequency of its label to this power, inverted, up to `imitation.MAX_WEIGHT`. 0: alike,
    and probabilities become the expert's; but of an expert that rarely limits, only "no limit" is learnt for long. 1:
    labels count alike, and rare ones are given far too often wherever the observation leaves the answer open."""
    label_smoothing: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    """Share of the target that is spread over all actions, so that a policy that is sure of itself still explores."""
    value: bool = True
    """Whether the value learns too: the returns of the policy's own driving, and before it of the expert's."""

    def check(self) -> None:
        """Cross-field checks."""
        if self.memory_samples < self.batch_size:
            raise ConfigError(
                f"WarmStart.memory_samples must be at least batch_size ({self.batch_size}), got {self.memory_samples}"
            )
