# SPDX-License-Identifier: BSD-3-Clause
"""A pair of hosts, one of them with a queue for tests."""

import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ncc.core.topologies import ManyToOne
from ncc.envs.linux import namespaces
from ncc.envs.linux.order_program import Mode, OrderProgram
from ncc.envs.linux.queue import HostQueue
from ncc.envs.linux.rack import Rack
from tests.linux.lab import FOR_EVER_S
from tests.linux.rates import Count, counted
from tests.linux.sockets import PORT

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
    def queue(self, mode: Mode = "known") -> Iterator[tuple[OrderProgram, HostQueue]]:
        """A queue whose limits hold until the end."""
        program = OrderProgram(FOR_EVER_S, mode=mode)
        program.beat()
        with namespaces.inside(self.rack.namespace(self.sender)):
            made = HostQueue(self.device, LINE_BPS, program=program, overhead_bytes=24)
        try:
            yield program, made
        finally:
            made.close()
            program.close()

    def opened(
        self, kind: socket.SocketKind, *, listens: bool = False, family: socket.AddressFamily = socket.AF_INET
    ) -> socket.socket:
        with namespaces.inside(self.rack.namespace(self.receiver if listens else self.sender)):
            return socket.socket(family, kind)

    @contextmanager
    def listening(self, port: int = PORT) -> Iterator[socket.socket]:
        with self.opened(socket.SOCK_STREAM, listens=True) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self.to[0], port))
            listener.listen()
            yield listener

    @contextmanager
    def connected(self) -> Iterator[tuple[socket.socket, socket.socket]]:
        """A connection's two ends."""
        with self.listening(0) as listener, self.opened(socket.SOCK_STREAM) as sender:
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1_000_000)
            sender.connect(listener.getsockname())
            with listener.accept()[0] as end:
                yield sender, end

    @contextmanager
    def sending(self, kind: socket.SocketKind, **options: int | str) -> Iterator[socket.socket]:
        """One socket, which sends as fast as it may, in a thread; datagrams are not read."""
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
            over, failed = threading.Event(), list[OSError]()
            threads = [threading.Thread(target=_send, args=(one, 1400 if not ends else len(CHUNK), over, failed))]
            threads += [threading.Thread(target=_receive, args=(end, over, failed)) for end in ends]
            for thread in threads:
                thread.start()
            try:
                yield one
            finally:
                over.set()
                for end in (one, *ends):
                    with suppress(OSError):
                        end.shutdown(socket.SHUT_RDWR)
                one.close()
                for thread in threads:
                    thread.join()
                for end in ends:
                    end.close()
            if failed:
                raise failed[0]

    def count(self) -> Count:
        """IP packets that the host has sent."""
        return counted(lambda: int(self.rack.switch.sample()["tx_bytes"][self.port]))

    def out_of_order(self) -> int:
        """Number of packets that have overtaken others of their connection."""
        with namespaces.inside(self.rack.namespace(self.receiver)):
            names, values = Path("/proc/thread-self/net/netstat").read_text().splitlines()[:2]
        return int(dict(zip(names.split(), values.split(), strict=True))["TCPOFOQueue"])

    @contextmanager
    def setting(self, name: str, value: str) -> Iterator[None]:
        """Change a setting of the host's namespace for a block."""
        path = Path("/proc/sys", name)
        with namespaces.inside(self.rack.namespace(self.sender)):
            before = path.read_text()
            path.write_text(value)
        yield
        with namespaces.inside(self.rack.namespace(self.sender)):
            path.write_text(before)

    def root(self) -> list[str]:
        with namespaces.inside(self.rack.namespace(self.sender)):
            said = subprocess.run(
                ["tc", "qdisc", "show", "dev", self.device], capture_output=True, text=True, check=True
            )
        return said.stdout.splitlines()


def received(end: socket.socket, least: int = 0) -> int:
    """Wait until this many bytes have come; return their number."""
    got = 0
    with suppress(BlockingIOError):
        while piece := end.recv(1 << 20, socket.MSG_DONTWAIT if got >= least else 0):
            got += len(piece)
    return got


def tc(*words: str) -> None:
    subprocess.run(["tc", *words], check=True)


def _send(one: socket.socket, size: int, over: threading.Event, failed: list[OSError]) -> None:
    try:
        while True:
            one.send(CHUNK[:size])
    except OSError as error:
        if not over.is_set():
            failed.append(error)


def _receive(one: socket.socket, over: threading.Event, failed: list[OSError]) -> None:
    try:
        while one.recv(1 << 20):
            pass
    except OSError as error:
        if not over.is_set():
            failed.append(error)
