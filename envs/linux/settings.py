# SPDX-License-Identifier: BSD-3-Clause
"""What the Linux datapath itself can be told, in configs/datapath/linux.yaml and on the command line."""

from typing import Annotated, Literal

from msgspec import Meta

from ncc.core.errors import ConfigError
from ncc.core.value import Fraction, Value

GRACE_S = 10.0
"""How long flows may go on after a scenario's end, for a machine that is late."""
HEARTBEATS = 2
"""Decisions that the heartbeat's timeout takes at least: one may be late without a fallback."""


class LinuxSettings(Value, frozen=True):
    """How runs take place on this machine."""

    scheduling: Literal["fifo", "other"] = "fifo"
    """Of the decisions: `fifo` (SCHED_FIFO) goes ahead of whatever else runs here, and the traffic has nice -20."""
    cores: Literal["split", "shared"] = "split"
    """`split`: of what belongs to the run, decisions have the last core to themselves and the traffic the others, for a
    network that is busy on a core keeps even SCHED_FIFO waiting. With one core they share it."""
    heartbeat_timeout_s: Annotated[float, Meta(ge=1e-3, le=10)] = 0.05
    """Silence of the decisions after which connections fall back to their controller alone, and that is counted."""
    trim_frac: Annotated[float, Meta(ge=0, le=0.3)] = 0.0
    """How far above a host's limit, and three times that below it, the rate may be by which the kernel paces it, so
    that what it sends comes to the limit (`ncc.envs.linux.limits`); 0: always the limit itself."""
    segmentation_offload: bool = False
    """Hosts hand up to 64 kB to their device at once: faster, and then a mark or a drop hits all of it."""
    busy: Literal["refuse", "label"] = "label"
    """What is done when the machine has other work before a run: `refuse` it, or say so in the result's facts."""
    busy_frac: Fraction = 0.25
    """Of all cores: from here on it counts as busy. A loaded machine costs goodput and doubles queues."""
    missed_frac: Fraction = 0.02
    """Share of periods without a decision from which a run is not to be used, if there was anything to decide."""
    longest_s: Annotated[float, Meta(gt=0, le=3600)] = 600.0
    """No run takes longer: its flows end then, even if nobody is left to end them; and some seconds after
    the scenario's own end, where it has one."""
    outlive: bool = False
    """Flows go on, until `longest_s` at most, should the process that decides be killed."""

    def check_heartbeat(self, period_s: float, decision_latency_s: float) -> None:
        """`ConfigError` if decisions come too seldom for connections to believe that somebody decides."""
        longest_s = self.heartbeat_timeout_s / HEARTBEATS
        if period_s + decision_latency_s > longest_s:
            raise ConfigError(
                f"Scenario.period_s and decision_latency_s make {period_s + decision_latency_s:g} s, and on linux they "
                f"may take {longest_s:g} s, half of datapath.linux.settings.heartbeat_timeout_s: shorten them, or "
                "raise that"
            )

    def check_length(self, duration_s: float, drain_s: float | None) -> float:
        """Seconds after which the traffic ends by itself; `ConfigError` if a scenario takes longer than is allowed.

        A scenario whose drain has no end (None) may take `longest_s`.
        """
        wanted_s = duration_s if drain_s is None else duration_s + drain_s
        if wanted_s > self.longest_s:
            raise ConfigError(
                f"Scenario.duration_s and drain_s make {wanted_s:g} s, and a run on linux takes at most "
                f"{self.longest_s:g} s of real time: shorten them, or raise datapath.linux.settings.longest_s"
            )
        return self.longest_s if drain_s is None else min(self.longest_s, wanted_s + GRACE_S)
