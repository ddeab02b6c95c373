# SPDX-License-Identifier: BSD-3-Clause
"""Metrics: as Prometheus reads them over HTTP."""

import math
import socket
import sys
import urllib.request
from contextlib import ExitStack, suppress
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from ncc.core.errors import ConfigError
from ncc.host.metrics import HEAD_BYTES, AgentCollector, Durations, parse_endpoint, served
from ncc.host.peers import Address
from tests.host.test_exchange import free_ports

PATIENCE_S = 20.0


def collector(took: Durations) -> AgentCollector:
    """Metrics of an agent of two hosts, one of them without a limit."""
    guard = SimpleNamespace(counters={"hand_backs": 1}, active=True)
    exchange = SimpleNamespace(counters={"sent": 2**50, "forged": 0})
    values = np.array([1e6, 2.5])
    loop: Any = SimpleNamespace(
        agent=SimpleNamespace(guard=guard, exchange=exchange, counters={"stale_peers": 3}),
        live=SimpleNamespace(
            shim=SimpleNamespace(counters=lambda: {"fallbacks": 0}),
            torn=4,
            queues=SimpleNamespace(counts={"open_bytes": 6}),
        ),
        receivers=SimpleNamespace(counters={"woken": 8}, held=2),
        own=SimpleNamespace(columns={"throughput_bps": values, "queued_bytes": values}, connections=5),
        periods=SimpleNamespace(epoch=7, missed=1),
        limits_bps=np.array([1e6, np.inf]),
        took=took,
        late=Durations(),
    )
    file: Any = SimpleNamespace(sha256="ab")
    log: Any = SimpleNamespace(lost=0)
    return AgentCollector(loop, file, log)


def test_all_metrics_are_served() -> None:
    took, before_s = Durations(), sys.getswitchinterval()
    for duration_ns in (5_000, 10_000, 15_000, 7_000_000_000):
        took.add(duration_ns)
    assert took.quantiles_us() == {"p50": 12.5, "p99": 6790000.4, "p99.9": 6979000.0, "max": 7e6}
    address = Address("127.0.0.1", free_ports(1)[0])
    with served(address) as show:
        show(collector(took))
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=60) as answer:
            families = list(text_string_to_metric_families(answer.read().decode()))
    assert sys.getswitchinterval() == before_s
    found = {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}
    kinds = {family.name: family.type for family in families}
    assert {kinds[name] for name in ("ncc_periods", "ncc_messages")} == {"counter"}
    assert (kinds["ncc_limit_bps"], kinds["ncc_decision_seconds"]) == ("gauge", "histogram")
    assert found["ncc_info", "ab"] == found["ncc_active",] == 1
    assert (found["ncc_messages_total", "sent"], found["ncc_messages_total", "forged"]) == (2**50, 0)
    assert (found["ncc_limit_bps", "0"], found["ncc_limit_bps", "1"]) == (1e6, math.inf)
    assert found["ncc_queued_bytes", "1"] == 2.5
    assert found["ncc_queue_total", "open_bytes"] == 6
    assert (found["ncc_receivers_total", "woken"], found["ncc_held_flows",]) == (8, 2)
    buckets = [found["ncc_decision_seconds_bucket", bound] for bound in ("1e-05", "2e-05", "+Inf")]
    assert (buckets, found["ncc_decision_seconds_count",]) == ([2, 3, 4], 4)
    assert found["ncc_decision_seconds_sum",] == pytest.approx(7.00003)
    assert found["ncc_resident_memory_bytes",] > 1e6


def scrape(address: Address) -> bytes:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=PATIENCE_S) as answer:
        found: bytes = answer.read()
    return found


def test_clients_that_never_finish_do_not_keep_a_scrape_waiting() -> None:
    """Each of the sixty connects and sends half a request; http.server would keep a thread for each for ever."""
    address = Address("127.0.0.1", free_ports(1)[0])
    with served(address) as show, ExitStack() as opened:
        show(collector(Durations()))
        half_open = [opened.enter_context(socket.socket()) for _ in range(60)]
        for client in half_open:
            client.setblocking(False)
            client.connect_ex(address)
        assert b"ncc_periods" in scrape(address)
        for client in half_open:
            client.settimeout(PATIENCE_S)
            with suppress(BrokenPipeError, ConnectionResetError):
                client.send(b"GET /metrics HTTP/1.1\r\n")
        assert b"ncc_periods" in scrape(address)
        for client in half_open:
            assert cut_off(client), "it may not stay"


def test_a_request_is_short_and_a_get() -> None:
    address = Address("127.0.0.1", free_ports(1)[0])
    with served(address) as show, ExitStack() as opened:
        show(collector(Durations()))
        long, post = (opened.enter_context(socket.create_connection(address, timeout=PATIENCE_S)) for _ in range(2))
        long.sendall(b"GET / HTTP/1.1\r\nx: " + b"x" * 2 * HEAD_BYTES)
        assert cut_off(long)
        post.sendall(b"POST / HTTP/1.1\r\n\r\n")
        assert post.recv(100).startswith(b"HTTP/1.1 405 ")
        assert b"ncc_periods" in scrape(address)


def cut_off(client: socket.socket) -> bool:
    """The server closes, without an answer; TimeoutError if it does not."""
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def test_endpoints_have_three_forms() -> None:
    assert parse_endpoint("none") is None
    assert parse_endpoint("9472") == Address("127.0.0.1", 9472)
    assert parse_endpoint("10.0.0.1:9") == Address("10.0.0.1", 9)
    for wrong in ("", "x", "0", "10.0.0.1:9*2"):
        with pytest.raises(ConfigError, match="the address of metrics"):
            parse_endpoint(wrong)
