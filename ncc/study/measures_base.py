# SPDX-License-Identifier: BSD-3-Clause
"""Base classes of measures: of ports and hosts in a window of time, and of flows; and the run that they measure."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from ncc.core.errors import ConfigError, UnknownNameError
from ncc.core.flows import BoolArray, FloatArray
from ncc.core.scenario import Scenario
from ncc.core.topology import Topology
from ncc.core.units import BITS_PER_BYTE
from ncc.core.value import AbstractValue, Fraction, Name, Natural, Value
from ncc.harness.run import Run
from ncc.metrics.catalogue import Better, Metric
from ncc.metrics.summary import summarise

Statistic = Literal["mean", "min", "p50", "p95", "p99", "p999", "max", "std"]
Course = tuple[FloatArray, FloatArray]
"""Values over time: the times in seconds at which periods end, and the values, both [n_epochs]."""

_PERCENTILES = {"min": 0.0, "p50": 50.0, "p95": 95.0, "p99": 99.0, "p999": 99.9, "max": 100.0}


def statistic(values: FloatArray, name: Statistic) -> float:
    """Compute a statistic of values [n]; NaN if there are none.

    Percentiles are interpolated linearly; `p999` is the 99.9th one.
    """
    if not len(values):
        return math.nan
    if name == "std":
        return float(np.std(values))
    return float(np.mean(values) if name == "mean" else np.percentile(values, _PERCENTILES[name]))


GBPS = Metric("", "", "Gbps", Better.HIGHER, 1e-9, 3)
KB = Metric("", "", "KB", Better.LOWER, 1e-3, 1)
MS = Metric("", "", "ms", Better.LOWER, 1e3, 3)
PERCENT = Metric("", "", "%", Better.LOWER, 100.0, 3)
PLAIN = Metric("", "", "", Better.NEITHER, 1.0, 3)
"""Units in which measures are shown, with the better direction, the factor from SI units, and the digits."""


@dataclass(frozen=True)
class MeasuredRun:
    """A run that is measured, with values that several measures use; each is computed once."""

    run: Run
    measures: "Mapping[str, Measure]" = field(default_factory=dict)
    """All measures by name, for measures that combine others."""
    _values: dict[str, float] = field(default_factory=dict, init=False, repr=False, compare=False)

    def value(self, name: str) -> float:
        """Value of the measure with this name, in SI units."""
        if name not in self._values:
            self._values[name] = self.measures[name].of(self)
        return self._values[name]

    @cached_property
    def network(self) -> Topology:
        """Topology of the run."""
        return self.run.scenario.network()

    @cached_property
    def summary(self) -> dict[str, float]:
        """Metrics of the run (`ncc.metrics.summary.summarise`)."""
        run = self.run
        return summarise(run.scenario, run.flows, run.records.flows, run.records.ports, run.epochs)

    def flows(self, traffic: str) -> BoolArray:
        """Mask [n_flows] of the flows of the component `traffic` of the workload; empty: of all components."""
        names = [name for name, _ in self.run.scenario.workload]
        if not traffic:
            return np.ones(len(self.run.flows), dtype=np.bool_)
        return np.asarray(self.run.flows.traffic == names.index(traffic))


class Measure(Value, metaclass=AbstractValue, frozen=True, kw_only=True, tag_field="kind"):
    """A number that is computed from a run; NaN if it is undefined for the run."""

    label: str = ""
    """Name in tables and figures; empty: the name of the class."""

    SHOWN: ClassVar[Metric] = PLAIN

    @property
    def shown(self) -> Metric:
        """Name, unit, format and better direction of the measure."""
        return replace(self.SHOWN, label=self.label or type(self).__name__.lower())

    def text(self, value: float) -> str:
        """Format a value, given in SI units, for a table."""
        return self.shown.text(value)

    def fits(self, where: str, scenario: Scenario) -> None:
        """Raise `ConfigError` if the scenario lacks a part that the measure needs; the message begins with `where`."""

    @abstractmethod
    def of(self, seen: MeasuredRun) -> float:
        """Compute the number from a run, in SI units."""

    def course(self, seen: MeasuredRun) -> Course:
        """Compute the value in every period; `ConfigError` if the measure has none."""
        raise ConfigError(f"{type(self).__name__} has no course over time; leave over_time out")


class Windowed(Measure, frozen=True, kw_only=True):
    """Base of measures in a window: the mean over the periods that end in (from_frac, until_frac] of `duration_s`."""

    from_frac: Fraction = 0.2
    """Start of the window, by default after the start-up of the flows."""
    until_frac: Fraction = 1.0
    """End of the window."""

    def check(self) -> None:
        if self.from_frac >= self.until_frac:
            raise ConfigError(f"{type(self).__name__}.from_frac must be below until_frac ({self.until_frac})")

    def window(self, seen: MeasuredRun) -> BoolArray:
        """Mask [n_epochs] of the periods in the window."""
        end_s, length_s = seen.run.epochs.time_s, seen.run.scenario.duration_s
        # A nanosecond of slack for rounding.
        return np.asarray((end_s > self.from_frac * length_s + 1e-9) & (end_s <= self.until_frac * length_s + 1e-9))

    def over_window(self, seen: MeasuredRun, values: FloatArray) -> FloatArray:
        """Select the values [n_epochs, ...] of the periods in the window; `ConfigError` if it holds no period."""
        inside = values[self.window(seen)]
        if not len(inside):
            raise ConfigError(
                f"{type(self).__name__}: no epoch ends in {self.from_frac:g} to {self.until_frac:g} of duration_s "
                f"({seen.run.scenario.duration_s} s); lower period_s or widen the window"
            )
        return inside

    def of(self, seen: MeasuredRun) -> float:
        return float(self.over_window(seen, self.course(seen)[1]).mean())


class AtPort(Windowed, frozen=True, kw_only=True):
    """A measure of an uplink, which is the port that the hosts of a neighbourhood share.

    Only these ports are measured in each period.
    """

    port: str = ""
    """Name of the port, as `from->to`; empty: the uplink of the first neighbourhood."""

    def fits(self, where: str, scenario: Scenario) -> None:
        uplinks = [area.uplink_port for area in scenario.network().neighbourhoods]
        if self.port:
            names = [scenario.network().port_name(port) for port in uplinks]
            if self.port not in names:
                raise UnknownNameError(f"{where}.port (only uplinks are measured)", self.port, names)

    def area(self, seen: MeasuredRun) -> int:
        """Index of the neighbourhood whose uplink is measured."""
        uplinks = [area.uplink_port for area in seen.network.neighbourhoods]
        return uplinks.index(seen.network.port(self.port)) if self.port else 0

    def column(self, seen: MeasuredRun, name: str) -> FloatArray:
        """Values of a column of `ncc.core.measurement.Epochs` for the uplink, [n_epochs]."""
        return seen.run.epochs.columns[name][:, self.area(seen)].astype(np.float64)


class Hosts(Windowed, frozen=True, kw_only=True):
    """A measure of hosts, which must be in neighbourhoods: only these are measured in each period."""

    hosts: Name
    """Name of a group of hosts of the topology."""
    first: Natural = 0
    """Number of hosts to leave out at the beginning of the group."""
    count: Natural = 0
    """Number of hosts to take after those; 0: all that are left."""

    def fits(self, where: str, scenario: Scenario) -> None:
        network = scenario.network()
        try:
            chosen = self.chosen(network)
        except ConfigError as error:
            raise ConfigError(f"{where}.hosts: {error}") from None
        if not chosen:
            raise ConfigError(
                f"{where}.first must be below the {len(network.group(self.hosts))} hosts of {self.hosts!r}"
            )
        if missing := [network.nodes[host].name for host in chosen if host not in network.agent_hosts]:
            raise ConfigError(
                f"{where}.hosts: {missing[0]} of {self.hosts!r} is in no neighbourhood, and only hosts of one are "
                "measured each epoch; name a group of those"
            )

    def goodput_bps(self, seen: MeasuredRun) -> FloatArray:
        """Goodput of the hosts in bits/s, [n_epochs, n_hosts]."""
        return self.column(seen, "goodput_bps")

    def column(self, seen: MeasuredRun, name: str) -> FloatArray:
        """Values of a column of `ncc.core.measurement.Epochs` for the hosts, [n_epochs, n_hosts]."""
        at = [seen.network.agent_hosts.index(host) for host in self.chosen(seen.network)]
        return seen.run.epochs.columns[name][:, at].astype(np.float64)

    def in_flight_pkts(self, seen: MeasuredRun) -> FloatArray:
        """Full packets under way or in queues, [n_epochs, n_hosts], by Little's law: goodput x RTT / payload."""
        payload_bits = BITS_PER_BYTE * seen.run.scenario.transport.mss_bytes
        return self.goodput_bps(seen) * self.column(seen, "rtt_s") / payload_bits

    def chosen(self, network: Topology) -> tuple[int, ...]:
        """Node numbers of the hosts in a network."""
        rest = network.group(self.hosts)[self.first :]
        return rest[: self.count] if self.count else rest


class OfTraffic(Measure, frozen=True, kw_only=True):
    """A measure of flows."""

    traffic: str = ""
    """Name of the component of the workload whose flows are measured; empty: the flows of all components."""

    def fits(self, where: str, scenario: Scenario) -> None:
        names = [name for name, _ in scenario.workload]
        if self.traffic and self.traffic not in names:
            raise UnknownNameError(f"{where}.traffic", self.traffic, names)
