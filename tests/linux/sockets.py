# SPDX-License-Identifier: BSD-3-Clause
"""Small traffic for tests of the rack, each bounded in time."""

import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ncc.core.flows import FloatArray, FlowTable
from ncc.envs.linux import namespaces
from ncc.envs.linux.rack import Rack
from ncc.envs.linux.switch import STATS
from ncc.envs.linux.traffic import Sender, Traffic, TrafficOptions

T = TypeVar("T")
PORT = 5000
TRIES = 4
ENDLESS = 10**9
"""Bytes: longer than any run here."""


def settled(measure: Callable[[], T], good: Callable[[T], bool]) -> T:
    """Measure until the result is good, `TRIES` times at most."""
    for _ in range(TRIES - 1):
        if good(found := measure()):
            return found
    return measure()


@dataclass(frozen=True)
class Transfer:
    """Result of some bulk traffic."""

    goodput_bps: FloatArray
    """[n_pairs]"""
    first: npt.NDArray[Any]
    last: npt.NDArray[Any]
    """[n_ports] of `STATS` at the beginning and the end of that while."""

    def grown(self, port: int, column: str) -> int:
        """Growth of a counter of a port."""
        return int(self.last[column][port] - self.first[column][port])

    def queue_mean_bytes(self, port: int) -> float:
        """Average of a port's queue over that while."""
        return self.grown(port, "queue_byte_ns") / self.grown(port, "now_ns")


def bulk(
    rack: Rack, pairs: Sequence[tuple[int, int]], *, congestion: str = "cubic", warm_s: float = 0.4, for_s: float = 1.2
) -> Transfer:
    """Each pair's first host sends to the second as fast as it may; measured for `for_s` after `warm_s`."""
    n, row = len(pairs), {host: i for i, host in enumerate(rack.topology.hosts)}
    ends = [Sender(rack.namespace(host), rack.address(host)) for host in rack.topology.hosts]
    src, dst = (np.array([row[host] for host in side]) for side in zip(*pairs, strict=True))
    flows = FlowTable(np.zeros(n), src, dst, np.full(n, ENDLESS), np.zeros(n, np.int64))
    with Traffic(ends, flows, src, dst, TrafficOptions(congestion, deadline_s=60.0)) as sending:
        sending.begin(time.monotonic_ns())
        time.sleep(warm_s)
        first, before, began = rack.switch.sample().astype(STATS), sending.flows.copy(), time.monotonic()
        time.sleep(for_s)
        last, after, ended = rack.switch.sample().astype(STATS), sending.flows.copy(), time.monotonic()
    received = (after["received_bytes"] - before["received_bytes"]).astype(float)
    return Transfer(goodput_bps=8 * received / (ended - began), first=first, last=last)


def rto_s(rack: Rack, src: int, dst: int) -> float:
    """Retransmission timeout of a connection that has just been made between two hosts, where nothing else is sent."""
    with namespaces.inside(rack.namespace(dst)):
        listener = socket.create_server((rack.address(dst), PORT))
    with namespaces.inside(rack.namespace(src)):
        sender = socket.create_connection((rack.address(dst), PORT), timeout=1.0)
    with listener, sender:
        (rto_us,) = struct.unpack_from("=I", sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 16), 8)
    return float(rto_us) / 1e6


def round_trips_s(rack: Rack, src: int, dst: int, n: int, *, gap_s: float = 0.002) -> FloatArray:
    """[n] round trips of small datagrams, one after the other."""
    with namespaces.inside(rack.namespace(dst)):
        there = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with namespaces.inside(rack.namespace(src)):
        here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with there, here:
        there.bind((rack.address(dst), PORT))
        here.connect((rack.address(dst), PORT))
        for end in (there, here):
            end.settimeout(2.0)
        echo = threading.Thread(target=_echo, args=(there, n))
        echo.start()
        took = np.empty(n)
        try:
            for i in range(n):
                began = time.perf_counter()
                here.send(b"x" * 20)
                here.recv(100)
                took[i] = time.perf_counter() - began
                time.sleep(gap_s)
        finally:
            echo.join(5)
    return took


def _echo(there: socket.socket, n: int) -> None:
    for _ in range(n):
        data, to = there.recvfrom(100)
        there.sendto(data, to)
