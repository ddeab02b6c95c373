# SPDX-License-Identifier: BSD-3-Clause
"""Small traffic for tests of the rack, bounded in time, and the kernel's data on sockets."""

import re
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from fcntl import ioctl
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ncc.core.flows import FloatArray, FlowTable
from ncc.envs.linux import namespaces
from ncc.envs.linux.rack import Rack
from ncc.envs.linux.switch import STATS
from ncc.envs.linux.traffic import Sender, Traffic, TrafficOptions
from tests.support.processes import PATIENCE_S

PORT = 5000
ENDLESS = 10**9
"""Bytes of a flow that outlasts any run here."""


def paced_bps(namespace: str) -> dict[int, float]:
    """Pacing rate of payload of each connection in a namespace, by SO_MARK, from `ss`."""
    asked = ["ss", "-N", namespace, "-HtnieO", "state", "established"]
    said = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    found = re.findall(r"fwmark:0x([0-9a-f]+) .* pacing_rate (\d+)bps", said)
    return {int(mark, 16): float(rate) for mark, rate in found}


class Info(NamedTuple):
    """Some of the kernel's TCP_INFO of a connection."""

    rto_s: float
    idle_s: float
    """Time since it has sent data."""
    window_pkts: int
    paced_bps: float
    """Rate of payload at which it may send."""
    received_bytes: int
    sent_pkts: int
    """With payload."""
    offered_bytes: int
    """Window of its receiver."""


def info(sender: socket.socket) -> Info:
    known = sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)
    rto_us, idle_ms, window_pkts, sent_pkts, offered_bytes = (
        struct.unpack_from("=I", known, at)[0] for at in (8, 44, 80, 156, 228)
    )
    paced, received_bytes = (struct.unpack_from("=Q", known, at)[0] for at in (104, 128))
    return Info(rto_us / 1e6, idle_ms / 1e3, window_pkts, 8.0 * paced, received_bytes, sent_pkts, offered_bytes)


class Bulk:
    """Endless flows under way through a rack."""

    def __init__(self, rack: Rack, sending: Traffic) -> None:
        self._rack, self._sending = rack, sending
        self._first = self.ports()

    def ports(self) -> npt.NDArray[Any]:
        """Counters [n_ports] of `STATS`."""
        return self._rack.switch.sample().astype(STATS)

    def grown(self, port: int, column: str) -> int:
        """Growth of a counter of a port since the flows began, or since `mark`."""
        return int(self.ports()[column][port]) - int(self._first[column][port])

    def mark(self) -> None:
        """Count from now on."""
        self._first = self.ports()

    def queue_mean_bytes(self, port: int) -> float:
        """Mean queue of a port since `mark`."""
        return self.grown(port, "queue_byte_ns") / self.grown(port, "now_ns")

    def received_bytes(self) -> npt.NDArray[np.int64]:
        """[n_pairs]"""
        return self._sending.flows["received_bytes"].astype(np.int64)


@contextmanager
def bulk(rack: Rack, pairs: Sequence[tuple[int, int]], congestion: str = "cubic") -> Iterator[Bulk]:
    """Each pair's first host sends to the second as fast as it may."""
    n, row = len(pairs), {host: i for i, host in enumerate(rack.topology.hosts)}
    ends = [Sender(rack.namespace(host), rack.address(host)) for host in rack.topology.hosts]
    src, dst = (np.array([row[host] for host in side]) for side in zip(*pairs, strict=True))
    flows = FlowTable(np.zeros(n), src, dst, np.full(n, ENDLESS), np.zeros(n, np.int64))
    with Traffic(ends, flows, src, dst, TrafficOptions(congestion, deadline_s=1000.0)) as sending:
        run = Bulk(rack, sending)
        sending.begin(time.monotonic_ns())
        yield run


def unacknowledged(sender: socket.socket) -> int:
    """Bytes of a connection that were written and not acknowledged."""
    return int.from_bytes(ioctl(sender, termios.TIOCOUTQ, bytes(4)), sys.byteorder)


def round_trips_s(rack: Rack, src: int, dst: int, n: int, *, gap_s: float = 0.0) -> FloatArray:
    """[n] round trips of small datagrams, one after the other; one that a busy machine loses is sent again."""
    with namespaces.inside(rack.namespace(dst)):
        there = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with namespaces.inside(rack.namespace(src)):
        here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with there, here:
        there.bind((rack.address(dst), PORT))
        here.connect((rack.address(dst), PORT))
        for end in (there, here):
            end.settimeout(1.0)
        done = threading.Event()
        echo = threading.Thread(target=_echo, args=(there, done))
        echo.start()
        took = np.empty(n)
        try:
            for i in range(n):
                times = (_round_trip_s(here, bytes([i, attempt]) * 10) for attempt in range(int(PATIENCE_S)))
                took[i] = next(time_s for time_s in times if time_s is not None)
                time.sleep(gap_s)
        finally:
            done.set()
            there.sendto(b"", there.getsockname())  # wakes it, and passes no port
            echo.join(PATIENCE_S)
    return took


def _round_trip_s(here: socket.socket, words: bytes) -> float | None:
    """Time until a datagram comes back; None: it did not within the socket's timeout."""
    began = time.perf_counter()
    here.send(words)
    try:
        while here.recv(100) != words:  # an earlier one that was late
            pass
    except TimeoutError:
        return None
    return time.perf_counter() - began


def _echo(there: socket.socket, done: threading.Event) -> None:
    while not done.is_set():
        with suppress(TimeoutError):
            data, to = there.recvfrom(100)
            there.sendto(data, to)
