# SPDX-License-Identifier: BSD-3-Clause
"""A listener against thousands of random messages: each has one fate, and only a whole and sane one changes anything.

``NCC_FUZZ=7,1000000 pytest tests/host/test_fuzz.py`` tries so many that seed 7 makes.
"""

import os
import random
import struct
from collections import Counter

import numpy as np

from ncc.core.units import NS_PER_S
from ncc.host.listener import DROPPED, RECEIVED, Listener
from ncc.host.message import (
    FLOWS_MOST,
    HEAD,
    MAC_AT,
    MOST,
    SIZE,
    START_MOST_S,
    TO_ONE,
    VALUES_AT,
    Kind,
    Sender,
)
from ncc.host.peers import parse_one
from tests.host.hosts import KEY, KEYS, ME, NEAR, ROUTER, WALL_NS, flows_to, grant_to, sender_of, states, wall_ns

SEED, TRIES = map(int, os.environ.get("NCC_FUZZ", "1,6000").split(","))
PEERS = (*NEAR, ROUTER, *ME, parse_one("10.0.0.7", "stranger"))
BUFFER_BYTES = 100_000
EDGES = [struct.pack("<Q", n) for n in (0, 1, 0x7F, 0xFF, 2**31, 2**32 - 1, 2**53 + 1, 2**63, 2**64 - 1)]
EDGES += [struct.pack("<d", x) for x in (np.nan, np.inf, -np.inf, -0.0, 5e-324, 1.8e308, -1.0, 2.0**61)]


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Some bytes changed, put in, taken out, doubled, or replaced by numbers at which programs stumble."""
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        at, length = rng.randrange(len(data) + 1), rng.choice((1, 2, 4, 8, 64))
        head, tail = data[:at], data[at:]
        data = head + rng.choice((
            rng.randbytes(length) + tail[length:],
            rng.randbytes(length) + tail,
            tail[length:],
            tail[:length] + tail,
            rng.choice(EDGES) + tail[8:],
        ))  # fmt: skip
    return data


def message(by: dict[int, Sender], rng: random.Random, now_ns: int) -> tuple[bytes, bool]:
    """A message that is whole or nearly so, and whether it was changed after it was signed."""
    peer = rng.choice(PEERS)
    at_ns = now_ns - rng.choice((0, 0, 1, NS_PER_S, 20 * NS_PER_S))
    kind = Kind.UPLINK if peer == ROUTER else rng.choice((Kind.STATE, *TO_ONE))
    if kind in TO_ONE:
        to = rng.choice((*ME, *ME, NEAR[0]))
        made = flows_to(to, waiting_bytes=rng.random()) if kind == Kind.FLOWS else grant_to(to, start_s=rng.random())
        whole = by[peer.id].message_to(kind, 0, made, now_ns)
    else:
        uplink = struct.pack("<dd", 5e9, 3000.0)
        values = uplink if kind == Kind.UPLINK else states(1, queued_bytes=rng.random()).tobytes()
        ((whole,),) = by[peer.id].messages(kind, [values], at_ns, now_ns)
    how = rng.random()
    if how < 0.1:
        return whole, False
    if how < 0.5:
        changed = mutated(whole, rng)
        return changed, changed != whole
    head, values = whole[:VALUES_AT], whole[VALUES_AT:MAC_AT]
    if how < 0.85:
        values = mutated(values, rng).ljust(len(values), b"\0")[: len(values)]
    else:
        clocks = [rng.choice((WALL_NS, WALL_NS, WALL_NS + 1, WALL_NS - 90 * NS_PER_S, 2**63)) for _ in range(2)]
        numbers = clocks[0], rng.randrange(2**20), rng.choice((0, 2**63)), clocks[1], rng.choice((0, 1, 2**64 - 1))
        head = HEAD.pack(b"nccx", 2, rng.randrange(5), rng.choice((1, 1, 1, 2)), rng.choice(PEERS).id, *numbers)
    return head + values + KEY.sign(head + values), False


def state(found: Listener) -> tuple[bytes, ...]:
    """All values that decisions use."""
    of_hosts = (found.states, found.states_ns, found.uplink, found.uplink_ns)
    return tuple(array.tobytes() for array in (*of_hosts, found.flows, found.flows_ns, found.grants, found.grants_ns))


def assert_sane_words(found: Listener, data: bytes) -> None:
    """Assert that messages to single hosts are for this one and within its bounds."""
    for rows, names in (
        (found.flows, ("waiting_bytes", "next_bytes", "received_bytes")),
        (found.grants, ("window_bytes",)),
    ):
        assert np.isin(rows["receiver"], (0, ME[0].id)).all(), data.hex()
        for name in names:
            assert ((rows[name] >= 0) & (rows[name] <= MOST)).all(), f"{name}: {data.hex()}"
    assert (found.flows["next_bytes"] <= found.flows["waiting_bytes"]).all(), data.hex()
    assert max(found.flows["flows"].max(), found.grants["senders"].max()) <= FLOWS_MOST, data.hex()
    assert (found.grants["window_bytes"] <= BUFFER_BYTES).all(), data.hex()
    assert (np.abs(found.grants["start_s"]) <= START_MOST_S).all(), data.hex()
    assert (found.grants["rate_bps"][found.grants_ns > 0] > 0).all(), data.hex()


def fates() -> Counter[str]:
    """Fates of `TRIES` messages, a hundred by each listener."""
    rng, seen = random.Random(SEED), Counter[str]()
    while seen.total() < TRIES:
        by = {peer.id: sender_of(peer) for peer in PEERS}
        found = Listener(KEYS, ME, NEAR, ROUTER, late_ns=10 * NS_PER_S, buffer_bytes=BUFFER_BYTES, wall_ns=wall_ns)
        now_ns = 0
        for _ in range(100):
            now_ns += rng.choice((0, 1, NS_PER_S // 1000, NS_PER_S))
            data, changed = message(by, rng, now_ns)
            before, counted = state(found), dict(found.counters)
            found.take(memoryview(data), now_ns)
            (fate,) = (name for name in (RECEIVED, *DROPPED) if found.counters[name] != counted[name])
            assert fate != RECEIVED or (len(data) == SIZE and not changed), f"believed {data.hex()}"
            assert fate == RECEIVED or state(found) == before, f"{fate} changed something: {data.hex()}"
            for name in ("throughput_bps", "wait_s", "queued_bytes", "next_bytes"):
                assert ((found.states[name] >= 0) & (found.states[name] <= MOST)).all(), f"{name}: {data.hex()}"
            assert (found.states["rate_limit_bps"] > 0).all(), data.hex()
            assert found.states["at_once"].max() <= 1, data.hex()
            assert all(0 <= value <= MOST for value in found.uplink[0].tolist()), data.hex()
            assert_sane_words(found, data)
            times = (found.states_ns, found.uplink_ns, found.flows_ns, found.grants_ns)
            assert max(each.max() for each in times) <= now_ns, data.hex()
            seen[fate] += 1
    return seen


def test_only_a_whole_and_sane_message_of_a_peer_is_believed() -> None:
    assert set(fates()) == {RECEIVED, *DROPPED}  # every way out is taken
