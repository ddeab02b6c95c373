# SPDX-License-Identifier: BSD-3-Clause
"""`Meter`: from what sockets and ports have counted to the columns of an epoch (`ncc.core.measurement`).

All columns are of arrays over flows; nothing here is done flow by flow. Of a flow the kernel says at its last ACK what
had left the host, and what has been delivered; so `queued_bytes` and `wait_s` are as old as that, and of a flow whose
first data is not acknowledged yet nothing has left. When the receiver has every byte a flow counts as delivered, even
if its last ACK is still on its way.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ncc.core.flows import BoolArray, FloatArray, FlowTable, IntArray
from ncc.core.measurement import Measurement
from ncc.core.scenario import Scenario
from ncc.core.topology import Topology
from ncc.core.units import BITS_PER_BYTE
from ncc.metrics.fct import base_rtt_s


@dataclass(frozen=True)
class PortCounters:
    """What ports have counted since the start; all have shape [n_ports]. Bytes are of IP packets."""

    tx_pkts: IntArray
    tx_bytes: IntArray
    marked_pkts: IntArray
    dropped_pkts: IntArray
    queue_bytes: IntArray
    """Waiting now."""
    queue_byte_s: FloatArray
    """The queue's integral over time."""
    queue_delay_s: FloatArray
    """Sum of the waits of packets."""

    def at(self, ports: IntArray) -> "PortCounters":
        """Those of some ports."""
        return PortCounters(**{name: getattr(self, name)[ports] for name in self.__dataclass_fields__})


def host_ports(topology: Topology) -> IntArray:
    """[n_agents] the directed port by which each agent sends."""
    links = {end: 2 * i + side for i, link in enumerate(topology.links) for side, end in enumerate((link.a, link.b))}
    return np.array([links[host] for host in topology.agent_hosts], np.int64)


class Meter:
    """The epochs of one run.

    Attributes:
        size_bytes: [n_flows], as are all of flows.
        delivered_bytes: acknowledged, each byte once.
        left_bytes: of the payload, that has left the host at least once; at least what is delivered.
        last_left_s: when a byte of it last left the host, as far as epochs tell; its arrival if none has.
        live: rows of flows that have arrived and not been delivered.
    """

    def __init__(self, scenario: Scenario, flows: FlowTable, first: PortCounters) -> None:
        topology = scenario.network()
        n = len(flows)
        self.n_agents = len(topology.agent_hosts)
        area_of, limited = topology.limited_to
        index = np.full(len(topology.nodes), self.n_agents)
        index[list(topology.agent_hosts)] = np.arange(self.n_agents)
        self.start_s, self.size_bytes = flows.start_s, flows.size_bytes
        self.agent: IntArray = index[flows.src]
        """Row among the agents of each flow's sender; n_agents: none."""
        self.limited: BoolArray = limited[area_of[flows.src], flows.dst]
        """Whether a flow leaves its neighbourhood, and so is under its host's limit."""
        self.inside_rows: IntArray = np.flatnonzero(~self.limited & (self.agent < self.n_agents))
        """Flows of agents that stay inside their neighbourhood."""
        self.delivered_bytes, self.left_bytes = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self.rtt_sum_s, self.rtt_samples = np.zeros(n), np.zeros(n, np.int64)
        self.last_left_s = flows.start_s.copy()
        self.live = np.zeros(0, np.int64)
        self._before: list[IntArray] = [np.zeros(n, np.int64) for _ in range(3)]
        self._rtt_before = np.zeros(n)
        self._started = self._finished = 0
        self._rtt_s = _base_rtts(scenario, flows, self.agent, self.n_agents)
        self._uppers = np.array([area.upper_port for area in topology.neighbourhoods], np.int64)
        self._hosts = host_ports(topology)
        self._ports = first

    def heard(
        self,
        rows: IntArray,
        delivered_bytes: IntArray,
        left_bytes: IntArray,
        rtt_sum_s: FloatArray,
        rtt_samples: IntArray,
    ) -> None:
        """Take in what the senders of some flows have counted since they began; all have the shape of `rows`.

        Older news than what is known changes nothing, and nothing exceeds a flow's size.
        """
        size = self.size_bytes[rows]
        delivered = np.maximum(self.delivered_bytes[rows], np.minimum(delivered_bytes, size))
        self.delivered_bytes[rows] = delivered
        self.left_bytes[rows] = np.maximum(np.maximum(self.left_bytes[rows], np.minimum(left_bytes, size)), delivered)
        newer = rtt_samples > self.rtt_samples[rows]
        self.rtt_sum_s[rows[newer]], self.rtt_samples[rows[newer]] = rtt_sum_s[newer], rtt_samples[newer]

    def measure(
        self,
        *,
        epoch: int,
        time_s: float,
        interval_s: float,
        limits_bps: FloatArray,
        finished: BoolArray,
        ports: PortCounters,
    ) -> Measurement:
        """The epoch that ends at `time_s`, `interval_s` after the last one did.

        Args:
            limits_bps: [n_agents], in force.
            finished: [n_flows] whether the receiver has every byte.
            ports: of all directed ports.
        """
        now_started = int(np.searchsorted(self.start_s, time_s, side="right"))
        came = np.concatenate([self.live, np.arange(self._started, now_started)])
        done = finished[came]
        over = came[done]
        self.delivered_bytes[over] = self.left_bytes[over] = self.size_bytes[over]
        self._started, self._finished = now_started, self._finished + len(over)
        goodput, rtt_sum, rtt_samples = self._gained(came, time_s)
        self.live = came[~done]
        got = rtt_samples > 0
        self._rtt_s = np.where(got, rtt_sum / np.where(got, rtt_samples, 1), self._rtt_s)
        before, self._ports = self._ports, ports
        sent = (ports.tx_bytes - before.tx_bytes)[self._hosts]
        return Measurement(
            time_s=time_s,
            epoch=epoch,
            flows_started=self._started,
            flows_finished=self._finished,
            rate_limit_bps=limits_bps.copy(),
            throughput_bps=sent * BITS_PER_BYTE / interval_s if interval_s > 0 else np.zeros(self.n_agents),
            goodput_bps=goodput * BITS_PER_BYTE / interval_s if interval_s > 0 else np.zeros(self.n_agents),
            rtt_s=self._rtt_s.copy(),
            rtt_samples=rtt_samples.astype(np.int64),
            **self._queued(time_s),
            **self._uppers_of(before, interval_s),
        )

    def _gained(self, rows: IntArray, time_s: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """By agent: bytes delivered, sum of RTT samples and their number since the last epoch."""
        counts: list[IntArray] = [self.delivered_bytes, self.left_bytes, self.rtt_samples]
        delivered, left, samples = (_gain(rows, *pair) for pair in zip(counts, self._before, strict=True))
        rtt_sum = self.rtt_sum_s[rows] - self._rtt_before[rows]
        self._rtt_before[rows] = self.rtt_sum_s[rows]
        self.last_left_s[rows[left > 0]] = time_s
        return self._by_agent(rows, delivered), self._by_agent(rows, rtt_sum), self._by_agent(rows, samples)

    def _by_agent(self, rows: IntArray, values: FloatArray | IntArray | None = None) -> FloatArray:
        sums = np.bincount(self.agent[rows], values, self.n_agents + 1)[: self.n_agents]
        return sums.astype(np.float64)

    def _queued(self, time_s: float) -> dict[str, Any]:
        live = self.live
        size, left_over = self.size_bytes[live], self.size_bytes[live] - self.left_bytes[live]
        waits = (left_over > 0) & self.limited[live]
        queued, waiting_bytes = live[waits], left_over[waits]
        least = np.full(self.n_agents + 1, np.inf)
        np.minimum.at(least, self.agent[queued], waiting_bytes)
        return {
            "wait_s": self._by_agent(queued, time_s - self.last_left_s[queued]),
            "queued_bytes": self._by_agent(queued, waiting_bytes),
            "next_bytes": np.where(np.isinf(least), 0.0, least)[: self.n_agents],
            "queued_flows": self._by_agent(queued).astype(np.int64),
            "active_flows": self._by_agent(live).astype(np.int64),
            "active_per_byte": self._by_agent(live, 1 / size),
            "active_left": self._by_agent(live, (size - self.delivered_bytes[live]) / size),
        }

    def _uppers_of(self, before: PortCounters, interval_s: float) -> dict[str, Any]:
        now, then = self._ports.at(self._uppers), before.at(self._uppers)
        sent = now.tx_pkts - then.tx_pkts
        span_s = interval_s if interval_s > 0 else np.inf
        return {
            "upper_throughput_bps": (now.tx_bytes - then.tx_bytes) * BITS_PER_BYTE / span_s,
            "upper_queue_bytes": now.queue_bytes.astype(np.float64),
            "upper_queue_mean_bytes": (now.queue_byte_s - then.queue_byte_s) / span_s,
            "upper_queue_delay_s": np.where(
                sent > 0, (now.queue_delay_s - then.queue_delay_s) / np.maximum(sent, 1), 0.0
            ),
            "upper_marked_pkts": now.marked_pkts - then.marked_pkts,
            "upper_dropped_pkts": now.dropped_pkts - then.dropped_pkts,
        }


def _gain(rows: IntArray, now: IntArray, before: IntArray) -> IntArray:
    gained: IntArray = now[rows] - before[rows]
    before[rows] = now[rows]
    return gained


def _base_rtts(scenario: Scenario, flows: FlowTable, agent: IntArray, n_agents: int) -> FloatArray:
    """[n_agents] the longest base RTT of a host's flows; of one without flows, the longest of all."""
    rtt_s = np.zeros(n_agents)
    for src, dst, row in np.unique(np.stack([flows.src, flows.dst, agent]), axis=1).T.tolist():
        if row < n_agents:
            rtt_s[row] = max(rtt_s[row], base_rtt_s(scenario, src, dst))
    return np.where(rtt_s > 0, rtt_s, rtt_s.max(initial=0.0))
