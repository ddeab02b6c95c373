# SPDX-License-Identifier: BSD-3-Clause
"""Metrics of an agent, over HTTP by prometheus_client, which is loaded only if metrics are asked for."""

import os
import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncc.core.errors import ConfigError
from ncc.host.peers import Address, parse_one

if TYPE_CHECKING:
    from ncc.host.log import Log
    from ncc.host.loop import Loop
    from ncc.policies import PolicyFile

SWITCH_S = 1e-4
"""Longest time for which the thread of a request holds the interpreter while a decision is due."""
BOUNDS_S = tuple(1e-5 * 2**i for i in range(14))
"""Upper bounds of the histograms' buckets, from 10 us to 82 ms."""
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


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


class AgentCollector:
    """All numbers of an agent, read when they are asked for."""

    def __init__(self, loop: "Loop", file: "PolicyFile", log: "Log") -> None:
        self._loop, self._file, self._log = loop, file, log

    def collect(self) -> Iterator[Any]:
        """Families of metrics, as prometheus_client wants them."""
        loop, agent, own = self._loop, self._loop.agent, self._loop.own
        yield _counter("ncc_periods", "periods that have ended", loop.periods.epoch)
        yield _counter("ncc_missed_periods", "of these, without a decision", loop.periods.missed)
        yield _counter("ncc_messages", "messages by their fate", agent.exchange.counters, "result")
        yield _counter("ncc_stale", "periods with a peer's or the uplink's state too old", agent.counters, "whose")
        yield _counter("ncc_guard", "events of the guard", agent.guard.counters, "what")
        yield _counter("ncc_shim", "events of the kernel's program", loop.live.shim.counters(), "what")
        yield _counter("ncc_torn_reports", "reports left to the next period", loop.live.torn)
        yield _counter("ncc_log_lost", "lines of the log that could not be written", self._log.lost)
        yield _counter("ncc_cpu_seconds", "of this process", time.process_time())
        yield _gauge("ncc_info", "the policy, by its SHA-256", {self._file.sha256: 1}, "policy_sha256")
        yield _gauge("ncc_active", "1 if the policy decides, 0 if hosts are handed back", int(agent.guard.active))
        yield _gauge("ncc_limit_bps", "limit in force, +Inf: none", _by_host(loop.limits_bps.tolist()), "host")
        if own is not None:
            yield _gauge(
                "ncc_throughput_bps",
                "sent in the last period",
                _by_host(own.columns["throughput_bps"].tolist()),
                "host",
            )
            yield _gauge(
                "ncc_queued_bytes", "written and not sent", _by_host(own.columns["queued_bytes"].tolist()), "host"
            )
            yield _gauge("ncc_connections", "that are reported", own.connections)
        yield _gauge("ncc_resident_memory_bytes", "of this process", rss_bytes())
        yield _histogram("ncc_decision_seconds", "from measuring to limits written", loop.took)
        yield _histogram("ncc_late_seconds", "by how much periods began late", loop.late)


@contextmanager
def served(address: Address) -> Iterator[Callable[[AgentCollector], None]]:
    """Serve metrics at an address; inside, a function that says of which agent.

    Raises:
        ConfigError: the port is in use, or the address is not this machine's.
    """
    from prometheus_client import CollectorRegistry, start_http_server

    registry = CollectorRegistry()
    try:
        server, thread = start_http_server(address.port, address.host, registry)
    except OSError as error:
        raise ConfigError(
            f"cannot serve metrics at {address}: {error.strerror}; name another address or port, or none"
        ) from None
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        yield registry.register
    finally:
        sys.setswitchinterval(before_s)
        server.shutdown()
        server.server_close()
        thread.join()


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


def _by_host(values: list[float]) -> dict[str, float]:
    return {str(row): value for row, value in enumerate(values)}


def _counter(name: str, help_: str, found: float | dict[str, Any], label: str = "") -> Any:
    from prometheus_client.core import CounterMetricFamily

    return _filled(CounterMetricFamily(name, help_, labels=[label] if label else []), found)


def _gauge(name: str, help_: str, found: float | dict[str, Any], label: str = "") -> Any:
    from prometheus_client.core import GaugeMetricFamily

    return _filled(GaugeMetricFamily(name, help_, labels=[label] if label else []), found)


def _filled(family: Any, found: float | dict[str, Any]) -> Any:
    for key, value in (found if isinstance(found, dict) else {None: found}).items():
        family.add_metric([] if key is None else [key], value)
    return family


def _histogram(name: str, help_: str, latencies: Latencies) -> Any:
    from prometheus_client.core import HistogramMetricFamily

    bounds = [f"{bound_s:g}" for bound_s in BOUNDS_S] + ["+Inf"]
    buckets = list(zip(bounds, accumulate(latencies.counts), strict=True))
    return HistogramMetricFamily(name, help_, buckets=buckets, sum_value=latencies.sum_s)
