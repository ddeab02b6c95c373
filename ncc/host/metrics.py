# SPDX-License-Identifier: BSD-3-Clause
"""Metrics of an agent for Prometheus: its text format 0.0.4 over HTTP, answered between two decisions.

There is no thread, because it would hold the interpreter while a decision is due, and no HTTP library, because Python's
take 8 MB (`http.server`) and 11 MB (`prometheus_client`) of a host's memory. A tick costs one question to the kernel.
"""

import math
import os
import socket
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ncc.core.errors import ConfigError
from ncc.core.units import NS_PER_S
from ncc.host.peers import Address, parse_one

if TYPE_CHECKING:
    from ncc.host.log import Log
    from ncc.host.loop import Loop
    from ncc.policies import PolicyFile

REQUEST_MOST_BYTES = 8192
PATIENCE_NS = 2 * NS_PER_S
"""Time that a client has to ask and to take the answer; the next client waits meanwhile."""
BACKLOG = 4
BOUNDS_S = tuple(1e-5 * 2**i for i in range(14))
"""Upper bounds of the histograms' buckets, from 10 us to 82 ms."""
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

Number = float | int


class Latencies:
    """A histogram of durations.

    Attributes:
        counts: [len(BOUNDS_S) + 1] durations up to each bound and above the one before; the last is beyond all.
        sum_s: sum of all durations.
    """

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.sum_s = 0.0

    def add(self, seconds: float) -> None:
        """Count a duration."""
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.sum_s += seconds


def rss_bytes() -> int:
    """Memory of this process now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


def peak_rss_bytes() -> int:
    """Most memory that this process has had, without its parent's as in getrusage(2)."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def exposition(loop: "Loop", file: "PolicyFile", log: "Log") -> str:
    """All metrics of an agent in the text format."""
    agent, guard, live, own = loop.agent, loop.agent.guard, loop.live, loop.own

    def by_host(name: str) -> Mapping[str, Number]:
        return {} if own is None else _by_host(getattr(own, name).tolist())

    counters: list[tuple[str, str, str, Number | Mapping[str, Number]]] = [
        ("ncc_periods_total", "periods that have ended", "", loop.periods.epoch),
        ("ncc_missed_periods_total", "of these, without a decision", "", loop.periods.missed),
        ("ncc_messages_total", "messages by their fate", "result", agent.exchange.counters),
        ("ncc_stale_total", "periods in which a peer's or the uplink's state was too old", "whose", agent.counters),
        ("ncc_guard_total", "events of the guard", "what", guard.counters),
        ("ncc_shim_total", "events of the kernel's program", "what", live.shim.counters()),
        ("ncc_torn_reports_total", "reports left to the next period", "", live.torn),
        ("ncc_log_lost_total", "lines of the log that could not be written", "", log.lost),
        ("ncc_cpu_seconds_total", "of this process", "", time.process_time()),
    ]
    gauges: list[tuple[str, str, str, Number | Mapping[str, Number]]] = [
        ("ncc_info", "the policy, by its SHA-256", "policy_sha256", {file.sha256: 1}),
        ("ncc_active", "1 if the policy decides, 0 if the hosts are handed back", "", int(guard.active)),
        ("ncc_limit_bps", "limit in force, +Inf: none", "host", _by_host(loop.limits_bps.tolist())),
        ("ncc_throughput_bps", "sent in the last period", "host", by_host("throughput_bps")),
        ("ncc_queued_bytes", "written by applications, not sent", "host", by_host("queued_bytes")),
        ("ncc_connections", "that are reported", "", 0 if own is None else own.connections),
        ("ncc_resident_memory_bytes", "of this process", "", rss_bytes()),
    ]
    lines = [line for family in counters for line in _family("counter", *family)]
    lines += [line for family in gauges for line in _family("gauge", *family)]
    lines += _histogram("ncc_decision_seconds", "from measuring to limits written", loop.took)
    lines += _histogram("ncc_late_seconds", "by how much periods began late", loop.late)
    return "\n".join(lines) + "\n"


def _by_host(values: list[float]) -> dict[str, Number]:
    return {str(row): value for row, value in enumerate(values)}


def _family(kind: str, name: str, help_: str, label: str, found: Number | Mapping[str, Number]) -> Iterator[str]:
    yield f"# HELP {name} {help_}"
    yield f"# TYPE {name} {kind}"
    if isinstance(found, Mapping):
        yield from (f'{name}{{{label}="{key}"}} {_number(value)}' for key, value in found.items())
    else:
        yield f"{name} {_number(found)}"


def _histogram(name: str, help_: str, latencies: Latencies) -> Iterator[str]:
    yield f"# HELP {name} {help_}"
    yield f"# TYPE {name} histogram"
    seen = 0
    for bound_s, count in zip((*BOUNDS_S, math.inf), latencies.counts, strict=True):
        seen += count
        yield f'{name}_bucket{{le="{_number(bound_s)}"}} {seen}'
    yield f"{name}_sum {_number(latencies.sum_s)}"
    yield f"{name}_count {seen}"


def _number(value: Number) -> str:
    return "+Inf" if value == math.inf else repr(value)


class Endpoint:
    """Answers ``GET /metrics`` at an address, one client at a time and a little at each `tick`.

    Attributes:
        address: where it listens.
        text: makes the text of the metrics; set it before the first `tick`.

    Raises:
        ConfigError: the port is in use, or the address is not this machine's.
    """

    def __init__(self, address: Address) -> None:
        self.text: Callable[[], str] = str
        self._client: socket.socket | None = None
        self._until_ns = 0
        self._request = self._answer = b""
        self._listening = socket.socket(address.family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            self._listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listening.bind(address)
            self._listening.listen(BACKLOG)
        except OSError as error:
            self._listening.close()
            raise ConfigError(
                f"cannot serve metrics at {address}: {error.strerror}; name another address or port, or none"
            ) from None
        self.address = Address(*self._listening.getsockname()[:2])

    def tick(self, now_ns: int) -> None:
        """Take in a client, or go on with the one there is, without waiting."""
        if self._client is None:
            try:
                self._client, _ = self._listening.accept()
            except OSError:  # nobody, or gone again
                return
            self._client.setblocking(False)
            self._request = self._answer = b""
            self._until_ns = now_ns + PATIENCE_NS
        if not self._goes_on(self._client) or now_ns > self._until_ns:
            self._client.close()
            self._client = None

    def close(self) -> None:
        """Answer no more; may be called twice."""
        if self._client is not None:
            self._client.close()
            self._client = None
        self._listening.close()

    def _goes_on(self, client: socket.socket) -> bool:
        """Read or answer as much as is possible now; true if there is more to do."""
        try:
            if not self._answer:
                read = client.recv(REQUEST_MOST_BYTES)
                self._request += read
                if b"\r\n\r\n" not in self._request and b"\n\n" not in self._request:
                    return bool(read) and len(self._request) < REQUEST_MOST_BYTES
                self._answer = _answer(self._request, self.text)
            self._answer = self._answer[client.send(self._answer) :]
            return bool(self._answer)
        except BlockingIOError:
            return True
        except OSError:  # gone
            return False


def parse_endpoint(text: str) -> Address | None:
    """Address of the metrics: ``ADDRESS:PORT``, a port of loopback, or ``none``.

    Raises:
        ConfigError: it has another form.
    """
    if text == "none":
        return None
    if text.isascii() and text.isdigit():
        text = f"127.0.0.1:{text}"
    return parse_one(text, "address of metrics").address


def _answer(request: bytes, text: Callable[[], str]) -> bytes:
    method, _, rest = request.split(b"\n", 1)[0].strip().partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    if method != b"GET":
        return _response("405 Method Not Allowed", "Only GET is answered here.\n")
    if path != b"/metrics":
        return _response("404 Not Found", "There is only /metrics here.\n")
    return _response("200 OK", text())


def _response(status: str, text: str) -> bytes:
    body = text.encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
