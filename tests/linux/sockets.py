# SPDX-License-Identifier: BSD-3-Clause
"""Small traffic for tests of the rack: plain sockets, made inside its namespaces, each test bounded in time."""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ncc.core.flows import FloatArray
from ncc.envs.linux import namespaces
from ncc.envs.linux.rack import Rack
from ncc.envs.linux.switch import STATS

T = TypeVar("T")
PORT = 5000
TRIES = 4


def settled(measure: Callable[[], T], good: Callable[[T], bool]) -> T:
    """Measure until the result is good, `TRIES` times at most."""
    for _ in range(TRIES - 1):
        if good(found := measure()):
            return found
    return measure()


@dataclass(frozen=True)
class Transfer:
    """What a while of bulk traffic came to."""

    goodput_bps: FloatArray
    """[n_pairs]"""
    first: npt.NDArray[Any]
    last: npt.NDArray[Any]
    """[n_ports] of `STATS` at the beginning and the end of that while."""

    def grown(self, port: int, column: str) -> int:
        """By how much a count of a port grew."""
        return int(self.last[column][port] - self.first[column][port])

    def queue_mean_bytes(self, port: int) -> float:
        """Average of a port's queue over that while."""
        return self.grown(port, "queue_byte_ns") / self.grown(port, "now_ns")


def bulk(
    rack: Rack, pairs: Sequence[tuple[int, int]], *, congestion: str = "cubic", warm_s: float = 0.4, for_s: float = 1.2
) -> Transfer:
    """Each pair's first host sends to the second as fast as it may; measured for `for_s` after `warm_s`."""
    received, over, threads = [0] * len(pairs), threading.Event(), []
    with contextlib.ExitStack() as open_:
        for i, (src, dst) in enumerate(pairs):
            sender, receiver = connected(rack, src, dst, PORT + i, congestion)
            open_.callback(sender.close)
            open_.callback(receiver.close)
            threads.append(threading.Thread(target=_send, args=(sender, over)))
            threads.append(threading.Thread(target=_receive, args=(receiver, received, i)))
        try:
            for thread in threads:
                thread.start()
            time.sleep(warm_s)
            first, so_far, began = rack.switch.sample().astype(STATS), list(received), time.monotonic()
            time.sleep(for_s)
            last, in_all, ended = rack.switch.sample().astype(STATS), list(received), time.monotonic()
        finally:
            over.set()
            for thread in threads:
                thread.join(10)
    goodput = 8 * (np.array(in_all) - np.array(so_far)) / (ended - began)
    return Transfer(goodput_bps=goodput, first=first, last=last)


def connected(
    rack: Rack, src: int, dst: int, port: int, congestion: str = "cubic"
) -> tuple[socket.socket, socket.socket]:
    """Both ends of a TCP connection between two hosts; sends give up after a second."""
    with namespaces.inside(rack.namespace(dst)):
        listener = socket.socket()
    with namespaces.inside(rack.namespace(src)):
        sender = socket.socket()
    with listener:
        for end in (listener, sender):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.encode())
            end.settimeout(1.0)
        listener.bind((rack.address(dst), port))
        listener.listen()
        sender.connect((rack.address(dst), port))
        return sender, listener.accept()[0]


def rto_s(rack: Rack, src: int, dst: int) -> float:
    """Retransmission timeout of a connection that has just been made between two hosts, where nothing else is sent."""
    here, there = connected(rack, src, dst, PORT)
    with here, there:
        (rto_us,) = struct.unpack_from("=I", here.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 16), 8)
    return float(rto_us) / 1e6


def _send(sender: socket.socket, over: threading.Event) -> None:
    data = bytes(65536)
    while not over.is_set():
        with contextlib.suppress(TimeoutError):
            sender.send(data)
    sender.shutdown(socket.SHUT_WR)


def _receive(receiver: socket.socket, received: list[int], i: int) -> None:
    receiver.settimeout(8.0)
    buffer = bytearray(1 << 18)
    while n := receiver.recv_into(buffer):
        received[i] += n


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
