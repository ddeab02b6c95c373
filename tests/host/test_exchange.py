# SPDX-License-Identifier: BSD-3-Clause
"""Exchanges by UDP over loopback: with peers, with strangers and floods."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.units import NS_PER_S
from ncc.host.exchange import Exchange, UdpExchange
from ncc.host.keys import Key, Keys
from ncc.host.message import BEGIN, MAGIC, SIZE, Kind
from ncc.host.peers import parse_agent, parse_one, parse_peers
from tests.host.hosts import KEYS, MS, flows_to, states
from tests.support.processes import eventually


def free_ports(n: int) -> list[int]:
    """UDP ports that nobody has."""
    with ExitStack() as stack:
        opened = [stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(n)]
        for each in opened:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in opened]


def opened(listen: str, /, *peers: str, keys: Keys = KEYS, uplink: str | None = None, **changes: Any) -> UdpExchange:
    """An exchange of the agent at an address."""
    own = parse_agent(listen)
    sender = None if uplink is None else parse_one(uplink, "uplink")
    changes.setdefault("late_ns", 60 * NS_PER_S)
    return UdpExchange(keys, own, parse_peers(",".join(peers), own), uplink=sender, **changes)


@contextmanager
def exchanges(*agents: UdpExchange) -> Iterator[tuple[UdpExchange, ...]]:
    with ExitStack() as stack:
        yield tuple(stack.enter_context(closing(agent)) for agent in agents)


def until(done: Callable[[], bool], *receiving: Exchange, sending: Callable[[], None] = lambda: None) -> None:
    """Receive until a condition holds; loopback delivers at once unless other processes run in between."""

    def so() -> bool:
        sending()
        for each in receiving:
            each.receive(time.monotonic_ns())
        return done()

    assert eventually(so), f"never so; counters: {[each.counters for each in receiving]}"


@pytest.mark.parametrize("address", ["127.0.0.1", "[::1]"])
def test_two_agents_tell_each_other(address: str) -> None:
    one, two = (f"{address}:{port}" for port in free_ports(2))
    with exchanges(opened(one, f"{two}*2"), opened(f"{two}*2", one)) as (a, b):
        assert (a.n_peers, b.n_peers) == (2, 1)
        before_ns = time.monotonic_ns()
        a.send(states(1, queued_bytes=5, rate_limit_bps=1e9), before_ns)
        b.send(states(2, queued_bytes=[6, 7]), time.monotonic_ns())
        until(lambda: bool(a.inbox.states_ns.all() and b.inbox.states_ns.all()), a, b)
        assert a.inbox.states["queued_bytes"].tolist() == [6, 7]
        assert b.inbox.states.tolist() == [(0, 0, 5, 0, 0, 1e9, 0)]
        assert before_ns <= b.inbox.states_ns[0] <= time.monotonic_ns()
        assert (a.counters["sent"], b.counters["sent"]) == (1, 2)


def test_one_peer_is_told_alone() -> None:
    one, two, three = (f"127.0.0.1:{port}" for port in free_ports(3))
    agents = [opened(a, *(b for b in (one, two, three) if b != a), buffer_bytes=5000) for a in (one, two, three)]
    with exchanges(*agents) as (a, b, c):
        to = parse_one(three, "receiver")
        a.tell(Kind.FLOWS, 1, flows_to(to, flows=1, waiting_bytes=7), time.monotonic_ns())
        until(lambda: c.counters["received"] == 1, b, c)
        assert (c.inbox.flows["waiting_bytes"].tolist(), c.inbox.grants_ns.tolist()) == ([7, 0], [0, 0])
        assert (a.counters["sent"], b.counters["received"]) == (1, 0)


def test_what_waited_while_an_agent_was_held_up_makes_nothing_after_it_late() -> None:
    """A period that began long ago is not when a message was received."""
    one, two = (f"127.0.0.1:{port}" for port in free_ports(2))
    with exchanges(opened(one, two, late_ns=5 * NS_PER_S), opened(two, one)) as (a, b):
        began_ns = time.monotonic_ns() - 10 * 1000 * MS
        b.send(states(1, queued_bytes=1), time.monotonic_ns())
        until(lambda: a.counters["received"] == 1, a)
        b.send(states(1, queued_bytes=2), time.monotonic_ns())
        a.receive(began_ns)
        assert a.counters["received"] == 2
        b.send(states(1, queued_bytes=3), time.monotonic_ns())
        until(lambda: a.counters["received"] == 3, a)
        assert a.counters["late"] == 0


@pytest.mark.parametrize("address", ["127.0.0.1", "[::1]"])
def test_strangers_are_counted_and_do_no_harm(address: str) -> None:
    one, two, three = (f"{address}:{port}" for port in free_ports(3))
    other = Keys.shared(Key(bytes(16)))
    with exchanges(opened(one, two), opened(two, one, keys=other), opened(three, one)) as (a, forger, stranger):
        stranger.send(states(1), time.monotonic_ns())
        forger.send(states(1), time.monotonic_ns())
        until(lambda: a.counters["forged"] == 1 and a.kernel_drops() == 1, a)
        assert a.inbox.states_ns.tolist() == [0]


@pytest.mark.attack("7")
def test_a_flood_of_strangers_takes_no_room_from_peers() -> None:
    """Without a filter in the kernel what waits is the strangers', and the peer's messages are dropped."""
    one, two = (f"127.0.0.1:{port}" for port in free_ports(2))
    with (
        exchanges(opened(one, two), opened(two, one)) as (a, b),
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as flooding,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as elsewhere,
    ):
        elsewhere.bind(("127.0.0.2", parse_one(two, "x").address.port))
        for _ in range(10):
            for by in (flooding, elsewhere):
                for _ in range(50):
                    by.sendto((BEGIN + bytes(SIZE))[:SIZE], parse_one(one, "x").address)
            for wrong in (BEGIN + bytes(SIZE), BEGIN, bytes(SIZE), MAGIC + bytes(SIZE - len(MAGIC)), b""):
                b._socket.sendto(wrong, parse_one(one, "x").address)
            b.send(states(1), time.monotonic_ns())
        a.receive(time.monotonic_ns())
        assert {name: n for name, n in a.counters.items() if n} == {"received": 10}
        assert a.kernel_drops() == 10 * 105


@pytest.mark.attack("7")
def test_a_flood_from_a_peer_s_address_costs_a_bounded_number_of_messages() -> None:
    one, two = (f"127.0.0.1:{port}" for port in free_ports(2))
    with exchanges(opened(one, two), opened(two, one)) as (a, b):
        most = 2 * (a.n_peers + 1) + 16
        for _ in range(most * 20):
            b._socket.sendto((BEGIN + bytes(SIZE))[:SIZE], parse_one(one, "x").address)
        assert a.counters["kind"] == 0
        a.receive(time.monotonic_ns())
        assert (a.counters["kind"], a.counters["flood"]) == (most, 1)
        assert a.counters["kernel_drops"] > 0  # what waits is bounded, too
        until(lambda: a.inbox.states_ns[0] > 0, a, sending=lambda: b.send(states(1), time.monotonic_ns()))


def test_agents_of_many_addresses_and_ports_are_all_heard() -> None:
    """Jumps of a filter reach 255 instructions; a neighbourhood has 256 hosts."""
    ports = free_ports(3)
    me, *others = [f"127.0.0.1:{ports[0]}", *(f"127.0.0.{i}:{ports[i % 2 + 1]}" for i in range(2, 252))]
    some = [others[0], others[1], others[-1]]
    with exchanges(opened(me, *others), *(opened(each, me) for each in some)) as (a, *senders):
        for each in senders:
            each.send(states(1, queued_bytes=1), time.monotonic_ns())
        until(lambda: a.counters["received"] == len(some), a)
        assert np.flatnonzero(a.inbox.states_ns).tolist() == [0, 1, 249]


def test_each_pair_of_agents_may_have_keys_of_its_own() -> None:
    (port,) = free_ports(1)
    first, second, third = (f"127.0.0.{i}" for i in (1, 2, 3))
    pairs = [(a, b) for a in (first, second, third) for b in (first, second, third) if a != b]
    whole = {pair: [Key(bytes([i]) * 16, i)] for i, pair in enumerate(pairs, 1)}
    agents = [
        opened(
            f"{one}:{port}",
            *(f"{other}:{port}" for other in (first, second, third) if other != one),
            keys=Keys({pair: whole[pair] for pair in pairs if one in pair}),
        )
        for one in (first, second, third)
    ]
    with exchanges(*agents) as (a, b, c):
        for each in (a, b, c):
            each.send(states(1), time.monotonic_ns())
        until(lambda: all(each.inbox.states_ns.all() for each in (a, b, c)), a, b, c)
        with pytest.raises(ConfigError, match=r"no key for what 127\.0\.0\.1 sends 127\.0\.0\.4: add a line"):
            opened(f"{first}:{port}", f"127.0.0.4:{port}", keys=Keys(whole))


def test_a_peer_that_is_not_there_is_no_error() -> None:
    one, two = (f"127.0.0.1:{port}" for port in free_ports(2))
    with exchanges(opened(one, two)) as (a,):
        for _ in range(10):
            a.send(states(1), time.monotonic_ns())
            a.receive(time.monotonic_ns())
            time.sleep(0.001)
        assert a.counters["receive_errors"] == 0


def test_what_cannot_be_sent_is_counted() -> None:
    """A broadcast address takes a right that the socket has not asked for."""
    (port,) = free_ports(1)
    with exchanges(opened(f"127.0.0.1:{port}", "127.255.255.255")) as (a,):
        a.send(states(1), time.monotonic_ns())
        assert (a.counters["sent"], a.counters["send_errors"]) == (0, 1)


def test_an_address_that_is_not_here_is_refused_and_leaves_no_socket() -> None:
    before = socket_numbers()
    with pytest.raises(ConfigError, match=r"cannot listen on 192\.0\.2\.1:9: this machine has no such address"):
        opened("192.0.2.1:9", "10.0.0.2")
    assert socket_numbers() == before


def socket_numbers() -> set[str]:
    """Sockets that this process has open."""
    links = (link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink())
    return {str(target) for target in links if str(target).startswith("socket:")}


def test_nobody_to_exchange_with() -> None:
    nobody = Exchange()
    nobody.send(states(1), 1)
    nobody.receive(1)
    nobody.close()
    assert (nobody.n_peers, nobody.inbox.uplink_ns.tolist(), nobody.counters) == (0, [0], {})
