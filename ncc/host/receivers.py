# SPDX-License-Identifier: BSD-3-Clause
"""Grants between real hosts: flows of this host wait for their receivers, and it grants starts itself (docs/host).

Once a period, an agent sends each receiver a summary of its host's live flows to that receiver, if the summary has
changed. It also applies the grants of receivers. The data of a waiting flow stays in the socket
(envs/linux/bpf/shim_gate.h). The agent wakes the flow at the start of the period that is nearest to its granted start.
As a receiver, the agent grants starts to the senders of flows to its host, by the same rule as in simulators
(`ncc.harness.receivers.ReceiverRule`).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ncc.core.flows import BoolArray, FloatArray, IntArray
from ncc.core.measurement import idle
from ncc.core.receivers import NO_EDGES, Edges
from ncc.core.scenario import Scenario
from ncc.core.topologies import ManyToOne
from ncc.core.units import BITS_PER_BYTE, NS_PER_S, to_ns
from ncc.core.workload import Fixed, Flow
from ncc.envs.linux.extension import LIVE_COLUMNS
from ncc.envs.linux.gates import FULL_FRAC
from ncc.envs.linux.layout import ADDRESS, address_bytes
from ncc.envs.linux.shim import Shim
from ncc.envs.linux.wake import FIELDS, Waker
from ncc.harness.receivers import Admission, ReceiverRule
from ncc.host.exchange import Exchange
from ncc.host.listener import Inbox
from ncc.host.message import FLOWS, GRANT, START_MOST_S, Kind, StateArray
from ncc.host.peers import Peer

AHEAD_FRAC, WINDOW_FRAC, FLOOR_FRAC, HEADROOM_FRAC = 0.25, 0.5, 0.1, 0.03
"""Parameters of `ncc.harness.receivers.ReceiverRule` on hosts."""
TOLERANCE_PERIODS = 0.5
"""Change of a start time, in periods, above which it is granted again: flows begin only at starts of periods."""
FORGET_PERIODS = 20
"""Periods after which a receiver forgets the flows of a silent sender."""
PATIENCE_PERIODS = 4
"""Periods for which a flow waits for its first grant. Four steps take up to a period each: its agent sees the flow, the
receiver learns of it, the receiver decides, and the grant arrives."""
SILENT_PERIODS = 2
"""Periods without a message about a receiver's state after which no flow waits for this receiver any more."""
ANSWER_FRAC = 0.6
"""Share of the port's buffer that may lie ahead of a flow that begins without a grant, as in the controller `ncc`."""
LEARN_PERIODS = 3
"""Periods from the beginning of a flow until its sender has its receiver's decision about it. Three steps take
up to a period each: its agent sees the flow, the receiver learns of it, and the receiver's state arrives."""
FRESH_PERIODS = 1.25
"""Largest age in periods of a receiver's state by which new flows begin at once. A state comes once per period, so an
older one shows that the next was lost."""
REPEAT_PERIODS = FORGET_PERIODS // 4
"""Periods after which an unchanged summary of flows is sent again, because a message may be lost."""
AT_ONCE_NS = 1
"""Granted start of a flow that may begin now: a time in the past. The kernel takes 0 for no start."""
_SLOT, _GENERATION, _LEFT, _UNSENT, _DELIVERED = (
    LIVE_COLUMNS.index(name) for name in ("slot", "generation", "left_bytes", "unsent_bytes", "delivered_bytes")
)


def receiver_scenario(n_peers: int, link_bps: float, buffer_bytes: int, period_s: float) -> Scenario:
    """Return a scenario of one receiver and `n_peers` possible senders.

    Args:
        n_peers: number of senders.
        link_bps: rate in bits/s of the switch's port to the receiver, and of all links.
        buffer_bytes: buffer of that port.
        period_s: period of the agents in seconds.
    """
    nothing = Fixed(flows=(Flow(start_s=0.0, src="s0", dst="receiver", size_bytes=1),))
    topology = ManyToOne(
        senders=n_peers,
        rate_bps=link_bps,
        buffer_bytes=buffer_bytes,
        mark_threshold_bytes=min(30_000, buffer_bytes),
    )
    return Scenario(
        name="receiver",
        topology=topology,
        workload=(("nothing", nothing),),
        duration_s=max(1.0, period_s),
        period_s=period_s,
        neighbourhoods="receivers",
    )


class Granter:
    """The receiver rule for this host: it decides the grants to the senders of flows to it.

    Args:
        scenario: scenario made by `receiver_scenario`.
        peers: possible senders, in the order of the inbox's rows.

    Attributes:
        at_once: whether new flows to this host may begin at once, as of the last `decide` (`Admission`).
    """

    def __init__(self, scenario: Scenario, peers: tuple[Peer, ...]) -> None:
        network = scenario.network()
        self._node: IntArray = np.array(network.group("senders"), np.int64)
        (self._own,) = network.group("receiver")
        self._row = {node: row for row, node in enumerate(self._node.tolist())}
        self._rule = ReceiverRule(
            ahead_frac=AHEAD_FRAC,
            window_frac=WINDOW_FRAC,
            floor_frac=FLOOR_FRAC,
            headroom_frac=HEADROOM_FRAC,
            tolerance_s=TOLERANCE_PERIODS * scenario.period_s,
            order="remaining",
        )
        self._rule.reset(scenario, 0)
        self._admission = Admission(scenario, ANSWER_FRAC, delay_periods=LEARN_PERIODS)
        self.at_once = False
        self._measurement = idle(scenario.n_agents, 1)
        self._mss_bytes = scenario.transport.mss_bytes
        self._forget_ns = to_ns(FORGET_PERIODS * scenario.period_s)
        self._peer_id = np.array([peer.id for peer in peers], np.uint64)
        self._known: BoolArray = np.zeros(len(peers), np.bool_)
        self._begun = np.zeros(len(peers), np.uint32)
        self._news_ns: IntArray = np.zeros(len(peers), np.int64)

    @property
    def senders(self) -> int:
        """Number of hosts that have reported live flows to this host."""
        return int(np.count_nonzero(self._known))

    def decide(self, inbox: Inbox, now_ns: int) -> tuple[list[int], StateArray]:
        """Return the rows of the peers that get a new grant, and these grants: [n] rows of `GRANT`."""
        flows = inbox.flows
        recent = (inbox.flows_ns > 0) & (now_ns - inbox.flows_ns <= self._forget_ns)
        known = recent & (flows["flows"] > 0)
        if not (known.any() or self._known.any()):
            self.at_once = self._may_at_once(NO_EDGES)
            return [], np.zeros(0, GRANT)
        newer = known & (~self._known | (flows["begun"] != self._begun))
        self._news_ns[newer] = now_ns
        self._known, self._begun = known, flows["begun"].copy()
        rows = np.flatnonzero(known)
        vars(self._measurement)["edges"] = edges = Edges(
            src=self._node[rows],
            dst=np.full(len(rows), self._own, np.int64),
            flows=flows["flows"][rows].astype(np.int64),
            waiting_bytes=flows["waiting_bytes"][rows],
            next_bytes=flows["next_bytes"][rows],
            received_bytes=flows["received_bytes"][rows],
            age_s=(now_ns - self._news_ns[rows]) / NS_PER_S,
        )
        self.at_once = self._may_at_once(edges)
        now_s = now_ns / NS_PER_S
        vars(self._measurement)["time_s"] = now_s
        decided = self._rule.grants(self._measurement)
        to = [self._row[node] for node in decided.src.tolist()]
        grants = np.zeros(len(to), GRANT)
        grants["receiver"], grants["begun"] = self._peer_id[to], self._begun[to]
        grants["senders"], grants["waiting_bytes"] = len(rows), _total(flows["waiting_bytes"][rows])
        grants["start_s"] = np.clip(decided.start_s - now_s, 0.0, START_MOST_S)
        grants["window_bytes"], grants["rate_bps"] = decided.window_pkts * self._mss_bytes, decided.rate_bps
        return to, grants

    def _may_at_once(self, edges: Edges) -> bool:
        return bool(self._admission.at_once(edges)[self._own])


def _total(payload_bytes: FloatArray) -> float:
    return min(float(payload_bytes.sum()), 2.0**60)


class Receivers:
    """The flows of this host to its peers, and this host as the receiver of their flows.

    Args:
        scenario: scenario made by `receiver_scenario`.
        exchange: exchange with the peers.
        peers: receivers of this host's flows and senders of flows to it, in the order of the inbox.
        shim: shim that holds the waiting flows.
        waker: waker of these flows.

    Attributes:
        counters: numbers of messages to receivers (`flows`) and to senders (`grants`); of flows that were woken
            (`woken`), and of those of them that had no grant (`unanswered`); and of times that a receiver fell silent
            (`silent`).
        held: number of waiting flows.
    """

    def __init__(self, scenario: Scenario, exchange: Exchange, peers: Sequence[Peer], shim: Shim, waker: Waker) -> None:
        self._exchange, self._shim, self._waker, self._peers = exchange, shim, waker, tuple(peers)
        self._granter = Granter(scenario, self._peers)
        self._period_ns = to_ns(scenario.period_s)
        network = scenario.network()
        self._full_bps = FULL_FRAC * network.host_link(network.hosts[0]).rate_bps
        self.counters = dict.fromkeys(("flows", "grants", "woken", "unanswered", "silent"), 0)
        self.held = 0
        n, slots = len(peers), len(shim.reports)
        addresses = np.array([address_bytes(peer.address.host) for peer in peers], ADDRESS)
        self._order = np.argsort(addresses)
        self._addresses = addresses[self._order]
        # By slot: whether a flow is live; the connection's generation; the flow's number (as in FLOWS `begun`); the
        # bytes that the connection delivered before this flow; and the time at which the flow was first seen.
        self._live, self._generation = np.zeros(slots, np.bool_), np.zeros(slots, np.int64)
        self._flow_number, self._base_bytes = np.zeros(slots, np.uint32), np.zeros(slots, np.int64)
        self._seen_ns: IntArray = np.zeros(slots, np.int64)
        self._now: StateArray = np.zeros(n, FLOWS)
        self._sent: StateArray = np.zeros(n, FLOWS)
        self._now["receiver"] = self._sent["receiver"] = [peer.id for peer in peers]
        self._sent_ns: IntArray = np.zeros(n, np.int64)
        self._alive: BoolArray = np.zeros(n, np.bool_)
        self._waits: BoolArray = np.zeros(n, np.bool_)
        self._slots = self._rows = np.zeros(0, np.int64)
        shim.hosts["named_only"][0] = 1
        shim.hosts["patience_ns"][0] = PATIENCE_PERIODS * self._period_ns

    def summary(self) -> dict[str, int]:
        """Return the counters, the number of waiting flows, and the number of hosts with flows to this host."""
        return {**self.counters, "held": self.held, "senders": self._granter.senders}

    def measure(self, live: IntArray, now_ns: int) -> None:
        """Note the live flows. A flow begins when its connection has data to send, and ends when all is acknowledged.

        Args:
            live: a column for each live connection, with the rows `LIVE_COLUMNS`.
            now_ns: monotonic time.
        """
        slots = live[_SLOT]
        address = self._shim.reports["peer"][slots]
        at = np.minimum(np.searchsorted(self._addresses, address), len(self._addresses) - 1)
        waiting = np.maximum(live[_UNSENT] + live[_LEFT] - live[_DELIVERED], 0)
        lives = (self._addresses[at] == address) & (waiting > 0)
        slots, waiting, row, delivered = slots[lives], waiting[lives], self._order[at[lives]], live[_DELIVERED][lives]
        generation = live[_GENERATION][lives]
        new = ~self._live[slots] | (self._generation[slots] != generation)
        np.add.at(self._now["begun"], row[new], 1)
        self._flow_number[slots[new]] = self._now["begun"][row[new]]
        self._base_bytes[slots[new]], self._seen_ns[slots[new]] = delivered[new], now_ns
        self._live[:] = False
        self._live[slots], self._generation[slots] = True, generation
        n = len(self._now)
        self._now["flows"] = np.bincount(row, minlength=n)
        self._now["waiting_bytes"] = np.bincount(row, waiting, minlength=n)
        self._now["received_bytes"] = np.bincount(row, delivered - self._base_bytes[slots], minlength=n)
        least = np.full(n, np.inf)
        np.minimum.at(least, row, waiting)
        self._now["next_bytes"] = np.where(np.isinf(least), 0, least)
        self._slots, self._rows = slots, row

    def put(self, now_ns: int) -> None:
        """Apply the receivers' grants and states, and wake the flows that may begin."""
        inbox = self._exchange.inbox
        age_ns = now_ns - inbox.states_ns
        alive = (inbox.states_ns > 0) & (age_ns <= SILENT_PERIODS * self._period_ns)
        self.counters["silent"] += int(np.count_nonzero(self._alive & ~alive))
        fresh = age_ns <= FRESH_PERIODS * self._period_ns
        self._let(alive, alive & ~(fresh & (inbox.states["at_once"] != 0)), now_ns)

    def lift(self, now_ns: int) -> None:
        """Let all waiting flows begin, and make no flow wait until the next `put`."""
        none = np.zeros(len(self._peers), np.bool_)
        self._let(none, none, now_ns)

    def share(self, now_ns: int) -> bool:
        """Send receivers the summaries of this host's flows that have changed, and send senders their new grants.

        Returns:
            True if new flows to this host may begin at once.
        """
        old = (self._now["flows"] > 0) & (now_ns - self._sent_ns >= REPEAT_PERIODS * self._period_ns)
        for row in np.flatnonzero((self._now != self._sent) | old).tolist():
            self._exchange.tell(Kind.FLOWS, row, self._now[row].tobytes(), now_ns)
            self._sent[row], self._sent_ns[row] = self._now[row], now_ns
            self.counters["flows"] += 1
        rows, grants = self._granter.decide(self._exchange.inbox, now_ns)
        for row, grant in zip(rows, grants, strict=True):
            self._exchange.tell(Kind.GRANT, row, grant.tobytes(), now_ns)
        self.counters["grants"] += len(rows)
        return self._granter.at_once

    def _let(self, alive: BoolArray, waits: BoolArray, now_ns: int) -> None:
        """Write the kernel's decisions for live flows and wake those that may begin.

        Args:
            alive: [n_peers] true for receivers whose grants count; flows to the others may begin at once.
            waits: [n_peers] true for receivers for whose grants new flows wait.
            now_ns: monotonic time.
        """
        for row in np.flatnonzero(waits != self._waits).tolist():
            self._shim.wait_for(self._peers[row].address.host, waits=bool(waits[row]))
        self._alive, self._waits = alive, waits
        slots, rows, inbox = self._slots, self._rows, self._exchange.inbox
        reports, decisions = self._shim.reports, self._shim.decisions
        held = reports["held"][slots] != 0
        self.held = int(np.count_nonzero(held))
        if not len(slots):
            return
        due_ns = now_ns + self._period_ns // 2
        granted = alive[rows] & (inbox.grants_ns[rows] > 0) & _covers(inbox, rows, self._flow_number[slots])
        start_ns = inbox.grants_ns[rows] + np.rint(inbox.grants["start_s"][rows] * NS_PER_S).astype(np.int64)
        start_ns = np.minimum(start_ns, self._seen_ns[slots] + to_ns(START_MOST_S))  # however often it is put off
        patience_ns = self._seen_ns[slots] + (PATIENCE_PERIODS - 1) * self._period_ns
        may = np.where(granted, start_ns, patience_ns) <= due_ns
        may |= ~granted & ~waits[rows]  # also if the receiver is silent
        # A flow that has begun needs no start, and its connection's next flow must not inherit one.
        decisions["start_ns"][slots] = np.where(held, np.where(may, AT_ONCE_NS, np.where(granted, start_ns, 0)), 0)
        decisions["most_bytes"][slots] = np.where(granted, inbox.grants["window_bytes"][rows], 0)
        decisions["rate_bytes_per_s"][slots] = np.where(granted, self._shares(inbox.grants["rate_bps"], reports), 0)
        decisions["generation"][slots] = self._generation[slots]
        for slot, row, answered in zip(
            slots[held & may].tolist(), rows[held & may].tolist(), granted[held & may].tolist(), strict=True
        ):
            report = reports[slot]
            self._waker.wake(
                address_bytes(self._peers[row].address.host),
                **{name: int(report[name]) for name in FIELDS},
            )
            self.counters["woken"] += 1
            self.counters["unanswered"] += not answered

    def _shares(self, rate_bps: FloatArray, reports: Any) -> FloatArray:
        """Return each live flow's share of the rate that its receiver grants this host, in bytes/s of payload.

        A share of 0 means no limit. A rate of almost the whole link is none (`FULL_FRAC`).
        """
        slots, rows = self._slots, self._rows
        mss_bytes = reports["mss_bytes"][slots].astype(np.float64)
        payload = mss_bytes / np.maximum(mss_bytes + reports["header_bytes"][slots], 1)
        share = rate_bps[rows] / self._now["flows"][rows] / BITS_PER_BYTE * payload
        return np.where(rate_bps[rows] >= self._full_bps, 0, np.clip(share, 1, 2.0**40))


def _covers(inbox: Inbox, rows: IntArray, number: Any) -> BoolArray:
    """Return a mask of the flows that their receivers knew when they sent their grants; numbers are modulo 2^32."""
    since: BoolArray = (inbox.grants["begun"][rows] - number).astype(np.int32) >= 0
    return since
