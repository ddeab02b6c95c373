# SPDX-License-Identifier: BSD-3-Clause
"""ICTCP (Wu et al., CoNEXT 2010): a receiver sets the receive window of each connection, by what its link can take.

Receivers send windows as grants (`ncc.core.receivers.Grants`), not as fields of ACKs. The paper's text was not
at hand: constants and rules are from memory, by its sections.
"""

from dataclasses import dataclass

import numpy as np

from ncc.core.flows import BoolArray, FloatArray, IntArray
from ncc.core.measurement import Measurement
from ncc.core.receivers import MAX_WINDOW_PKTS, Decision, Grants
from ncc.core.scenario import Scenario
from ncc.core.units import BITS_PER_BYTE
from ncc.harness.receivers import turn_s

SHRINK_AFTER = 3
"""Slots in a row with a large gap after which a window shrinks (section 4.3)."""


@dataclass
class _Pairs:
    """Pairs of a receiver and a sender, in the order of `key`; columns have shape [n_pairs]."""

    key: IntArray
    window_pkts: IntArray
    received_bytes: FloatArray
    low_slots: IntArray
    doubles: BoolArray


class Ictcp:
    """The rule of ICTCP's receivers. A slot has two periods of the scenario; the period should be about an RTT.

    The first period of a slot measures: what of `use_frac` of the link's rate is free in it is the quota by which
    windows may grow in the second (section 4.1). There, b_m is the rate at which a connection's payload came, and

        b_e = max(b_m, window / RTT),   gap = (b_e - b_m) / b_e   (section 4.3)

    A window grows if gap <= max(`grow_gap_frac`, 1 / window): it doubles at first, and rises by one packet after the
    first time that the quota was too small for it. It falls by one packet after three slots with gap >
    `shrink_gap_frac`. If less than `fair_frac` of the rate is free, windows above the mean of their receiver fall by
    one packet (section 4.4). No window is below `least_pkts`, with which a connection begins.

    The flows of a pair of hosts have one window. A sender gets a grant when the window of its pair changes.

    Args:
        use_frac: share of the link's rate that may be used.
        grow_gap_frac: gap up to which a window may grow.
        shrink_gap_frac: gap above which a window may fall.
        fair_frac: free share of the rate below which large windows fall.
        least_pkts: least window in full packets.
        rtt_s: RTT without queues; None: that of a full packet between hosts at one switch.
    """

    def __init__(
        self,
        *,
        use_frac: float,
        grow_gap_frac: float,
        shrink_gap_frac: float,
        fair_frac: float,
        least_pkts: int,
        rtt_s: float | None,
    ) -> None:
        self._use, self._grow_gap, self._shrink_gap, self._fair = use_frac, grow_gap_frac, shrink_gap_frac, fair_frac
        self._least, self._rtt_s = least_pkts, rtt_s

    def reset(self, scenario: Scenario, seed: int) -> None:
        network = scenario.network()
        self._n = len(network.nodes)
        self._mss_bytes, self._period_s = scenario.transport.mss_bytes, scenario.period_s
        self._limits = np.full(scenario.n_agents, np.inf)
        self._line_bytes, self._rtt = np.zeros(self._n), np.ones(self._n)
        for host in network.hosts:
            rate_bps = network.port_rate_bps(network.down_port(host))
            self._line_bytes[host] = rate_bps * self._period_s / BITS_PER_BYTE
            self._rtt[host] = self._rtt_s or turn_s(scenario, host)
        self._forget()

    def _forget(self) -> None:
        none = np.zeros(0, np.int64)
        self._pairs = _Pairs(none, none, np.zeros(0), none, np.zeros(0, np.bool_))
        self._quota_bytes, self._grows = np.zeros(self._n), False

    def decide(self, measurement: Measurement) -> Decision:
        edges = measurement.edges
        if not len(edges):
            self._forget()
            return Decision(self._limits, _words(self._pairs.key, self._pairs.window_pkts, self._n, 0.0))
        order = np.argsort(edges.dst * self._n + edges.src, kind="stable")
        dst, flows, received = edges.dst[order], edges.flows[order], edges.received_bytes[order]
        pairs, known = self._known(edges.dst[order] * self._n + edges.src[order])
        before_pkts = np.where(known, pairs.window_pkts, 0)
        came_bytes = np.maximum(received - pairs.received_bytes, 0.0)
        pairs.received_bytes = received
        if self._grows:
            self._grow(pairs, dst, flows, came_bytes)
        else:
            self._measure(pairs, dst, came_bytes)
        self._pairs, self._grows = pairs, not self._grows
        changed = pairs.window_pkts != before_pkts
        return Decision(
            self._limits, _words(pairs.key[changed], pairs.window_pkts[changed], self._n, measurement.time_s)
        )

    def _known(self, key: IntArray) -> tuple[_Pairs, BoolArray]:
        """Return the state of these pairs, new ones at their beginning, and a mask of those that are not new."""
        old = self._pairs
        at = np.minimum(np.searchsorted(old.key, key), max(len(old.key) - 1, 0))
        known = old.key[at] == key if len(old.key) else np.zeros(len(key), np.bool_)

        def kept(column: np.ndarray, first: float) -> np.ndarray:
            return np.where(known, column[at], first) if len(column) else np.full(len(key), first)

        return _Pairs(
            key,
            kept(old.window_pkts, self._least).astype(np.int64),
            kept(old.received_bytes, 0.0),
            kept(old.low_slots, 0).astype(np.int64),
            kept(old.doubles, True).astype(np.bool_),
        ), known

    def _measure(self, pairs: _Pairs, dst: IntArray, came_bytes: FloatArray) -> None:
        """First period of a slot: set the quota, and take from large windows where little is free."""
        came = np.bincount(dst, came_bytes, minlength=self._n)
        self._quota_bytes = np.maximum(self._use * self._line_bytes - came, 0.0)
        scarce = self._quota_bytes < self._fair * self._line_bytes
        n = np.maximum(np.bincount(dst, minlength=self._n), 1)
        mean_pkts = np.bincount(dst, pairs.window_pkts, minlength=self._n) / n
        large = scarce[dst] & (pairs.window_pkts > mean_pkts[dst])
        pairs.window_pkts = np.maximum(pairs.window_pkts - large, self._least)

    def _grow(self, pairs: _Pairs, dst: IntArray, flows: IntArray, came_bytes: FloatArray) -> None:
        """Second period of a slot: let windows grow by the quota, or fall."""
        window_bytes = pairs.window_pkts * self._mss_bytes * flows
        measured = came_bytes / self._period_s
        expected = np.maximum(measured, window_bytes / self._rtt[dst])
        gap = 1 - measured / expected
        may_grow = gap <= np.maximum(self._grow_gap, 1 / pairs.window_pkts)
        by_pkts = np.where(pairs.doubles, pairs.window_pkts, 1)
        wanted = np.where(may_grow, by_pkts * self._mss_bytes * flows, 0)
        total = np.cumsum(wanted)
        first = np.searchsorted(dst, dst)  # rows of a receiver are together
        fits = total - (total - wanted)[first] <= self._quota_bytes[dst]
        pairs.low_slots = np.where(~may_grow & (gap > self._shrink_gap), pairs.low_slots + 1, 0)
        falls = pairs.low_slots >= SHRINK_AFTER
        pairs.low_slots[falls] = 0
        pairs.doubles &= ~((may_grow & ~fits) | falls)
        grown = pairs.window_pkts + np.where(may_grow & fits, by_pkts, 0) - falls
        pairs.window_pkts = np.clip(grown, self._least, MAX_WINDOW_PKTS)


def _words(key: IntArray, window_pkts: IntArray, n_nodes: int, time_s: float) -> Grants:
    """Return grants of windows alone, which hold no flow back."""
    n = len(key)
    return Grants(
        src=key % n_nodes,
        dst=key // n_nodes,
        start_s=np.full(n, time_s),
        rate_bps=np.full(n, np.inf),
        window_pkts=window_pkts,
    )
