# SPDX-License-Identifier: BSD-3-Clause
"""Limits, judged by counts: however late a machine is, a limiter lets `rate * time + burst` pass and no more.

The time is that which passed at most between two counts, so a limit that is exceeded is found on any machine. That the
limit and not the machine holds something back is seen as soon as it goes as fast as it may for a moment.
"""

import struct
import time
from collections.abc import Callable
from typing import NamedTuple

from ncc.core.units import NS_PER_S
from ncc.envs.linux import netlink
from ncc.envs.linux.queue import HostQueue
from tests.support.processes import eventually

WINDOW_S = 0.1
BURST_BYTES = 6_000
"""Four packets: two that a bucket holds, one that is borrowed, and one for a limit that has just changed."""
REACHED_FRAC = 0.9
_PARMS, _RATE_AT = 1, 8
"""TCA_HTB_PARMS, and the place of the rate in struct tc_htb_opt."""


class Count(NamedTuple):
    """Bytes sent by some time between two bounds."""

    sent_bytes: int
    earliest_ns: int
    latest_ns: int


def counted(sent_bytes: Callable[[], int]) -> Count:
    """Count now."""
    began_ns = time.monotonic_ns()
    return Count(sent_bytes(), began_ns, time.monotonic_ns())


def check_limit(
    count: Callable[[], Count], rate_bps: float, *, reached_frac: float = REACHED_FRAC, window_s: float = WINDOW_S
) -> None:
    """Check that counted bytes never exceed a rate, and reach so much of it at least once."""

    def reached() -> bool:
        bits, least_s, most_s = _window(count, window_s)
        assert bits <= rate_bps * most_s + 8 * BURST_BYTES, f"{bits / most_s:g} bit/s"
        return least_s >= window_s / 2 and bits >= reached_frac * rate_bps * least_s

    assert eventually(reached), f"never near {rate_bps:g} bit/s"


def exceeds(count: Callable[[], Count], rate_bps: float) -> bool:
    """True as soon as counted bytes exceed a rate, as no limit of that rate lets them."""

    def faster() -> bool:
        bits, _, most_s = _window(count, WINDOW_S)
        return bits > rate_bps * most_s + 8 * BURST_BYTES

    return eventually(faster)


def _window(count: Callable[[], Count], for_s: float) -> tuple[int, float, float]:
    """Bits sent in an interval, and the least and greatest length of the interval in seconds."""
    first = count()
    time.sleep(for_s)
    last = count()
    least_ns, most_ns = last.earliest_ns - first.latest_ns, last.latest_ns - first.earliest_ns
    return 8 * (last.sent_bytes - first.sent_bytes), least_ns / NS_PER_S, most_ns / NS_PER_S


def class_bytes_per_s(made: HostQueue, handle: int) -> int:
    """Rate of a class, as the kernel has it."""
    answers = made._opened().ask(netlink.request(netlink.GET_CLASS, netlink.DUMP, made._index))
    (found,) = (answer for answer in list(answers) if answer.handle == handle)
    parameters = netlink.attributes(found.attributes[netlink.OPTIONS])[_PARMS]
    rate: int = struct.unpack_from("=I", parameters, _RATE_AT)[0]
    return rate
