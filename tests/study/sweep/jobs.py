# SPDX-License-Identifier: BSD-3-Clause
"""Jobs for Ray Tune that train nothing; Ray's workers import them from here."""

from dataclasses import dataclass
from pathlib import Path

from ncc.harness.trials import FAILED, FINISHED, RUNNING, UNFINISHED, Report


@dataclass
class Scripted:
    """Says the same value at 10, 20, ... 100 percent."""

    name: str
    value: float
    folder: Path
    fails: bool = False
    waits: bool = False
    """Says nothing new until it is told to end."""
    steps: int = 0

    def step(self) -> Report:
        self.steps += 1
        if (self.folder / "stop").exists():
            return Report(UNFINISHED)
        if self.fails:
            return Report(FAILED, said="on purpose")
        if self.waits:
            (self.folder / "waits").touch()
            return Report(RUNNING, 10.0, self.value)
        if self.steps > 10:
            return Report(FINISHED, 100.0, self.value)
        return Report(RUNNING, 10.0 * self.steps, self.value)

    def end(self) -> None:
        (self.folder / f"{self.name}.ended").write_text(str(self.steps))
