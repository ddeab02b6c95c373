# SPDX-License-Identifier: BSD-3-Clause
"""What is measured of a run: small frozen values, each a kind of number with its unit.

To add one: write a `Measure` subclass with a `tag` and an `of` (and a `course`, if it has one over time), and add it to
`AnyMeasure`.
"""

import math
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import ClassVar, Literal

import numpy as np

from ncc.core.errors import ConfigError, UnknownNameError
from ncc.core.flows import FloatArray
from ncc.core.scenario import Scenario
from ncc.core.topology import Topology
from ncc.core.value import Name, Positive
from ncc.core.workload import Queries, endless
from ncc.experiment.bound import Bound
from ncc.experiment.measure import AtPort, Course, Hosts, Measure, OfTraffic, Seen, Statistic, statistic
from ncc.experiment.response import LossRate, Response
from ncc.harness.run import Run
from ncc.metrics.catalogue import CATALOGUE, Better
from ncc.metrics.fairness import jain_index
from ncc.metrics.fct import fct_s
from ncc.metrics.summary import buckets, host_ports


class Throughput(AtPort, frozen=True, kw_only=True, tag="throughput"):
    """Bits of IP packets that left a port per second."""

    unit: ClassVar[str] = "Gbps"
    better: ClassVar[Better] = Better.HIGHER
    scale: ClassVar[float] = 1e-9

    def of(self, seen: Seen, others: Callable[[str], float]) -> float:
        return float(self.over_window(seen, self.course(seen)[1]).mean())

    def course(self, seen: Seen) -> Course:
        return seen.run.epochs.time_s, self.column(seen, "upper_throughput_bps")


class Utilisation(AtPort, frozen=True, kw_only=True, tag="utilisation"):
    """A port's throughput over what its line can carry of IP packets: 1 is a line that never rests."""

    unit: ClassVar[str] = "%"
    better: ClassVar[Better] = Better.HIGHER
    scale: ClassVar[float] = 100.0
    digits: ClassVar[int] = 2

    def of(self, seen: Seen, others: Callable[[str], float]) -> float:
        return float(self.over_window(seen, self.course(seen)[1]).mean())

    def course(self, seen: Seen) -> Course:
        transport, network = seen.run.scenario.transport, seen.network
        payload_frac = transport.mtu_bytes / (transport.mtu_bytes + transport.frame_overhead_bytes)
        rate_bps = network.port_rate_bps(network.neighbourhoods[self.area(seen)].upper_port) * payload_frac
        return seen.run.epochs.time_s, self.column(seen, "upper_throughput_bps") / rate_bps


class Queue(AtPort, frozen=True, kw_only=True, tag="queue"):
    """Bytes waiting in a port: `mean` is over time, the rest over what is found at the ends of epochs."""

    statistic: Statistic = "mean"
    packets: bool = False
    """Show it in full packets rather than KB."""
    packet_bytes: Positive = 1500

    unit: ClassVar[str] = "KB"
    better: ClassVar[Better] = Better.LOWER
    scale: ClassVar[float] = 1e-3
    digits: ClassVar[int] = 1

    @property
    def unit_of(self) -> str:
        return "packets" if self.packets else self.unit

    @property
    def scale_of(self) -> float:
        return 1 / self.packet_bytes if self.packets else self.scale

    def of(self, seen: Seen, others: Callable[[str], float]) -> float:
        column = "upper_queue_mean_bytes" if self.statistic == "mean" else "upper_queue_bytes"
        return statistic(self.over_window(seen, self.column(seen, column)), self.statistic)

    def course(self, seen: Seen) -> Course:
        return seen.run.epochs.time_s, self.column(seen, "upper_queue_bytes")


class QueueMax(Measure, frozen=True, kw_only=True, tag="queue_max"):
    """The most bytes that ever waited in any of the ports whose name matches."""

    ports: str = "*"
    """A pattern of `from->to`, with * and ?."""

    unit: ClassVar[str] = "KB"
    better: ClassVar[Better] = Better.LOWER
    scale: ClassVar[float] = 1e-3
    digits: ClassVar[int] = 1

    def fits(self, where: str, scenario: Scenario) -> None:
        matching(scenario.network(), self.ports, f"{where}.ports")

    def of(self, seen: Seen, others: Callable[[str], float]) -> float:
        ports = matching(seen.network, self.ports, "ports")
        return float(seen.run.records.ports.queue_max_bytes[ports].max())


class Goodput(Hosts, frozen=True, kw_only=True, tag="goodput"):
    """Payload newly acknowledged per second: of all the hosts together, or of each in the mean."""

    each: bool = False

    unit: ClassVar[str] = "Gbps"
    better: ClassVar[Better] = Better.HIGHER
    scale: ClassVar[float] = 1e-9

    def of(self, seen: Seen, others: Callable[[str], float]) -> float:
        return float(self.over_window(seen, self.course(seen)[1]).mean())

    def course(self, seen: Seen) -> Course:
        of_hosts = self.goodput_bps(seen)
        return seen.run.epochs.time_s, of_hosts.mean(axis=1) if self.each else of_hosts.sum(axis=1)


class Jain(Hosts, frozen=True, kw_only=True, tag="jain"):
    """Jain's index of the hosts' goodput over the window, or its mean over parts of it that long."""

    every_s: Positive | None = None

    better: ClassVar[Better] = Better.HIGHER

    def of(self, seen: Seen, others: Callable[[str], float]) -> float:
        goodput = self.over_window(seen, self.goodput_bps(seen))
        n = len(goodput) if self.every_s is None else max(1, round(self.every_s / seen.run.scenario.period_s))
        parts = [goodput[i : i + n].mean(axis=0) for i in range(0, len(goodput) - n + 1, n)]
        return float(np.mean([jain_index(part) for part in parts])) if parts else math.nan

    def course(self, seen: Seen) -> Course:
        return seen.run.epochs.time_s, np.array([jain_index(row) for row in self.goodput_bps(seen)])


class InFlight(Hosts, frozen=True, kw_only=True, tag="in_flight"):
    """Full packets under way or waiting, by Little's law: of all the hosts together, or of each in the mean."""

    statistic: Statistic = "mean"
    each: bool = False

    unit: ClassVar[str] = "packets"
    digits: ClassVar[int] = 1

    def of(self, seen: Seen, others: Callable[[str], float]) -> float:
        return statistic(self.over_window(seen, self.course(seen)[1]), self.statistic)

    def course(self, seen: Seen) -> Course:
        of_hosts = self.in_flight_pkts(seen)
        return seen.run.epochs.time_s, of_hosts.mean(axis=1) if self.each else of_hosts.sum(axis=1)


class Fct(OfTraffic, frozen=True, kw_only=True, tag="fct"):
    """Flow completion time of flows of a size (`ncc.metrics.summary.buckets`); endless flows have none."""

    size: Literal["all", "small", "medium", "large"] = "all"
    statistic: Statistic = "mean"

    unit: ClassVar[str] = "ms"
    better: ClassVar[Better] = Better.LOWER
    scale: ClassVar[float] = 1e3

    def of(self, seen: Seen, others: Callable[[str], float]) -> float:
        run = seen.run
        mask = seen.flows(self.traffic) & buckets(run.flows)[self.size] & ~endless(run.scenario.workload, run.flows)
        return statistic(fct_s(run.flows, run.records.flows, float(run.epochs.time_s[-1]))[mask], self.statistic)


class QueryTime(OfTraffic, frozen=True, kw_only=True, tag="query_time"):
    """Time from a query (`Queries`) until its last answer is complete."""

    statistic: Statistic = "mean"

    unit: ClassVar[str] = "ms"
    better: ClassVar[Better] = Better.LOWER
    scale: ClassVar[float] = 1e3

    def fits(self, where: str, scenario: Scenario) -> None:
        queries_of(scenario, self.traffic, where)

    def of(self, seen: Seen, others: Callable[[str], float]) -> float:
        name, queries = queries_of(seen.run.scenario, self.traffic, "query_time")
        mask = seen.flows(name)
        which = queries.query_of(seen.run.flows.start_s[mask])
        last_s = np.full(which.max() + 1, -np.inf)
        np.maximum.at(last_s, which, seen.run.records.flows.finish_s[mask])
        return statistic(last_s - np.arange(len(last_s)) * queries.interval_s, self.statistic)


class QueryTimeouts(OfTraffic, frozen=True, kw_only=True, tag="query_timeouts"):
    """Share of queries (`Queries`) of whose answers at least one suffered a retransmission timeout."""

    unit: ClassVar[str] = "%"
    better: ClassVar[Better] = Better.LOWER
    scale: ClassVar[float] = 100.0
    digits: ClassVar[int] = 1

    def fits(self, where: str, scenario: Scenario) -> None:
        queries_of(scenario, self.traffic, where)

    def of(self, seen: Seen, others: Callable[[str], float]) -> float:
        name, queries = queries_of(seen.run.scenario, self.traffic, "query_timeouts")
        mask = seen.flows(name)
        which = queries.query_of(seen.run.flows.start_s[mask])
        return float(np.mean(np.bincount(which, seen.run.records.flows.timeouts[mask]) > 0))


class Rtt(OfTraffic, frozen=True, kw_only=True, tag="rtt"):
    """Mean over flows of the mean of their senders' RTT samples."""

    unit: ClassVar[str] = "ms"
    better: ClassVar[Better] = Better.LOWER
    scale: ClassVar[float] = 1e3

    def of(self, seen: Seen, others: Callable[[str], float]) -> float:
        values = seen.run.records.flows.rtt_mean_s[seen.flows(self.traffic)]
        return statistic(values[np.isfinite(values)], "mean")


class HostRtt(Hosts, frozen=True, kw_only=True, tag="host_rtt"):
    """Mean of all RTT samples that the hosts' senders take in the window."""

    unit: ClassVar[str] = "ms"
    better: ClassVar[Better] = Better.LOWER
    scale: ClassVar[float] = 1e3

    def of(self, seen: Seen, others: Callable[[str], float]) -> float:
        sums, samples = (self.over_window(seen, column).sum() for column in self._sums(seen))
        return float(sums / samples) if samples else math.nan

    def course(self, seen: Seen) -> Course:
        sums, samples = (column.sum(axis=1) for column in self._sums(seen))
        return seen.run.epochs.time_s, np.divide(sums, samples, out=np.full_like(sums, np.nan), where=samples > 0)

    def _sums(self, seen: Seen) -> tuple[FloatArray, FloatArray]:
        """Sum of an epoch's samples and how many there are, [n_epochs, n_hosts]."""
        samples = self.column(seen, "rtt_samples")
        return self.column(seen, "rtt_s") * samples, samples


class Marked(OfTraffic, frozen=True, kw_only=True, tag="marked"):
    """Data packets that arrived with Congestion Experienced over data packets sent: what DCTCP's alpha estimates."""

    def of(self, seen: Seen, others: Callable[[str], float]) -> float:
        records, mask = seen.run.records.flows, seen.flows(self.traffic)
        sent = int(records.sent_pkts[mask].sum())
        return float(records.ce_pkts[mask].sum()) / sent if sent else math.nan


class Drops(Measure, frozen=True, kw_only=True, tag="drops"):
    """Packets dropped at the ports whose name matches one of `ports`, over all dropped or over all sent by hosts."""

    ports: tuple[str, ...]
    """Patterns of `from->to`, with * and ?."""
    over: Literal["dropped", "sent"] = "sent"

    unit: ClassVar[str] = "%"
    better: ClassVar[Better] = Better.LOWER
    scale: ClassVar[float] = 100.0

    def fits(self, where: str, scenario: Scenario) -> None:
        for i, pattern in enumerate(self.ports):
            matching(scenario.network(), pattern, f"{where}.ports[{i}]")

    def of(self, seen: Seen, others: Callable[[str], float]) -> float:
        ports = seen.run.records.ports
        chosen = sorted({port for pattern in self.ports for port in matching(seen.network, pattern, "ports")})
        nics = host_ports(seen.network)
        whole = ports.dropped_pkts.sum() if self.over == "dropped" else (ports.tx_pkts + ports.dropped_pkts)[nics].sum()
        return float(ports.dropped_pkts[chosen].sum() / whole) if whole else math.nan


class Summary(Measure, frozen=True, kw_only=True, tag="summary"):
    """A metric of `ncc.metrics.catalogue`."""

    metric: Name

    def check(self) -> None:
        if self.metric not in CATALOGUE:
            raise UnknownNameError("metric", self.metric, CATALOGUE)

    @property
    def title(self) -> str:
        metric = CATALOGUE[self.metric]
        return metric.title if not self.label else f"{self.label} ({metric.unit})" if metric.unit else self.label

    @property
    def unit_of(self) -> str:
        return CATALOGUE[self.metric].unit

    @property
    def scale_of(self) -> float:
        return CATALOGUE[self.metric].scale

    @property
    def digits_of(self) -> int:
        return CATALOGUE[self.metric].digits

    @property
    def better_of(self) -> Better:
        return CATALOGUE[self.metric].better

    def of(self, seen: Seen, others: Callable[[str], float]) -> float:
        return seen.summary[self.metric]


class Ratio(Measure, frozen=True, kw_only=True, tag="ratio"):
    """One measure over another of the same run; NaN over 0."""

    over: Name
    under: Name

    def of(self, seen: Seen, others: Callable[[str], float]) -> float:
        below = others(self.under)
        return others(self.over) / below if below else math.nan


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
    | Bound
    | QueryTime
    | QueryTimeouts
    | Rtt
    | HostRtt
    | Marked
    | Drops
    | Summary
    | Ratio
)


def measure_all(measures: Mapping[str, AnyMeasure], run: Run) -> dict[str, float]:
    """Every measure of a run, by name, in SI."""
    seen = Seen(run)
    known: dict[str, float] = {}

    def value(name: str) -> float:
        if name not in known:
            known[name] = measures[name].of(seen, value)
        return known[name]

    return {name: value(name) for name in measures}


def matching(network: Topology, pattern: str, where: str) -> list[int]:
    """Ports whose name matches; `UnknownNameError` if none does."""
    names = [network.port_name(port) for port in range(2 * len(network.links))]
    found = [port for port, name in enumerate(names) if fnmatchcase(name, pattern)]
    if not found:
        raise UnknownNameError(where, pattern, names)
    return found


def queries_of(scenario: Scenario, traffic: str, where: str) -> tuple[str, Queries]:
    """The component `traffic`, or the only one, which must be `Queries`."""
    found = {name: component for name, component in scenario.workload if isinstance(component, Queries)}
    if traffic and traffic not in found:
        raise UnknownNameError(f"{where}.traffic (of kind queries)", traffic, found)
    if not traffic and len(found) != 1:
        raise ConfigError(f"{where}.traffic must name one of the workload's queries: {', '.join(found) or '(none)'}")
    name = traffic or next(iter(found))
    return name, found[name]
