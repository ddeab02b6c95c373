# SPDX-License-Identifier: BSD-3-Clause
"""A host and a peer with a line between them, the host's queue, and what it sends."""

import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from ncc.core.topologies import ManyToOne
from ncc.envs.linux import namespaces
from ncc.envs.linux.order_program import Mode, OrderProgram
from ncc.envs.linux.queue import HostQueue
from ncc.envs.linux.rack import Rack
from tests.linux.lab import FOR_EVER_S
from tests.linux.rates import Count, counted

LINE_BPS, LIMIT_BPS = 200e6, 20e6
TIMEOUT_S = 0.05
PAIR = ManyToOne(senders=1, rate_bps=LINE_BPS)
CHUNK, DATAGRAM = bytes(60_000), bytes(1400)
PORT = 5000


class Line:
    """Namespaces of a host and of a peer, and the host's device."""

    def __init__(self, host: str, peer: str, device: str, address: str) -> None:
        self.host, self.peer, self.device, self.address = host, peer, device, address

    @contextmanager
    def queue(self, mode: Mode = "known") -> Iterator[tuple[OrderProgram, HostQueue]]:
        """A queue whose limits hold until the end."""
        program = OrderProgram(FOR_EVER_S, mode=mode)
        program.beat()
        with namespaces.inside(self.host):
            made = HostQueue(self.device, LINE_BPS, program=program, overhead_bytes=24)
        try:
            yield program, made
        finally:
            made.close()
            program.close()

    def opened(self, kind: socket.SocketKind, *, there: bool = False, family: int = socket.AF_INET) -> socket.socket:
        with namespaces.inside(self.peer if there else self.host):
            return socket.socket(family, kind)

    @contextmanager
    def connected(
        self, congestion: str | None = None, *, to: str = "", family: int = socket.AF_INET
    ) -> Iterator[tuple[socket.socket, socket.socket]]:
        """A connection's two ends; congestion None: by the host's own control."""
        with ExitStack() as undo:
            listener = undo.enter_context(self.opened(socket.SOCK_STREAM, there=True, family=family))
            sender = undo.enter_context(self.opened(socket.SOCK_STREAM, family=family))
            listener.bind((to or self.address, 0))
            listener.listen()
            if congestion is not None:
                sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.encode())
            sender.connect(listener.getsockname())
            yield sender, undo.enter_context(listener.accept()[0])

    @contextmanager
    def flowing(self, congestion: str | None = None, **how: str | int) -> Iterator[socket.socket]:
        """A connection whose receiver reads all."""
        with self.connected(congestion, **how) as (sender, receiver):  # type: ignore[arg-type]
            reading = threading.Thread(target=_read, args=(receiver,))
            reading.start()
            try:
                yield sender
            finally:
                for end in (sender, receiver):
                    with suppress(OSError):
                        end.shutdown(socket.SHUT_RDWR)
                reading.join()

    @contextmanager
    def datagrams(self) -> Iterator[socket.socket]:
        """A socket whose datagrams nobody reads."""
        with self.opened(socket.SOCK_DGRAM) as sender, self.opened(socket.SOCK_DGRAM, there=True) as receiver:
            receiver.bind((self.address, PORT))
            sender.connect((self.address, PORT))
            yield sender

    @contextmanager
    def sending(self, kind: socket.SocketKind = socket.SOCK_STREAM, **options: int | str) -> Iterator[socket.socket]:
        """One socket, which sends as fast as it may."""
        congestion = options.get("congestion")
        stream = self.flowing(None if congestion is None else str(congestion))
        with stream if kind == socket.SOCK_STREAM else self.datagrams() as one:
            if "priority" in options:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, int(options["priority"]))
            with sending(one, pause_s=0.0):
                yield one

    def count(self) -> Count:
        """IP packets that leave the host."""
        return counted(lambda: self.sent()[0])

    def sent(self) -> tuple[int, int]:
        """Bytes of IP packets that have left the host, and the number of packets."""
        return sent_by(self.host, self.device)

    def out_of_order(self) -> int:
        """Number of packets that have overtaken others of their connection."""
        with namespaces.inside(self.peer):
            names, values = Path("/proc/thread-self/net/netstat").read_text().splitlines()[:2]
        return int(dict(zip(names.split(), values.split(), strict=True))["TCPOFOQueue"])

    @contextmanager
    def setting(self, name: str, value: str) -> Iterator[None]:
        """Change a setting of the host's namespace for a block."""
        path = Path("/proc/sys", name)
        with namespaces.inside(self.host):
            before = path.read_text()
            path.write_text(value)
        yield
        with namespaces.inside(self.host):
            path.write_text(before)

    def shown(self, *what: str) -> str:
        """Output of `tc` on the host's device."""
        words = ["tc", "-n", self.host, what[0], "show", "dev", self.device, *what[1:]]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def line_of(rack: Rack) -> Line:
    """The line of a rack of `PAIR`."""
    sender, receiver = (rack.topology.group(name)[0] for name in ("senders", "receiver"))
    return Line(rack.namespace(sender), rack.namespace(receiver), rack.interface(sender), rack.address(receiver))


def sent_by(namespace: str, interface: str) -> tuple[int, int]:
    """Bytes of IP packets that have left an interface, and the number of packets."""
    with namespaces.inside(namespace):
        text = Path("/proc/thread-self/net/dev").read_text()
    sent_bytes, packets = map(int, text.split(f"{interface}:")[1].split()[8:10])
    return sent_bytes - 14 * packets, packets


def received(end: socket.socket, least: int = 0) -> int:
    """Wait until this many bytes have come; return their number."""
    got = 0
    with suppress(BlockingIOError):
        while piece := end.recv(1 << 20, socket.MSG_DONTWAIT if got >= least else 0):
            got += len(piece)
    return got


@contextmanager
def sending(*senders: socket.socket, pause_s: float = 0.004, datagram: bytes = DATAGRAM) -> Iterator[None]:
    """Each sender sends all that it can; with the pause about 100 Mbit/s, so that the tests' own cores do not limit."""
    over = threading.Event()
    threads = [threading.Thread(target=_send, args=(sender, over, pause_s, datagram)) for sender in senders]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _send(sender: socket.socket, over: threading.Event, pause_s: float, datagram: bytes) -> None:
    sender.settimeout(1.0)
    datagrams = sender.type == socket.SOCK_DGRAM
    while not over.wait(pause_s):
        with suppress(TimeoutError, ConnectionRefusedError):
            for _ in range(len(CHUNK) // len(datagram) if datagrams else 1):
                sender.send(datagram if datagrams else CHUNK)


def _read(receiver: socket.socket) -> None:
    with suppress(OSError):
        while receiver.recv(1 << 18):
            pass
