# SPDX-License-Identifier: BSD-3-Clause
"""The numbers of an agent, for Prometheus."""

import os
import time
from pathlib import Path

from ncc.deployed.file import PolicyFile
from ncc.deployed.log import Log
from ncc.deployed.metrics import Metrics
from ncc.host.loop import Loop

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def rss_bytes() -> int:
    """Memory of this process, as it is now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


def peak_rss_bytes() -> int:
    """The most memory that this process has had; what its parent had before is not in it, as in getrusage(2)."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def tell(found: Metrics, loop: Loop, file: PolicyFile, log: Log) -> None:
    """Add all that an agent counts."""
    agent, guard, live = loop.agent, loop.agent.guard, loop.live
    found.gauge("ncc_info", "the policy, by its SHA-256", lambda: {file.sha256: 1}, "policy_sha256")
    found.counter("ncc_periods_total", "periods that have ended", lambda: loop.periods.epoch)
    found.counter("ncc_missed_periods_total", "of these, without a decision", lambda: loop.periods.missed)
    found.counter("ncc_messages_total", "messages by what became of them", lambda: agent.exchange.counters, "result")
    found.counter(
        "ncc_stale_total",
        "periods in which a peer's or the upper port's state was too old",
        lambda: agent.counters,
        "whose",
    )
    found.counter("ncc_guard_total", "what the guard did", lambda: guard.counters, "what")
    found.counter("ncc_shim_total", "what the kernel's program counted", live.shim.counters, "what")
    found.counter("ncc_torn_reports_total", "reports left to the next period", lambda: live.torn)
    found.gauge("ncc_active", "1 if the policy decides, 0 if the hosts are handed back", lambda: int(guard.active))
    found.gauge("ncc_limit_bps", "limit in force, +Inf: none", lambda: _by_host(loop.limits_bps.tolist()), "host")
    found.gauge("ncc_throughput_bps", "sent in the last period", lambda: _own(loop, "throughput_bps"), "host")
    found.gauge("ncc_queued_bytes", "written by applications, not sent", lambda: _own(loop, "queued_bytes"), "host")
    found.gauge("ncc_connections", "that are reported", lambda: loop.own.connections if loop.own else 0)
    found.counter("ncc_log_lost_total", "lines of the log that could not be written", lambda: log.lost)
    found.gauge("ncc_resident_memory_bytes", "of this process", rss_bytes)
    found.counter("ncc_cpu_seconds_total", "of this process", time.process_time)
    found.histogram("ncc_decision_seconds", "from measuring to limits written", loop.took)
    found.histogram("ncc_late_seconds", "by how much periods began late", loop.late)


def _by_host(values: list[float]) -> dict[str, float]:
    return {str(row): value for row, value in enumerate(values)}


def _own(loop: Loop, name: str) -> dict[str, float]:
    return _by_host(getattr(loop.own, name).tolist()) if loop.own is not None else {}
