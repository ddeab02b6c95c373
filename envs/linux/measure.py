# SPDX-License-Identifier: BSD-3-Clause
"""`Meter`: from what sockets and ports have counted to the columns of an epoch (`ncc.core.measurement`).

All columns are of arrays over flows; nothing here is done flow by flow. Of a flow the kernel says at its last ACK what
had left the host, and what has been delivered; so `queued_bytes` and `wait_s` are as old as that, and of a flow whose
first data is not acknowledged yet nothing has left. When the receiver has every byte a flow counts as delivered, even
if its last ACK is still on its way.
"""

from typing import Any

import numpy as np

from ncc.core.flows import BoolArray, FloatArray, FlowTable, IntArray
from ncc.core.measurement import Measurement
from ncc.core.scenario import Scenario
from ncc.core.topology import Topology
from ncc.core.units import BITS_PER_BYTE, NS_PER_S
from ncc.envs.linux.extension import HOST_SUMS, extension
from ncc.metrics.fct import base_rtt_s

PORT_COUNTERS = (
    "tx_pkts",
    "tx_bytes",
    "marked_pkts",
    "dropped_pkts",
    "queue_bytes",
    "queue_byte_ns",
    "queue_pkt_ns",
)
"""What a port has counted since the start: bytes are of IP packets, `queue_bytes` wait now, and the last two are the
queue's integrals over time in bytes and in packets; the latter is the sum of the packets' waits (Little)."""
_TX_PKTS, _TX_BYTES, _MARKED, _DROPPED, _QUEUE, _BYTE_NS, _PKT_NS = range(len(PORT_COUNTERS))


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

    def __init__(self, scenario: Scenario, flows: FlowTable, first: IntArray) -> None:
        topology = scenario.network()
        n = len(flows)
        self.n_agents = len(topology.agent_hosts)
        area_of, limited = topology.limited_to
        index = np.full(len(topology.nodes), self.n_agents)
        index[list(topology.agent_hosts)] = np.arange(self.n_agents)
        self.start_s, self.size_bytes = flows.start_s, np.array(flows.size_bytes, np.int64)
        self.agent: IntArray = index[flows.src]
        """Row among the agents of each flow's sender; n_agents: none."""
        self.limited: BoolArray = limited[area_of[flows.src], flows.dst]
        """Whether a flow leaves its neighbourhood, and so is under its host's limit."""
        self.inside_rows: IntArray = np.flatnonzero(~self.limited & (self.agent < self.n_agents))
        """Flows of agents that stay inside their neighbourhood."""
        acks_inside = ~limited[area_of[flows.dst], flows.src] & (index[flows.dst] < self.n_agents)
        self._inside = len(self.inside_rows) > 0 or bool(acks_inside.any())
        self.delivered_bytes, self.left_bytes = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self.rtt_sum_s, self.rtt_samples = np.zeros(n), np.zeros(n, np.int64)
        self.last_left_s = flows.start_s.copy()
        self.live = np.zeros(0, np.int64)
        self.flows = extension().Flows(
            self.size_bytes, self.delivered_bytes, self.left_bytes, self.rtt_sum_s, self.rtt_samples
        )
        """These arrays, for the extension."""
        zeros = np.zeros(n, np.int64)
        self._before = extension().Before(zeros, zeros.copy(), np.zeros(n), zeros.copy(), self.last_left_s)
        self._limited = self.limited.astype(np.uint8)
        self._started = self._finished = 0
        self._rtt_s = _base_rtts(scenario, flows, self.agent, self.n_agents)
        self._uppers = np.array([area.upper_port for area in topology.neighbourhoods], np.int64)
        self._hosts = host_ports(topology)
        self._ports = first

    def not_honoured(self) -> tuple[str, ...]:
        """What columns say otherwise than `ncc.core.measurement` does, a sentence each."""
        if not self._inside:
            return ()
        return (
            "throughput_bps counts all packets that a host sent, also those to nodes inside its neighbourhood, of "
            "which this run has some.",
        )

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
        ports: IntArray,
    ) -> Measurement:
        """The epoch that ends at `time_s`, `interval_s` after the last one did.

        Args:
            limits_bps: [n_agents], in force.
            finished: [n_flows] whether the receiver has every byte.
            ports: [n_ports, PORT_COUNTERS] of all directed ports.
        """
        # At time 0 nothing has arrived, not even what arrives then.
        now_started = int(np.searchsorted(self.start_s, time_s, side="right")) if epoch > 0 else 0
        came = np.concatenate([self.live, np.arange(self._started, now_started)])
        sums = np.empty((len(HOST_SUMS), self.n_agents))
        left = extension().measure(
            came=came,
            flows=self.flows,
            before=self._before,
            agent=self.agent,
            limited=self._limited,
            finished=finished.view(np.uint8),
            time_s=time_s,
            sums=sums,
        )
        self.live = came[:left]
        self._started, self._finished = now_started, self._finished + len(came) - left
        before, self._ports = self._ports, ports
        bits_per_s = BITS_PER_BYTE / interval_s if interval_s > 0 else 0.0
        # All fields at once: the initialiser of a frozen dataclass sets them one by one.
        made = object.__new__(Measurement)
        made.__dict__.update(
            time_s=time_s,
            epoch=epoch,
            rate_limit_bps=limits_bps.copy(),
            throughput_bps=(ports[self._hosts, _TX_BYTES] - before[self._hosts, _TX_BYTES]) * bits_per_s,
            upper_queue_bytes=ports[self._uppers, _QUEUE].astype(np.float64),
            flows_started=self._started,
            flows_finished=self._finished,
            **self._host_columns(sums, bits_per_s),
            **_upper_columns(ports[self._uppers] - before[self._uppers], bits_per_s),
        )
        return made

    def _host_columns(self, sums: FloatArray, bits_per_s: float) -> dict[str, Any]:
        columns: dict[str, Any] = dict(zip(HOST_SUMS, sums, strict=True))
        counts = sums.astype(np.int64)
        for name in ("rtt_samples", "queued_flows", "active_flows"):
            columns[name] = counts[HOST_SUMS.index(name)]
        samples, rtt_sum = columns["rtt_samples"], columns.pop("rtt_sum_s")
        self._rtt_s = np.where(samples > 0, rtt_sum / np.maximum(samples, 1), self._rtt_s)
        columns["goodput_bps"] = columns.pop("goodput_bytes") * bits_per_s
        columns["rtt_s"] = self._rtt_s
        return columns


def _upper_columns(gained: IntArray, bits_per_s: float) -> dict[str, Any]:
    """Of what upper ports have counted in an epoch, [n_neighbourhoods, PORT_COUNTERS]."""
    sent = gained[:, _TX_PKTS]
    return {
        "upper_throughput_bps": gained[:, _TX_BYTES] * bits_per_s,
        "upper_queue_mean_bytes": gained[:, _BYTE_NS] * (bits_per_s / BITS_PER_BYTE / NS_PER_S),
        "upper_queue_delay_s": np.where(sent > 0, gained[:, _PKT_NS] / NS_PER_S / np.maximum(sent, 1), 0.0),
        "upper_marked_pkts": gained[:, _MARKED],
        "upper_dropped_pkts": gained[:, _DROPPED],
    }


def _base_rtts(scenario: Scenario, flows: FlowTable, agent: IntArray, n_agents: int) -> FloatArray:
    """[n_agents] the longest base RTT of a host's flows; of one without flows, the longest of all."""
    rtt_s = np.zeros(n_agents)
    for src, dst, row in np.unique(np.stack([flows.src, flows.dst, agent]), axis=1).T.tolist():
        if row < n_agents:
            rtt_s[row] = max(rtt_s[row], base_rtt_s(scenario, src, dst))
    return np.where(rtt_s > 0, rtt_s, rtt_s.max(initial=0.0))
