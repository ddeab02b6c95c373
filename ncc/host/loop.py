# SPDX-License-Identifier: BSD-3-Clause
"""The loop of an agent: each period it measures, receives, decides, writes limits, and sends its state."""

import time

import numpy as np

from ncc.core.flows import FloatArray
from ncc.envs.linux.live import HostColumns, Live
from ncc.envs.linux.machine import Periods, sleep_until
from ncc.host.agent import Agent
from ncc.host.metrics import Durations
from ncc.host.receivers import Receivers

LEAD_NS = 2_000_000
"""Time from the call of `Loop.begin` until the first period begins."""


class Loop:
    """The periods of one agent and its hosts.

    Attributes:
        agent: agent that decides.
        live: local hosts, measured and limited.
        receivers: exchange of grants with the peers; None: flows do not wait for grants.
        periods: numbers of periods so far, and of missed ones.
        took: durations of a period's work, from before its measurement until its limits were written.
        late: delays from a period's end until this work began.
        own: last measurements; None: none yet.
        limits_bps: [k] limits decided from them; inf: no limit.
        suspended: true if the policy was suspended in the last period.
    """

    def __init__(self, agent: Agent, live: Live, period_ns: int, receivers: Receivers | None = None) -> None:
        self.agent, self.live, self.periods = agent, live, Periods(period_ns)
        self.receivers = receivers
        self.took, self.late = Durations(), Durations()
        self.own: HostColumns | None = None
        self.limits_bps: FloatArray = agent.guard.held_bps
        self.suspended = False
        self._fallen = live.fallen

    def begin(self) -> None:
        """Sleep until the first period begins, and measure its start."""
        self.periods.start_ns = time.monotonic_ns() + LEAD_NS
        sleep_until(self.periods.start_ns)
        self.live.measure(time.monotonic_ns())

    def wait(self) -> tuple[int, int]:
        """Sleep until the end of the current period.

        Returns:
            Monotonic time in ns, and the number of periods before this one that were missed since the last call.
        """
        missed = self.periods.missed
        end_ns = self.periods.next_end_ns()
        sleep_until(end_ns)
        now_ns = time.monotonic_ns()
        self.late.add(now_ns - end_ns)
        return now_ns, self.periods.missed - missed

    def period(self, now_ns: int, missed: int) -> None:
        """Do the work of the period that ended at `now_ns`, and count the `missed` periods before it."""
        agent, guard, live, receivers = self.agent, self.agent.guard, self.live, self.receivers
        self.own = own = live.measure(now_ns)
        if receivers is not None:
            receivers.measure(live.listed, now_ns)
        (connections, pkts), self._fallen = self._fallen, live.fallen
        guard.fell_back(self._fallen[0] - connections, self._fallen[1] - pkts, now_ns)
        guard.may_return(now_ns)
        self.limits_bps = agent.decide(own.columns, now_ns)
        live.put(self.limits_bps, time.monotonic_ns())
        if receivers is not None and guard.active:
            receivers.put(now_ns)
        elif receivers is not None and not self.suspended:
            receivers.lift(now_ns)
        self.suspended = not guard.active
        self.took.add(time.monotonic_ns() - now_ns)
        if receivers is None:
            agent.share(now_ns)
        else:
            agent.share(now_ns, at_once=receivers.share(now_ns))
        guard.period(missed, now_ns)

    def summary(self) -> dict[str, object]:
        """Return the agent's state as the fields of a line in the log."""
        own, periods = self.own, self.periods
        if own is None:
            return {"periods": periods.epoch}
        finite = np.where(np.isfinite(self.limits_bps), self.limits_bps, -1.0)
        return {
            "periods": periods.epoch,
            "missed_periods": periods.missed,
            "limits_bps": [None if limit < 0 else round(limit) for limit in finite.tolist()],
            "throughput_bps": np.rint(own.columns["throughput_bps"]).tolist(),
            "queued_bytes": own.columns["queued_bytes"].tolist(),
            "connections": own.connections,
            "stale_peers": int(np.count_nonzero(self.agent.stale)),
            "suspended": self.suspended,
            **({} if self.receivers is None else {"receivers": self.receivers.summary()}),
            **({} if self.live.queues is None else {"queue": self.live.queues.counts}),
        }
