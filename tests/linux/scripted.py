# SPDX-License-Identifier: BSD-3-Clause
"""Connections of the kernel over a path that drops, marks and delays chosen packets.

Two network namespaces are joined by two TUN devices, between which this process carries packets. Every connection has a
script of its own, found by its port, so that many run at a time.
"""

import heapq
import os
import select
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from fcntl import ioctl

from ncc.envs.linux import namespaces
from tests.linux.sockets import unacknowledged
from tests.support.processes import eventually

MSS = 1460
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 1, 0x1000
_FIRST_PORT = 20_000
_HANDSHAKE_EARLY_S = 0.001
"""Time by which SYNs travel faster than data. RACK takes a retransmission whose RTT is below the least so far for its
original (RFC 8985, section 6.2, step 2). Without this, microseconds of the path would decide which it is."""
_AHEAD = 3
"""Connections that are opened before the first is used, so that none waits for its handshake."""
_SETTINGS = {
    "tcp_ecn": 1,
    "tcp_timestamps": 0,
    "tcp_no_metrics_save": 1,
    "tcp_sack": 1,
    "tcp_recovery": 1,
    "tcp_early_retrans": 3,
    "tcp_frto": 2,
    "tcp_min_tso_segs": 1,
    "tcp_tso_win_divisor": 0,
}


@dataclass(frozen=True)
class Script:
    """Faults of a flow, by the number of its data packet in the order of sending, from 1, retransmissions included."""

    packets: int
    """Packets of the flow."""
    drop: tuple[int, ...] = ()
    mark: tuple[int, ...] = ()
    delay_s: Mapping[int, float] = field(default_factory=dict)
    short_bytes: int = 0
    """Bytes by which the last packet is shorter than the others."""


@dataclass
class Trace:
    """Data packets of a connection in the order of sending: time since the first in seconds, and number in the flow."""

    time_s: list[float] = field(default_factory=list)
    number: list[int] = field(default_factory=list)


def kernel_traces(scripts: list[Script], *, control: str, one_way_s: float, apart_s: float = 0.05) -> list[Trace]:
    """Run a connection for each script, and return what its sender sent."""
    with ExitStack() as undo:
        ends = []
        for i in (1, 2):
            name = f"{namespaces.owner()}-script-{i}"
            namespaces.create(name)
            undo.callback(namespaces.remove, name)
            ends.append((name, _tun(name, i)))
            undo.callback(os.close, ends[-1][1])
            _in(name, "ip", "link", "set", "lo", "up")
            for key, value in _SETTINGS.items():
                _in(name, "sysctl", "-qw", f"net.ipv4.{key}={value}")
            for key in ("tcp_rmem", "tcp_wmem"):
                _in(name, "sysctl", "-qw", f"net.ipv4.{key}=4096 16000000 16000000")
            _in(name, "ip", "link", "set", f"t{i}", "up", "mtu", "1500", "txqueuelen", "10000", "gso_max_segs", "1")
            _in(name, "ip", "addr", "add", f"10.9.0.{i}/24", "dev", f"t{i}")
            _in(name, "ip", "route", "replace", "10.9.0.0/24", "dev", f"t{i}", "initcwnd", "10", "quickack", "1")
        path = _Path(ends[0][1], ends[1][1], scripts, one_way_s)
        carrier = threading.Thread(target=path.carry)
        # All threads of this process, since the one that carries packets waits for others to give back the interpreter.
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
        carrier.start()
        try:
            _transfer(ends[0][0], ends[1][0], scripts, control, apart_s)
        finally:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
            path.over = True
            carrier.join()
    return path.traces


def _in(name: str, *command: str) -> None:
    subprocess.run(["ip", "netns", "exec", name, *command], check=True, capture_output=True)


def _tun(name: str, i: int) -> int:
    with namespaces.inside(name):
        end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        ioctl(end, _TUNSETIFF, struct.pack("16sH22x", f"t{i}".encode(), _IFF_TUN | _IFF_NO_PI))
    return end


def _transfer(source: str, sink: str, scripts: list[Script], control: str, apart_s: float) -> None:
    """Open a connection for each script, one after the other, and send by each as soon as it is open."""
    with namespaces.inside(sink):
        listener = socket.create_server(("10.9.0.2", 5000), backlog=len(scripts))
    with listener, ExitStack() as undo:
        receiving = threading.Thread(target=_receive, args=(listener, len(scripts), undo))
        receiving.start()
        senders: list[socket.socket] = []
        for i in range(len(scripts) + _AHEAD):
            if i < len(scripts):
                with namespaces.inside(source):
                    senders.append(undo.enter_context(socket.socket()))
                senders[i].setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
                senders[i].bind(("10.9.0.1", _FIRST_PORT + i))
                senders[i].setblocking(False)
                senders[i].connect_ex(("10.9.0.2", 5000))
            if i >= _AHEAD:
                script, sender = scripts[i - _AHEAD], senders[i - _AHEAD]
                sender.setblocking(True)
                sender.sendall(bytes(script.packets * MSS - script.short_bytes))
            time.sleep(apart_s)
        receiving.join()
        for sender in senders:
            assert eventually(lambda sender=sender: not unacknowledged(sender))  # type: ignore[misc]


def _receive(listener: socket.socket, n: int, undo: ExitStack) -> None:
    for _ in range(n):
        receiver = undo.enter_context(listener.accept()[0])
        threading.Thread(target=_swallow, args=(receiver,), daemon=True).start()


def _swallow(receiver: socket.socket) -> None:
    try:
        while receiver.recv(1 << 16):
            pass
    except OSError:
        return


class _Path:
    def __init__(self, source: int, sink: int, scripts: list[Script], one_way_s: float) -> None:
        self.source, self.sink, self.scripts, self.one_way_s = source, sink, scripts, one_way_s
        self.traces = [Trace() for _ in scripts]
        self.over = False
        self._first = [0] * len(scripts)
        self._began_s = [0.0] * len(scripts)
        self._waiting: list[tuple[float, int, int, bytes]] = []
        self._taken = 0

    def carry(self) -> None:
        while not self.over:
            wait_s = self._waiting[0][0] - time.monotonic() if self._waiting else 0.05
            ready, _, _ = select.select([self.source, self.sink], [], [], max(0.0, min(wait_s, 0.05)))
            for end in ready:
                self._read(end)
            while self._waiting and self._waiting[0][0] <= time.monotonic():
                _, _, end, packet = heapq.heappop(self._waiting)
                os.write(end, packet)

    def _read(self, end: int) -> None:
        while True:
            try:
                packet = os.read(end, 65536)
            except BlockingIOError:
                return
            now_s = time.monotonic()
            wait_s: float | None = self.one_way_s
            if end == self.source and packet[0] >> 4 == 4 and packet[9] == socket.IPPROTO_TCP:
                packet, wait_s = self._scripted(packet, now_s)
            if wait_s is not None:
                self._taken += 1
                other = self.sink if end == self.source else self.source
                heapq.heappush(self._waiting, (now_s + wait_s, self._taken, other, packet))

    def _scripted(self, packet: bytes, now_s: float) -> tuple[bytes, float | None]:
        port, _, seq = struct.unpack_from("!HHI", packet, 20)
        i, flags = port - _FIRST_PORT, packet[33]
        payload = len(packet) - 20 - 4 * (packet[32] >> 4)
        if flags & 2:  # SYN
            self._first[i] = seq + 1
            return packet, self.one_way_s - _HANDSHAKE_EARLY_S
        if not payload:
            return packet, self.one_way_s
        script, trace = self.scripts[i], self.traces[i]
        if not trace.number:
            self._began_s[i] = now_s
        trace.time_s.append(now_s - self._began_s[i])
        trace.number.append((seq - self._first[i]) % 2**32 // MSS)
        nth = len(trace.number)
        if nth in script.drop:
            return packet, None
        if nth in script.mark:
            packet = _marked(packet)
        return packet, self.one_way_s + script.delay_s.get(nth, 0.0)


def _marked(packet: bytes) -> bytes:
    """An IPv4 packet with CE set, and its checksum."""
    marked = bytearray(packet)
    marked[1] |= 3
    marked[10:12] = b"\0\0"
    total = sum(struct.unpack_from("!10H", marked))
    total = (total & 0xFFFF) + (total >> 16)
    struct.pack_into("!H", marked, 10, ~(total + (total >> 16)) & 0xFFFF)
    return bytes(marked)
