# SPDX-License-Identifier: BSD-3-Clause
"""A fuzzer of messages, for as long as one likes: nothing undocumented may happen.

``python -m tests.host.fuzz --seconds 600 --seed 7``; the tests try some thousands. Half of the messages are changed and
then signed, so that they get past the first check.
"""

import argparse
import random
import struct
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ncc.core.units import NS_PER_S
from ncc.host.discovery import Discovery, hello_values
from ncc.host.listener import DROPPED, RECEIVED, Listener
from ncc.host.message import HEAD, MAC_AT, VALUES_AT, Kind
from ncc.host.peers import Peer, parse_one
from ncc.host.sender import Sender
from ncc.host.state import UPPER
from tests.host.hosts import ABOVE, KEY, ME, NEAR, WALL_NS, sender_of, states, told, wall_ns

STRANGER = parse_one("10.0.0.7", "host")
EDGES = (0, 1, 0x7F, 0x80, 0xFF, 2**31, 2**32 - 1, 2**53 + 1, 2**63, 2**64 - 1)
DOUBLES = (float("nan"), float("inf"), -float("inf"), -0.0, 5e-324, 1.8e308, -1.0, 2.0**60)


class FoundError(AssertionError):
    """A message, and the undocumented effect that it had."""

    def __init__(self, what: str, tried: bytes) -> None:
        super().__init__(f"{what}; tried: {tried[:200].hex()}{' ...' if len(tried) > 200 else ''}")
        self.tried = tried


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Some bytes changed, put in, taken out, doubled, or replaced by numbers at which programs stumble."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        at, length = rng.randrange(len(changed) + 1), rng.choice((1, 2, 4, 8, 64))
        match rng.randrange(7):
            case 0 if changed:
                changed[at % len(changed)] ^= 1 << rng.randrange(8)
            case 1:
                changed[at : at + length] = rng.randbytes(length)
            case 2:
                changed[at:at] = rng.randbytes(length)
            case 3:
                del changed[at : at + length]
            case 4:
                changed[at:at] = changed[rng.randrange(len(changed) + 1) :][:length]
            case 5:
                changed[at : at + 8] = struct.pack("<Q", rng.choice(EDGES))
            case _:
                changed[at : at + 8] = struct.pack("<d", rng.choice(DOUBLES))
    return bytes(changed)


def messages(rng: random.Random) -> Iterator[str]:
    """Try messages without end, a hundred with each listener; yields what became of each."""
    while True:
        yield from _hundred(rng)


def _hundred(rng: random.Random) -> Iterator[str]:
    by = {peer: sender_of(peer) for peer in (*NEAR, ABOVE, *ME, STRANGER)}
    heard = Listener(KEY, ME, [*NEAR, None], ABOVE, late_ns=10 * NS_PER_S, wall_ns=wall_ns)
    Discovery(heard, ME, 0)
    now_ns = 0
    for _ in range(100):
        now_ns += rng.choice((0, 1, NS_PER_S // 1000, NS_PER_S))
        whole = _whole(by, rng, now_ns)
        tried, signed = whole, True
        if rng.random() < 0.9:
            signed = rng.random() < 0.6
            tried = _signed(whole, rng) if signed else mutated(whole, rng)
        before = (heard.heard.tobytes(), heard.heard_ns.tobytes(), heard.upper.tobytes(), heard.upper_ns)
        counted = dict(heard.counters)
        try:
            heard.take(memoryview(tried), now_ns)
        except Exception as error:
            raise FoundError(f"a message raised {error!r}", tried) from error
        became = [
            name for name, count in heard.counters.items() if count != counted[name] and name in (RECEIVED, *DROPPED)
        ]
        after = (heard.heard.tobytes(), heard.heard_ns.tobytes(), heard.upper.tobytes(), heard.upper_ns)
        if len(became) != 1:
            raise FoundError(f"a message was counted as {became}", tried)
        if before != after and became != [RECEIVED]:
            raise FoundError(f"a message that was {became[0]} changed something", tried)
        if became == [RECEIVED] and tried != whole and not signed:
            raise FoundError("a changed message was believed", tried)
        _check_sane(heard, tried, now_ns)
        yield became[0]


def _whole(by: dict[Peer, Sender], rng: random.Random, now_ns: int) -> bytes:
    peer = rng.choice(list(by))
    says = by[peer]
    age_ns = rng.choice((0, 0, 1, NS_PER_S, 20 * NS_PER_S))
    if rng.random() < 0.2:
        values = hello_values(peer.address, Kind.UPPER if peer == ABOVE else Kind.STATE)
        return says.messages(Kind.HELLO, [values], now_ns - age_ns, now_ns)[0]
    rows = np.array([(5e9, 3000.0)], dtype=UPPER) if peer == ABOVE else states(1, queued_bytes=rng.random() * 1e6)
    return told(says, rows, now_ns - age_ns, now_ns)[0]


def _signed(whole: bytes, rng: random.Random) -> bytes:
    """With other values, or with another head that is nearly right, and signed."""
    head, values = whole[:VALUES_AT], whole[VALUES_AT:MAC_AT]
    if rng.random() < 0.7:
        values = (mutated(values, rng) + bytes(len(values)))[: len(values)]
    else:
        sender = rng.choice((*NEAR, ABOVE, STRANGER)).id
        clocks = (rng.choice((WALL_NS, WALL_NS, WALL_NS + 1, WALL_NS - 90 * NS_PER_S, *EDGES)) for _ in range(2))
        numbers = [next(clocks), rng.randrange(2**20), rng.choice(EDGES), next(clocks), rng.choice((0, *EDGES))]
        head = HEAD.pack(b"nccx", 1, rng.randrange(1, 4), 0, sender, *numbers)
    return head + values + KEY.sign(head + values)


def _check_sane(heard: Listener, tried: bytes, now_ns: int) -> None:
    for name in ("throughput_bps", "wait_s", "queued_bytes", "next_bytes"):
        if not (np.isfinite(heard.heard[name]).all() and (heard.heard[name] >= 0).all()):
            raise FoundError(f"{name} is {heard.heard[name]}", tried)
    if not (heard.heard["rate_limit_bps"] > 0).all():
        raise FoundError(f"rate_limit_bps is {heard.heard['rate_limit_bps']}", tried)
    if not all(0 <= value < np.inf for value in heard.upper[0].tolist()):
        raise FoundError(f"the upper port is {heard.upper}", tried)
    if max(*heard.heard_ns.tolist(), heard.upper_ns) > now_ns:
        raise FoundError("a state belongs to the future", tried)


def main() -> int:
    """Try messages; 0 if nothing was found, 1 if something was, which is kept."""
    parser = argparse.ArgumentParser(prog="python -m tests.host.fuzz", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32, help="messages depend on it alone")
    parser.add_argument("--keep", type=Path, default=Path("runs/fuzz"), help="folder of what was found (%(default)s)")
    options = parser.parse_args()
    became, until, trying = Counter[str](), time.monotonic() + options.seconds, messages(random.Random(options.seed))
    try:
        while time.monotonic() < until:
            became[next(trying)] += 1
    except FoundError as found:
        options.keep.mkdir(parents=True, exist_ok=True)
        path = options.keep / f"messages-{options.seed}.bin"
        path.write_bytes(found.tried)
        sys.stdout.write(f"seed {options.seed}, try {became.total()}: {found}\nIt is kept in {path}.\n")
        return 1
    counts = ", ".join(f"{what} {count:,}" for what, count in became.most_common())
    sys.stdout.write(f"seed {options.seed}: {became.total():,} tried, nothing found ({counts})\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
