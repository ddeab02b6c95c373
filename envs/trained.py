# SPDX-License-Identifier: BSD-3-Clause
"""Ranges of the networks that a policy was trained on, and a check of another network against them."""

from collections.abc import Iterable
from typing import Annotated

import numpy as np
from msgspec import Meta

from ncc.core.errors import ConfigError
from ncc.core.scenario import Knows, Scenario
from ncc.core.units import GBPS, MS, US
from ncc.core.value import NonNegative, Positive, Value, from_dict
from ncc.core.workload import Poisson
from ncc.envs.families import Families
from ncc.envs.scales import scales_of

TOLERANCE = 1e-6
"""Relative difference below which numbers of a network count as equal."""

Range = tuple[Positive, Positive]


class TrainedRanges(Value, frozen=True):
    """Ranges of training, each as (least, most)."""

    hosts: tuple[Annotated[int, Meta(ge=1)], Annotated[int, Meta(ge=1)]]
    """Number of hosts in a neighbourhood."""
    uplink_frac: Range
    """Total rate of a neighbourhood's uplinks over the rate of one host's link."""
    host_rate_bps: Range
    """Rate of a host's link."""
    base_rtt_s: Range
    """Base RTT (`ncc.envs.scales.Scales.base_rtt_s`)."""
    load_frac: tuple[NonNegative, NonNegative]
    """Payload offered to the uplink by random arrivals, over its rate; 0: no random arrivals."""
    period_s: Range
    """Time between two decisions."""
    buffer_bytes: Range
    """Buffer of the uplink."""
    knows: Annotated[tuple[Knows, ...], Meta(min_length=1)] = ("sizes",)
    """Settings of `Nic.knows` that training met: knowledge of hosts about their flows."""

    def check(self) -> None:
        for name in _SAID:
            least, most = getattr(self, name)
            if least > most:
                raise ConfigError(f"TrainedRanges.{name} must be (least, most), got ({least:g}, {most:g})")

    def outside(self, scenario: Scenario) -> tuple[str, ...]:
        """Return a sentence for each value of a scenario that lies outside the ranges.

        The load counts only if the scenario has one at the uplink.
        """
        here, said = trained_ranges([scenario]), []
        for name, (what, unit, scale) in _SAID.items():
            (least, most), (low, high) = getattr(self, name), getattr(here, name)
            if low >= least * (1 - TOLERANCE) and high <= most * (1 + TOLERANCE):
                continue
            if name == "load_frac" and high == 0:
                continue
            said.append(
                f"{what} is {_span(low, high, scale)}{unit}, and training met {_span(least, most, scale)}{unit}"
            )
        if unmet := sorted(set(here.knows) - set(self.knows)):
            said.append(f"hosts know the {unmet[0]} of their flows, and training met their {' or '.join(self.knows)}")
        return tuple(said)


_SAID = {
    "hosts": ("the number of hosts in a neighbourhood", "", 1.0),
    "uplink_frac": ("the uplink's rate over a host's", "", 1.0),
    "host_rate_bps": ("the rate of a host's link", " Gbit/s", 1 / GBPS),
    "base_rtt_s": ("the base RTT", " us", 1 / US),
    "load_frac": ("the uplink's load", "", 1.0),
    "period_s": ("the period of decisions", " ms", 1 / MS),
    "buffer_bytes": ("the uplink's buffer", " KB", 1e-3),
}
"""Name of each range in a sentence, its unit there, and the factor from SI to that unit."""


def trained_ranges(scenarios: Iterable[Scenario]) -> TrainedRanges:
    """Return the ranges that one or more scenarios span together."""
    rows, knows = [], set[str]()
    for scenario in scenarios:
        knows.add(scenario.nic.knows)
        scales = scales_of(scenario)
        rows.append(
            (
                [scales.neighbours.shape[1] + 1],
                scales.uplink_capacity_bps[scales.area] / scales.link_rate_bps,
                scales.link_rate_bps,
                scales.base_rtt_s,
                _loads(scenario),
                [scenario.period_s],
                scales.uplink_buffer_bytes,
            )
        )
    columns = [np.concatenate(column) for column in zip(*rows, strict=True)]
    spans = {
        name: (column.min().item(), column.max().item()) if column.size else (0, 0)
        for name, column in zip(_SAID, columns, strict=True)
    }
    return from_dict(TrainedRanges, {**spans, "knows": sorted(knows)}, "ranges")


def _loads(scenario: Scenario) -> list[float]:
    """Return the load of each neighbourhood's uplinks by random arrivals, for neighbourhoods that have any."""
    network, found = scenario.network(), []
    for area in network.neighbourhoods:
        offered_bps = 0.0
        for _, traffic in scenario.workload:
            if isinstance(traffic, Poisson):
                sources = network.group(traffic.sources)
                of_area = len(set(sources) & set(area.hosts)) / len(sources)
                offered_bps += of_area * traffic.offered_bps(network).get(area.uplink_port, 0.0)
        if offered_bps:
            found.append(offered_bps / network.uplink_capacity_bps(area))
    return found


def ranges_of_training(scenario: Scenario, families: Families) -> TrainedRanges:
    """Return the ranges of a training: of all its families by `Families.tried`, or of its one scenario."""
    tried = [each for name in families.of for each in families.tried(name)]
    return trained_ranges(tried or [scenario])


def _span(low: float, high: float, scale: float) -> str:
    least, most = f"{low * scale:.3g}", f"{high * scale:.3g}"
    return least if least == most else f"{least} to {most}"
