# SPDX-License-Identifier: BSD-3-Clause
"""Kinds of measures. A measure computes one number from a run, such as the mean queue of a port, and has a unit.

To add a kind, write a `Measure` subclass with a `tag` and a method `of`, and add it to `AnyMeasure`. If the number also
has a value in every period, give the class a method `course`.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import ClassVar, Literal

import numpy as np

from ncc.core.errors import ConfigError, UnknownNameError
from ncc.core.scenario import Scenario
from ncc.core.topology import Topology
from ncc.core.value import Name, Positive
from ncc.core.workload import has_requests
from ncc.harness.run import Run
from ncc.metrics.catalogue import CATALOGUE, OF_REQUESTS, Better, Metric
from ncc.metrics.fairness import jain_index
from ncc.metrics.summary import host_ports
from ncc.study.measures_base import GBPS, KB, PERCENT, AtPort, Course, Hosts, Measure, MeasuredRun, Statistic, statistic
from ncc.study.measures_of_flows import (
    Bound,
    Completion,
    CpuShare,
    Fct,
    HostRtt,
    Marked,
    QueryTime,
    QueryTimeouts,
    RequestEfficiency,
    RequestGoodput,
    RequestPackets,
    RequestsLate,
    Rtt,
)
from ncc.study.measures_of_losses import LossRate, Response


class Throughput(AtPort, frozen=True, kw_only=True, tag="throughput"):
    """Throughput of a port in bits/s, counting whole IP packets; the mean over the window."""

    SHOWN: ClassVar[Metric] = GBPS

    def course(self, seen: MeasuredRun) -> Course:
        return seen.run.epochs.time_s, self.column(seen, "uplink_throughput_bps")


class Utilisation(AtPort, frozen=True, kw_only=True, tag="utilisation"):
    """Throughput of a port, divided by the highest rate of IP packets on its line; 1 if the line is never idle."""

    SHOWN: ClassVar[Metric] = Metric("", "", "%", Better.HIGHER, 100.0, 2)

    def course(self, seen: MeasuredRun) -> Course:
        transport, network = seen.run.scenario.transport, seen.network
        payload_frac = transport.mtu_bytes / (transport.mtu_bytes + transport.frame_overhead_bytes)
        rate_bps = network.port_rate_bps(network.neighbourhoods[self.area(seen)].uplink_port) * payload_frac
        return seen.run.epochs.time_s, self.column(seen, "uplink_throughput_bps") / rate_bps


class Queue(AtPort, frozen=True, kw_only=True, tag="queue"):
    """Queue of a port in bytes. The mean is over time; other statistics are over the values at the ends of periods."""

    statistic: Statistic = "mean"
    packets: bool = False
    """Show the queue in full packets and not in KB."""
    packet_bytes: Positive = 1500
    """Size of a full packet."""

    SHOWN: ClassVar[Metric] = KB

    @property
    def shown(self) -> Metric:
        shown = super().shown
        return replace(shown, unit="packets", scale=1 / self.packet_bytes) if self.packets else shown

    def of(self, seen: MeasuredRun) -> float:
        column = "uplink_queue_mean_bytes" if self.statistic == "mean" else "uplink_queue_bytes"
        return statistic(self.over_window(seen, self.column(seen, column)), self.statistic)

    def course(self, seen: MeasuredRun) -> Course:
        return seen.run.epochs.time_s, self.column(seen, "uplink_queue_bytes")


class QueueMax(Measure, frozen=True, kw_only=True, tag="queue_max"):
    """Largest queue in bytes that any of the ports had at any time of the run."""

    ports: str = "*"
    """Pattern of the names of ports, which are `from->to`; it may have the wildcards * and ?."""

    SHOWN: ClassVar[Metric] = KB

    def fits(self, where: str, scenario: Scenario) -> None:
        matching(scenario.network(), self.ports, f"{where}.ports")

    def of(self, seen: MeasuredRun) -> float:
        ports = matching(seen.network, self.ports, "ports")
        return float(seen.run.records.ports.queue_max_bytes[ports].max())


class Goodput(Hosts, frozen=True, kw_only=True, tag="goodput"):
    """Payload acknowledged for the first time, in bits/s, summed over the hosts; the mean over the window."""

    each: bool = False
    """Take the mean over the hosts in place of the sum."""

    SHOWN: ClassVar[Metric] = GBPS

    def course(self, seen: MeasuredRun) -> Course:
        of_hosts = self.goodput_bps(seen)
        return seen.run.epochs.time_s, of_hosts.mean(axis=1) if self.each else of_hosts.sum(axis=1)


class Jain(Hosts, frozen=True, kw_only=True, tag="jain"):
    """Jain's index of the hosts' mean goodputs in the window."""

    every_s: Positive | None = None
    """Length in seconds of parts of the window: the index is computed for each whole part, and their mean is taken.
    None: the window is one part."""

    SHOWN: ClassVar[Metric] = Metric("", "", "", Better.HIGHER, 1.0, 3)

    def of(self, seen: MeasuredRun) -> float:
        goodput = self.over_window(seen, self.goodput_bps(seen))
        n = len(goodput) if self.every_s is None else max(1, round(self.every_s / seen.run.scenario.period_s))
        parts = [goodput[i : i + n].mean(axis=0) for i in range(0, len(goodput) - n + 1, n)]
        return float(np.mean([jain_index(part) for part in parts])) if parts else math.nan

    def course(self, seen: MeasuredRun) -> Course:
        return seen.run.epochs.time_s, np.array([jain_index(row) for row in self.goodput_bps(seen)])


class InFlight(Hosts, frozen=True, kw_only=True, tag="in_flight"):
    """Full packets of the hosts that are under way or in queues, by Little's law; a statistic over the periods."""

    statistic: Statistic = "mean"
    each: bool = False
    """Take the mean over the hosts in place of the sum."""

    SHOWN: ClassVar[Metric] = Metric("", "", "packets", Better.NEITHER, 1.0, 1)

    def of(self, seen: MeasuredRun) -> float:
        return statistic(self.over_window(seen, self.course(seen)[1]), self.statistic)

    def course(self, seen: MeasuredRun) -> Course:
        of_hosts = self.in_flight_pkts(seen)
        return seen.run.epochs.time_s, of_hosts.mean(axis=1) if self.each else of_hosts.sum(axis=1)


class Drops(Measure, frozen=True, kw_only=True, tag="drops"):
    """Share of packets, ACKs included, that are dropped at the ports matching one of the patterns `ports`."""

    ports: tuple[str, ...]
    """Patterns of the names of ports, which are `from->to`; they may have the wildcards * and ?."""
    over: Literal["dropped", "sent", "each"] = "sent"
    """Denominator of the share: `dropped`, the drops of all ports; `sent`, the packets that hosts send; `each`, the
    packets that arrive at each of these ports, where the mean over the ports is taken."""

    SHOWN: ClassVar[Metric] = PERCENT

    def fits(self, where: str, scenario: Scenario) -> None:
        for i, pattern in enumerate(self.ports):
            matching(scenario.network(), pattern, f"{where}.ports[{i}]")

    def of(self, seen: MeasuredRun) -> float:
        ports = seen.run.records.ports
        chosen = sorted({port for pattern in self.ports for port in matching(seen.network, pattern, "ports")})
        came = ports.tx_pkts + ports.dropped_pkts
        if self.over == "each":
            return float((ports.dropped_pkts[chosen] / np.maximum(came[chosen], 1)).mean())
        nics = host_ports(seen.network)
        whole = ports.dropped_pkts.sum() if self.over == "dropped" else came[nics].sum()
        return float(ports.dropped_pkts[chosen].sum() / whole) if whole else math.nan


class SentPackets(Measure, frozen=True, kw_only=True, tag="sent_packets"):
    """Packets, ACKs included, that left the ports matching one of the patterns `ports`, per request."""

    ports: tuple[str, ...]
    """Patterns of the names of ports, which are `from->to`; they may have the wildcards * and ?."""

    SHOWN: ClassVar[Metric] = Metric("", "", "packets", Better.LOWER, 1.0, 0)

    def fits(self, where: str, scenario: Scenario) -> None:
        if not has_requests(scenario.workload):
            raise ConfigError(f"{where} is per request, and scenario {scenario.name!r} has none")
        for i, pattern in enumerate(self.ports):
            matching(scenario.network(), pattern, f"{where}.ports[{i}]")

    def of(self, seen: MeasuredRun) -> float:
        graph = seen.run.flows.graph
        if graph is None:
            return math.nan
        chosen = sorted({port for pattern in self.ports for port in matching(seen.network, pattern, "ports")})
        requests = len(np.unique(graph.request[graph.request >= 0]))
        return float(seen.run.records.ports.tx_pkts[chosen].sum()) / requests


class Summary(Measure, frozen=True, kw_only=True, tag="summary"):
    """A metric of the whole run (`ncc.metrics.summary`)."""

    metric: Name
    """Key in `ncc.metrics.catalogue`."""

    def check(self) -> None:
        if self.metric not in CATALOGUE:
            raise UnknownNameError("metric", self.metric, CATALOGUE)

    def fits(self, where: str, scenario: Scenario) -> None:
        if self.metric in OF_REQUESTS and not has_requests(scenario.workload):
            raise ConfigError(f"{where}.metric is {self.metric}, and scenario {scenario.name!r} has no requests")

    @property
    def shown(self) -> Metric:
        metric = CATALOGUE[self.metric]
        return replace(metric, label=self.label or metric.label)

    def of(self, seen: MeasuredRun) -> float:
        return seen.summary[self.metric]


class Ratio(Measure, frozen=True, kw_only=True, tag="ratio"):
    """Ratio of two measures of the same run; NaN if the denominator is 0."""

    over: Name
    """Name of the measure that is the numerator."""
    under: Name
    """Name of the measure that is the denominator."""

    def of(self, seen: MeasuredRun) -> float:
        below = seen.value(self.under)
        return seen.value(self.over) / below if below else math.nan


AnyMeasure = (
    Throughput
    | Utilisation
    | Queue
    | QueueMax
    | Goodput
    | Jain
    | InFlight
    | LossRate
    | Response
    | Fct
    | Completion
    | CpuShare
    | Bound
    | QueryTime
    | QueryTimeouts
    | RequestGoodput
    | RequestEfficiency
    | RequestPackets
    | RequestsLate
    | Rtt
    | HostRtt
    | Marked
    | Drops
    | SentPackets
    | Summary
    | Ratio
)


def measure_all(measures: Mapping[str, AnyMeasure], run: Run) -> dict[str, float]:
    """Compute all measures of a run, by name, in SI units."""
    seen = MeasuredRun(run, measures)
    return {name: seen.value(name) for name in measures}


def matching(network: Topology, pattern: str, where: str) -> list[int]:
    """Find the ports whose names match a pattern; `UnknownNameError`, which names `where`, if there are none."""
    names = [network.port_name(port) for port in range(2 * len(network.links))]
    ports = [port for port, name in enumerate(names) if fnmatchcase(name, pattern)]
    if not ports:
        raise UnknownNameError(where, pattern, names)
    return ports
