# SPDX-License-Identifier: BSD-3-Clause
"""Discovery: rows are given in the order of hellos and kept; whoever lies about itself gets none."""

from ncc.core.units import NS_PER_S
from ncc.host.exchange import hello_values
from ncc.host.listener import FORGET_NS, Listener
from ncc.host.message import HELLO_VALUES, Kind, Sender
from ncc.host.peers import Peer, parse_one
from tests.host.hosts import KEY, ME, sender_of, sent, states, take, wall_ns

HOSTS = [parse_one(f"10.0.0.{i}", "host") for i in range(2, 6)]


def discovering(rows: int) -> Listener:
    return Listener(KEY, ME, [None] * rows, late_ns=10 * NS_PER_S, wall_ns=wall_ns, discover=True)


def hello(by: Sender, peer: Peer, now_ns: int, speaks: Kind = Kind.STATE) -> list[bytes]:
    return by.messages(Kind.HELLO, [hello_values(peer.address, speaks)], now_ns, now_ns)


def names(listener: Listener) -> list[str | None]:
    return [None if slot is None else slot.address.host for slot in listener.slots]


def test_rows_are_given_in_order_and_kept() -> None:
    listener = discovering(3)
    by = {peer: sender_of(peer) for peer in HOSTS}
    for peer in (HOSTS[2], HOSTS[0], HOSTS[2]):
        assert take(listener, hello(by[peer], peer, 1), 1)["received"] == 1
    assert names(listener) == ["10.0.0.4", "10.0.0.2", None]
    assert take(listener, sent(by[HOSTS[0]], states(1, queued_bytes=7), 2), 2) == {"received": 1}
    assert listener.states["queued_bytes"].tolist() == [0, 7, 0]
    assert take(listener, sent(by[HOSTS[1]], states(1), 2), 2) == {"unknown_sender": 1}


def test_who_comes_too_many_waits_until_another_is_gone() -> None:
    listener = discovering(2)
    by = {peer: sender_of(peer) for peer in HOSTS}
    for peer in HOSTS[:2]:
        take(listener, hello(by[peer], peer, 1), 1)
    take(listener, sent(by[HOSTS[0]], states(1, queued_bytes=7), 1), 1)
    assert take(listener, hello(by[HOSTS[2]], HOSTS[2], 1), 1) == {"unknown_sender": 1, "surplus": 1}
    later = FORGET_NS
    take(listener, sent(by[HOSTS[1]], states(1), later), later)  # it says no hello, but it lives
    gone = FORGET_NS + 2
    assert take(listener, hello(by[HOSTS[2]], HOSTS[2], gone), gone) == {"received": 1, "replaced": 1}
    assert names(listener) == ["10.0.0.4", "10.0.0.3"]
    assert (listener.states_ns[0], listener.states["queued_bytes"][0]) == (0, 0)  # nothing of the one before
    assert take(listener, sent(by[HOSTS[0]], states(1), gone), gone) == {"unknown_sender": 1}


def test_nobody_is_replaced_where_nobody_is_expected() -> None:
    listener = discovering(0)
    assert take(listener, hello(sender_of(HOSTS[0]), HOSTS[0], 1), 1) == {"unknown_sender": 1, "surplus": 1}


def test_hellos_are_replayed_in_vain() -> None:
    listener = discovering(1)
    by = sender_of(HOSTS[0])
    first, second = hello(by, HOSTS[0], 1), hello(by, HOSTS[0], 2)
    assert take(listener, second + first + second, 2) == {"received": 1, "replayed": 2, "joined": 1}


def test_an_address_that_is_not_the_senders() -> None:
    listener = discovering(2)
    wrong = hello(sender_of(HOSTS[0]), HOSTS[1], 1)
    no_port = sender_of(HOSTS[0]).messages(Kind.HELLO, [HELLO_VALUES.pack(HOSTS[0].address.packed(), 0, 1)], 1, 1)
    neither = hello(sender_of(HOSTS[0]), HOSTS[0], 1, Kind.HELLO)
    assert take(listener, wrong + no_port + neither, 1) == {"unknown_sender": 3}
    assert listener.slots == [None, None]


def test_the_uplink_port_is_found_and_followed() -> None:
    listener = discovering(1)
    first, second = sender_of(HOSTS[0]), sender_of(HOSTS[1])
    assert take(listener, hello(first, HOSTS[0], 1, Kind.UPLINK), 1) == {"received": 1, "joined": 1}
    assert take(listener, hello(second, HOSTS[1], 2, Kind.UPLINK), 2) == {"unknown_sender": 1, "surplus": 1}
    gone = FORGET_NS + 2
    assert take(listener, hello(second, HOSTS[1], gone, Kind.UPLINK), gone) == {"received": 1, "replaced": 1}
    assert listener.slots == [None]
