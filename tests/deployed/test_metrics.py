# SPDX-License-Identifier: BSD-3-Clause
"""Metrics: as Prometheus reads them, over HTTP, whoever asks and however slowly."""

import math
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from ncc.core.errors import ConfigError
from ncc.deployed.metrics import CLIENTS_MOST, PATIENCE_NS, Endpoint, Latencies, Metrics, parse_endpoint
from ncc.deployed.peers import Address

LOOPBACK = Address("127.0.0.1", 0)


def samples(metrics: Metrics) -> dict[tuple[str, ...], float]:
    """By name and values of labels, as Prometheus's own reader has them."""
    families = text_string_to_metric_families(metrics.text())
    return {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}


def test_numbers_are_read_when_they_are_asked_for() -> None:
    metrics, counts = Metrics(), {"sent": 1, "forged": 0}
    metrics.counter("ncc_messages_total", "Messages,\nby what became of them.", lambda: counts, "became")
    metrics.gauge("ncc_limit_bps", "Limit in force.", lambda: math.inf)
    assert samples(metrics) == {
        ("ncc_messages_total", "sent"): 1, ("ncc_messages_total", "forged"): 0, ("ncc_limit_bps",): math.inf,
    }  # fmt: skip
    counts["sent"] = 2**60
    assert samples(metrics)["ncc_messages_total", "sent"] == 2**60
    kinds = {family.name: family.type for family in text_string_to_metric_families(metrics.text())}
    assert kinds == {"ncc_messages": "counter", "ncc_limit_bps": "gauge"}


def test_a_histogram_counts_what_is_at_most_its_bounds() -> None:
    metrics, latencies = Metrics(), Latencies((0.1, 0.2))
    metrics.histogram("ncc_took_seconds", "How long.", latencies)
    for seconds in (0.05, 0.1, 0.15, 7.0):
        latencies.add(seconds)
    found = samples(metrics)
    assert [found["ncc_took_seconds_bucket", bound] for bound in ("0.1", "0.2", "+Inf")] == [2, 3, 4]
    assert found["ncc_took_seconds_count",] == 4
    assert found["ncc_took_seconds_sum",] == pytest.approx(7.3)


@given(st.dictionaries(st.text(), st.floats() | st.integers(0, 2**63), max_size=5), st.text())
def test_any_label_and_number_is_readable(read: dict[str, float], help_: str) -> None:
    metrics = Metrics()
    metrics.gauge("ncc_x", help_.replace("\r", ""), lambda: read, "label")
    # The reader takes text apart at any kind of line's end; the format knows one.
    lines = [line for line in metrics.text().split("\n") if line and not line.startswith("#")]
    assert len(lines) == len(read)
    for line, value in zip(lines, read.values(), strict=True):
        assert float(line.rpartition(" ")[2]) == pytest.approx(float(value), nan_ok=True)


@pytest.mark.parametrize(
    ("name", "said"),
    [("ncc x_total", "must be of letters"), ("ncc_x", "end in '_total'"), ("a_total", "are two metrics")],
)
def test_names_that_cannot_be(name: str, said: str) -> None:
    metrics = Metrics()
    metrics.counter("a_total", "", lambda: 0)
    with pytest.raises(ConfigError, match=said):
        metrics.counter(name, "", lambda: 0)
    with pytest.raises(ConfigError, match="the label 'a-b' of metric b_total"):
        metrics.counter("b_total", "", dict, "a-b")


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    metrics = Metrics()
    metrics.gauge("ncc_x", "x", lambda: 1)
    with closing(Endpoint(metrics, LOOPBACK)) as opened:
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
    assert body == b"# HELP ncc_x x\n# TYPE ncc_x gauge\nncc_x 1\n"


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


def test_head_is_the_head_alone(endpoint: Endpoint) -> None:
    head, end, body = answers(endpoint, b"HEAD /metrics HTTP/1.1\r\n\r\n").partition(b"\r\n\r\n")
    assert (end, body) == (b"\r\n\r\n", b"")
    assert b"Content-Length: 42" in head


def test_who_never_ends_asking_is_left(endpoint: Endpoint) -> None:
    assert answers(endpoint, b"x" * 9000) == b""


def test_who_is_silent_keeps_nobody_from_an_answer(endpoint: Endpoint) -> None:
    silent = [socket.create_connection(endpoint.address) for _ in range(CLIENTS_MOST)]
    for _ in range(2 * CLIENTS_MOST):
        endpoint.tick(0)
    assert answers(endpoint, b"GET /metrics HTTP/1.1\r\n\r\n", PATIENCE_NS + 1).startswith(b"HTTP/1.1 200")
    for client in silent:
        assert client.recv(1) == b""
        client.close()


def test_an_address_in_use(endpoint: Endpoint) -> None:
    with pytest.raises(
        ConfigError, match=r"cannot serve metrics at 127.0.0.1:\d+: Address already in use; name another"
    ):
        Endpoint(Metrics(), endpoint.address)


def test_where_metrics_are_served() -> None:
    assert parse_endpoint("none") is None
    assert parse_endpoint("9472") == Address("127.0.0.1", 9472)
    assert parse_endpoint("10.0.0.1:9") == Address("10.0.0.1", 9)
    for wrong in ("", "x", "0", "10.0.0.1:9*2"):
        with pytest.raises(ConfigError, match="the address of metrics"):
            parse_endpoint(wrong)
