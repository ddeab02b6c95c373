# SPDX-License-Identifier: BSD-3-Clause
"""A host of two, whose queue a test may take."""

import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ncc.core.topologies import ManyToOne
from ncc.envs.linux import namespaces
from ncc.envs.linux.order_program import Mode, OrderProgram
from ncc.envs.linux.queue import HostQueue
from ncc.envs.linux.rack import Rack
from ncc.envs.linux.switch import STATS
from tests.linux.sockets import PORT, settled

LINE_BPS, LIMIT_BPS = 200e6, 20e6
TIMEOUT_S = 0.05
CHUNK = b"x" * 60_000
PAIR = ManyToOne(senders=1, rate_bps=LINE_BPS)


class Host:
    """A sender and a receiver, with a line between them."""

    def __init__(self, rack: Rack) -> None:
        self.rack = rack
        names = {rack.topology.nodes[host].name: host for host in rack.topology.hosts}
        self.sender, self.receiver = names["s0"], names["receiver"]
        self.port = rack.topology.port("s0->tor")
        self.device = f"p{self.port}"
        self.to = (rack.address(self.receiver), PORT)

    @contextmanager
    def queue(self, mode: Mode = "known", timeout_s: float = TIMEOUT_S) -> Iterator[tuple[OrderProgram, HostQueue]]:
        """A queue whose heart beats in a thread."""
        program, over = OrderProgram(timeout_s, mode=mode), threading.Event()
        heart = threading.Thread(target=self._beat, args=(program, over))
        with namespaces.inside(self.rack.namespace(self.sender)):
            made = HostQueue(self.device, LINE_BPS, program=program, overhead_bytes=24)
        program.beat()
        heart.start()
        try:
            yield program, made
        finally:
            over.set()
            heart.join()
            made.close()
            program.close()

    @staticmethod
    def _beat(program: OrderProgram, over: threading.Event) -> None:
        while not over.wait(0.005):
            program.beat()

    def opened(
        self, kind: socket.SocketKind, *, listens: bool = False, family: socket.AddressFamily = socket.AF_INET
    ) -> socket.socket:
        with namespaces.inside(self.rack.namespace(self.receiver if listens else self.sender)):
            return socket.socket(family, kind)

    @contextmanager
    def listening(self) -> Iterator[socket.socket]:
        with self.opened(socket.SOCK_STREAM, listens=True) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(self.to)
            listener.listen()
            yield listener

    @contextmanager
    def sending(self, kind: socket.SocketKind, **options: int | str) -> Iterator[None]:
        """One socket sends as fast as it may, in a thread; datagrams are not read."""
        with (
            self.listening() as listener,
            self.opened(socket.SOCK_DGRAM, listens=True) as unread,
            self.opened(kind) as one,
        ):
            unread.bind(self.to)
            if "congestion" in options:
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, str(options["congestion"]).encode())
            if "priority" in options:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, int(options["priority"]))
            one.connect(self.to)
            ends = [listener.accept()[0]] if kind == socket.SOCK_STREAM else []
            threads = [threading.Thread(target=_send, args=(one, 1400 if not ends else len(CHUNK)))]
            threads += [threading.Thread(target=_receive, args=(end,)) for end in ends]
            for thread in threads:
                thread.start()
            try:
                yield
            finally:
                for end in (one, *ends):
                    with suppress(OSError):
                        end.shutdown(socket.SHUT_RDWR)
                one.close()
                for thread in threads:
                    thread.join(5)
                for end in ends:
                    end.close()

    def bps(self, for_s: float = 0.4) -> float:
        """Bits of IP packets that the host sends in a second."""
        before = self.rack.switch.sample().astype(STATS)[self.port]
        time.sleep(for_s)
        after = self.rack.switch.sample().astype(STATS)[self.port]
        return 8e9 * float(after["tx_bytes"] - before["tx_bytes"]) / float(after["now_ns"] - before["now_ns"])

    def near(self, rate_bps: float) -> float:
        """Rate of the host at a limit; measured again if it differs, because a busy machine sends late."""
        return settled(self.bps, lambda bps: bps == pytest.approx(rate_bps, rel=0.05))

    def out_of_order(self) -> int:
        """Number of packets that have overtaken others of their connection."""
        with namespaces.inside(self.rack.namespace(self.receiver)):
            names, values = Path("/proc/thread-self/net/netstat").read_text().splitlines()[:2]
        return int(dict(zip(names.split(), values.split(), strict=True))["TCPOFOQueue"])

    def root(self) -> list[str]:
        with namespaces.inside(self.rack.namespace(self.sender)):
            said = subprocess.run(
                ["tc", "qdisc", "show", "dev", self.device], capture_output=True, text=True, check=True
            )
        return said.stdout.splitlines()


def tc(*words: str) -> None:
    subprocess.run(["tc", *words], check=True)


def _send(one: socket.socket, size: int) -> None:
    with suppress(OSError):
        while True:
            one.send(CHUNK[:size])


def _receive(one: socket.socket) -> None:
    with suppress(OSError):
        while one.recv(1 << 20):
            pass
