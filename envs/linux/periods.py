# SPDX-License-Identifier: BSD-3-Clause
"""`Periods`: a decision every so often by the clock on the wall, of which none that was missed is made up for."""

import time

from ncc.core.units import NS_PER_S


class Periods:
    """Ends of periods, on CLOCK_MONOTONIC in whole nanoseconds.

    Args:
        period_ns: of each.

    Attributes:
        start_ns: when the first began; to be set before `next_end_ns`.
        epoch: how many have ended.
        missed: of these, whose end had passed before it was waited for.
    """

    def __init__(self, period_ns: int) -> None:
        self.period_ns = period_ns
        self.start_ns = self.epoch = self.missed = 0

    def next_end_ns(self) -> int:
        """When the period under way ends; where that has passed, those between are missed and counted."""
        self.epoch += 1
        end_ns, now_ns = self.start_ns + self.epoch * self.period_ns, time.monotonic_ns()
        if now_ns >= end_ns:
            missed = 1 + (now_ns - end_ns) // self.period_ns
            self.missed, self.epoch = self.missed + missed, self.epoch + missed
            end_ns += missed * self.period_ns
        return end_ns


def sleep_until(at_ns: int) -> None:
    """Return at that time of CLOCK_MONOTONIC, or at once where it has passed."""
    while (left_ns := at_ns - time.monotonic_ns()) > 0:
        time.sleep(left_ns / NS_PER_S)
