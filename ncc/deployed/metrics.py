# SPDX-License-Identifier: BSD-3-Clause
"""An agent's numbers for Prometheus: its text format 0.0.4 over HTTP, answered between two decisions.

There is no thread, for it would hold the interpreter while a decision is due, and no HTTP library, for those of Python
take 8 MB (`http.server`) and 11 MB (`prometheus_client`) of a host's memory. A tick costs one question to the kernel.
"""

import math
import re
import socket
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ncc.core.errors import ConfigError
from ncc.core.units import NS_PER_S
from ncc.deployed.peers import Address, parse_one

PORT = 9472
REQUEST_MOST_BYTES = 8192
CLIENTS_MOST = 4
PATIENCE_NS = 2 * NS_PER_S
"""For a client to ask, and to take the answer."""
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
BOUNDS_S = tuple(1e-5 * 2**i for i in range(14))
Number = float | int
Read = Callable[[], "Number | Mapping[str, Number]"]


class _Family(NamedTuple):
    name: str
    kind: str
    help: str
    label: str
    read: Read


class Latencies:
    """A histogram of durations: how many took at most each of some bounds.

    Attributes:
        bounds_s: upper bounds, ascending.
        counts: [len(bounds_s) + 1] durations in each of the ranges between them; the last is beyond all.
        sum_s: of all durations.
    """

    def __init__(self, bounds_s: Iterable[float] = BOUNDS_S) -> None:
        """From 10 us to 82 ms, unless said otherwise."""
        self.bounds_s = tuple(bounds_s)
        self.counts = [0] * (len(self.bounds_s) + 1)
        self.sum_s = 0.0

    def add(self, seconds: float) -> None:
        """One more."""
        self.counts[bisect_left(self.bounds_s, seconds)] += 1
        self.sum_s += seconds


class Metrics:
    """Numbers by name, each read when it is asked for."""

    def __init__(self) -> None:
        self._families: dict[str, _Family] = {}
        self._histograms: dict[str, tuple[str, Latencies]] = {}

    def counter(self, name: str, help_: str, read: Read, label: str = "") -> None:
        """A number that only grows; its name ends in ``_total``. `read` gives it, or one per value of `label`."""
        self._add(_Family(name, "counter", help_, label, read))

    def gauge(self, name: str, help_: str, read: Read, label: str = "") -> None:
        """A number that is as it is now."""
        self._add(_Family(name, "gauge", help_, label, read))

    def histogram(self, name: str, help_: str, latencies: Latencies) -> None:
        """Durations; the name ends in ``_seconds``."""
        self._check(name, "_seconds")
        self._histograms[name] = (help_, latencies)

    def _add(self, family: _Family) -> None:
        self._check(family.name, "_total" if family.kind == "counter" else "")
        if family.label and not _NAME.fullmatch(family.label):
            raise ConfigError(f"the label {family.label!r} of metric {family.name} must be of letters, digits and _")
        self._families[family.name] = family

    def _check(self, name: str, end: str) -> None:
        if not _NAME.fullmatch(name) or not name.endswith(end):
            raise ConfigError(f"the metric {name!r} must be of letters, digits and _, and end in {end or 'one'!r}")
        if name in self._families or name in self._histograms:
            raise ConfigError(f"there are two metrics {name}: give one another name")

    def text(self) -> str:
        """All numbers in the text format."""
        lines: list[str] = []
        for name, kind, help_, label, read in self._families.values():
            lines += _head(name, kind, help_)
            found = read()
            if isinstance(found, Mapping):
                lines += (f'{name}{{{label}="{_escaped(str(key))}"}} {_number(value)}' for key, value in found.items())
            else:
                lines.append(f"{name} {_number(found)}")
        for name, (help_, latencies) in self._histograms.items():
            lines += _head(name, "histogram", help_)
            seen = 0
            for bound_s, count in zip((*latencies.bounds_s, math.inf), latencies.counts, strict=True):
                seen += count
                lines.append(f'{name}_bucket{{le="{_number(bound_s)}"}} {seen}')
            lines += (f"{name}_sum {_number(latencies.sum_s)}", f"{name}_count {seen}")
        return "\n".join(lines) + "\n"


class Endpoint:
    """Answers ``GET /metrics`` at an address, a little at each `tick`."""

    def __init__(self, metrics: Metrics, address: Address) -> None:
        """Listens.

        Raises:
            ConfigError: the port is in use, or the address is not this machine's.
        """
        self._metrics, self._clients = metrics, list[_Client]()
        self._listening = socket.socket(address.family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            self._listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listening.bind(address)
            self._listening.listen(CLIENTS_MOST)
        except OSError as error:
            self._listening.close()
            raise ConfigError(
                f"cannot serve metrics at {address}: {error.strerror}; name another address or port, or none"
            ) from None
        self.address = Address(*self._listening.getsockname()[:2])

    def tick(self, now_ns: int) -> None:
        """Take in a client, or go on with one, without waiting."""
        if len(self._clients) < CLIENTS_MOST:
            try:
                accepted, _ = self._listening.accept()
            except OSError:  # nobody, or gone again
                pass
            else:
                accepted.setblocking(False)
                self._clients.append(_Client(accepted, now_ns + PATIENCE_NS))
        for client in tuple(self._clients):
            if client.goes_on(self._metrics) and now_ns <= client.until_ns:
                continue
            client.socket.close()
            self._clients.remove(client)

    def close(self) -> None:
        """Answer nobody more; may be called twice."""
        for client in self._clients:
            client.socket.close()
        self._clients.clear()
        self._listening.close()


class _Client:
    """Who asks: first it is heard, then answered."""

    def __init__(self, accepted: socket.socket, until_ns: int) -> None:
        self.socket, self.until_ns = accepted, until_ns
        self._asked, self._answer = b"", b""

    def goes_on(self, metrics: Metrics) -> bool:
        """Hear or answer as much as is possible now; whether there is more to do."""
        try:
            if not self._answer:
                read = self.socket.recv(REQUEST_MOST_BYTES)
                self._asked += read
                if b"\r\n\r\n" not in self._asked and b"\n\n" not in self._asked:
                    return bool(read) and len(self._asked) < REQUEST_MOST_BYTES
                self._answer = _answer(self._asked, metrics)
            self._answer = self._answer[self.socket.send(self._answer) :]
            return bool(self._answer)
        except BlockingIOError:
            return True
        except OSError:  # gone
            return False


def parse_endpoint(text: str) -> Address | None:
    """Where metrics are served: ``ADDRESS:PORT``, a port of loopback, or ``none``.

    Raises:
        ConfigError: it has another form.
    """
    if text == "none":
        return None
    if text.isascii() and text.isdigit():
        text = f"127.0.0.1:{text}"
    return parse_one(text, "address of metrics").address


def _answer(asked: bytes, metrics: Metrics) -> bytes:
    method, _, rest = asked.split(b"\n", 1)[0].strip().partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    if method not in {b"GET", b"HEAD"}:
        return _response("405 Method Not Allowed", "Only GET is answered here.\n")
    if path != b"/metrics":
        return _response("404 Not Found", "There is only /metrics here.\n")
    answer = _response("200 OK", metrics.text())
    return answer if method == b"GET" else answer.split(b"\r\n\r\n", 1)[0] + b"\r\n\r\n"


def _response(status: str, text: str) -> bytes:
    body = text.encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


def _head(name: str, kind: str, help_: str) -> tuple[str, str]:
    said = help_.replace("\\", r"\\").replace("\n", r"\n")
    return f"# HELP {name} {said}", f"# TYPE {name} {kind}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: Number) -> str:
    if isinstance(value, int):
        return str(value)
    if math.isfinite(value):
        return repr(float(value))
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
