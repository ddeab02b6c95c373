# SPDX-License-Identifier: BSD-3-Clause
"""Reports of a sweep's trial, which those who run trials and the trials themselves share."""

import math
from dataclasses import dataclass

RUNNING, FINISHED, FAILED, STOPPED, UNFINISHED = "running", "finished", "failed", "stopped", "unfinished"
"""States of a trial: stopped by the scheduler, unfinished because the sweep was interrupted."""


@dataclass(frozen=True)
class Report:
    """Progress of a trial."""

    state: str
    percent: float = 0.0
    """Percent of its epochs that are done; 0 while `value` is unknown."""
    value: float = math.nan
    """Value by which trials are compared while they run; higher is better."""
    said: str = ""
    """Reason of a failure."""
