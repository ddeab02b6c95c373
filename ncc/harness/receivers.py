# SPDX-License-Identifier: BSD-3-Clause
"""The receiver rule: each receiver grants its senders start times, so that the bytes in flight fit its down port.

The down port is the switch's port to the receiver. The rule is a `RateLimiter` without limits: its decisions are grants
(`ncc.core.receivers`). A *pair* is a sender and a receiver with flows from the one to the other; `edges` holds all
pairs, one per row.
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
"""Defaults of `ReceiverRule`. The first two leave a part of the buffer to flows that need no grant."""
FULL_FRAC, FULL_GAIN = 0.8, 0.25
"""Arrival rate from which a port counts as full, as a share of the rate that the rule uses of it; and weight of the
last period in the moving average of the arrival rate."""
SETTLED_PERIODS = 3
"""Periods after a pair's start time. From then on, its arrival rate shows whether something else limits the pair."""
BEHIND_BYTES = 100_000
"""Arrived payload per flow beyond which a pair goes behind the others, with the order `arrival`."""
CROWD = 32
"""Number of hosts that share a receiver's port above which limits by a formula only delay them (docs/receivers.md)."""


@dataclass(frozen=True)
class _LastGrants:
    """The newest grant to each pair that had flows at the end of the last period; rows are sorted by `key`."""

    key: IntArray
    """Number of the pair: src * number of nodes + dst."""
    start_s: FloatArray
    rate_bps: FloatArray
    window_pkts: FloatArray
    at_s: FloatArray
    """Time at which the grant was decided; it may be several periods ago."""
    received_bytes: FloatArray
    """`Edges.received_bytes` at the end of the last period, whenever the grant was decided."""
    waiting_bytes: FloatArray
    """`Edges.waiting_bytes` at the end of the last period."""


_NONE, _NO_REAL = np.zeros(0, np.int64), np.zeros(0)
_NO_LAST_GRANTS = _LastGrants(_NONE, *[_NO_REAL] * 6)
_NO_GRANTS = Grants(_NONE, _NONE, _NO_REAL, _NO_REAL, _NONE)


class ReceiverRule:
    """A rule by which receivers grant start times, from the bytes that lie ahead of a flow (`ahead_of`).

    A receiver puts the flows to it in order and uses (1 - headroom_frac) of its port's rate. It allows A bytes ahead of
    a flow that starts: the share `ahead_frac` of the port's buffer. If more bytes are ahead, the flow starts when the
    excess has arrived at the used rate. A flow that has started sends at the used rate if no more is ahead of it than A
    and the bytes that arrive until the next grant. Otherwise it sends at `floor_frac` of the port's rate. The only flow
    to a receiver has no limit.

    A pair gets a grant only if something has changed: it has a new flow, its start time moved by more than
    `tolerance_s`, or its rate or window is another. The first pair in order gets its grant again while it brings less
    than half of the used rate, because the grant that released it may be lost.

    No flow waits for flows that cannot fill the port: it also starts if the pairs ahead of it claim less than the used
    rate together. A pair claims its link's rate. While arrivals are below `FULL_FRAC` of the used rate, a pair that has
    sent for `SETTLED_PERIODS` claims only what its arrival rate suggests (`ncc.harness.oracles.claims`), because
    something else limits it: an uplink, a limit of its own, or its transport.

    Args:
        ahead_frac: A as a share of the buffer.
        window_frac: most bytes of a flow without an ACK, as a share of the buffer; `ahead_frac` + `window_frac` <= 1.
        floor_frac: share of the port's rate that a flow keeps if it has started and others have overtaken it.
        headroom_frac: share of the port's rate that is left free.
        tolerance_s: change of a start time, in seconds, above which a new grant is sent.
        order: ``remaining``: the flow with the least payload left is first; ``arrival``: the oldest is first, and pairs
            of which more than `BEHIND_BYTES` per flow have arrived are last.
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
        self._next_grant_s = word_s(scenario)
        self._rate_bps, self._buffer_bytes = np.zeros(self._n_nodes), np.zeros(self._n_nodes)
        self._link_bps, self._arrival_bps = np.zeros(self._n_nodes), np.zeros(self._n_nodes)
        for host in network.hosts:
            port = network.down_port(host)
            self._link_bps[host] = network.host_link(host).rate_bps
            self._rate_bps[host] = self._use * network.port_rate_bps(port)
            self._buffer_bytes[host] = network.reach_bytes(port)
        self._limits = np.full(scenario.n_agents, np.inf)
        self._last_grants = _NO_LAST_GRANTS

    def decide(self, measurement: Measurement) -> Decision:
        return Decision(self._limits, self._grants(measurement.edges, measurement.time_s))

    def _grants(self, edges: Edges, now_s: float) -> Grants:
        key = edges.src * self._n_nodes + edges.dst
        old, known = self._last_grants_to(key)
        arrived_bytes = np.where(known, _arrived(edges, old), edges.received_bytes)
        self._follow(edges, key, arrived_bytes)
        if len(edges) == 0:
            self._last_grants = _NO_LAST_GRANTS
            return _NO_GRANTS
        by_key = np.argsort(key)
        newer = ~known | (edges.age_s < now_s - old.at_s - 1e-12)
        begun = known & ~newer & (old.start_s <= now_s)
        ahead_bytes = self.ahead_of(edges)
        capacity_bps, buffer_bytes = self._rate_bps[edges.dst], self._buffer_bytes[edges.dst]
        spare_bytes = self._ahead * buffer_bytes
        settled = begun & (old.start_s < now_s - SETTLED_PERIODS * self._period_s)
        room = self._claimed_ahead(edges, ahead_bytes, settled, old.rate_bps, arrived_bytes) < capacity_bps
        wait_bytes = np.where(room, 0.0, np.maximum(ahead_bytes - spare_bytes, 0.0))
        start_s = now_s + wait_bytes * BITS_PER_BYTE / capacity_bps
        start_s = np.where(begun, old.start_s, start_s)
        soon = room | (ahead_bytes <= spare_bytes + capacity_bps * self._next_grant_s / BITS_PER_BYTE)
        sending = begun | (edges.received_bytes > 0)
        flows = np.bincount(edges.dst, edges.flows, minlength=self._n_nodes)[edges.dst]
        rate_bps = np.where(sending & ~soon, self._floor / self._use, 1.0) * capacity_bps
        rate_bps[flows <= 1] = np.inf
        window_pkts = np.maximum(np.floor(self._window * buffer_bytes / self._mtu_bytes), 1)
        window_pkts[flows <= 1] = 0
        moved = ~begun & (np.abs(start_s - old.start_s) > self._tolerance_s)
        tell = newer | moved | (rate_bps != old.rate_bps) | (window_pkts != old.window_pkts)
        tell |= (ahead_bytes == 0) & (arrived_bytes < capacity_bps * self._period_s / BITS_PER_BYTE / 2)
        self._last_grants = _LastGrants(
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

    def _last_grants_to(self, key: IntArray) -> tuple[_LastGrants, BoolArray]:
        """Return the newest grants to these pairs [E], and a mask [E] of the pairs that had one; other rows are 0."""
        last = self._last_grants
        if len(last.key) == 0:
            nothing = np.zeros(len(key))
            return _LastGrants(key, *[nothing] * 6), np.zeros(len(key), np.bool_)
        row = np.minimum(np.searchsorted(last.key, key), len(last.key) - 1)
        known = last.key[row] == key
        columns = (getattr(last, name) for name in _LastGrants.__dataclass_fields__ if name != "key")
        return _LastGrants(key, *(np.where(known, column[row], 0.0) for column in columns)), known

    def _follow(self, edges: Edges, key: IntArray, arrived_bytes: FloatArray) -> None:
        """Update the average arrival rate of each port. When a pair's last flow ends, its missing payload arrived."""
        last, n = self._last_grants, self._n_nodes
        over = ~np.isin(last.key, key)
        dst = np.concatenate([edges.dst, last.key[over] % n])
        all_bytes = np.bincount(dst, np.concatenate([arrived_bytes, last.waiting_bytes[over]]), n).astype(np.float64)
        self._arrival_bps += FULL_GAIN * (self._bps(all_bytes) - self._arrival_bps)

    def _claimed_ahead(
        self,
        edges: Edges,
        ahead_bytes: FloatArray,
        settled: BoolArray,
        granted_bps: FloatArray,
        arrived_bytes: FloatArray,
    ) -> FloatArray:
        """Return [E] the rate in bits/s that all pairs ahead of each pair may bring to the receiver's port."""
        link_bps = np.minimum(self._link_bps[edges.src], self._rate_bps[edges.dst])
        full = self._arrival_bps >= FULL_FRAC * self._rate_bps
        held_back = settled & ~full[edges.dst]
        claimed_bps = np.where(held_back, claims(self._bps(arrived_bytes), granted_bps, link_bps), link_bps)
        return _before_each(claimed_bps, edges.dst, np.lexsort((edges.src, ahead_bytes, edges.dst)))

    def _bps(self, payload_bytes: FloatArray) -> FloatArray:
        """Return the rate on the wire, in bits/s, of payload that arrived within one period."""
        on_wire = (self._mss_bytes + self._extra_bytes) / self._mss_bytes
        return payload_bytes * (on_wire * BITS_PER_BYTE / self._period_s)

    def ahead_of(self, edges: Edges) -> FloatArray:
        """Return, for each pair [E], how many bytes to the same receiver go before the pair's first flow.

        Bytes are those on the wire. A pair counts as two flows: the one with the least payload left, and all its others
        taken together, which have their mean payload left. With the order `remaining`, the flow with the least payload
        left goes first. Among equals, pairs' first flows go before the others, then older pairs go first. With the
        order `arrival`, the oldest pair goes first, and pairs of which more than `BEHIND_BYTES` per flow have arrived
        go last. The age of a pair is that of its newest flow. The order of the rows has no influence.
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
    """Return the longest time in seconds from now until the grants that are decided next leave their receivers."""
    return scenario.period_s * (scenario.sharing_delay_periods + scenario.sharing_unsynchronised)


def _arrived(edges: Edges, before: _LastGrants) -> FloatArray:
    """Return [E] the payload of each pair that arrived in the last period.

    If a flow has ended, `received_bytes` lacks it now. If one has started, `waiting_bytes` has it in addition. So the
    larger of the two changes counts.
    """
    received, missing = edges.received_bytes - before.received_bytes, before.waiting_bytes - edges.waiting_bytes
    return np.maximum(np.maximum(received, missing), 0.0)


def _before_each(values: FloatArray, dst: IntArray, turn: IntArray) -> FloatArray:
    """Return, for each value, the sum of the values before it that have the same destination.

    Args:
        values: one value per row.
        dst: destination of each row.
        turn: indices of the rows in order, sorted by destination first.
    """
    before = np.cumsum(values[turn]) - values[turn]
    sorted_dst = dst[turn]
    begins = np.concatenate([[True], sorted_dst[1:] != sorted_dst[:-1]])[: len(turn)]
    base = np.maximum.accumulate(np.where(begins, before, 0.0)) if len(turn) else before
    sums = np.empty(len(turn))
    sums[turn] = before - base
    return sums


def without_held(measurement: Measurement) -> Measurement:
    """Return a measurement in which a host counts as idle if all its queued flows are held by their receivers."""
    waits = (measurement.held_flows > 0) & (measurement.held_flows >= measurement.queued_flows)
    if not waits.any():
        return measurement
    names = ("wait_s", "queued_bytes", "next_bytes", "queued_flows")
    idle: dict[str, Any] = {name: np.where(waits, 0, getattr(measurement, name)) for name in names}
    return replace(measurement, **idle)


class WithReceivers:
    """A limiter of hosts at their uplink, combined with the receiver rule.

    A host obeys both: it starts when its receiver allows it, and sends at the lower of the two rates. Neither counts
    traffic that the other holds back: a host whose flows all wait for receivers counts as idle at its uplink
    (`without_held`), and receivers hold flows only while their port is full (`ReceiverRule`).

    Grants may come too late to help: the port may carry more than its queue can hold before a grant arrives and takes
    effect, or grants may get lost. A receiver with such a port sends no grants, provided that all flows to it get a
    start time by SYN-ACK.

    The port that a neighbourhood shares may be a receiver's own port. Then both the limiter and the receiver steer the
    hosts. The receiver decides alone, and the hosts have no limit, in two cases: a period carries more than the port's
    queue can hold, or the receiver sends grants and more than `CROWD` hosts share the port. With `counts_held` it never
    decides alone.

    Args:
        limiter: limiter of hosts at their uplink.
        rule: the receiver rule.
        counts_held: true for a limiter that lets hosts send one after the other, in an order in which hosts should keep
            their place while their flows are held. It then counts held flows, unless the scenario loses messages: hosts
            would then wait for hosts that wait themselves.
        answered: true if SYN-ACKs carry start times (`HostStack.answer_frac`).
    """

    def __init__(
        self, limiter: RateLimiter, rule: ReceiverRule, *, counts_held: bool = False, answered: bool = False
    ) -> None:
        self._limiter, self._rule, self._counts_held, self._answered = limiter, rule, counts_held, answered

    def reset(self, scenario: Scenario, seed: int) -> None:
        """Prepare the limiter and the rule for a scenario of both kinds of neighbourhoods (`Controller.placed`)."""
        self._limiter.reset(scenario, seed)
        self._rule.reset(scenario, seed)
        self._masks_held = not self._counts_held or scenario.sharing_loss_frac > 0
        network, transport = scenario.network(), scenario.transport
        down = {host: network.down_port(host) for host in network.hosts}
        self._granting = np.ones(len(network.nodes), np.bool_)
        if self._answered and transport.handshake and not transport.connections_per_pair:
            for host, port in down.items():
                acted_s = word_s(scenario) + _turn_s(scenario, host)
                self._granting[host] = not (scenario.sharing_loss_frac > 0 or _overflows(network, port, acted_s))
        grants_at = {port: bool(self._granting[host]) for host, port in down.items()}
        alone = [
            not self._counts_held
            and area.uplink_port in grants_at
            and (
                (grants_at[area.uplink_port] and len(area.hosts) > CROWD)
                or _overflows(network, area.uplink_port, scenario.period_s)
            )
            for area in network.neighbourhoods
        ]
        self._receiver_alone = np.array(alone, np.bool_)[list(network.agent_area)]

    def decide(self, measurement: Measurement) -> Decision:
        """Return the limits of the limiter, inf where the receiver decides alone, and the grants of the rule."""
        seen = without_held(measurement) if self._masks_held else measurement
        limits_bps, _ = parts(self._limiter.decide(seen))
        grants = self._rule.decide(measurement).grants
        return Decision(np.where(self._receiver_alone, np.inf, limits_bps), grants.where(self._granting[grants.dst]))


def _turn_s(scenario: Scenario, host: int) -> float:
    """Return the RTT in seconds of a full packet, without queues, between hosts at one switch with such links."""
    link, transport = scenario.network().host_link(host), scenario.transport
    on_wire_bytes = transport.mtu_bytes + HEADER_BYTES + 2 * transport.frame_overhead_bytes
    return 2 * (2 * link.delay_s + BITS_PER_BYTE * on_wire_bytes / link.rate_bps)


def _overflows(network: Topology, port: int, time_s: float) -> bool:
    """Return True if a port carries more bytes in this time than its queue can hold."""
    return network.reach_bytes(port) * BITS_PER_BYTE < network.port_rate_bps(port) * time_s
