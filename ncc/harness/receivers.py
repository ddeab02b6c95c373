# SPDX-License-Identifier: BSD-3-Clause
"""The rule of receivers: each tells its senders when to start, so that the payload on its way fits its down port.

It is a `RateLimiter` without limits: its decisions are messages (`ncc.core.receivers`).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.flows import BoolArray, FloatArray, IntArray
from ncc.core.measurement import Measurement
from ncc.core.receivers import Decision, Edges, Grants, parts
from ncc.core.scenario import Scenario
from ncc.core.units import BITS_PER_BYTE
from ncc.harness.limiter import RateLimiter

AHEAD_FRAC, WINDOW_FRAC, FLOOR_FRAC = 0.6, 1 / 3, 0.03
"""Defaults of the rule. What lies ahead and a window leave some of the buffer to flows that wait for nobody."""
BEHIND_BYTES = 100_000
"""Without sizes, flows that have received more go behind those that have not."""


@dataclass(frozen=True)
class Chosen:
    """Parameters of the rule for each edge, [E], instead of its own."""

    ahead_frac: FloatArray
    window_frac: FloatArray
    floor_frac: FloatArray
    wait_s: FloatArray
    """Least time from hearing of a flow to its start."""


@dataclass(frozen=True)
class _Told:
    """The last word to each edge of the last epoch, in the order of their keys."""

    key: IntArray
    start_s: FloatArray
    rate_bps: FloatArray
    window_pkts: FloatArray
    at_s: FloatArray
    received_bytes: FloatArray
    """At the last epoch, whether something was told then or not."""


_NONE, _NO_REAL = np.zeros(0, np.int64), np.zeros(0)
_NOTHING_TOLD = _Told(_NONE, *[_NO_REAL] * 5)
_NO_GRANTS = Grants(_NONE, _NONE, _NO_REAL, _NO_REAL, _NONE)


class ReceiverRule:
    """Start times by the work that lies ahead.

    A receiver orders the flows to it and tells each the time at which all but `ahead_frac` of its port's buffer of the
    payload before it has come at (1 - headroom_frac) of the port's rate. Flows that have begun send at that rate if at
    most so much and a period's worth lies ahead, else at `floor_frac` of the port's. Alone, a flow has no limit. A
    message goes to an edge for which something has changed: a new flow, a start moved by more than `tolerance_s`,
    another rate. It is repeated to the edge whose turn it is while less comes than at half the rate: the message that
    let it go may be lost.

    Args:
        ahead_frac: A, the payload that may lie ahead of a flow that starts, as a share of the buffer.
        window_frac: most bytes of a flow without an ACK, as a share of the buffer. A and it must fit the buffer.
        floor_frac: share of the port's rate that a flow keeps which has begun and is overtaken.
        headroom_frac: share of the port's rate that is left free.
        tolerance_s: seconds.
        order: by the payload that is missing, or by arrival, with flows beyond `BEHIND_BYTES` last.
    """

    def __init__(
        self,
        *,
        ahead_frac: float,
        window_frac: float,
        floor_frac: float,
        headroom_frac: float,
        tolerance_s: float,
        order: Literal["remaining", "arrival"],
    ) -> None:
        if ahead_frac + window_frac > 1:
            raise ConfigError(
                f"controller.limit.ahead_frac and window_frac must be at most 1 together, or what is on its way does "
                f"not fit the buffer, got {ahead_frac} and {window_frac}"
            )
        self._ahead, self._window, self._floor = ahead_frac, window_frac, floor_frac
        self._use, self._tolerance_s, self._order = 1 - headroom_frac, tolerance_s, order

    def reset(self, scenario: Scenario, seed: int) -> None:
        if not scenario.has_receivers:
            raise ConfigError(
                "the rule of receivers needs them: set Scenario.neighbourhoods to receivers or both, got "
                f"{scenario.neighbourhoods}"
            )
        network, transport = scenario.network(), scenario.transport
        self._n_nodes, self._period_s = len(network.nodes), scenario.period_s
        self._mss_bytes, self._extra_bytes = (
            transport.mss_bytes,
            transport.mtu_bytes - transport.mss_bytes + transport.frame_overhead_bytes,
        )
        self._mtu_bytes = transport.mtu_bytes
        self._rate_bps, self._buffer_bytes = np.zeros(self._n_nodes), np.zeros(self._n_nodes)
        for host in network.hosts:
            port = network.down_port(host)
            self._rate_bps[host] = self._use * network.port_rate_bps(port)
            self._buffer_bytes[host] = network.reach_bytes(port)
        self._limits = np.full(scenario.n_agents, np.inf)
        self._told = _NOTHING_TOLD

    def decide(self, measurement: Measurement, chosen: Chosen | None = None) -> Decision:
        edges = measurement.edges
        if chosen is None:
            own = (self._ahead, self._window, self._floor, 0.0)
            chosen = Chosen(*(np.full(len(edges), parameter) for parameter in own))
        return Decision(self._limits, self._grants(edges, measurement.time_s, chosen))

    def _grants(self, edges: Edges, now_s: float, chosen: Chosen) -> Grants:
        if len(edges) == 0:
            self._told = _NOTHING_TOLD
            return _NO_GRANTS
        key = edges.src * self._n_nodes + edges.dst
        by_key = np.argsort(key)
        old, known = self._before(key)
        newer = ~known | (edges.age_s < now_s - old.at_s - 1e-12)
        begun = known & ~newer & (old.start_s <= now_s)
        ahead_bytes = self.ahead_of(edges)
        capacity_bps, buffer_bytes = self._rate_bps[edges.dst], self._buffer_bytes[edges.dst]
        spare_bytes = chosen.ahead_frac * buffer_bytes
        start_s = np.maximum(now_s, now_s + (ahead_bytes - spare_bytes) * BITS_PER_BYTE / capacity_bps)
        start_s = np.maximum(start_s, now_s - edges.age_s + chosen.wait_s)
        start_s = np.where(begun, old.start_s, start_s)
        soon = ahead_bytes <= spare_bytes + capacity_bps * self._period_s / BITS_PER_BYTE
        sending = begun | (edges.received_bytes > 0)
        flows = np.bincount(edges.dst, edges.flows, minlength=self._n_nodes)[edges.dst]
        rate_bps = np.where(sending & ~soon, chosen.floor_frac / self._use, 1.0) * capacity_bps
        rate_bps[flows <= 1] = np.inf
        window_pkts = np.maximum(np.floor(chosen.window_frac * buffer_bytes / self._mtu_bytes), 1)
        window_pkts[flows <= 1] = 0
        moved = ~begun & (np.abs(start_s - old.start_s) > self._tolerance_s)
        tell = newer | moved | (rate_bps != old.rate_bps) | (window_pkts != old.window_pkts)
        came_bytes = edges.received_bytes - old.received_bytes
        tell |= (ahead_bytes == 0) & (came_bytes < capacity_bps * self._period_s / BITS_PER_BYTE / 2)
        self._told = _Told(
            key[by_key],
            np.where(tell, start_s, old.start_s)[by_key],
            np.where(tell, rate_bps, old.rate_bps)[by_key],
            np.where(tell, window_pkts, old.window_pkts)[by_key],
            np.where(tell, now_s, old.at_s)[by_key],
            edges.received_bytes[by_key],
        )
        return Grants(
            src=edges.src[tell],
            dst=edges.dst[tell],
            start_s=start_s[tell],
            rate_bps=rate_bps[tell],
            window_pkts=window_pkts[tell].astype(np.int64),
        )

    def _before(self, key: IntArray) -> tuple[_Told, BoolArray]:
        """The last words to edges, and whether there were any; the rows of others are zeros."""
        told = self._told
        if len(told.key) == 0:
            nothing = np.zeros(len(key))
            return _Told(key, *[nothing] * 5), np.zeros(len(key), np.bool_)
        row = np.minimum(np.searchsorted(told.key, key), len(told.key) - 1)
        known = told.key[row] == key
        columns = (told.start_s, told.rate_bps, told.window_pkts, told.at_s, told.received_bytes)
        found = (np.where(known, column[row], 0.0) for column in columns)
        return _Told(key, *found), known

    def ahead_of(self, edges: Edges) -> FloatArray:
        """Bytes on the wire that go before the first flow of each edge, whatever the order of the rows.

        The flow of an edge that has least left goes first, and the rest of the edge counts as another. Of equals the
        older goes first.
        """
        n = len(edges)
        rest = edges.waiting_bytes - edges.next_bytes
        work = np.concatenate([self._on_wire(edges.next_bytes), self._on_wire(rest)])
        dst = np.concatenate([edges.dst, edges.dst])
        src, older = np.concatenate([edges.src] * 2), np.concatenate([-edges.age_s] * 2)
        is_rest = np.arange(2 * n) >= n
        if self._order == "remaining":
            first = np.concatenate([edges.next_bytes, rest / np.maximum(edges.flows - 1, 1)])
            turn = np.lexsort((src, older, is_rest, first, dst))
        else:
            behind = np.concatenate([edges.received_bytes > BEHIND_BYTES * edges.flows] * 2)
            turn = np.lexsort((src, is_rest, older, behind, dst))
        before = np.cumsum(work[turn]) - work[turn]
        sorted_dst = dst[turn]
        begins = np.concatenate([[True], sorted_dst[1:] != sorted_dst[:-1]])[: len(turn)]
        base = np.maximum.accumulate(np.where(begins, before, 0.0)) if len(turn) else before
        ahead = np.empty(2 * n)
        ahead[turn] = before - base
        return ahead[:n]

    def _on_wire(self, payload_bytes: FloatArray) -> FloatArray:
        packets: FloatArray = np.ceil(payload_bytes / self._mss_bytes)
        return payload_bytes + self._extra_bytes * packets


class WithReceivers:
    """A limiter of hosts at their uplink, and the rule of receivers beside it."""

    def __init__(self, limiter: RateLimiter, rule: ReceiverRule) -> None:
        self._limiter, self._rule = limiter, rule

    def reset(self, scenario: Scenario, seed: int) -> None:
        """Prepare both.

        Raises:
            ConfigError: the scenario has no neighbourhoods of both kinds.
        """
        if scenario.neighbourhoods != "both":
            raise ConfigError(
                "limits at the uplink and the rule of receivers together need Scenario.neighbourhoods both, got "
                f"{scenario.neighbourhoods}"
            )
        self._limiter.reset(scenario, seed)
        self._rule.reset(scenario, seed)

    def decide(self, measurement: Measurement) -> Decision:
        """Return the limits of the one and the messages of the other."""
        limits_bps, _ = parts(self._limiter.decide(measurement))
        return Decision(limits_bps, self._rule.decide(measurement).grants)
