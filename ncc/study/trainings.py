# SPDX-License-Identifier: BSD-3-Clause
"""Trainings that a study asks for, composed as `ncc train` composes them."""

from collections.abc import Collection, Iterable

from ncc.core.errors import ConfigError
from ncc.run.compose import composed
from ncc.run.plan import TrainPlan, planned


def training_plan(overrides: Iterable[str]) -> TrainPlan:
    """The training that a command line of `ncc train` asks for."""
    return TrainPlan.from_plain(planned(composed("train", list(overrides))))


def key_of(override: str) -> str:
    """The key that an override sets."""
    return override.partition("=")[0].lstrip("+~")


def leave_out(keys: Iterable[str], own: Collection[str], where: str) -> None:
    """Raise `ConfigError` if overrides set a key that the study itself sets."""
    for key in keys:
        if key in own:
            raise ConfigError(f"{key} of {where}: leave it out")
