# SPDX-License-Identifier: BSD-3-Clause
"""Flows that wait for grants: messages that a host sends, and its response to grants, without a kernel or network."""

from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ncc.core.errors import DatapathError
from ncc.core.units import NS_PER_S
from ncc.envs.linux import layout
from ncc.envs.linux.extension import LIVE_COLUMNS
from ncc.envs.linux.layout import address_bytes
from ncc.host import run
from ncc.host.exchange import Exchange
from ncc.host.listener import Inbox
from ncc.host.message import FLOWS, GRANT, START_MOST_S, Kind
from ncc.host.peers import parse_agent
from ncc.host.receivers import (
    FORGET_PERIODS,
    LEARN_PERIODS,
    PATIENCE_PERIODS,
    REPEAT_PERIODS,
    Granter,
    Receivers,
    receiver_scenario,
)
from tests.host.hosts import MS

PERIOD_NS = 10 * MS
LINK_BPS, BUFFER_BYTES = 1e8, 100_000
PEERS = tuple(peer for address in ("10.0.0.9", "10.0.0.2", "10.0.0.5") for peer in parse_agent(address))
TWO = address_bytes("10.0.0.2")
SCENARIO = receiver_scenario(len(PEERS), LINK_BPS, BUFFER_BYTES, PERIOD_NS / 1e9)


class Told(Exchange):
    """An exchange that keeps the messages sent."""

    def __init__(self) -> None:
        self.inbox, self.told = Inbox(len(PEERS)), list[tuple[Kind, int, Any]]()

    def tell(self, kind: Kind, row: int, values: bytes, now_ns: int) -> None:
        (values_,) = np.frombuffer(values, FLOWS if kind == Kind.FLOWS else GRANT)
        self.told.append((kind, row, values_))


class Host:
    """A host whose connections a test sets, with live peers."""

    def __init__(self) -> None:
        rows = {"reports": layout.REPORT, "decisions": layout.DECISION, "hosts": layout.HOST}
        shim: Any = SimpleNamespace(waits={}, **{name: np.zeros(16, row) for name, row in rows.items()})
        self.kernel = shim
        self.kernel.wait_for = lambda receiver, *, waits: self.kernel.waits.update({receiver: waits})
        self.exchange, self.woken, self.now_ns = Told(), list[tuple[bytes, int]](), 0
        waker: Any = SimpleNamespace(wake=lambda peer, **numbers: self.woken.append((peer, numbers["port"])))
        self.receivers = Receivers(SCENARIO, self.exchange, PEERS, shim, waker)
        self.live: dict[int, dict[str, int]] = {}

    def connection(self, slot: int, to: int, *, held: bool = True, generation: int = 1, **columns: int) -> None:
        """Add a connection to a peer, with written and sent bytes."""
        report = self.kernel.reports[slot : slot + 1]
        report["peer"], report["held"], report["port"] = address_bytes(PEERS[to].address.host), held, 1000 + slot
        report["mss_bytes"], report["header_bytes"] = 1448, 52
        self.live[slot] = {"slot": slot, "generation": generation, **columns}

    def grant(self, row: int, **values: float) -> None:
        """Receive a message of a peer now."""
        inbox = self.exchange.inbox
        inbox.grants["rate_bps"][row], inbox.grants_ns[row] = np.inf, self.now_ns
        for name, value in values.items():
            inbox.grants[name][row] = value

    def period(self, alive: tuple[int, ...] = (0, 1, 2)) -> list[tuple[Kind, int, Any]]:
        """Run one more period; return the messages sent in it."""
        self.now_ns += PERIOD_NS
        self.exchange.inbox.states_ns[list(alive)] = self.now_ns - PERIOD_NS // 2
        columns = np.zeros((len(LIVE_COLUMNS), len(self.live)), np.int64)
        for i, values in enumerate(self.live.values()):
            for name, value in values.items():
                columns[LIVE_COLUMNS.index(name), i] = value
        self.receivers.measure(columns, self.now_ns)
        self.receivers.put(self.now_ns)
        self.exchange.told.clear()
        self.at_once = self.receivers.share(self.now_ns)
        return list(self.exchange.told)

    def start_ns(self, slot: int) -> int:
        return int(self.kernel.decisions["start_ns"][slot])


def test_receivers_are_told_of_flows_to_them_when_something_changes() -> None:
    host = Host()
    assert host.period() == []
    host.connection(0, 1, unsent_bytes=3000)
    host.connection(1, 1, unsent_bytes=500, left_bytes=1000, delivered_bytes=800)
    host.connection(2, 0)  # nothing to send
    ((kind, row, told),) = host.period()
    assert (kind, row) == (Kind.FLOWS, 1)
    assert told.tolist() == (PEERS[1].id, 2, 2, 3700, 700, 0)
    assert [len(host.period()) for _ in range(REPEAT_PERIODS)] == [0] * (REPEAT_PERIODS - 1) + [1]  # may be lost
    host.live[1] |= {"unsent_bytes": 0, "left_bytes": 1500, "delivered_bytes": 1500}  # all has come
    ((_, _, told),) = host.period()
    assert told.tolist() == (PEERS[1].id, 1, 2, 3000, 3000, 0)
    host.live[1] |= {"unsent_bytes": 10}  # the connection's next flow
    ((_, _, told),) = host.period()
    assert told.tolist() == (PEERS[1].id, 2, 3, 3010, 10, 0)
    host.live.clear()
    ((_, _, told),) = host.period()
    assert told["flows"] == 0
    assert [host.period() for _ in range(2 * REPEAT_PERIODS)] == [[]] * 2 * REPEAT_PERIODS


def test_connections_to_nobody_s_address_are_no_flows() -> None:
    host = Host()
    host.connection(0, 1, unsent_bytes=3000)
    host.kernel.reports["peer"][0] = address_bytes("10.0.0.99")
    assert host.period() == []


def test_a_flow_begins_at_its_start_with_its_window_and_rate() -> None:
    host = Host()
    host.connection(0, 1, unsent_bytes=3000)
    host.connection(1, 1, unsent_bytes=3000)
    host.period()
    assert (host.start_ns(0), host.receivers.held, host.kernel.waits["10.0.0.2"]) == (0, 2, True)
    host.grant(1, begun=2, start_s=0.025, window_bytes=14480, rate_bps=1e7)
    said_ns = host.now_ns
    host.period()
    assert host.start_ns(0) == host.start_ns(1) == said_ns + 25 * MS
    assert host.kernel.decisions["most_bytes"][0] == 14480
    assert host.kernel.decisions["rate_bytes_per_s"][0] == int(1e7 / 2 / 8 * 1448 / 1500)
    assert host.woken == []
    host.grant(1, begun=2, start_s=0.015, window_bytes=14480, rate_bps=0.97 * LINK_BPS)
    host.period()  # 20 ms later, and 30 ms would be as near
    assert host.kernel.decisions["rate_bytes_per_s"][0] == 0, "almost the whole link is no limit"
    assert host.woken == [(TWO, 1000), (TWO, 1001)]
    assert host.start_ns(0) == 1
    host.kernel.reports["held"] = 0
    host.period()
    assert host.start_ns(0) == 0  # what it was told is not for the connection's next flow
    assert host.receivers.summary() | {"flows": 0} == {
        "flows": 0, "grants": 0, "woken": 2, "unanswered": 0, "silent": 0, "held": 0, "senders": 0,
    }  # fmt: skip


def test_a_start_in_the_past_is_at_once_and_an_answer_is_for_flows_of_which_the_receiver_knew() -> None:
    host = Host()
    host.connection(0, 1, unsent_bytes=3000)
    host.period()
    host.connection(1, 1, unsent_bytes=3000)
    host.grant(1, begun=1, start_s=-9.0)
    host.period()
    assert host.woken == [(TWO, 1000)]
    assert host.start_ns(1) == 0


def test_a_flow_of_which_nothing_is_said_begins_when_patience_is_over() -> None:
    host = Host()
    host.connection(0, 1, unsent_bytes=3000)
    for _ in range(PATIENCE_PERIODS - 1):
        host.period()
        assert host.woken == []
    host.period()
    assert host.woken == [(TWO, 1000)]
    assert host.receivers.counters["unanswered"] == 1
    assert host.kernel.hosts["patience_ns"][0] == PATIENCE_PERIODS * PERIOD_NS


def test_nothing_waits_for_a_receiver_that_is_silent_for_two_periods() -> None:
    host = Host()
    host.connection(0, 1, unsent_bytes=3000)
    host.period()
    host.grant(1, begun=1, start_s=5.0, window_bytes=1448, rate_bps=1e6)
    host.period()
    host.period(alive=(0, 2))
    assert host.woken == []
    host.period(alive=(0, 2))
    assert host.woken == [(TWO, 1000)]
    assert host.kernel.waits == {"10.0.0.9": True, "10.0.0.2": False, "10.0.0.5": True}
    decision = host.kernel.decisions[0]
    assert (decision["start_ns"], decision["most_bytes"], decision["rate_bytes_per_s"]) == (1, 0, 0)
    assert host.receivers.counters["silent"] == 1


def test_a_receiver_that_puts_a_flow_off_again_and_again_holds_it_for_ten_seconds() -> None:
    host = Host()
    host.connection(0, 1, unsent_bytes=3000)
    for _ in range(round(START_MOST_S * 1e9 / PERIOD_NS)):
        host.period()
        host.grant(1, begun=1, start_s=START_MOST_S)
        assert host.woken == []
    host.period()
    assert host.woken == [(TWO, 1000)]


def test_all_flows_are_let_go_at_the_end() -> None:
    host = Host()
    host.receivers.lift(0)  # before the first period
    host.connection(0, 1, unsent_bytes=3000)
    host.connection(1, 2, unsent_bytes=3000)
    host.period()
    host.receivers.lift(host.now_ns)
    assert [port for _, port in host.woken] == [1000, 1001]
    assert not any(host.kernel.waits.values())


def test_an_agent_that_may_not_wake_flows_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(_: str) -> None:
        raise PermissionError

    monkeypatch.setattr(run, "Waker", refuses)
    plan: Any = SimpleNamespace(addresses=["10.0.0.1"])
    with ExitStack() as undo, pytest.raises(DatapathError, match="--receivers takes CAP_NET_RAW"):
        run.waker(plan, undo)


def heard(inbox: Inbox, row: int, at_ns: int, **values: float) -> None:
    inbox.flows_ns[row] = at_ns
    for name, value in values.items():
        inbox.flows[name][row] = value


def test_senders_are_told_to_start_one_after_the_other_by_the_rule() -> None:
    """60 KB on the wire take 5 ms at 97 % of 100 Mbit/s; a quarter of the buffer may lie ahead."""
    granter, inbox = Granter(SCENARIO, PEERS), Inbox(len(PEERS))
    for row, size in enumerate((60_000, 50_000, 70_000)):
        heard(inbox, row, 1 * MS, flows=1, begun=4 + row, waiting_bytes=size, next_bytes=size)
    rows, grants = granter.decide(inbox, 2 * MS)
    assert sorted(rows) == [0, 1, 2]
    by = dict(zip(rows, grants, strict=True))
    assert [by[row]["receiver"] for row in range(3)] == [peer.id for peer in PEERS]
    assert [by[row]["begun"] for row in range(3)] == [4, 5, 6]
    assert {(int(one["senders"]), float(one["waiting_bytes"])) for one in grants} == {(3, 180_000.0)}
    transport = SCENARIO.transport
    header = transport.mtu_bytes - transport.mss_bytes + transport.frame_overhead_bytes
    wire = [size + header * -(-size // transport.mss_bytes) for size in (50_000, 60_000)]
    spare = BUFFER_BYTES / 4
    expected = [0, (wire[0] - spare) * 8 / 0.97e8, (sum(wire) - spare) * 8 / 0.97e8]
    assert np.allclose([by[row]["start_s"] for row in (1, 0, 2)], expected, atol=1e-6)
    assert all(0 < one["window_bytes"] <= BUFFER_BYTES / 2 for one in grants)
    assert granter.decide(inbox, 2 * MS)[0] == [1], "nothing has changed, and nothing of the first has come"
    assert granter.senders == 3


def test_a_sender_alone_is_told_to_start_without_limits_and_a_silent_one_is_forgotten() -> None:
    granter, inbox = Granter(SCENARIO, PEERS), Inbox(len(PEERS))
    heard(inbox, 2, 1 * MS, flows=1, begun=1, waiting_bytes=1e6, next_bytes=1e6)
    (row,), (grant,) = granter.decide(inbox, 2 * MS)
    assert (row, *grant.tolist()[3:]) == (2, 1e6, 0.0, 0.0, np.inf)
    granter.decide(inbox, 2 * MS + FORGET_PERIODS * PERIOD_NS)
    assert granter.senders == 0


def test_a_start_beyond_what_a_message_may_say_is_the_latest_that_it_may() -> None:
    granter, inbox = Granter(SCENARIO, PEERS), Inbox(len(PEERS))
    for row in range(2):
        heard(inbox, row, 1 * MS, flows=1, begun=1, waiting_bytes=2.0**60, next_bytes=2.0**60)
    _, grants = granter.decide(inbox, 2 * MS)
    assert sorted(grants["start_s"].tolist()) == [0.0, START_MOST_S]
    assert (grants["waiting_bytes"] <= 2.0**60).all()


def test_numbers_of_flows_go_on_from_0() -> None:
    host = Host()
    host.receivers._now["begun"][1] = 2**32 - 1
    host.connection(0, 1, unsent_bytes=3000)
    ((_, _, told),) = host.period()
    assert told["begun"] == 0
    host.grant(1, begun=2**32 - 1, start_s=-1.0)  # of the flow before
    host.period()
    assert host.woken == []


def test_a_receiver_says_whether_new_flows_may_begin_without_its_grant() -> None:
    """Three peers may have one flow each, with ten packets: 43.8 KB. 60 KB may lie ahead."""
    host = Host()
    host.period()
    assert host.at_once
    inbox = host.exchange.inbox
    for missing_bytes, may in ((16_000, True), (17_000, False), (0, True)):
        inbox.flows[0] = (0, 1, 1, missing_bytes, missing_bytes, 0)
        inbox.flows_ns[0] = host.now_ns
        host.period()
        assert host.at_once == may
    inbox.flows[0] = (0, 9, 9, 0, 0, 0)
    inbox.flows_ns[0] = host.now_ns
    host.period()
    inbox.flows[0] = (0, 0, 9, 0, 0, 0)
    for _ in range(LEARN_PERIODS):
        host.period()
    assert not host.at_once, "the burst is remembered"


def test_new_flows_wait_as_their_receivers_say() -> None:
    host = Host()
    host.exchange.inbox.states["at_once"] = [0, 1, 1]
    host.period()
    assert host.kernel.waits == {"10.0.0.9": True}, "at first none waits"
    host.exchange.inbox.states["at_once"] = [0, 0, 1]
    host.period()
    assert host.kernel.waits == {"10.0.0.9": True, "10.0.0.2": True}
    host.exchange.inbox.states["at_once"] = [1, 0, 1]
    host.period()
    assert host.kernel.waits == {"10.0.0.9": False, "10.0.0.2": True}


@pytest.mark.parametrize(("lost", "waits"), [(0, False), (1, True), (2, False)], ids=["fresh", "old", "silent"])
def test_flows_wait_for_grants_when_the_receiver_s_state_is_old(lost: int, waits: bool) -> None:
    """They do so until the receiver counts as silent."""
    host = Host()
    host.exchange.inbox.states["at_once"] = [0, 1, 0]
    host.period()
    for _ in range(lost):
        host.period(alive=(0, 2))
    assert host.kernel.waits.get("10.0.0.2", False) == waits


def test_flows_that_wait_begin_when_new_ones_may_unless_they_have_a_grant() -> None:
    host = Host()
    host.connection(0, 1, unsent_bytes=3000)
    host.period()
    host.grant(1, begun=1, start_s=5.0)
    host.connection(1, 1, unsent_bytes=3000)
    host.period()
    assert host.woken == []
    host.exchange.inbox.states["at_once"][1] = 1
    host.period()
    assert host.woken == [(TWO, 1001)]
    assert host.start_ns(0) > host.now_ns + NS_PER_S
