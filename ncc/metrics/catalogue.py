# SPDX-License-Identifier: BSD-3-Clause
"""Names, directions and formats of the metrics of `ncc.metrics.summary`, for tables and plots."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

ABSENT = "–"  # noqa: RUF001
"""Text of a number that there is none of."""


class Better(StrEnum):
    """Direction in which a metric is better; `NEITHER` informs without judging."""

    LOWER = "lower"
    HIGHER = "higher"
    NEITHER = "neither"


@dataclass(frozen=True)
class Metric:
    """One metric. Values are in SI; `scale` converts them to `unit` for display."""

    key: str
    label: str
    unit: str
    better: Better
    scale: float = 1.0
    digits: int = 2
    """Digits after the decimal point in a display."""
    help: str = ""
    short: str = ""
    """Title in a narrow table; empty: `title`."""
    special: bool = False
    """True: only some transports, ports or workloads have it, and a table without it does not say so."""

    @property
    def title(self) -> str:
        """Label with unit, for a column or an axis."""
        return f"{self.label} ({self.unit})" if self.unit else self.label

    def show(self, value: float) -> float:
        """Convert `value` to `unit`."""
        return value * self.scale

    def text(self, value: float) -> str:
        """Format `value` in `unit`, for a table; NaN becomes a dash, and 0 has no sign."""
        return self.brief(value, self.digits)

    def brief(self, value: float, digits: int) -> str:
        """Format `value` like `text`, with another number of digits after the decimal point."""
        return ABSENT if math.isnan(value) else f"{value * self.scale:z.{digits}f}"


def worst(values: Iterable[float], better: Better) -> float:
    """The worst of the defined values; NaN if there are none or the metric has no better direction."""
    defined = [value for value in values if not math.isnan(value)]
    if not defined or better is Better.NEITHER:
        return math.nan
    return max(defined) if better is Better.LOWER else min(defined)


ALL = "all"
_SIZES = {ALL: "all flows", "small": "<= 100 KB", "medium": "100 KB to 10 MB", "large": "> 10 MB"}
_SHORT = {"all_mean": "Slowdown, mean", "small_p99": "Slowdown, small p99"}
_POINTS = {"mean": "mean", "p50": "median", "p95": "p95", "p99": "p99"}

_ROWS = (
    *(
        Metric(
            f"slowdown_{size}_{point}",
            f"FCT slowdown, {flows}, {word}",
            "",
            Better.LOWER,
            help="FCT over ideal FCT",
            short=_SHORT.get(f"{size}_{point}", ""),
        )
        for size, flows in _SIZES.items()
        for point, word in _POINTS.items()
    ),
    Metric("fct_mean_s", "FCT, mean", "ms", Better.LOWER, 1e3, 3),
    Metric("fct_p99_s", "FCT, p99", "ms", Better.LOWER, 1e3, 3),
    Metric("goodput_bps", "Goodput", "Gbps", Better.HIGHER, 1e-9, 3, "acknowledged payload while flows arrive"),
    Metric(
        "queue_delay_mean_s",
        "Queueing delay, mean",
        "us",
        Better.LOWER,
        1e6,
        1,
        "uplink, per packet",
        "Queueing delay (us)",
    ),
    Metric("queue_delay_p99_s", "Queueing delay, p99", "us", Better.LOWER, 1e6, 1, "uplink, over epochs"),
    Metric("timeouts_per_flow", "Timeouts per flow", "", Better.LOWER, 1.0, 4),
    Metric("loss_frac", "Data packets lost", "%", Better.LOWER, 100.0, 3, "of data packets sent", "Data lost (%)"),
    Metric("retransmit_frac", "Retransmissions", "%", Better.LOWER, 100.0, 3, "of data packets sent"),
    Metric("mark_frac", "CE marks", "%", Better.NEITHER, 100.0, 2, "of data packets sent"),
    Metric("trim_frac", "Packets trimmed", "%", Better.NEITHER, 100.0, 3, "of data packets sent", special=True),
    Metric("reorder_frac", "Packets reordered", "%", Better.NEITHER, 100.0, 3, "of data packets sent", special=True),
    Metric("control_frac", "Control bytes", "%", Better.LOWER, 100.0, 2, "of bytes that hosts sent", special=True),
    Metric("credit_waste_frac", "Credits wasted", "%", Better.LOWER, 100.0, 2, "of those received", special=True),
    Metric("jain", "Jain index", "", Better.HIGHER, 1.0, 3, "goodput of backlogged neighbours, windows of 20 ms"),
    Metric("unfinished", "Unfinished flows", "", Better.LOWER, 1.0, 0),
)
_OF_REQUESTS = (
    Metric(
        "qct_mean_s",
        "QCT, mean",
        "ms",
        Better.LOWER,
        1e3,
        3,
        "from a request's start until all its flows end",
        special=True,
    ),
    Metric("qct_p50_s", "QCT, median", "ms", Better.LOWER, 1e3, 3, special=True),
    Metric("qct_p99_s", "QCT, p99", "ms", Better.LOWER, 1e3, 3, special=True),
    Metric("qct_p999_s", "QCT, p99.9", "ms", Better.LOWER, 1e3, 3, special=True),
    Metric("qct_slowdown_mean", "QCT slowdown, mean", "", Better.LOWER, help="QCT over ideal QCT", special=True),
    Metric("qct_timeout_frac", "Requests with a timeout", "%", Better.LOWER, 100.0, 1, special=True),
)


def range_of(key: str) -> str:
    """Range of sizes of a metric of FCT slowdown, as `all` or `small`; empty for other metrics."""
    return key.split("_")[1] if key.startswith("slowdown_") else ""


CATALOGUE: dict[str, Metric] = {metric.key: metric for metric in (*_ROWS, *_OF_REQUESTS)}
"""Every metric, in the order of a full table."""

OF_REQUESTS: frozenset[str] = frozenset(metric.key for metric in _OF_REQUESTS)
"""Metrics that only runs with requests have."""

HEADLINE: tuple[str, ...] = (
    "qct_mean_s",
    "qct_p99_s",
    "qct_timeout_frac",
    "fct_mean_s",
    "fct_p99_s",
    "slowdown_small_p99",
    "slowdown_all_mean",
    "goodput_bps",
    "queue_delay_mean_s",
    "timeouts_per_flow",
    "loss_frac",
    "jain",
)
"""Metrics of a short table."""
