# SPDX-License-Identifier: BSD-3-Clause
"""Trainings that a study asks for, composed as `ncc train` composes them."""

from collections.abc import Collection, Iterable

from ncc.core.errors import ConfigError
from ncc.run.compose import composed
from ncc.run.plan import TrainPlan, planned


def training_plan(overrides: Iterable[str]) -> TrainPlan:
    """Make the plan of the training that `ncc train` with these overrides does."""
    return TrainPlan.from_plain(planned(composed("train", list(overrides))))


def key_of(override: str) -> str:
    """Key that an override sets, without Hydra's signs for adding and deleting."""
    return override.partition("=")[0].lstrip("+~")


def leave_out(keys: Iterable[str], own: Collection[str], where: str) -> None:
    """Raise `ConfigError` if one of `keys` is in `own`: the study sets these keys itself.

    Args:
        where: text that follows the key in the message.
    """
    for key in keys:
        if key in own:
            raise ConfigError(f"{key} of {where}: leave it out")
