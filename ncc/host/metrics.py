# SPDX-License-Identifier: BSD-3-Clause
"""Metrics of an agent, in a file that node_exporter reads; prometheus_client is loaded only when they are used."""

import threading
import time
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil

from ncc.core.errors import ResultError
from ncc.core.flows import FloatArray, IntArray
from ncc.core.units import NS_PER_S, to_ns
from ncc.envs.linux import machine
from ncc.harness.atomic import replacing, require_writable

if TYPE_CHECKING:
    from ncc.host.log import Log
    from ncc.host.loop import Loop
    from ncc.host.reload import InForce

READABLE = 0o644
"""Mode of the file. It does not depend on the umask, because node_exporter runs as another user."""
BOUNDS_S = tuple(1e-5 * 2**i for i in range(14))
"""Upper bounds of the histograms' buckets, from 10 us to 82 ms."""
_BOUNDS_NS = tuple(to_ns(bound) for bound in BOUNDS_S)
KEPT = 1 << 16
"""Number of durations that are kept: the newest ones."""
QUANTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "max": 1.0}
Families = list[tuple[str, str, str, Any]]
"""Families of metrics: name, help, label, and values. Without a label (empty) a family has one value, else a mapping
from the label's values to values."""


class Durations:
    """A histogram of durations, and the last `KEPT` of them.

    Attributes:
        counts: [len(BOUNDS_S) + 1] number of durations in each bucket; the last bucket is above all bounds.
        sum_ns: sum of all durations in ns.
    """

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.sum_ns = 0
        self._last_ns = array("q", bytes(8 * KEPT))
        self._n = 0

    def add(self, duration_ns: int) -> None:
        """Count a duration."""
        self.counts[bisect_left(_BOUNDS_NS, duration_ns)] += 1
        self.sum_ns += duration_ns
        self._last_ns[self._n % KEPT] = duration_ns
        self._n += 1

    def quantiles_us(self) -> dict[str, float]:
        """Return the `QUANTILES` of the last `KEPT` durations, in us, by name; empty if there are none."""
        last_us = np.frombuffer(self._last_ns, np.int64)[: self._n] / 1e3
        return {name: round(float(np.quantile(last_us, q)), 1) for name, q in QUANTILES.items()} if self._n else {}


class AgentCollector:
    """A collector of prometheus_client for all metrics of an agent, which it reads on request."""

    def __init__(self, loop: "Loop", now: "InForce", log: "Log") -> None:
        self._loop, self._now, self._log = loop, now, log

    def collect(self) -> Iterator[Any]:
        """Yield families of metrics, as prometheus_client expects them."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        loop, agent, own = self._loop, self._loop.agent, self._loop.own
        counters: Families = [
            ("ncc_periods", "periods that have ended", "", loop.periods.epoch),
            ("ncc_missed_periods", "of these, without a decision", "", loop.periods.missed),
            ("ncc_messages", "messages by their fate", "result", agent.exchange.counters),
            ("ncc_stale", "periods with a peer's or the uplink's state too old", "whose", agent.counters),
            ("ncc_guard", "events of the guard", "what", agent.guard.counters),
            ("ncc_reloads", "changes of options, by result", "result", self._now.counters),
            ("ncc_shim", "events of the kernel's program", "what", loop.live.shim.counters()),
            ("ncc_torn_reports", "reports left to the next period", "", loop.live.torn),
            ("ncc_log_lost", "lines of the log that could not be written", "", self._log.lost),
            ("ncc_cpu_seconds", "of this process", "", time.process_time()),
        ]
        if loop.receivers is not None:
            help_ = "messages to receivers and senders, flows woken and unanswered, receivers that fell silent"
            counters.append(("ncc_receivers", help_, "what", loop.receivers.counters))
        if loop.live.queues is not None:
            help_ = "bytes sent under the limits and outside them, packets dropped, packets that no beat held in time"
            counters.append(("ncc_queue", help_, "what", loop.live.queues.counts))
        gauges: Families = [
            ("ncc_info", "the policy, by its SHA-256", "policy_sha256", {self._now.plan.file.sha256: 1}),
            ("ncc_active", "1 if the policy decides, 0 if hosts have their fair share", "", int(agent.guard.active)),
            ("ncc_limit_bps", "limit in force, +Inf: none", "host", _by_host(loop.limits_bps)),
            ("ncc_resident_memory_bytes", "of this process", "", psutil.Process().memory_info().rss),
        ]
        if own is not None:
            gauges += [
                ("ncc_throughput_bps", "sent in the last period", "host", _by_host(own.columns["throughput_bps"])),
                ("ncc_queued_bytes", "written and not sent", "host", _by_host(own.columns["queued_bytes"])),
                ("ncc_connections", "that are reported", "", own.connections),
            ]
        if loop.receivers is not None:
            gauges.append(("ncc_held_flows", "that wait for their receivers", "", loop.receivers.held))
        for kind, families in ((CounterMetricFamily, counters), (GaugeMetricFamily, gauges)):
            for name, help_, label, values in families:
                family = kind(name, help_, labels=[label] if label else [])
                for key, value in values.items() if isinstance(values, dict) else [(None, values)]:
                    family.add_metric([] if key is None else [key], value)
                yield family
        for name, help_, latencies in (
            ("ncc_decision_seconds", "from measuring to limits written", loop.took),
            ("ncc_late_seconds", "by how much periods began late", loop.late),
        ):
            bounds = [f"{bound_s:g}" for bound_s in BOUNDS_S] + ["+Inf"]
            buckets = list(zip(bounds, accumulate(latencies.counts), strict=True))
            yield HistogramMetricFamily(name, help_, buckets=buckets, sum_value=latencies.sum_ns / NS_PER_S)


class MetricsFile:
    """A file of an agent's metrics for node_exporter's textfile collector. A thread writes it every `every_s` seconds.

    The file is written under another name and renamed, so that readers never find a part of it. A full disk costs
    metrics and nothing else: any user may fill it.

    Attributes:
        lost: number of failed writes.

    Raises:
        ResultError: this process may not write the file.
    """

    def __init__(self, path: Path, every_s: float, collector: AgentCollector) -> None:
        from prometheus_client import CollectorRegistry

        self.lost, self._path, self._every_s = 0, path, every_s
        self._registry, self._over = CollectorRegistry(), threading.Event()
        self._registry.register(collector)
        require_writable(path)
        self._write()
        self._thread = threading.Thread(target=self._keep)
        self._thread.start()

    def close(self) -> None:
        """End the thread and remove the file."""
        self._over.set()
        self._thread.join()
        self._path.unlink(missing_ok=True)

    def _keep(self) -> None:
        machine.go_second()
        while not self._over.wait(self._every_s):
            self._write()

    def _write(self) -> None:
        from prometheus_client import generate_latest

        try:
            with replacing(self._path) as temporary:
                temporary.write_bytes(generate_latest(self._registry))
                temporary.chmod(READABLE)
        except ResultError:
            self.lost += 1


def _by_host(values: FloatArray | IntArray) -> dict[str, float]:
    return {str(row): value for row, value in enumerate(values.tolist())}
