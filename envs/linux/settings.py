# SPDX-License-Identifier: BSD-3-Clause
"""Settings of the Linux datapath itself, in configs/datapath/linux.yaml and on the command line."""

from typing import Annotated, Literal

from msgspec import Meta

from ncc.core.errors import ConfigError
from ncc.core.value import Fraction, Value

GRACE_S = 10.0
"""Seconds that flows may go on after a scenario's end, for a machine that is late."""
HEARTBEATS = 2
"""Least number of decisions within the heartbeat's timeout, so that a late one causes no fallback."""


class LinuxSettings(Value, frozen=True):
    """Settings of runs on this machine."""

    scheduling: Literal["fifo", "other"] = "fifo"
    """Scheduling of the decisions; `fifo` (SCHED_FIFO) puts them before all else, and the traffic at nice -20."""
    heartbeat_timeout_s: Annotated[float, Meta(ge=1e-3, le=10)] = 0.05
    """Seconds without a decision after which limits and orders end, which is counted."""
    busy_frac: Fraction = 0.25
    """Largest fraction of all cores in use before a run; above it, the run's facts say that the machine was busy. Load
    costs goodput and doubles queues."""
    missed_frac: Fraction = 0.02
    """Largest fraction of missed periods; above it, a run that had anything to decide should not be used."""
    queues: bool = False
    """True gives hosts queues that enforce limits, also for stacks without an order among flows; stacks with an order
    always have such queues."""
    longest_s: Annotated[float, Meta(gt=0, le=3600)] = 600.0
    """Longest run in seconds: flows end by themselves then, or `GRACE_S` after the scenario's end if earlier."""

    def check_heartbeat(self, period_s: float, decision_latency_s: float) -> None:
        """Raise `ConfigError` if decisions come too seldom for the heartbeat's timeout."""
        longest_s = self.heartbeat_timeout_s / HEARTBEATS
        if period_s + decision_latency_s > longest_s:
            raise ConfigError(
                f"Scenario.period_s and decision_latency_s make {period_s + decision_latency_s:g} s, and on linux they "
                f"may take {longest_s:g} s, half of datapath.linux.settings.heartbeat_timeout_s: shorten them, or "
                "raise that"
            )

    def check_length(self, duration_s: float, drain_s: float | None) -> float:
        """Return the seconds after which the traffic ends by itself; raise `ConfigError` if a scenario is too long.

        A scenario whose drain has no end (None) may take `longest_s`.
        """
        wanted_s = duration_s if drain_s is None else duration_s + drain_s
        if wanted_s > self.longest_s:
            raise ConfigError(
                f"Scenario.duration_s and drain_s make {wanted_s:g} s, and a run on linux takes at most "
                f"{self.longest_s:g} s of real time: shorten them, or raise datapath.linux.settings.longest_s"
            )
        return self.longest_s if drain_s is None else min(self.longest_s, wanted_s + GRACE_S)
