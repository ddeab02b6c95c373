# SPDX-License-Identifier: BSD-3-Clause
"""CoDel at a port, worked by hand after RFC 8289, section 5."""

from math import isqrt

from tests.baselines.ports import DROP, ECT, MARK, PASS, Program

MTU = 1500
TARGET, INTERVAL = 50_000, 1_000_000


def port() -> Program:
    return Program("codel", [TARGET, INTERVAL], size_bytes=10**6, mtu_bytes=MTU)


def leave(at: Program, now_ns: int, wait_ns: int = TARGET, *, flags: int = 0, queue_bytes: int = 10 * MTU) -> int:
    return at.dequeue(now_ns=now_ns, queued_ns=now_ns - wait_ns, flags=flags, queue_bytes=queue_bytes)


def test_nothing_is_dropped_before_an_interval_of_long_waits() -> None:
    at = port()
    assert [leave(at, ns) for ns in (10**6, 10**6 + INTERVAL - 1)] == [PASS, PASS]
    assert leave(at, 10**6 + INTERVAL, TARGET - 1) == PASS  # a short wait begins it anew
    assert [leave(at, ns) for ns in (3 * 10**6, 4 * 10**6 - 1, 4 * 10**6)] == [PASS, PASS, DROP]


def test_the_last_packets_of_a_queue_are_never_dropped() -> None:
    at = port()
    assert {leave(at, ns, queue_bytes=MTU) for ns in range(10**6, 10**7, 10**5)} == {PASS}


def test_drops_follow_each_other_faster_and_faster() -> None:
    at = port()
    leave(at, 10**6)
    due_ns = 10**6 + INTERVAL
    assert leave(at, due_ns) == DROP  # it begins
    for count in range(1, 6):
        due_ns += isqrt(INTERVAL**2 // count)
        assert leave(at, due_ns - 1) == PASS
        assert leave(at, due_ns) == DROP
        assert leave(at, due_ns) == PASS  # the packet behind it takes its turn
    assert leave(at, due_ns, TARGET - 1) == PASS  # a short wait ends it


def test_dropping_goes_on_at_its_rate_if_it_begins_again_soon() -> None:
    at = port()
    leave(at, 10**6)
    marked = [ns for ns in range(2 * 10**6, 12 * 10**6, 1000) if leave(at, ns, flags=ECT) == MARK]
    leave(at, 12 * 10**6, 0)
    leave(at, 13 * 10**6)
    assert leave(at, 14 * 10**6) == DROP
    count = len(marked) - 1  # what it grew by
    assert leave(at, 14 * 10**6 + isqrt(INTERVAL**2 // count) - 1) == PASS
    assert leave(at, 14 * 10**6 + isqrt(INTERVAL**2 // count)) == DROP


def test_what_is_ecn_capable_is_marked() -> None:
    at = port()
    leave(at, 10**6, flags=ECT)
    assert leave(at, 10**6 + INTERVAL, flags=ECT) == MARK
    assert leave(at, 10**6 + 2 * INTERVAL - 1, flags=ECT) == PASS
    assert leave(at, 10**6 + 2 * INTERVAL, flags=ECT) == MARK
