# SPDX-License-Identifier: BSD-3-Clause
"""The learners that are compared, checked before anything is trained."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta

from ncc.core.errors import ConfigError
from ncc.core.value import Count, Name, Natural, Positive, Value, from_dict
from ncc.plan import TrainPlan
from ncc.study.mains import key_of, training_plan

OWN = ("agent.epochs", "seed", "out", "resume")
"""Keys that the comparison itself sets of each training."""


class LearnersSpec(Value, frozen=True):
    """configs/learners.yaml."""

    learners: Annotated[dict[Name, tuple[str, ...]], Meta(min_length=1)]
    """Overrides of `ncc.train`, by name."""
    common: tuple[str, ...]
    """Overrides of every training, after its own."""
    seeds: Annotated[int, Meta(ge=1, le=1000)]
    first_seed: Natural
    epochs: Count
    """Epochs of each training in the comparison at equal epochs."""
    wall_s: Positive
    """Seconds of each training in the comparison at equal wall time, about."""
    out: Annotated[str, Meta(min_length=1)]
    docs: str | None

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "LearnersSpec":
        """Check all of it, each learner's configuration too; inside a main that Hydra composed.

        Raises:
            ConfigError: names the key or the learner, and what is allowed.
        """
        spec: LearnersSpec = from_dict(cls, dict(plain), "configuration")
        for name, overrides in spec.learners.items():
            for key in map(key_of, (*overrides, *spec.common)):
                if key in OWN:
                    raise ConfigError(f"{key} of learners.{name} is said by the comparison: leave it out")
            spec.plan(name, spec.first_seed, spec.epochs)
        return spec

    def overrides(self, name: str, seed: int, epochs: int) -> list[str]:
        """The command line of a training, its folder apart."""
        return [*self.learners[name], *self.common, f"agent.epochs={epochs}", f"seed={seed}"]

    def plan(self, name: str, seed: int, epochs: int) -> TrainPlan:
        """The training of that command line."""
        return training_plan(self.overrides(name, seed, epochs))
