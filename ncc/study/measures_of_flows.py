# SPDX-License-Identifier: BSD-3-Clause
"""Measures of flows: completion times and their bounds, query times, RTTs and marks."""

import math
from typing import ClassVar, Literal

import numpy as np

from ncc.core.errors import ConfigError, UnknownNameError
from ncc.core.flows import FloatArray, IntArray
from ncc.core.scenario import Scenario
from ncc.core.units import BITS_PER_BYTE
from ncc.core.value import Count, Positive
from ncc.core.workload import Queries, endless, has_requests
from ncc.metrics.bounds import bound_fct_s
from ncc.metrics.catalogue import Better, Metric
from ncc.metrics.fct import fct_s
from ncc.metrics.fluid import Sharing, unbounded
from ncc.metrics.requests import qct_s
from ncc.metrics.summary import buckets
from ncc.study.measures_base import MS, Course, Hosts, Measure, MeasuredRun, OfTraffic, Statistic, statistic


class Fct(OfTraffic, frozen=True, kw_only=True, tag="fct"):
    """Statistic of flow completion times in seconds. Endless flows have none, and do not count."""

    size: Literal["all", "small", "medium", "large"] | Count = "all"
    """Sizes of the flows that count (`ncc.metrics.summary.buckets`), or their largest payload in bytes."""
    statistic: Statistic = "mean"

    SHOWN: ClassVar[Metric] = MS

    def of(self, seen: MeasuredRun) -> float:
        run = seen.run
        of, size = run.flows, self.size
        mask = of.size_bytes <= size if isinstance(size, int) else buckets(of)[size]
        mask = mask & seen.flows(self.traffic) & ~endless(run.scenario.workload, run.flows)
        mask &= ~np.isnan(run.flows.start_s)  # of requests, flows that never started
        return statistic(fct_s(run.flows, run.records.flows, float(run.epochs.time_s[-1]))[mask], self.statistic)


class Completion(Measure, frozen=True, kw_only=True, tag="completion"):
    """Mean time in seconds that users wait for: of requests (QCT) if the workload has any, else of flows (FCT).

    What is not complete at the end of the run counts with its time so far.
    """

    SHOWN: ClassVar[Metric] = MS

    def of(self, seen: MeasuredRun) -> float:
        run = seen.run
        if not has_requests(run.scenario.workload):
            return Fct().of(seen)
        until_s = float(run.epochs.time_s[-1])
        return statistic(qct_s(run.flows, run.records.flows, until_s), "mean")


class CpuShare(Measure, frozen=True, kw_only=True, tag="cpu_share"):
    """CPU time of the run's process, in seconds per simulated second. It depends on the machine."""

    SHOWN: ClassVar[Metric] = Metric("", "", "s/s", Better.LOWER, 1.0, 2)

    def of(self, seen: MeasuredRun) -> float:
        return seen.run.cpu_s / float(seen.run.epochs.time_s[-1])


class Bound(OfTraffic, frozen=True, kw_only=True, tag="bound"):
    """Statistic of completion times of the run's flows in a fluid model with ideal sharing (`ncc.metrics.fluid`).

    It corresponds to `Fct`, and is the same for all contenders with the same flows. All flows complete, even those that
    the run did not deliver.
    """

    sharing: Sharing
    size: Literal["all", "small", "medium", "large"] = "all"
    statistic: Statistic = "mean"

    SHOWN: ClassVar[Metric] = Metric("", "", "ms", Better.NEITHER, 1e3, 3)

    def fits(self, where: str, scenario: Scenario) -> None:
        super().fits(where, scenario)
        if why := unbounded(scenario):
            raise ConfigError(f"{where}: scenario {scenario.name!r} {why}")

    def of(self, seen: MeasuredRun) -> float:
        took_s = bound_fct_s(seen.run.scenario, seen.run.flow_seed, self.sharing)
        return statistic(took_s[seen.flows(self.traffic) & buckets(seen.run.flows)[self.size]], self.statistic)


class OfQueries(OfTraffic, frozen=True, kw_only=True):
    """A measure of a workload's component of kind `Queries`. `traffic` names it, unless there is only one."""

    def fits(self, where: str, scenario: Scenario) -> None:
        self.queries(scenario, where)

    def queries(self, scenario: Scenario, where: str = "") -> tuple[str, Queries]:
        """Return the name of the workload's `Queries` component that is measured, and the component.

        Raises:
            ConfigError: there is no such component, or `traffic` names none of several. The message names `where`.
        """
        components = {name: component for name, component in scenario.workload if isinstance(component, Queries)}
        if self.traffic and self.traffic not in components:
            raise UnknownNameError(f"{where}.traffic (of kind queries)", self.traffic, components)
        if not self.traffic and len(components) != 1:
            raise ConfigError(
                f"{where}.traffic must name one of the workload's queries: {', '.join(components) or '(none)'}"
            )
        name = self.traffic or next(iter(components))
        return name, components[name]


class QueryTime(OfQueries, frozen=True, kw_only=True, tag="query_time"):
    """Statistic of query times: the seconds from a query (`Queries`) until all of its answers are complete.

    It is NaN if an answer was not delivered.
    """

    statistic: Statistic = "mean"

    SHOWN: ClassVar[Metric] = MS

    def of(self, seen: MeasuredRun) -> float:
        name, queries = self.queries(seen.run.scenario)
        mask = seen.flows(name)
        which = queries.query_of(seen.run.flows.start_s[mask])
        last_s = np.full(which.max() + 1, -np.inf)
        np.maximum.at(last_s, which, seen.run.records.flows.finish_s[mask])
        return statistic(last_s - np.arange(len(last_s)) * queries.interval_s, self.statistic)


class QueryTimeouts(OfQueries, frozen=True, kw_only=True, tag="query_timeouts"):
    """Share of the queries (`Queries`) in which at least one answer has a retransmission timeout."""

    SHOWN: ClassVar[Metric] = Metric("", "", "%", Better.LOWER, 100.0, 1)

    def of(self, seen: MeasuredRun) -> float:
        name, queries = self.queries(seen.run.scenario)
        mask = seen.flows(name)
        which: IntArray = queries.query_of(seen.run.flows.start_s[mask])
        return float(np.mean(np.bincount(which, seen.run.records.flows.timeouts[mask]) > 0))


class RequestGoodput(Measure, frozen=True, kw_only=True, tag="request_goodput"):
    """Payload of the answers of all requests, divided by the sum of their QCTs (`ncc.metrics.requests`), in bits/s.

    It is NaN if a flow was not delivered.
    """

    SHOWN: ClassVar[Metric] = Metric("", "", "Mbit/s", Better.HIGHER, 1e-6, 1)

    def fits(self, where: str, scenario: Scenario) -> None:
        if not has_requests(scenario.workload):
            raise ConfigError(f"{where} is about requests, and scenario {scenario.name!r} has none")

    def of(self, seen: MeasuredRun) -> float:
        flows = seen.run.flows
        if flows.graph is None:
            return math.nan
        payload_bytes = int(flows.size_bytes[flows.graph.answer].sum())
        return BITS_PER_BYTE * payload_bytes / float(qct_s(flows, seen.run.records.flows).sum())


class RequestPackets(RequestGoodput, frozen=True, kw_only=True, tag="request_packets"):
    """Data packets that were sent to the host that asks, per request; NaN if several hosts ask."""

    SHOWN: ClassVar[Metric] = Metric("", "", "packets", Better.LOWER, 1.0, 1)

    def of(self, seen: MeasuredRun) -> float:
        flows, graph = seen.run.flows, seen.run.flows.graph
        if graph is None or len(hosts := np.unique(flows.src[graph.after < 0])) != 1:
            return math.nan
        sent = seen.run.records.flows.sent_pkts[flows.dst == hosts[0]].sum()
        return float(sent) / len(np.unique(graph.request[graph.request >= 0]))


class RequestEfficiency(RequestGoodput, frozen=True, kw_only=True, tag="request_efficiency"):
    """`RequestGoodput` as a share of the line of the host that asks (wang2021 figure 4.6); NaN if several ask."""

    SHOWN: ClassVar[Metric] = Metric("", "", "%", Better.HIGHER, 100.0, 2)

    def of(self, seen: MeasuredRun) -> float:
        flows = seen.run.flows
        hosts = set(flows.dst[flows.graph.answer].tolist()) if flows.graph is not None else set()
        return super().of(seen) / seen.network.host_link(hosts.pop()).rate_bps if len(hosts) == 1 else math.nan


class RequestsLate(RequestGoodput, frozen=True, kw_only=True, tag="requests_late"):
    """Share of the requests that began whose QCT is above a deadline; unfinished ones count with their time so far."""

    deadline_s: Positive

    SHOWN: ClassVar[Metric] = Metric("", "", "%", Better.LOWER, 100.0, 2)

    def of(self, seen: MeasuredRun) -> float:
        took_s = qct_s(seen.run.flows, seen.run.records.flows, float(seen.run.epochs.time_s[-1]))
        began = took_s[~np.isnan(took_s)]
        return float(np.mean(began > self.deadline_s)) if len(began) else math.nan


class Rtt(OfTraffic, frozen=True, kw_only=True, tag="rtt"):
    """Mean over flows, in seconds, of the mean of each flow's RTT samples. Flows without samples do not count."""

    SHOWN: ClassVar[Metric] = MS

    def of(self, seen: MeasuredRun) -> float:
        values = seen.run.records.flows.rtt_mean_s[seen.flows(self.traffic)]
        return statistic(values[np.isfinite(values)], "mean")


class HostRtt(Hosts, frozen=True, kw_only=True, tag="host_rtt"):
    """Mean in seconds of all RTT samples that these hosts take as senders in the window."""

    SHOWN: ClassVar[Metric] = MS

    def of(self, seen: MeasuredRun) -> float:
        sums, samples = (self.over_window(seen, column).sum() for column in self._sums(seen))
        return float(sums / samples) if samples else math.nan

    def course(self, seen: MeasuredRun) -> Course:
        sums, samples = (column.sum(axis=1) for column in self._sums(seen))
        return seen.run.epochs.time_s, np.divide(sums, samples, out=np.full_like(sums, np.nan), where=samples > 0)

    def _sums(self, seen: MeasuredRun) -> tuple[FloatArray, FloatArray]:
        """Sums of the RTT samples of each period, and their numbers, both [n_epochs, n_hosts]."""
        samples = self.column(seen, "rtt_samples")
        return self.column(seen, "rtt_s") * samples, samples


class Marked(OfTraffic, frozen=True, kw_only=True, tag="marked"):
    """Share of data packets that arrive with Congestion Experienced, which DCTCP's alpha estimates."""

    def of(self, seen: MeasuredRun) -> float:
        records, mask = seen.run.records.flows, seen.flows(self.traffic)
        sent = int(records.sent_pkts[mask].sum())
        return float(records.ce_pkts[mask].sum()) / sent if sent else math.nan
