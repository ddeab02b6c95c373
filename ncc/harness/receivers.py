# SPDX-License-Identifier: BSD-3-Clause
"""The receiver rule: each receiver grants its senders start times, so that the bytes in flight fit its down port.

The down port is the switch's port to the receiver. The rule is a `RateLimiter` without limits: its decisions are grants
(`ncc.core.receivers`). A *pair* is a sender and a receiver with flows from the one to the other; `edges` holds all
pairs, one per row.
"""

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from ncc.core.extras import load_extension
from ncc.core.flows import BoolArray
from ncc.core.measurement import Measurement
from ncc.core.receivers import Decision, Edges, Grants, parts
from ncc.core.scenario import Scenario
from ncc.core.topology import Topology
from ncc.core.units import BITS_PER_BYTE, HEADER_BYTES
from ncc.harness.limiter import RateLimiter
from ncc.harness.oracles import LOCAL_MODULE

AHEAD_FRAC, WINDOW_FRAC, FLOOR_FRAC = 0.6, 1 / 3, 0.03
"""Defaults of `ReceiverRule`. The first two leave a part of the buffer to flows that need no grant."""
FULL_FRAC, FULL_GAIN = 0.8, 0.25
"""Arrival rate from which a port counts as full, as a share of the rate that the rule uses of it; and weight of the
last period in the moving average of the arrival rate."""
SETTLED_PERIODS = 3
"""Periods after a pair's start time. From then on, its arrival rate shows whether something else limits the pair."""
BEHIND_BYTES = 100_000
"""Arrived payload per flow beyond which a pair goes behind the others, with the order `arrival`."""
FADE = 0.99999
"""Factor by which a receiver's memory of its largest burst shrinks each period: to a half in 69,000 periods."""
DEEP_PERIODS = 4
"""Buffer of a receiver's port, in periods at its rate, from which the receiver alone says when flows begin. Flows of a
pair begin together, and a shallower buffer does not hold the first packets of many."""
CROWD = 32
"""Number of hosts that share a receiver's port above which limits by a formula only delay them (docs/receivers.md)."""


class ReceiverRule:
    """A rule by which receivers grant start times, from the bytes that lie ahead of a flow. receivers.h computes it.

    A receiver puts the flows to it in order and uses (1 - headroom_frac) of its port's rate. It allows A bytes ahead of
    a flow that starts: the share `ahead_frac` of the port's buffer. If more bytes are ahead, the flow starts when the
    excess has arrived at the used rate. A flow that has started sends at the used rate if the bytes ahead of it are at
    most A plus the bytes that arrive until the next grant. Otherwise it sends at `floor_frac` of the port's rate. The
    only flow to a receiver has no limit.

    Bytes ahead are those on the wire. A pair counts as two flows: the one with the least payload left, and all its
    others taken together, which are placed by their mean payload left. Of equal flows, a single flow goes before
    flows taken together; then the flow of the older pair, in steps of ten periods; then that of the next host after the
    receiver by number, or all receivers of a shuffle would take the same sender first. The age of a pair is that of its
    newest flow.

    A pair gets a grant only if something has changed: it has a new flow, its start time moved by more than
    `tolerance_s`, or its rate or window is another. The first pair in order gets its grant again while it brings less
    than half of the used rate, because the grant that released it may be lost.

    No flow waits for flows that cannot fill the port: it also starts if the pairs ahead of it claim less than the used
    rate together. A pair claims its link's rate. While arrivals are below `FULL_FRAC` of the used rate, a pair that has
    sent for `SETTLED_PERIODS` claims only what its arrival rate suggests (`Claim` in native/local.h), because
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
        self._constants: dict[str, Any] = {
            "ahead_frac": ahead_frac,
            "window_frac": window_frac,
            "floor_frac": floor_frac,
            "headroom_frac": headroom_frac,
            "tolerance_s": tolerance_s,
            "by_arrival": order == "arrival",
            "full_frac": FULL_FRAC,
            "full_gain": FULL_GAIN,
            "settled_periods": SETTLED_PERIODS,
            "behind_bytes": BEHIND_BYTES,
        }

    def reset(self, scenario: Scenario, seed: int) -> None:
        network, transport = scenario.network(), scenario.transport
        link_bps, rate_bps, buffer_bytes = ([0.0] * len(network.nodes) for _ in range(3))
        for host in network.hosts:
            port = network.down_port(host)
            link_bps[host], rate_bps[host] = network.host_link(host).rate_bps, network.port_rate_bps(port)
            buffer_bytes[host] = float(network.reach_bytes(port))
        self._limits = np.full(scenario.n_agents, np.inf)
        self._rule = load_extension(LOCAL_MODULE).ReceiverRule(
            {
                **self._constants,
                "period_s": scenario.period_s,
                "next_grant_s": grant_delay_s(scenario),
                "mss_bytes": transport.mss_bytes,
                "extra_bytes": transport.mtu_bytes - transport.mss_bytes + transport.frame_overhead_bytes,
                "mtu_bytes": transport.mtu_bytes,
                "link_bps": link_bps,
                "rate_bps": rate_bps,
                "buffer_bytes": buffer_bytes,
            }
        )

    def decide(self, measurement: Measurement) -> Decision:
        return Decision(self._limits, self.grants(measurement))

    def grants(self, measurement: Measurement) -> Grants:
        """Return the grants of a period."""
        edges = measurement.edges
        pairs = (edges.src, edges.dst, edges.flows, edges.waiting_bytes, edges.next_bytes, edges.received_bytes)
        src, dst, start_s, rate_bps, window_pkts = self._rule.decide(*pairs, edges.age_s, measurement.time_s)
        return Grants(
            src=np.array(src, np.int64),
            dst=np.array(dst, np.int64),
            start_s=np.array(start_s, np.float64),
            rate_bps=np.array(rate_bps, np.float64),
            window_pkts=np.array(window_pkts, np.int64),
        )


class Admission:
    """Decisions of receivers on new flows: may they begin at once, without a grant?

    A SYN-ACK that carries a start (`HostStack.answer_frac`) answers one flow. Where SYN-ACKs carry none, a receiver
    lets new flows begin at once in a period if and only if

        missing + burst * first window <= answer_frac * buffer

    `missing` is the missing payload of all flows that the receiver knows. It knows neither number nor sizes of the new
    flows, so it expects as many as in the largest burst so far (at first, one of each other host), each with a first
    window. The memory of a burst fades (`FADE`).

    Args:
        scenario: scenario with receivers.
        answer_frac: share of the buffer of a receiver's port that may lie ahead of a flow that begins at once.
        delay_periods: periods from the beginning of a flow until senders have a decision that takes it into account.
    """

    def __init__(self, scenario: Scenario, answer_frac: float, *, delay_periods: int = 1) -> None:
        network, transport = scenario.network(), scenario.transport
        n = len(network.nodes)
        self._new_s = scenario.period_s / 2
        self._first_bytes = transport.initial_window_pkts * transport.mss_bytes
        self._room_bytes = np.full(n, np.inf)
        for host in network.hosts:
            self._room_bytes[host] = answer_frac * network.reach_bytes(network.down_port(host))
        self._flows, self._keys = np.zeros(n * n, np.int64), np.zeros(0, np.int64)
        self._recent, self._turn = np.zeros((delay_periods, n)), 0
        self._burst = np.full(n, float(len(network.hosts) - 1))

    def at_once(self, edges: Edges) -> BoolArray:
        """Return for each node [n_nodes] whether new flows to it may begin at once; call this once per period."""
        n = len(self._burst)
        key = edges.src * n + edges.dst
        grown = np.maximum(edges.flows - self._flows[key], 1)
        self._recent[self._turn] = np.bincount(edges.dst, np.where(edges.age_s < self._new_s, grown, 0), n)
        self._turn = (self._turn + 1) % len(self._recent)
        self._burst = np.maximum(FADE * self._burst, self._recent.sum(axis=0))
        self._flows[self._keys] = 0
        self._flows[key], self._keys = edges.flows, key
        missing_bytes = np.bincount(edges.dst, edges.waiting_bytes, n)
        may: BoolArray = missing_bytes + self._burst * self._first_bytes <= self._room_bytes
        return may


def grant_delay_s(scenario: Scenario) -> float:
    """Return the longest time in seconds from now until the grants that are decided next leave their receivers."""
    return scenario.period_s * (scenario.sharing_delay_periods + scenario.sharing_unsynchronised)


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

    With `counts_held`, the receiver alone says when flows begin if its port's buffer is `DEEP_PERIODS` or more. An idle
    host has no limit then, nor has a host in its first busy period: such a limiter holds hosts back until neighbours
    know of their flows, and would delay flows that the receiver has let begin.

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
                acted_s = grant_delay_s(scenario) + turn_s(scenario, host)
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
        starts = [
            self._counts_held
            and area.uplink_port in grants_at
            and not _overflows(network, area.uplink_port, DEEP_PERIODS * scenario.period_s)
            for area in network.neighbourhoods
        ]
        self._receiver_alone, self._receiver_starts = np.array([alone, starts], np.bool_)[:, list(network.agent_area)]
        self._was_idle = np.ones(scenario.n_agents, np.bool_)

    def decide(self, measurement: Measurement) -> Decision:
        """Return the limits of the limiter, inf where only the receiver decides, and the grants of the rule."""
        seen = without_held(measurement) if self._masks_held else measurement
        limits_bps, _ = parts(self._limiter.decide(seen))
        grants = self._rule.grants(measurement)
        idle = measurement.queued_flows == 0
        free = self._receiver_alone | (self._receiver_starts & (idle | self._was_idle))
        self._was_idle = idle
        return Decision(np.where(free, np.inf, limits_bps), grants.where(self._granting[grants.dst]))


def turn_s(scenario: Scenario, host: int) -> float:
    """Return the RTT in seconds of a full packet, without queues, between hosts at one switch with such links."""
    link, transport = scenario.network().host_link(host), scenario.transport
    on_wire_bytes = transport.mtu_bytes + HEADER_BYTES + 2 * transport.frame_overhead_bytes
    return 2 * (2 * link.delay_s + BITS_PER_BYTE * on_wire_bytes / link.rate_bps)


def _overflows(network: Topology, port: int, time_s: float) -> bool:
    """Return True if a port carries more bytes in this time than its queue can hold."""
    return network.reach_bytes(port) * BITS_PER_BYTE < network.port_rate_bps(port) * time_s
