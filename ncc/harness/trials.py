# SPDX-License-Identifier: BSD-3-Clause
"""What a trial of a sweep says of itself: who runs trials and what a trial is know this, and not each other."""

import math
from dataclasses import dataclass

RUNNING, FINISHED, FAILED, STOPPED, UNFINISHED = "running", "finished", "failed", "stopped", "unfinished"
"""States of a trial: stopped by the scheduler, unfinished because the sweep was interrupted."""


@dataclass(frozen=True)
class Report:
    """How a trial goes."""

    state: str
    percent: float = 0.0
    """Of its epochs; 0 while `value` is unknown."""
    value: float = math.nan
    """By which trials are compared while they run; higher is better."""
    said: str = ""
    """Why it failed."""
