# SPDX-License-Identifier: BSD-3-Clause
"""The rule of receivers: each tells its senders when to start, so that the payload on its way fits its down port.

It is a `RateLimiter` without limits: its decisions are messages (`ncc.core.receivers`).
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.flows import BoolArray, FloatArray, IntArray
from ncc.core.measurement import Measurement
from ncc.core.receivers import Decision, Edges, Grants, parts
from ncc.core.scenario import Scenario
from ncc.core.topology import Topology
from ncc.core.units import BITS_PER_BYTE, HEADER_BYTES
from ncc.harness.limiter import RateLimiter
from ncc.harness.oracles import claims

AHEAD_FRAC, WINDOW_FRAC, FLOOR_FRAC = 0.6, 1 / 3, 0.03
"""Defaults of the rule. What lies ahead and a window leave some of the buffer to flows that wait for nobody."""
FULL_FRAC, FULL_GAIN = 0.8, 0.25
"""Share of its rate from which a port counts as full, and weight of a period in the average of what comes."""
SETTLED_PERIODS = 3
"""Periods after the start of a pair from which what it brings says what holds it back."""
BEHIND_BYTES = 100_000
"""Without sizes, flows that have received more go behind those that have not."""
CROWD = 32
"""Hosts at a receiver's port above which a formula beside the receiver only delays them (docs/receivers.md)."""


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
    waiting_bytes: FloatArray
    """The same."""


_NONE, _NO_REAL = np.zeros(0, np.int64), np.zeros(0)
_NOTHING_TOLD = _Told(_NONE, *[_NO_REAL] * 6)
_NO_GRANTS = Grants(_NONE, _NONE, _NO_REAL, _NO_REAL, _NONE)


class ReceiverRule:
    """Start times by the work that lies ahead.

    A receiver orders the flows to it and tells each the time at which all but `ahead_frac` of its port's buffer of the
    payload before it has come at (1 - headroom_frac) of the port's rate. Flows that have begun send at that rate if at
    most so much lies ahead and what comes until the next word is heard, else at `floor_frac` of the port's. Alone, a
    flow has no limit. A message goes to an edge for which something has changed: a new flow, a start moved by more than
    `tolerance_s`, another rate. It is repeated to the edge whose turn it is while less comes than at half the rate: the
    message that let it go may be lost.

    Nobody waits for flows that cannot fill the port. A flow begins, too, if those before it claim less than the port's
    rate: each its link's rate, and, while less than `FULL_FRAC` of the port is used, one that has been sending for
    `SETTLED_PERIODS` no more than what it brings lets expect (`ncc.harness.oracles.claims`). Something else holds it
    back then: an uplink, a limit of its own, or its transport.

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
        self._word_s = word_s(scenario)
        self._rate_bps, self._buffer_bytes = np.zeros(self._n_nodes), np.zeros(self._n_nodes)
        self._link_bps, self._came_bps = np.zeros(self._n_nodes), np.zeros(self._n_nodes)
        for host in network.hosts:
            port = network.down_port(host)
            self._link_bps[host] = network.host_link(host).rate_bps
            self._rate_bps[host] = self._use * network.port_rate_bps(port)
            self._buffer_bytes[host] = network.reach_bytes(port)
        self._limits = np.full(scenario.n_agents, np.inf)
        self._told = _NOTHING_TOLD

    def decide(self, measurement: Measurement) -> Decision:
        return Decision(self._limits, self._grants(measurement.edges, measurement.time_s))

    def _grants(self, edges: Edges, now_s: float) -> Grants:
        key = edges.src * self._n_nodes + edges.dst
        old, known = self._before(key)
        came_bytes = np.where(known, _came(edges, old), edges.received_bytes)
        self._follow(edges, key, came_bytes)
        if len(edges) == 0:
            self._told = _NOTHING_TOLD
            return _NO_GRANTS
        by_key = np.argsort(key)
        newer = ~known | (edges.age_s < now_s - old.at_s - 1e-12)
        begun = known & ~newer & (old.start_s <= now_s)
        ahead_bytes = self.ahead_of(edges)
        capacity_bps, buffer_bytes = self._rate_bps[edges.dst], self._buffer_bytes[edges.dst]
        spare_bytes = self._ahead * buffer_bytes
        settled = begun & (old.start_s < now_s - SETTLED_PERIODS * self._period_s)
        room = self._claimed_ahead(edges, ahead_bytes, settled, old.rate_bps, came_bytes) < capacity_bps
        wait_bytes = np.where(room, 0.0, np.maximum(ahead_bytes - spare_bytes, 0.0))
        start_s = now_s + wait_bytes * BITS_PER_BYTE / capacity_bps
        start_s = np.where(begun, old.start_s, start_s)
        soon = room | (ahead_bytes <= spare_bytes + capacity_bps * self._word_s / BITS_PER_BYTE)
        sending = begun | (edges.received_bytes > 0)
        flows = np.bincount(edges.dst, edges.flows, minlength=self._n_nodes)[edges.dst]
        rate_bps = np.where(sending & ~soon, self._floor / self._use, 1.0) * capacity_bps
        rate_bps[flows <= 1] = np.inf
        window_pkts = np.maximum(np.floor(self._window * buffer_bytes / self._mtu_bytes), 1)
        window_pkts[flows <= 1] = 0
        moved = ~begun & (np.abs(start_s - old.start_s) > self._tolerance_s)
        tell = newer | moved | (rate_bps != old.rate_bps) | (window_pkts != old.window_pkts)
        tell |= (ahead_bytes == 0) & (came_bytes < capacity_bps * self._period_s / BITS_PER_BYTE / 2)
        self._told = _Told(
            key[by_key],
            np.where(tell, start_s, old.start_s)[by_key],
            np.where(tell, rate_bps, old.rate_bps)[by_key],
            np.where(tell, window_pkts, old.window_pkts)[by_key],
            np.where(tell, now_s, old.at_s)[by_key],
            edges.received_bytes[by_key],
            edges.waiting_bytes[by_key],
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
            return _Told(key, *[nothing] * 6), np.zeros(len(key), np.bool_)
        row = np.minimum(np.searchsorted(told.key, key), len(told.key) - 1)
        known = told.key[row] == key
        columns = (getattr(told, name) for name in _Told.__dataclass_fields__ if name != "key")
        found = (np.where(known, column[row], 0.0) for column in columns)
        return _Told(key, *found), known

    def _follow(self, edges: Edges, key: IntArray, came_bytes: FloatArray) -> None:
        """Follow what comes at each port; of pairs whose flows are over, all that was missing has come."""
        told, n = self._told, self._n_nodes
        over = ~np.isin(told.key, key)
        dst = np.concatenate([edges.dst, told.key[over] % n])
        all_bytes = np.bincount(dst, np.concatenate([came_bytes, told.waiting_bytes[over]]), n).astype(np.float64)
        self._came_bps += FULL_GAIN * (self._bps(all_bytes) - self._came_bps)

    def _claimed_ahead(
        self,
        edges: Edges,
        ahead_bytes: FloatArray,
        settled: BoolArray,
        told_bps: FloatArray,
        came_bytes: FloatArray,
    ) -> FloatArray:
        """Rate in bits/s that the edges before each may bring to its port."""
        link_bps = np.minimum(self._link_bps[edges.src], self._rate_bps[edges.dst])
        full = self._came_bps >= FULL_FRAC * self._rate_bps
        held_back = settled & ~full[edges.dst]
        claimed_bps = np.where(held_back, claims(self._bps(came_bytes), told_bps, link_bps), link_bps)
        return _before_each(claimed_bps, edges.dst, np.lexsort((edges.src, ahead_bytes, edges.dst)))

    def _bps(self, payload_bytes: FloatArray) -> FloatArray:
        """Rate on the wire of payload that came in a period."""
        on_wire = (self._mss_bytes + self._extra_bytes) / self._mss_bytes
        return payload_bytes * (on_wire * BITS_PER_BYTE / self._period_s)

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
        return _before_each(work, dst, turn)[:n]

    def _on_wire(self, payload_bytes: FloatArray) -> FloatArray:
        packets: FloatArray = np.ceil(payload_bytes / self._mss_bytes)
        return payload_bytes + self._extra_bytes * packets


def word_s(scenario: Scenario) -> float:
    """Time until a word is heard that says what has come about now."""
    return scenario.period_s * (scenario.sharing_delay_periods + scenario.sharing_unsynchronised)


def _came(edges: Edges, before: _Told) -> FloatArray:
    """Payload that has come since the last epoch, also where a flow of a pair is over or another one has begun."""
    received, missing = edges.received_bytes - before.received_bytes, before.waiting_bytes - edges.waiting_bytes
    return np.maximum(np.maximum(received, missing), 0.0)


def _before_each(values: FloatArray, dst: IntArray, turn: IntArray) -> FloatArray:
    """Sum of the values with the same destination that go before each in this turn, which sorts by destination."""
    before = np.cumsum(values[turn]) - values[turn]
    sorted_dst = dst[turn]
    begins = np.concatenate([[True], sorted_dst[1:] != sorted_dst[:-1]])[: len(turn)]
    base = np.maximum.accumulate(np.where(begins, before, 0.0)) if len(turn) else before
    found = np.empty(len(turn))
    found[turn] = before - base
    return found


def without_held(measurement: Measurement) -> Measurement:
    """The measurement as if hosts had nothing queued all of whose queued flows are held by their receivers."""
    waits = (measurement.held_flows > 0) & (measurement.held_flows >= measurement.queued_flows)
    if not waits.any():
        return measurement
    names = ("wait_s", "queued_bytes", "next_bytes", "queued_flows")
    idle: dict[str, Any] = {name: np.where(waits, 0, getattr(measurement, name)) for name in names}
    return replace(measurement, **idle)


class WithReceivers:
    """A limiter of hosts at their uplink, and the rule of receivers beside it.

    A host obeys both. It begins when its receiver lets it, and sends at the lower of both rates. Neither counts what
    the other holds back: a host all of whose flows wait for their receivers counts as idle at its uplink
    (`without_held`), and receivers hold flows only while their port is full (`ReceiverRule`).

    A receiver's words may come too late: where its port carries more than it can hold until a word is heard and what
    it changes arrives, or where words get lost. Such a receiver says nothing, if flows learn by its SYN-ACKs when they
    may begin.

    Where the neighbours' port is that of a receiver, a formula limits the hosts beside it. The receiver alone decides
    where a period carries more than the port can hold, and where it speaks to more than `CROWD` hosts.

    Args:
        limiter: the limiter.
        rule: the rule.
        counts_held: the limiter lets hosts go one by one, in an order that should have held flows as well; it counts
            them, unless messages get lost: hosts would wait for others that wait themselves.
        answered: SYN-ACKs tell flows when they may begin (`HostStack.answer_frac`).
    """

    def __init__(
        self, limiter: RateLimiter, rule: ReceiverRule, *, counts_held: bool = False, answered: bool = False
    ) -> None:
        self._limiter, self._rule, self._counts_held, self._answered = limiter, rule, counts_held, answered

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
        self._masks_held = not self._counts_held or scenario.sharing_loss_frac > 0
        network, transport = scenario.network(), scenario.transport
        down = {host: network.down_port(host) for host in network.hosts}
        self._speaks = np.ones(len(network.nodes), np.bool_)
        if self._answered and transport.handshake and not transport.connections_per_pair:
            for host, port in down.items():
                acted_s = word_s(scenario) + _turn_s(scenario, host)
                self._speaks[host] = not (scenario.sharing_loss_frac > 0 or _overflows(network, port, acted_s))
        speaks_at = {port: bool(self._speaks[host]) for host, port in down.items()}
        alone = [
            not self._counts_held
            and area.uplink_port in speaks_at
            and (
                (speaks_at[area.uplink_port] and len(area.hosts) > CROWD)
                or _overflows(network, area.uplink_port, scenario.period_s)
            )
            for area in network.neighbourhoods
        ]
        self._receiver_alone = np.array(alone, np.bool_)[list(network.agent_area)]

    def decide(self, measurement: Measurement) -> Decision:
        """Return the limits of the one and the messages of the other."""
        seen = without_held(measurement) if self._masks_held else measurement
        limits_bps, _ = parts(self._limiter.decide(seen))
        grants = self._rule.decide(measurement).grants
        return Decision(np.where(self._receiver_alone, np.inf, limits_bps), grants.where(self._speaks[grants.dst]))


def _turn_s(scenario: Scenario, host: int) -> float:
    """RTT in an empty network of a full packet and its ACK, from a host with such a link at the same switch."""
    link, transport = scenario.network().host_link(host), scenario.transport
    on_wire_bytes = transport.mtu_bytes + HEADER_BYTES + 2 * transport.frame_overhead_bytes
    return 2 * (2 * link.delay_s + BITS_PER_BYTE * on_wire_bytes / link.rate_bps)


def _overflows(network: Topology, port: int, time_s: float) -> bool:
    """True if a port carries more in this time than its queue can hold."""
    return network.reach_bytes(port) * BITS_PER_BYTE < network.port_rate_bps(port) * time_s
