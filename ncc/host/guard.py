# SPDX-License-Identifier: BSD-3-Clause
"""The guard between a policy and a host's traffic.

It keeps limits within bounds. If a decision cannot be used, it keeps the last good limits. When decisions keep failing,
it suspends the policy for a while: then each host may send its fair share of the uplink. While the agent lives, no
failure lifts a limit. If the agent dies, the kernel ends its limits (`envs/linux/order_program.py`).
"""

from collections import deque
from collections.abc import Callable
from operator import ne
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta

from ncc.core.flows import FloatArray
from ncc.core.units import NS_PER_S
from ncc.core.value import Count, Fraction, Value
from ncc.policies.limits import RateBounds

Seconds = Annotated[float, Meta(gt=0, le=1e9)]
"""A time in seconds. The bound is thirty years: more is a mistake, or too long for a clock in nanoseconds."""


class GuardSettings(Value, frozen=True):
    """Conditions on which a policy is suspended, and on which it decides again."""

    bad_periods: Count = 20
    """Number of periods in a row without a usable decision for which the last good limits stay in force. After one more
    such period the policy is suspended."""
    missed_frac: Fraction = 0.5
    """Share of missed periods among the last `window_periods` above which the policy is suspended."""
    window_periods: Annotated[int, Meta(ge=1, le=100_000)] = 200
    """Number of periods over which this share is measured."""
    hold_off_s: Seconds = 5.0
    """Time in seconds from the last reason for a suspension until the policy decides again."""


Say = Callable[[str], None]
"""Function that is called with a sentence when the policy is suspended, and when it decides again."""


class Guard:
    """The guard of the local hosts of one agent.

    Args:
        settings: conditions for suspending the policy.
        bounds: bounds of all limits.
        link_bps: [k] rates of the hosts' links.
        fair_bps: [k] fair shares of the uplink. Cut to the bounds, they are the limits while the policy is suspended.
        say: function that is told of suspensions (`Say`).

    Attributes:
        held_bps: [k] limits in force, in bits/s; inf: none.
        active: true while the policy decides; false while it is suspended.
        reason: why the policy was last suspended; empty: it never was.
        counters: counts of bad periods, clipped limits, missed periods, suspensions and returns.
    """

    def __init__(
        self, settings: GuardSettings, bounds: RateBounds, link_bps: FloatArray, fair_bps: FloatArray, say: Say
    ) -> None:
        self.settings, self.bounds = settings, bounds
        self.active, self.reason = True, ""
        self.counters = {"bad_periods": 0, "clipped_limits": 0, "missed_periods": 0, "suspensions": 0, "returns": 0}
        self._link_bps, self._say = np.asarray(link_bps, np.float64), say
        most_bps = min(bounds.max_rate_frac, 1.0) * self._link_bps
        self._share_bps: FloatArray = np.clip(fair_bps, bounds.min_rate_frac * self._link_bps, most_bps)
        self.held_bps: FloatArray = np.full(len(link_bps), np.inf)
        self._bad = self._until_ns = 0
        self._missed = deque[bool]()
        self._n_missed = 0

    @property
    def decider(self) -> Literal["policy", "last limits", "fair share"]:
        """Source of the limits in force."""
        if not self.active:
            return "fair share"
        return "last limits" if self._bad else "policy"

    def follow(self, before: "Guard") -> None:
        """Go on where another guard of the same hosts ends: with its limits in force and its counters."""
        self.held_bps, self.counters = before.held_bps, before.counters

    def hold(self, limits_bps: FloatArray | None, now_ns: int, why: str = "") -> FloatArray:
        """Return the limits to enforce, [k] in bits/s; inf: none.

        They are the decided limits within the bounds; or the last good limits, if the decided ones are missing or are
        not all above 0; or the fair shares, while the policy is suspended.

        Args:
            limits_bps: [k] decided limits; None: no decision was possible.
            now_ns: monotonic time.
            why: reason for which no decision was possible.
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
            self.suspend(f"{self._bad} periods in a row brought no usable decision ({reason})", now_ns)
        return self.held_bps

    def period(self, missed: int, now_ns: int) -> None:
        """Count a period that has ended and the `missed` periods before it; suspend the policy if too many are missed.

        A missed period is one without a decision.
        """
        window = self.settings.window_periods
        self.counters["missed_periods"] += missed
        for was_missed in [True] * min(missed, window) + [False]:
            if len(self._missed) == window:
                self._n_missed -= self._missed.popleft()
            self._missed.append(was_missed)
            self._n_missed += was_missed
        if not self.active:
            return
        if len(self._missed) == window and (share := self._n_missed / window) > self.settings.missed_frac:
            self.suspend(f"{share:.0%} of the last {window} periods were missed: the machine is too loaded", now_ns)

    def fell_back(self, connections: int, pkts: int, now_ns: int) -> None:
        """Suspend the policy if limits did not hold because the agent's heartbeat did not come in time.

        Args:
            connections: number of connections that have stopped obeying since the last period.
            pkts: number of packets that have left outside the limits since then; if both are 0, do nothing.
            now_ns: monotonic time.
        """
        if connections or pkts:
            said = f"packets that left outside the limit: {pkts}, connections that stopped obeying: {connections}"
            self.suspend(f"no heartbeat came in time ({said})", now_ns)

    def suspend(self, reason: str, now_ns: int) -> None:
        """Suspend the policy: hosts are limited to their fair shares until `hold_off_s` after the last such call."""
        self._until_ns = now_ns + round(self.settings.hold_off_s * NS_PER_S)
        if not self.active:
            return
        self.active, self.reason, self.held_bps = False, reason, self._share_bps.copy()
        self.counters["suspensions"] += 1
        self._say(f"the policy is suspended, and hosts have their fair share of the uplink: {reason}")

    def may_return(self, now_ns: int) -> bool:
        """Let a suspended policy decide again if its time is over; return True if it does so from now on."""
        if self.active or now_ns < self._until_ns:
            return False
        self.active, self._bad = True, 0
        self._missed.clear()
        self._n_missed = 0
        self.counters["returns"] += 1
        self._say("the policy decides again")
        return True
