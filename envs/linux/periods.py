# SPDX-License-Identifier: BSD-3-Clause
"""`Periods`: periods of equal length in real time; missed ones are counted and skipped."""

import time

from ncc.core.units import NS_PER_S


class Periods:
    """The ends of periods on CLOCK_MONOTONIC, in whole nanoseconds.

    Attributes:
        start_ns: start of the first period; set it before calling `next_end_ns`.
        epoch: number of periods that have ended.
        missed: number of these whose end had passed when `next_end_ns` was called.
    """

    def __init__(self, period_ns: int) -> None:
        self.period_ns = period_ns
        self.start_ns = self.epoch = self.missed = 0

    def next_end_ns(self) -> int:
        """Return the end of the current period; if it has passed, count the missed periods and return the next end."""
        self.epoch += 1
        end_ns, now_ns = self.start_ns + self.epoch * self.period_ns, time.monotonic_ns()
        if now_ns >= end_ns:
            missed = 1 + (now_ns - end_ns) // self.period_ns
            self.missed, self.epoch = self.missed + missed, self.epoch + missed
            end_ns += missed * self.period_ns
        return end_ns


def sleep_until(at_ns: int) -> None:
    """Sleep until a time of CLOCK_MONOTONIC; return at once if it has passed."""
    while (left_ns := at_ns - time.monotonic_ns()) > 0:
        time.sleep(left_ns / NS_PER_S)
