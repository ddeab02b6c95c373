# SPDX-License-Identifier: BSD-3-Clause
"""Grants of a receiver to the senders of its flows, by the same rule as in simulators."""

import numpy as np

from ncc.core.flows import BoolArray, FloatArray, IntArray
from ncc.core.measurement import idle
from ncc.core.receivers import Edges
from ncc.core.scenario import Scenario
from ncc.core.topologies import ManyToOne
from ncc.core.units import NS_PER_S, to_ns
from ncc.core.workload import Fixed, Flow
from ncc.harness.receivers import ReceiverRule
from ncc.host.listener import Inbox
from ncc.host.message import GRANT, START_MOST_S, StateArray
from ncc.host.peers import Peer

AHEAD_FRAC, WINDOW_FRAC, FLOOR_FRAC, HEADROOM_FRAC = 0.25, 0.5, 0.1, 0.03
"""Parameters of `ncc.harness.receivers.ReceiverRule`."""
TOLERANCE_PERIODS = 0.5
"""A start that moves by less is not granted again: flows begin only at starts of periods."""
FORGET_PERIODS = 20
"""Periods after which a receiver forgets the flows of a silent sender."""


def receiver_scenario(n_peers: int, link_bps: float, buffer_bytes: int, period_s: float) -> Scenario:
    """Return a scenario of one receiver and its possible senders, with a port of this rate and buffer before it."""
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
    """Decides the grants of this host to the senders of flows to it.

    Args:
        scenario: scenario made by `receiver_scenario`.
        peers: possible senders, in the order of the rows of an inbox.
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
        self._measurement = idle(scenario.n_agents, 1)
        self._mss_bytes = scenario.transport.mss_bytes
        self._forget_ns = to_ns(FORGET_PERIODS * scenario.period_s)
        self._peer_id = np.array([peer.id for peer in peers], np.uint64)
        self._known: BoolArray = np.zeros(len(peers), np.bool_)
        self._begun = np.zeros(len(peers), np.uint32)
        self._news_ns: IntArray = np.zeros(len(peers), np.int64)

    @property
    def senders(self) -> int:
        """Number of hosts that report live flows to this one."""
        return int(np.count_nonzero(self._known))

    def decide(self, inbox: Inbox, now_ns: int) -> tuple[list[int], StateArray]:
        """Return the rows of the peers with a new grant, and these grants: [n] of `GRANT`."""
        flows = inbox.flows
        recent = (inbox.flows_ns > 0) & (now_ns - inbox.flows_ns <= self._forget_ns)
        known = recent & (flows["flows"] > 0)
        if not (known.any() or self._known.any()):
            return [], np.zeros(0, GRANT)
        newer = known & (~self._known | (flows["begun"] != self._begun))
        self._news_ns[newer] = now_ns
        self._known, self._begun = known, flows["begun"].copy()
        rows = np.flatnonzero(known)
        vars(self._measurement)["edges"] = Edges(
            src=self._node[rows],
            dst=np.full(len(rows), self._own, np.int64),
            flows=flows["flows"][rows].astype(np.int64),
            waiting_bytes=flows["waiting_bytes"][rows],
            next_bytes=flows["next_bytes"][rows],
            received_bytes=flows["received_bytes"][rows],
            age_s=(now_ns - self._news_ns[rows]) / NS_PER_S,
        )
        now_s = now_ns / NS_PER_S
        vars(self._measurement)["time_s"] = now_s
        decided = self._rule.decide(self._measurement).grants
        to = [self._row[node] for node in decided.src.tolist()]
        grants = np.zeros(len(to), GRANT)
        grants["receiver"], grants["begun"] = self._peer_id[to], self._begun[to]
        grants["senders"], grants["waiting_bytes"] = len(rows), _total(flows["waiting_bytes"][rows])
        grants["start_s"] = np.clip(decided.start_s - now_s, 0.0, START_MOST_S)
        grants["window_bytes"], grants["rate_bps"] = decided.window_pkts * self._mss_bytes, decided.rate_bps
        return to, grants


def _total(payload_bytes: FloatArray) -> float:
    return min(float(payload_bytes.sum()), 2.0**60)
