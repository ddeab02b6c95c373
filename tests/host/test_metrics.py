# SPDX-License-Identifier: BSD-3-Clause
"""Metrics: as Prometheus reads them, over HTTP, whatever a client asks and however slowly."""

import math
import socket
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from ncc.core.errors import ConfigError
from ncc.host.metrics import PATIENCE_NS, Endpoint, Latencies, exposition, parse_endpoint
from ncc.host.peers import Address

LOOPBACK = Address("127.0.0.1", 0)


def loop_of(took: Latencies) -> Any:
    """The attributes of a loop of two hosts that its metrics show, one of them without a limit."""
    guard = SimpleNamespace(counters={"hand_backs": 1}, active=True)
    exchange = SimpleNamespace(counters={"sent": 2**60, "forged": 0})
    values = np.array([1e6, 2.5])
    return SimpleNamespace(
        agent=SimpleNamespace(guard=guard, exchange=exchange, counters={"stale_peers": 3}),
        live=SimpleNamespace(shim=SimpleNamespace(counters=lambda: {"fallbacks": 0}), torn=4),
        own=SimpleNamespace(throughput_bps=values, queued_bytes=values, connections=5),
        periods=SimpleNamespace(epoch=7, missed=1),
        limits_bps=np.array([1e6, np.inf]),
        took=took,
        late=Latencies(),
    )


def test_all_metrics_are_readable_by_prometheus() -> None:
    took: Any = Latencies()
    for seconds in (5e-6, 1e-5, 1.5e-5, 7.0):
        took.add(seconds)
    file: Any = SimpleNamespace(sha256="ab")
    log: Any = SimpleNamespace(lost=0)
    families = list(text_string_to_metric_families(exposition(loop_of(took), file, log)))
    found = {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}
    kinds = {family.name: family.type for family in families}
    assert {kinds[name] for name in ("ncc_periods", "ncc_messages")} == {"counter"}
    assert (kinds["ncc_limit_bps"], kinds["ncc_decision_seconds"]) == ("gauge", "histogram")
    assert found["ncc_info", "ab"] == found["ncc_active",] == 1
    assert (found["ncc_messages_total", "sent"], found["ncc_messages_total", "forged"]) == (2**60, 0)
    assert (found["ncc_limit_bps", "0"], found["ncc_limit_bps", "1"]) == (1e6, math.inf)
    assert found["ncc_queued_bytes", "1"] == 2.5
    buckets = [found["ncc_decision_seconds_bucket", bound] for bound in ("1e-05", "2e-05", "+Inf")]
    assert (buckets, found["ncc_decision_seconds_count",]) == ([2, 3, 4], 4)
    assert found["ncc_decision_seconds_sum",] == pytest.approx(7.00003)
    assert found["ncc_resident_memory_bytes",] > 1e6


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with closing(Endpoint(LOOPBACK)) as opened:
        opened.text = lambda: "ncc_x 1\n"
        yield opened


def answers(endpoint: Endpoint, asked: bytes, now_ns: int = 0) -> bytes:
    """What a client gets that asks so."""
    with socket.create_connection(endpoint.address) as client:
        client.sendall(asked)
        client.setblocking(False)
        answer = b""
        for _ in range(1000):
            endpoint.tick(now_ns)
            try:
                read = client.recv(65536)
            except BlockingIOError:
                continue
            except ConnectionResetError:
                return answer
            if not read:
                return answer
            answer += read
    pytest.fail("no end of the answer")


@pytest.mark.parametrize("asked", [b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /metrics?a=b HTTP/1.0\r\n\r\n"])
def test_who_asks_is_answered(endpoint: Endpoint, asked: bytes) -> None:
    head, _, body = answers(endpoint, asked).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4")
    assert f"Content-Length: {len(body)}".encode() in head
    assert body == b"ncc_x 1\n"


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", b"404 Not Found"),
        (b"GET /metrics/../x HTTP/1.1\r\n\r\n", b"404 Not Found"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"405 Method Not Allowed"),
        (b"\r\n\r\n", b"405 Method Not Allowed"),
        (b"\0\xff\xfe\n\n", b"405 Method Not Allowed"),
    ],
)
def test_who_asks_for_something_else(endpoint: Endpoint, asked: bytes, status: bytes) -> None:
    assert answers(endpoint, asked).startswith(b"HTTP/1.1 " + status)


def test_who_never_ends_asking_is_left(endpoint: Endpoint) -> None:
    assert answers(endpoint, b"x" * 9000) == b""


def test_a_silent_client_keeps_another_waiting_for_a_while_only(endpoint: Endpoint) -> None:
    with socket.create_connection(endpoint.address) as silent:
        for _ in range(8):
            endpoint.tick(0)
        assert answers(endpoint, b"GET /metrics HTTP/1.1\r\n\r\n", PATIENCE_NS + 1).startswith(b"HTTP/1.1 200")
        assert silent.recv(1) == b""


def test_an_address_in_use(endpoint: Endpoint) -> None:
    with pytest.raises(
        ConfigError, match=r"cannot serve metrics at 127.0.0.1:\d+: Address already in use; name another"
    ):
        Endpoint(endpoint.address)


def test_where_metrics_are_served() -> None:
    assert parse_endpoint("none") is None
    assert parse_endpoint("9472") == Address("127.0.0.1", 9472)
    assert parse_endpoint("10.0.0.1:9") == Address("10.0.0.1", 9)
    for wrong in ("", "x", "0", "10.0.0.1:9*2"):
        with pytest.raises(ConfigError, match="the address of metrics"):
            parse_endpoint(wrong)
