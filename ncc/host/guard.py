# SPDX-License-Identifier: BSD-3-Clause
"""The guard between a policy and a host's traffic.

It keeps limits within bounds, and keeps the last good limits if a decision cannot be used. When decisions keep failing,
it hands the host back to its classical controller: no limit, no order, no heartbeat. Later it lets the policy try
again, a limited number of times.
"""

from collections import deque
from collections.abc import Callable
from operator import ne
from typing import Annotated

import numpy as np
from msgspec import Meta

from ncc.core.flows import FloatArray
from ncc.core.units import NS_PER_S
from ncc.core.value import Count, Fraction, Natural, Value
from ncc.policies.limits import RateBounds

Seconds = Annotated[float, Meta(gt=0, le=1e9)]
"""A time; more than thirty years is a mistake, or too long for a clock in nanoseconds."""


class GuardSettings(Value, frozen=True):
    """Conditions for handing a host back, and for the policy's return."""

    bad_periods: Count = 20
    """Periods in a row without a usable decision in which the last good limits hold; one more hands back."""
    missed_frac: Fraction = 0.5
    """Largest share of missed periods among the last `window_periods`; above it, hosts are handed back."""
    window_periods: Annotated[int, Meta(ge=1, le=100_000)] = 200
    silent_s: Seconds = 5.0
    """Seconds without a report, while data is queued, before handing back."""
    hold_off_s: Seconds = 1.0
    """Least time in seconds after a hand-back before the policy may try again."""
    tries: Natural = 5
    """Number of times that the policy may try again. The count restarts after `well_s` without another hand-back."""
    well_s: Seconds = 60.0


Say = Callable[[str], None]
"""Function that takes a sentence at each hand-back and return."""


class Guard:
    """The guard of the local hosts of one agent.

    Attributes:
        held_bps: [k] limits in force, in bits/s; inf: none.
        active: true while the policy decides; false while the hosts are handed back.
        reason: reason of the last hand-back.
        counters: counts of bad periods, clipped limits, missed periods, hand-backs and returns.
    """

    def __init__(self, settings: GuardSettings, bounds: RateBounds, link_bps: FloatArray, say: Say) -> None:
        self.settings, self.bounds = settings, bounds
        self.active, self.reason = True, ""
        self.counters = {"bad_periods": 0, "clipped_limits": 0, "missed_periods": 0, "hand_backs": 0, "returns": 0}
        self._link_bps, self._say = np.asarray(link_bps, np.float64), say
        self.held_bps: FloatArray = np.full(len(link_bps), np.inf)
        self._bad = self._tried = 0
        self._until_ns = self._since_ns = 0
        self._missed = deque[bool]()
        self._n_missed = 0
        self._silent_ns, self._waits_for_reports = 0, False

    @property
    def given_up(self) -> bool:
        """True if the hosts are handed back for good."""
        return not self.active and self._tried > self.settings.tries

    def hold(self, limits_bps: FloatArray | None, now_ns: int, why: str = "") -> FloatArray:
        """Return the limits to enforce, [k] in bits/s: the decided ones within bounds, the last good ones, or inf.

        Args:
            limits_bps: decided limits [k]; None: no decision was possible, for the reason `why`.
            now_ns: monotonic time.
        """
        if not self.active:
            return self.held_bps
        limits = [] if limits_bps is None else limits_bps.tolist()
        if limits_bps is not None and all(limit > 0 for limit in limits):  # nor NaN
            self.held_bps, self._bad = self.bounds.hold(limits_bps, self.held_bps, self._link_bps), 0
            self.counters["clipped_limits"] += sum(map(ne, self.held_bps.tolist(), limits))
            return self.held_bps
        self._bad += 1
        self.counters["bad_periods"] += 1
        if self._bad > self.settings.bad_periods:
            reason = why or "the policy's limits are not numbers above 0"
            self.hand_back(f"{self._bad} periods in a row brought no usable decision ({reason})", now_ns)
        return self.held_bps

    def period(self, missed: int, now_ns: int) -> None:
        """Count a period that has ended, and `missed` before it without a decision."""
        window = self.settings.window_periods
        self.counters["missed_periods"] += missed
        for was_missed in [True] * min(missed, window) + [False]:
            if len(self._missed) == window:
                self._n_missed -= self._missed.popleft()
            self._missed.append(was_missed)
            self._n_missed += was_missed
        if not self.active:
            return
        if self._tried and now_ns - self._since_ns > self.settings.well_s * NS_PER_S:
            self._tried = 0
        if len(self._missed) == window and (share := self._n_missed / window) > self.settings.missed_frac:
            self.hand_back(f"{share:.0%} of the last {window} periods were missed: the machine is too loaded", now_ns)

    def fell_back(self, connections: int, now_ns: int) -> None:
        """Hand back if connections stopped obeying since the last period because no heartbeat came."""
        if self.active and connections:
            self.hand_back(f"no heartbeat came, and {connections} connections stopped obeying", now_ns)

    def note_reports(self, *, busy: bool, any_new: bool, now_ns: int) -> None:
        """Note if connections have data (`busy`) and if any has a new report; hand back after a long silence."""
        if any_new or not busy:
            self._silent_ns = now_ns
            self._waits_for_reports &= not any_new
        elif self.active and self._silent_ns and now_ns - self._silent_ns > self.settings.silent_s * NS_PER_S:
            self.hand_back(f"connections have data and reported nothing for {self.settings.silent_s:g} s", now_ns)
            self._waits_for_reports = True
        self._silent_ns = self._silent_ns or now_ns

    def hand_back(self, reason: str, now_ns: int) -> None:
        """Lift all limits from now on; do nothing if the hosts are handed back already."""
        if not self.active:
            return
        self.active, self.reason = False, reason
        self.held_bps = np.full_like(self._link_bps, np.inf)
        self.counters["hand_backs"] += 1
        self._tried += 1
        self._until_ns = now_ns + round(self.settings.hold_off_s * NS_PER_S)
        last = f"for good, after {self._tried} times" if self.given_up else f"for {self.settings.hold_off_s:g} s"
        self._say(f"handed back to the classical controller {last}: {reason}")

    def may_return(self, now_ns: int) -> bool:
        """Let the policy decide again if it may; return True if it returns now."""
        if self.active or self.given_up or now_ns < self._until_ns or self._waits_for_reports:
            return False
        self.active, self._bad, self._since_ns, self._silent_ns = True, 0, now_ns, now_ns
        self._missed.clear()
        self._n_missed = 0
        self.counters["returns"] += 1
        self._say(f"the policy decides again (try {self._tried} of {self.settings.tries})")
        return True
