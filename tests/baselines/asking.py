# SPDX-License-Identifier: BSD-3-Clause
"""A front end on a modelled port, driven by its header alone: the window after every answer, for golden curves."""

import heapq
from typing import NamedTuple

import numpy as np

from ncc.baselines.registry import named
from tests.baselines.ports import Front

RATE_BYTES_PER_S, BASE_RTT_NS, LATE_NS, PACKET_BYTES, HEADERS_BYTES = 125_000_000, 100_000, 10_000_000, 1538, 78
"""A port of 1 Gbit/s, and the time after which an answer that found the buffer full comes again."""


class Asked(NamedTuple):
    """Answers of a request, and the port's buffer; sizes in bytes."""

    answers: int
    low: int
    high: int
    buffer: int


STIMULI = {
    "one packet": Asked(1000, 20, 1000, 100_000),
    "short buffer": Asked(400, 20, 1000, 12_500),
    "32 packets": Asked(100, 46_720, 46_720, 100_000),
}


def run(name: str, asked: Asked, *params: int) -> tuple[list[int], list[int], int]:
    """Windows after each answer, the numbers of the answers that came late, and the time in ns of the last one.

    An answer reaches the port a base RTT after its query. If its bytes do not fit the buffer then, all of it comes
    again `LATE_NS` later. What fits leaves the port in order, at its rate.
    """
    given = params or [param.default for param in named("front end")[name]]
    front = Front(
        name,
        given,
        rate_bytes_per_s=RATE_BYTES_PER_S,
        buffer_bytes=asked.buffer,
        base_rtt_ns=BASE_RTT_NS,
        packet_bytes=PACKET_BYTES,
    )
    sizes = np.random.default_rng(1).integers(asked.low, asked.high + 1, asked.answers)
    wire = (sizes + HEADERS_BYTES * -(-sizes // 1460)).tolist()
    left, outstanding, free_ns, next_ns, asked_ns = 0, 0, 0, 0, [0] * asked.answers
    windows: list[int] = []
    late: list[int] = []
    events: list[tuple[int, str, int]] = []
    if front.tick_ns():
        heapq.heappush(events, (front.tick_ns(), "tick", 0))
    heapq.heappush(events, (0, "ask", 0))
    while len(windows) < asked.answers:
        now, what, which = heapq.heappop(events)
        if what == "comes":
            if max(free_ns - now, 0) * RATE_BYTES_PER_S > (asked.buffer - min(wire[which], asked.buffer)) * 1e9:
                heapq.heappush(events, (now + LATE_NS, "comes", which))
                continue
            free_ns = max(free_ns, now) + wire[which] * 8
            heapq.heappush(events, (free_ns, "done", which))
        elif what == "done":
            outstanding -= 1
            took = now - asked_ns[which]
            if took >= LATE_NS:
                late.append(len(windows))
            windows.append(
                front.answered(
                    now_ns=now, took_ns=took, wire_bytes=wire[which], late=int(took >= LATE_NS),
                    outstanding=outstanding, waiting=asked.answers - left,
                )
            )  # fmt: skip
        elif what == "tick":
            front.tick(now_ns=now, outstanding=outstanding, waiting=asked.answers - left)
            heapq.heappush(events, (now + front.tick_ns(), "tick", 0))
        while left < asked.answers and (front.window() == 0 or outstanding < front.window()):
            if now < next_ns:
                heapq.heappush(events, (next_ns, "ask", 0))
                break
            asked_ns[left] = now
            heapq.heappush(events, (now + BASE_RTT_NS, "comes", left))
            next_ns, left, outstanding = now + front.pace_ns(), left + 1, outstanding + 1
    return windows, late, now
