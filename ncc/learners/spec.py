# SPDX-License-Identifier: BSD-3-Clause
"""What is compared, checked before anything is trained."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta

from ncc.compose import plain_config
from ncc.core.errors import ConfigError
from ncc.core.value import Count, Name, Natural, Positive, Value, from_dict
from ncc.plan import TrainPlan, planned

OWN = ("agent.epochs", "seed", "out", "resume")
"""What the comparison itself says of each training."""


class LearnersSpec(Value, frozen=True):
    """configs/learners.yaml."""

    learners: Annotated[dict[Name, tuple[str, ...]], Meta(min_length=1)]
    """By name: overrides of `ncc.train`."""
    common: tuple[str, ...]
    """Overrides of every training, after its own."""
    seeds: Annotated[int, Meta(ge=1, le=1000)]
    first_seed: Natural
    epochs: Count
    """Of each training in the comparison at equal epochs."""
    wall_s: Positive
    """Of each training in the comparison at equal wall time, about."""
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
            for key in (override.split("=")[0].lstrip("+~") for override in (*overrides, *spec.common)):
                if key in OWN:
                    raise ConfigError(f"{key} of learners.{name} is said by the comparison: leave it out")
            spec.plan(name)
        return spec

    def overrides(self, name: str, seed: int, epochs: int) -> list[str]:
        """The command line of a training, its folder apart."""
        return [*self.learners[name], *self.common, f"agent.epochs={epochs}", f"seed={seed}"]

    def plan(self, name: str, seed: int | None = None, epochs: int | None = None) -> TrainPlan:
        """A training of the learner as it would be, the first at equal epochs if no other is named."""
        from hydra import compose

        asked = self.overrides(name, self.first_seed if seed is None else seed, epochs or self.epochs)
        plain = plain_config(compose("train", asked))
        return TrainPlan.from_plain(planned(plain))
