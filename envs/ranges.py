# SPDX-License-Identifier: BSD-3-Clause
"""Ranges of the properties of networks in which a policy was trained or is trusted, and the check of a scenario."""

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray
from ncc.core.scenario import Knows, Scenario
from ncc.core.units import BITS_PER_BYTE, GBPS, MS, US
from ncc.core.value import Natural, NonNegative, Positive, Value, from_dict
from ncc.core.workload import Poisson
from ncc.envs.scales import Scales, scales_of

TOLERANCE = 1e-6
"""Relative difference below which numbers of a network count as equal."""

Range = tuple[Positive, Positive]


class Ranges(Value, frozen=True, kw_only=True):
    """Ranges (least, most) of properties of networks, and what hosts may know of their flows."""

    where: ClassVar[str]
    """Clause before a range in a sentence."""

    hosts: tuple[Annotated[int, Meta(ge=1)], Annotated[int, Meta(ge=1)]]
    """Number of hosts in a neighbourhood."""
    uplink_frac: Range
    """Total rate of a neighbourhood's uplinks, divided by the rate of one host's link."""
    knows: Annotated[tuple[Knows, ...], Meta(min_length=1)] = ("sizes",)
    """Settings of `Nic.knows`: knowledge of hosts about their flows."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Names of the ranges."""
        return tuple(name for name in _PHRASES if name in cls.__struct_fields__)

    def check(self) -> None:
        """Check that no range has a lower end above its upper end."""
        for name in self.names():
            least, most = getattr(self, name)
            if least > most:
                raise ConfigError(f"{type(self).__name__}.{name} must be (least, most), got ({least:g}, {most:g})")

    def outside(self, scenario: Scenario) -> tuple[str, ...]:
        """Return a sentence for each value of a scenario that lies outside the ranges.

        The load counts only if the scenario has one at the uplink.
        """
        sentences = []
        for name in self.names():
            least, most = getattr(self, name)
            low, high = _span(name, scenario)
            if low >= least * (1 - TOLERANCE) and high <= most * (1 + TOLERANCE):
                continue
            if name == "load_frac" and high == 0:
                continue
            phrase, unit, scale = _PHRASES[name]
            here, there = _text(low, high, scale), _text(least, most, scale)
            sentences.append(f"{phrase} is {here}{unit}, and {self.where} {there}{unit}")
        if scenario.nic.knows not in self.knows:
            allowed = " or ".join(self.knows)
            sentences.append(f"hosts know the {scenario.nic.knows} of their flows, and {self.where} their {allowed}")
        return tuple(sentences)

    def narrowed(self, plain: Mapping[str, Any]) -> Self:
        """Return a copy with the ranges in `plain`, none of which may be wider than before.

        Raises:
            ConfigError: a range is wider, or is not a range.
        """
        made = from_dict(type(self), {**self.to_dict(), **plain}, "within")
        for name in self.names():
            (least, most), (low, high) = getattr(self, name), getattr(made, name)
            if low < least or high > most:
                raise ConfigError(f"within.{name} must be inside {least:g} to {most:g}, got {low:g} to {high:g}")
        return made


class TrainedRanges(Ranges, frozen=True, kw_only=True):
    """Ranges of the networks that a policy was trained on."""

    where = "training met"

    host_rate_bps: Range
    """Rate of a host's link."""
    base_rtt_s: Range
    """Base RTT (`ncc.envs.scales.Scales.base_rtt_s`)."""
    load_frac: tuple[NonNegative, NonNegative]
    """Payload rate offered to the uplink by random arrivals, divided by its line rate; 0: no random arrivals."""
    period_s: Range
    """Time between two decisions."""
    buffer_bytes: Range
    """Buffer of the uplink."""


class TrustedRanges(Ranges, frozen=True, kw_only=True):
    """Ranges of the networks in which a policy is trusted, in ratios that hosts can observe."""

    where = "its policy is trusted with"

    rtt_periods: Range
    """Base RTT, in periods between two decisions."""
    buffer_periods: Range
    """Buffer of the uplink, in periods at the uplink's rate."""
    delay_periods: tuple[Natural, Natural] = (0, 1000)
    """Age of messages that arrive, `Scenario.sharing_delay_periods`."""


_PHRASES = {
    "hosts": ("the number of hosts in a neighbourhood", "", 1.0),
    "uplink_frac": ("the uplink's rate over a host's", "", 1.0),
    "host_rate_bps": ("the rate of a host's link", " Gbit/s", 1 / GBPS),
    "base_rtt_s": ("the base RTT", " us", 1 / US),
    "load_frac": ("the uplink's load", "", 1.0),
    "period_s": ("the period of decisions", " ms", 1 / MS),
    "buffer_bytes": ("the uplink's buffer", " KB", 1e-3),
    "rtt_periods": ("the base RTT", " periods", 1.0),
    "buffer_periods": ("the uplink's buffer", " periods", 1.0),
    "delay_periods": ("the age of messages", " periods", 1.0),
}
"""Name of each range in a sentence, its unit there, and the factor to that unit."""


def _loads(scenario: Scenario, _: Scales) -> list[float]:
    """Return the load of each neighbourhood's uplinks by random arrivals, for neighbourhoods that have any."""
    network, loads = scenario.network(), []
    for area in network.neighbourhoods:
        offered_bps = 0.0
        for _name, traffic in scenario.workload:
            if isinstance(traffic, Poisson):
                sources = network.group(traffic.sources)
                of_area = len(set(sources) & set(area.hosts)) / len(sources)
                offered_bps += of_area * traffic.offered_bps(network).get(area.uplink_port, 0.0)
        if offered_bps:
            loads.append(offered_bps / network.uplink_capacity_bps(area))
    return loads


def _buffer_periods(scenario: Scenario, scales: Scales) -> FloatArray:
    period_bytes = scales.uplink_rate_bps * scenario.period_s / BITS_PER_BYTE
    return scales.uplink_buffer_bytes / period_bytes


_MEASURES: Mapping[str, Callable[[Scenario, Scales], npt.ArrayLike]] = {
    "hosts": lambda _, scales: scales.neighbours.shape[1] + 1,
    "uplink_frac": lambda _, scales: scales.uplink_capacity_bps[scales.area] / scales.link_rate_bps,
    "host_rate_bps": lambda _, scales: scales.link_rate_bps,
    "base_rtt_s": lambda _, scales: scales.base_rtt_s,
    "load_frac": _loads,
    "period_s": lambda scenario, _: scenario.period_s,
    "buffer_bytes": lambda _, scales: scales.uplink_buffer_bytes,
    "rtt_periods": lambda scenario, scales: scales.base_rtt_s / scenario.period_s,
    "buffer_periods": _buffer_periods,
    "delay_periods": lambda scenario, _: scenario.sharing_delay_periods,
}
"""Functions from a scenario to the values that a range must contain: a single one, one per host or uplink, or none."""


def _span(name: str, *scenarios: Scenario) -> tuple[float, float]:
    """Return the least and the largest value of one property over scenarios; zeros if they have none."""
    values = np.concatenate([np.ravel(_MEASURES[name](scenario, scales_of(scenario))) for scenario in scenarios])
    return (values.min().item(), values.max().item()) if values.size else (0, 0)


def trained_ranges(scenarios: Iterable[Scenario]) -> TrainedRanges:
    """Return the ranges that one or more scenarios span together."""
    given = tuple(scenarios)
    spans = {name: _span(name, *given) for name in TrainedRanges.names()}
    knows = sorted({scenario.nic.knows for scenario in given})
    return from_dict(TrainedRanges, {**spans, "knows": knows}, "ranges")


def _text(low: float, high: float, scale: float) -> str:
    least, most = (f"{float(f'{value * scale:.3g}'):,g}" for value in (low, high))
    return least if least == most else f"{least} to {most}"
