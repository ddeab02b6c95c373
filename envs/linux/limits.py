# SPDX-License-Identifier: BSD-3-Clause
"""Hosts' limits as rates that the kernel paces by, corrected by what hosts really sent.

A connection is paced at its share of its host's rate, by a timer that was armed at its earlier share. Its first packets
are not paced at all, and a share that a connection leaves is passed on some milliseconds later. A host therefore sends
some percent more or less than it may. The bytes that it was allowed and has not sent are added up as *due* (negative if
it has sent too much), and the rate that is written is

    limit + due / HORIZON_S, at most `trim_frac` above the limit, and `BELOW` times that below it.

`due` counts only while the host has payload waiting and a finite limit. It is bounded by what the correction makes good
in MEMORY_S: a host that was held back by its transport, not by its limit, may exceed the limit by `trim_frac` for about
MEMORY_S afterwards. A host that has nothing waiting when a period ends has nothing due to it; an excess is made up for
while it is silent. Lifting the limit ends both.

The correction is off unless `trim_frac` is set, because it is right only for hosts that send smoothly and only send.
All packets of the host's port count as sent, so that its ACKs for received data are subtracted from its payload. Where
one packet is larger than the bound (MEMORY_S of `trim_frac` of a small rate), the bound is tighter above than below,
which shifts the mean.
"""

import numpy as np

from ncc.core.flows import FloatArray
from ncc.envs.linux import layout
from ncc.envs.linux.extension import extension
from ncc.envs.linux.shim import RATE_MAX, Shim

HORIZON_S = 0.01
"""Time in which small amounts due are made good: some RTTs, so that the kernel has obeyed before the next change."""
MEMORY_S = 0.02
BELOW = 3.0
"""Factor of `trim_frac` below the limit: a flow of some twenty packets has sent half of them before it is paced, which
leaves little time for the rest."""


class Limits:
    """Limits of the first `n` hosts of a shim.

    Args:
        trim_frac: fraction by which rates may be above limits, 0 to 0.3.
    """

    def __init__(self, shim: Shim, n: int, trim_frac: float) -> None:
        hosts, fields = shim.hosts, layout.HOST.fields
        assert fields is not None
        self._steering = extension().Steering(
            hosts=hosts.view(np.uint8).reshape(len(hosts), hosts.itemsize),
            rate_at=int(fields["rate_bytes_per_s"][1]),
            decision_at=int(fields["decision"][1]),
            n=n,
            most=RATE_MAX,
            horizon_s=HORIZON_S,
            memory_s=MEMORY_S,
            below=BELOW,
            trim_frac=trim_frac,
        )

    def put(
        self, limits_bps: FloatArray, *, decided: bool, interval_s: float, sent_bps: FloatArray, waiting: FloatArray
    ) -> None:
        """Write rates for the next period; all arrays have shape [n].

        Args:
            limits_bps: > 0, inf: no limit.
            decided: True for a new decision, which the kernel's reports then name.
            interval_s: length of the last period, in which the limits of the last call held.
            sent_bps: rate of the IP packets that each host sent in that period.
            waiting: payload that each host has waiting, in bytes.
        """
        self._steering.steer(limits_bps, decided, interval_s, sent_bps, waiting)
