# SPDX-License-Identifier: BSD-3-Clause
"""SICC's speed control (Wang, PhD thesis 2021, section 3.1.2): receivers set the speeds of hubs.

Receivers send speeds as grants (`ncc.core.receivers.Grants`). `ncc.core.swarms` plans the hubs.
"""

import numpy as np

from ncc.core.flows import BoolArray, FloatArray, IntArray
from ncc.core.measurement import Measurement
from ncc.core.receivers import Decision, Grants
from ncc.core.scenario import Scenario
from ncc.core.units import BITS_PER_BYTE

LEAST_FRAC = 0.01
"""Least speed of a hub, as a share of an even one, since a grant's rate must be above 0. It is ours."""
MOVED_FRAC = 0.01
"""Relative change of a speed above which it is sent."""


class HubSpeeds:
    """The rule by which receivers set the speeds of those that send to them; the period is the thesis' slot.

    A receiver is a front end, or a hub to which other hubs send; H are the hosts of which it gets more than a packet.
    It plans to receive at B_p, at first the share `use_frac` of its line. In each slot the queue q of the port into its
    rack, with the buffer S_a, and the rate B_a at which payload came decide

        B_p = B_p (1 - beta q / S_a)            if q / S_a >= T   (eq. 3.5)
        B_p = min(use_frac line, B_p + alpha B_a)   otherwise     (eq. 3.6)

    Speeds b change in proportion. With a new hub, all have b = B_p / |H| (eq. 3.2). In other slots, with the rate r at
    which a hub's payload came,

        b += sum over H_u of (b - r) / |H_o|    for H_o: r > full_frac b    (eq. 3.3)
        b = r                                   for H_u: r < full_frac b    (eq. 3.4)

    Three things are ours. Hubs that have sent all leave their speeds to H_o. Without H_o all speeds stay as they are.
    And a hub counts to H_o from `full_frac` on, as one that keeps its speed never has r > b.

    Args:
        use_frac: share of the line that may be used.
        full_frac: share of its speed from which on a hub could use more.
        threshold_frac: T.
        cut_frac: beta.
        rise_frac: alpha.
    """

    def __init__(
        self, *, use_frac: float, full_frac: float, threshold_frac: float, cut_frac: float, rise_frac: float
    ) -> None:
        self._use, self._full = use_frac, full_frac
        self._threshold, self._cut, self._rise = threshold_frac, cut_frac, rise_frac

    def reset(self, scenario: Scenario, seed: int) -> None:
        network, transport = scenario.network(), scenario.transport
        self._n, self._mss_bytes = len(network.nodes), transport.mss_bytes
        # Payload of a slot, to the rate of IP packets that are full.
        self._to_bps = BITS_PER_BYTE * transport.mtu_bytes / transport.mss_bytes / scenario.period_s
        self._limits = np.full(scenario.n_agents, np.inf)
        self._line_bps, self._area = np.zeros(self._n), np.full(self._n, len(network.neighbourhoods))
        for host in network.hosts:
            self._line_bps[host] = self._use * network.port_rate_bps(network.down_port(host))
        self._area[list(network.agent_hosts)] = network.agent_area
        into = [area.uplink_port ^ 1 for area in network.neighbourhoods]
        self._buffer_bytes = np.array(
            [np.inf if network.port_buffer(port) is None else network.reach_bytes(port) for port in into]
        )
        self._plan_bps = self._line_bps.copy()
        self._key, self._speed_bps, self._received = np.zeros(0, np.int64), np.zeros(0), np.zeros(0)

    def decide(self, measurement: Measurement) -> Decision:
        edges = measurement.edges
        long = np.flatnonzero(edges.waiting_bytes + edges.received_bytes > edges.flows * self._mss_bytes)
        key = edges.dst[long] * self._n + edges.src[long]
        long, key = long[np.argsort(key, kind="stable")], np.sort(key)
        old_bps, before, known = self._known(key)
        received = edges.received_bytes[long]
        came_bps = np.maximum(received - before, 0.0) * self._to_bps
        dst = key // self._n
        hubs: IntArray = np.bincount(dst, minlength=self._n)
        plan_bps = self._planned(dst, came_bps, measurement.queues.into_bytes)
        ratio = np.divide(plan_bps, self._plan_bps, out=np.ones(self._n), where=self._plan_bps > 0)
        speed_bps = self._shared(dst, old_bps * ratio[dst], came_bps, plan_bps=plan_bps, hubs=hubs, known=known)
        moved = ~known | (np.abs(speed_bps - old_bps) > MOVED_FRAC * old_bps)
        self._key, self._speed_bps, self._received, self._plan_bps = key, speed_bps, received, plan_bps
        grants = Grants(
            src=key[moved] % self._n,
            dst=dst[moved],
            start_s=np.full(int(moved.sum()), measurement.time_s),
            rate_bps=speed_bps[moved],
            window_pkts=np.zeros(int(moved.sum()), np.int64),
        )
        return Decision(self._limits, grants)

    def _known(self, key: IntArray) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Return speeds and received bytes as of the last slot, and a mask of the pairs that have them."""
        at = np.minimum(np.searchsorted(self._key, key), max(len(self._key) - 1, 0))
        known = self._key[at] == key if len(self._key) else np.zeros(len(key), np.bool_)
        columns = self._speed_bps, self._received
        speed_bps, received = (np.where(known, c[at], 0.0) if len(c) else np.zeros(len(key)) for c in columns)
        return speed_bps, received, known

    def _planned(self, dst: IntArray, came_bps: FloatArray, queues_bytes: FloatArray) -> FloatArray:
        """Return B_p of each node (eq. 3.5 and 3.6), by what came from each hub; that of a node without hubs stays."""
        all_bps = np.bincount(dst, came_bps, self._n)
        receives = np.bincount(dst, minlength=self._n) > 0
        full = np.append(queues_bytes / self._buffer_bytes if len(queues_bytes) else 0 * self._buffer_bytes, 0.0)
        full = full[self._area]
        lower = self._plan_bps * (1 - self._cut * full)
        higher = np.minimum(self._line_bps, self._plan_bps + self._rise * all_bps)
        return np.where(receives, np.where(full >= self._threshold, lower, higher), self._plan_bps)

    def _shared(
        self,
        dst: IntArray,
        speed_bps: FloatArray,
        came_bps: FloatArray,
        *,
        plan_bps: FloatArray,
        hubs: IntArray,
        known: BoolArray,
    ) -> FloatArray:
        """Return the speeds of hubs (eq. 3.2 to 3.4)."""
        even_bps = plan_bps[dst] / np.maximum(hubs[dst], 1)
        anew = np.bincount(dst, ~known, self._n)[dst] > 0
        over, under = came_bps > self._full * speed_bps, came_bps < self._full * speed_bps
        n_over = np.bincount(dst, over, self._n)
        left_bps = np.maximum(plan_bps - np.bincount(dst, speed_bps, self._n), 0.0)
        left_bps += np.bincount(dst, np.where(under, speed_bps - came_bps, 0.0), self._n)
        more_bps = left_bps / np.maximum(n_over, 1)
        changed = np.where(over, speed_bps + more_bps[dst], np.where(under, came_bps, speed_bps))
        kept = np.where(n_over[dst] > 0, changed, speed_bps)
        return np.maximum(np.where(anew, even_bps, kept), LEAST_FRAC * even_bps)
