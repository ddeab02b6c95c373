# SPDX-License-Identifier: BSD-3-Clause
"""Flows of this host that wait for their receivers, and this host as a receiver (docs/host).

Once a period an agent tells each receiver of its live flows to it, if anything changed, and does what receivers have
said. Data waits in the socket (envs/linux/bpf/shim_gate.h), and the agent wakes it at the beginning of the period that
is nearest to its start.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ncc.core.flows import BoolArray, FloatArray, IntArray
from ncc.core.scenario import Scenario
from ncc.core.units import BITS_PER_BYTE, NS_PER_S, to_ns
from ncc.envs.linux.extension import LIVE_COLUMNS
from ncc.envs.linux.shim import Shim
from ncc.envs.linux.wake import FIELDS, Waker
from ncc.host.exchange import Exchange
from ncc.host.grants import FORGET_PERIODS, Granter
from ncc.host.listener import Inbox
from ncc.host.message import FLOWS, START_MOST_S, Kind, StateArray
from ncc.host.peers import Peer

PATIENCE_PERIODS = 4
"""Periods for which a flow waits for a first word: one each until its agent sees it, the receiver hears of it, decides,
and is heard."""
SILENT_PERIODS = 2
"""Periods without a state of a receiver after which nothing waits for it any more."""
REPEAT_PERIODS = FORGET_PERIODS // 4
"""Periods after which flows of which nothing has changed are told again, as a message may be lost."""
AT_ONCE_NS = 1
_SLOT, _GENERATION, _LEFT, _UNSENT, _DELIVERED = (
    LIVE_COLUMNS.index(name) for name in ("slot", "generation", "left_bytes", "unsent_bytes", "delivered_bytes")
)


class Receivers:
    """The flows of this host to its peers, and this host as the receiver of theirs.

    Args:
        scenario: `ncc.host.grants.receiver_scenario`.
        exchange: with the peers.
        peers: hosts to which flows wait, and that tell of theirs, in the order of the inbox.
        shim: holds the flows.
        waker: wakes them.

    Attributes:
        counters: messages to receivers (`flows`) and to senders (`grants`); flows that were woken (`woken`), and of
            these those to which nothing was said (`unanswered`); receivers that fell silent (`silent`).
        held: number of flows that wait.
    """

    def __init__(self, scenario: Scenario, exchange: Exchange, peers: Sequence[Peer], shim: Shim, waker: Waker) -> None:
        self._exchange, self._shim, self._waker, self._peers = exchange, shim, waker, tuple(peers)
        self._granter = Granter(scenario, self._peers)
        self._period_ns = to_ns(scenario.period_s)
        self.counters = dict.fromkeys(("flows", "grants", "woken", "unanswered", "silent"), 0)
        self.held = 0
        n, slots = len(peers), len(shim.reports)
        addresses = np.array([peer.id >> 16 & 0xFFFF_FFFF for peer in peers], np.uint32)
        self._order = np.argsort(addresses)
        self._addresses = addresses[self._order]
        # Of each slot: its flow that lives, if any.
        self._lives, self._of = np.zeros(slots, np.bool_), np.zeros(slots, np.int64)
        self._number, self._base = np.zeros(slots, np.uint32), np.zeros(slots, np.int64)
        self._heard_ns: IntArray = np.zeros(slots, np.int64)
        self._now: StateArray = np.zeros(n, FLOWS)
        self._told: StateArray = np.zeros(n, FLOWS)
        self._now["receiver"] = self._told["receiver"] = [peer.id for peer in peers]
        self._told_ns: IntArray = np.zeros(n, np.int64)
        self._alive: BoolArray = np.zeros(n, np.bool_)
        self._slots = self._rows = np.zeros(0, np.int64)
        shim.hosts["named_only"][0] = 1
        shim.hosts["patience_ns"][0] = PATIENCE_PERIODS * self._period_ns

    def summary(self) -> dict[str, int]:
        """Counters of what was done so far, the flows that wait, and the hosts with flows to this one."""
        return {**self.counters, "held": self.held, "senders": self._granter.senders}

    def measure(self, live: IntArray, now_ns: int) -> None:
        """Note the flows that live: rows of `LIVE_COLUMNS` of all connections.

        A flow is what a connection has to send, from its first byte until all is acknowledged.
        """
        slots = live[_SLOT]
        address = self._shim.reports["peer"][slots].astype(np.uint32)
        at = np.minimum(np.searchsorted(self._addresses, address), len(self._addresses) - 1)
        waiting = np.maximum(live[_UNSENT] + live[_LEFT] - live[_DELIVERED], 0)
        lives = (self._addresses[at] == address) & (waiting > 0)
        slots, waiting, row, delivered = slots[lives], waiting[lives], self._order[at[lives]], live[_DELIVERED][lives]
        generation = live[_GENERATION][lives]
        new = ~self._lives[slots] | (self._of[slots] != generation)
        np.add.at(self._now["begun"], row[new], 1)
        self._number[slots[new]] = self._now["begun"][row[new]]
        self._base[slots[new]], self._heard_ns[slots[new]] = delivered[new], now_ns
        self._lives[:] = False
        self._lives[slots], self._of[slots] = True, generation
        n = len(self._now)
        self._now["flows"] = np.bincount(row, minlength=n)
        self._now["waiting_bytes"] = np.bincount(row, waiting, minlength=n)
        self._now["received_bytes"] = np.bincount(row, delivered - self._base[slots], minlength=n)
        least = np.full(n, np.inf)
        np.minimum.at(least, row, waiting)
        self._now["next_bytes"] = np.where(np.isinf(least), 0, least)
        self._slots, self._rows = slots, row

    def put(self, now_ns: int) -> None:
        """Do what receivers have said, and wake flows whose time has come."""
        inbox = self._exchange.inbox
        heard = (inbox.states_ns > 0) & (now_ns - inbox.states_ns <= SILENT_PERIODS * self._period_ns)
        self.counters["silent"] += int(np.count_nonzero(self._alive & ~heard))
        self._let(heard, now_ns)

    def lift(self, now_ns: int) -> None:
        """Let all flows go, and hold none from now on."""
        self._let(np.zeros(len(self._peers), np.bool_), now_ns)

    def share(self, now_ns: int) -> None:
        """Tell receivers of this host's flows, and senders when theirs may begin, where there is news."""
        old = (self._now["flows"] > 0) & (now_ns - self._told_ns >= REPEAT_PERIODS * self._period_ns)
        for row in np.flatnonzero((self._now != self._told) | old).tolist():
            self._exchange.tell(Kind.FLOWS, row, self._now[row].tobytes(), now_ns)
            self._told[row], self._told_ns[row] = self._now[row], now_ns
            self.counters["flows"] += 1
        rows, grants = self._granter.decide(self._exchange.inbox, now_ns)
        for row, grant in zip(rows, grants, strict=True):
            self._exchange.tell(Kind.GRANT, row, grant.tobytes(), now_ns)
        self.counters["grants"] += len(rows)

    def _let(self, alive: BoolArray, now_ns: int) -> None:
        """Write the decisions of live flows, of which those to receivers that are not alive may begin."""
        for row in np.flatnonzero(alive != self._alive).tolist():
            self._shim.wait_for(self._peers[row].address.host, waits=bool(alive[row]))
        self._alive = alive
        slots, rows, inbox = self._slots, self._rows, self._exchange.inbox
        reports, decisions = self._shim.reports, self._shim.decisions
        held = reports["held"][slots] != 0
        self.held = int(np.count_nonzero(held))
        if not len(slots):
            return
        due_ns = now_ns + self._period_ns // 2
        told = alive[rows] & (inbox.grants_ns[rows] > 0) & _speaks_of(inbox, rows, self._number[slots])
        start_ns = inbox.grants_ns[rows] + np.rint(inbox.grants["start_s"][rows] * NS_PER_S).astype(np.int64)
        start_ns = np.minimum(start_ns, self._heard_ns[slots] + to_ns(START_MOST_S))  # however often it is put off
        patience_ns = self._heard_ns[slots] + (PATIENCE_PERIODS - 1) * self._period_ns
        may = ~alive[rows] | (np.where(told, start_ns, patience_ns) <= due_ns)
        # One that has begun is asked no more, and its connection's next flow is told nothing yet.
        decisions["start_ns"][slots] = np.where(held, np.where(may, AT_ONCE_NS, np.where(told, start_ns, 0)), 0)
        decisions["most_bytes"][slots] = np.where(told, inbox.grants["window_bytes"][rows], 0)
        decisions["rate_bytes_per_s"][slots] = np.where(told, self._shares(inbox.grants["rate_bps"], reports), 0)
        decisions["generation"][slots] = self._of[slots]
        for slot, row, answered in zip(
            slots[held & may].tolist(), rows[held & may].tolist(), told[held & may].tolist(), strict=True
        ):
            report = reports[slot]
            self._waker.wake(
                (self._peers[row].id >> 16 & 0xFFFF_FFFF).to_bytes(4, "big"),
                **{name: int(report[name]) for name in FIELDS},
            )
            self.counters["woken"] += 1
            self.counters["unanswered"] += not answered

    def _shares(self, rate_bps: FloatArray, reports: Any) -> FloatArray:
        """Payload in bytes/s for each live flow of what its pair may send together; 0: no limit."""
        slots, rows = self._slots, self._rows
        mss_bytes = reports["mss_bytes"][slots].astype(np.float64)
        payload = mss_bytes / np.maximum(mss_bytes + reports["header_bytes"][slots], 1)
        share = rate_bps[rows] / self._now["flows"][rows] / BITS_PER_BYTE * payload
        return np.where(np.isinf(share), 0, np.clip(share, 1, 2.0**40))


def _speaks_of(inbox: Inbox, rows: IntArray, number: Any) -> BoolArray:
    """Flows that their receivers had heard of when they spoke; numbers go on from 0 after 2^32 - 1."""
    since: BoolArray = (inbox.grants["begun"][rows] - number).astype(np.int32) >= 0
    return since
