# SPDX-License-Identifier: BSD-3-Clause
"""Metrics: a file as node_exporter reads it."""

import contextlib
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from ncc.core.errors import ResultError
from ncc.host.metrics import AgentCollector, Durations, MetricsFile
from tests.support.processes import eventually


def collector(took: Durations) -> AgentCollector:
    """Metrics of an agent of two hosts, one of them without a limit."""
    guard = SimpleNamespace(counters={"suspensions": 1}, active=True)
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
    plan = SimpleNamespace(file=SimpleNamespace(sha256="ab"))
    now: Any = SimpleNamespace(plan=plan, counters={"taken": 2, "refused": 1})
    log: Any = SimpleNamespace(lost=0)
    return AgentCollector(loop, now, log)


def test_all_metrics_are_in_the_file(tmp_path: Path) -> None:
    took = Durations()
    for duration_ns in (5_000, 10_000, 15_000, 7_000_000_000):
        took.add(duration_ns)
    assert took.quantiles_us() == {"p50": 12.5, "p99": 6790000.4, "p99.9": 6979000.0, "max": 7e6}
    path = tmp_path / "ncc.prom"
    made = MetricsFile(path, 1e-3, collector(took))
    families = list(text_string_to_metric_families(path.read_text()))
    assert path.stat().st_mode & 0o777 == 0o644, "whoever runs node_exporter may read it"
    took.add(5_000)
    assert eventually(lambda: "ncc_decision_seconds_count 5.0" in path.read_text())
    made.close()
    assert list(tmp_path.iterdir()) == []
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
    assert found["ncc_reloads_total", "refused"] == 1
    buckets = [found["ncc_decision_seconds_bucket", bound] for bound in ("1e-05", "2e-05", "+Inf")]
    assert (buckets, found["ncc_decision_seconds_count",]) == ([2, 3, 4], 4)
    assert found["ncc_decision_seconds_sum",] == pytest.approx(7.00003)
    assert found["ncc_resident_memory_bytes",] > 1e6


def test_a_file_that_cannot_be_written_is_refused_at_first_and_counted_later(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match="no folder that can be written"):
        MetricsFile(tmp_path / "none" / "ncc.prom", 1.0, collector(Durations()))
    path = tmp_path / "ncc.prom"
    made = MetricsFile(path, 1e-3, collector(Durations()))

    def becomes_a_folder() -> bool:
        path.unlink(missing_ok=True)
        with contextlib.suppress(FileExistsError):  # the thread was faster
            path.mkdir()
        return path.is_dir()

    try:
        assert eventually(becomes_a_folder)
        assert eventually(lambda: made.lost > 0)
        path.rmdir()
        assert eventually(path.is_file)
    finally:
        made.close()


def test_a_full_disk_costs_metrics_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any user may fill it, also while an agent starts."""
    monkeypatch.setattr("ncc.host.metrics.replacing", Mock(side_effect=ResultError("no space left")))
    made = MetricsFile(tmp_path / "ncc.prom", 60.0, collector(Durations()))
    made.close()
    assert made.lost == 1
