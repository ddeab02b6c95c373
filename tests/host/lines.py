# SPDX-License-Identifier: BSD-3-Clause
"""A host with an interface that an agent may limit, and checks of it after the agent is killed."""

import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from ncc.envs.linux import namespaces
from tests.host.agents import AgentProcess, beside_others, restored, sent_by, sysctl
from tests.linux.rates import Count, counted
from tests.linux.spaces import spaces, wire

PEER, PORT = "10.8.0.2", 5000
IPV6, PEER_IPV6 = "fd00:8::1", "fd00:8::2"
LINK_BPS, LIMIT_BPS, HEARTBEAT_S = 1e8, 1e7, 1.0
FRAC = str(LIMIT_BPS / LINK_BPS)
OPTIONS = [
    *("--interface", "line0", "--link-rate", f"{LINK_BPS:g}", "--uplink-rate", f"{LINK_BPS:g}", "--outside-training"),
    *("--floor", FRAC, "--max-rate-frac", FRAC, "--heartbeat-s", str(HEARTBEAT_S), "--default", "--log-s", "0.2"),
    *("--realtime", "--missed-frac", "1"),
]
"""Options of an agent with a constant limit."""
SETTINGS = ("tcp_congestion_control", "tcp_ecn", "tcp_autocorking")
CHUNK, PAUSE_S = bytes(60_000), 0.004
"""Senders offer about the link's rate, so that the tests' own cores are not the limit."""
DATAGRAM = bytes(1400)


class Line:
    """Two namespaces, host and peer, with a line between them."""

    def __init__(self, host: str, peer: str) -> None:
        self.host, self.peer = host, peer

    def opened(self, kind: socket.SocketKind, *, there: bool = False, family: int = socket.AF_INET) -> socket.socket:
        with namespaces.inside(self.peer if there else self.host):
            return socket.socket(family, kind)

    @contextmanager
    def connected(self, congestion: str | None = None, *, ipv6: bool = False) -> Iterator[socket.socket]:
        """A connection whose receiver reads all; None: by the host's own congestion control."""
        family, to = (socket.AF_INET6, PEER_IPV6) if ipv6 else (socket.AF_INET, PEER)
        with ExitStack() as opened:
            listener = opened.enter_context(self.opened(socket.SOCK_STREAM, there=True, family=family))
            sender = opened.enter_context(self.opened(socket.SOCK_STREAM, family=family))
            listener.bind((to, 0))
            listener.listen()
            if congestion is not None:
                sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.encode())
            sender.connect(listener.getsockname())
            receiver = opened.enter_context(listener.accept()[0])
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
            receiver.bind((PEER, PORT))
            sender.connect((PEER, PORT))
            yield sender

    def count(self) -> Count:
        """IP packets that leave the host."""
        return counted(lambda: self.sent()[0])

    def sent(self) -> tuple[int, int]:
        """Bytes of IP packets that have left the host, and the number of packets."""
        return sent_by(self.host, "line0")

    def state(self) -> list[str]:
        """Queues and filters of the interface, and the settings that agents change."""
        shown = [
            subprocess.run(["tc", "-n", self.host, *words], check=True, capture_output=True, text=True).stdout
            for words in (["qdisc", "show", "dev", "line0"], ["filter", "show", "dev", "line0", "egress"])
        ]
        return [*shown, *(sysctl(self.host, name) for name in SETTINGS)]

    def restore(self) -> str:
        """Output of ``ncc host restore`` in the host's namespace."""
        status, said = restored(self.host)
        assert status == 0
        return said


@contextmanager
def line() -> Iterator[Line]:
    """A line whose packets are no larger than on a wire."""
    ends = [
        f"-n {{{i}}} {what.format(i + 1)} dev line{i} {how}"
        for i in (0, 1)
        for what, how in (
            ("address add 10.8.0.{}/24", ""),
            ("address add fd00:8::{}/64", "nodad"),
            ("link set", "gso_max_segs 1 up"),
        )
    ]
    with beside_others(), spaces("lhost", "lpeer", lines=(wire("line0", "line1"), *ends)) as (host, peer):
        yield Line(host, peer)


@contextmanager
def sending(*senders: socket.socket) -> Iterator[None]:
    """Each sender sends all that it can, up to about the link's rate."""
    over = threading.Event()
    threads = [threading.Thread(target=_send, args=(sender, over)) for sender in senders]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _send(sender: socket.socket, over: threading.Event) -> None:
    sender.settimeout(1.0)
    datagrams = sender.type == socket.SOCK_DGRAM
    while not over.wait(PAUSE_S):
        with suppress(TimeoutError, ConnectionRefusedError):
            for _ in range(len(CHUNK) // len(DATAGRAM) if datagrams else 1):
                sender.send(DATAGRAM if datagrams else CHUNK)


def _read(receiver: socket.socket) -> None:
    with suppress(OSError):
        while receiver.recv(1 << 18):
            pass


def kill(on: Line, policy: Path, after_s: float) -> bool:
    """Start an agent on a sending host and kill it at an age, or (negative) a time after it began to limit.

    True if it had begun.
    """
    with AgentProcess(on.host, [str(policy), *OPTIONS, "--name", "ncc_test_q"]) as agent:
        if after_s < 0:
            agent.wait_for("started")
        time.sleep(abs(after_s))
        return bool(agent.events("started"))
