# SPDX-License-Identifier: BSD-3-Clause
"""Trainings that a study asks for: composed as `ncc train` composes them, checked, and kept once they are finished."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ncc.core.errors import ConfigError
from ncc.harness.manifest import Manifest, is_sealed, read_manifest
from ncc.run.compose import composed
from ncc.run.plan import CONFIG, TrainPlan, planned


@dataclass(frozen=True)
class Training:
    """One training of a study and its folder."""

    plan: TrainPlan
    folder: Path

    @property
    def begun(self) -> bool:
        """True if its folder holds it, finished or not; `ConfigError` if another training is there."""
        found = (self.folder / CONFIG).exists()
        if found:
            self.plan.require_same(self.folder)
        return found

    @property
    def finished(self) -> bool:
        """True if nothing is left to train; `ConfigError` if another training is there."""
        return self.begun and is_sealed(self.folder)

    @cached_property
    def manifest(self) -> Manifest:
        """The manifest of the finished training."""
        return read_manifest(self.folder, "training")


def training_plan(overrides: Iterable[str]) -> TrainPlan:
    """The training that a command line of `ncc train` asks for."""
    return TrainPlan.from_plain(planned(composed("train", list(overrides))))


def key_of(override: str) -> str:
    """The key that an override sets."""
    return override.partition("=")[0].lstrip("+~")


def leave_out(keys: Iterable[str], own: Collection[str], where: str) -> None:
    """`ConfigError` if overrides set a key that the study itself sets."""
    for key in keys:
        if key in own:
            raise ConfigError(f"{key} of {where}: leave it out")
