# SPDX-License-Identifier: BSD-3-Clause
"""Hosts' limits as rates that the kernel paces by, corrected by what came of them.

A connection is paced at its share of its host's rate, by a timer that was armed at the share it had; its first packets
are not paced at all; and shares are passed on some milliseconds after they are left. So a host sends some percent more
or less than it may. What it was allowed and has not sent is therefore added up, as bytes that are *due* (below 0: it
has sent too much), and the rate that is written is

    limit + due / HORIZON_S, at most `trim_frac` above the limit, and `BELOW` times that below it.

`due` counts only while the host has payload waiting and a finite limit, and no more is remembered than that correction
makes good in MEMORY_S: who was held back by its transport, not by its limit, may exceed it by `trim_frac` for about
MEMORY_S afterwards. A host that has nothing waiting when a period ends has nothing due to it; what it has sent too
much, its silence makes good. A limit that is lifted ends both.

This is off unless `trim_frac` is set, for it holds where hosts send smoothly and only send. What counts as sent is all
packets of the host's port, so that a host's ACKs for what it receives are taken from its payload; and where a packet
is more than what is remembered (MEMORY_S of `trim_frac` of a small rate), remembering less above than below shifts the
mean.
"""

import numpy as np

from ncc.core.flows import FloatArray
from ncc.envs.linux import layout
from ncc.envs.linux.extension import extension
from ncc.envs.linux.shim import RATE_MAX, Shim

HORIZON_S = 0.01
"""In which what is due is made good where it is little: some RTTs, so that the kernel has obeyed before it is asked for
more."""
MEMORY_S = 0.02
BELOW = 3.0
"""A flow of some twenty packets has sent half of them before it is paced: there is little time for the rest."""


class Limits:
    """Of the first `n` hosts of a shim.

    Args:
        trim_frac: how far rates may be above limits, 0 to 0.3 of them.
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
            decided: whether they are a new decision, which the kernel's reports then name.
            interval_s: how long the last period was, in which the limits of the last call held.
            sent_bps: what each host sent in it, IP packets.
            waiting: payload that waits, in bytes.
        """
        self._steering.steer(limits_bps, decided, interval_s, sent_bps, waiting)
