# SPDX-License-Identifier: BSD-3-Clause
"""`Meter`: the signals of a period (`ncc.core.signals`) from the counters of sockets and ports.

Everything is computed on arrays over flows. The kernel reports at each ACK how many bytes of a flow have left the host
and how many are delivered. `queued_bytes` and `wait_s` are therefore as old as the last ACK, and a flow counts as
unsent until its first ACK. A flow counts as delivered when the receiver has every byte, even if the last ACK is still
on its way.
"""

import numpy as np

from ncc.core.flows import BoolArray, FloatArray, FlowTable, IntArray
from ncc.core.measurement import Measurement
from ncc.core.scenario import Scenario
from ncc.core.topology import Topology
from ncc.envs.linux.extension import extension
from ncc.envs.native.blocks import Blocks
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
"""A port's counters since the start, in bytes of IP packets. `queue_bytes` is the queue now; the last two integrate the
queue over time, in bytes and in packets; the latter equals the sum of the packets' waits (Little's law)."""


def host_ports(topology: Topology) -> IntArray:
    """Return the directed port [n_agents] by which each agent sends."""
    links = {end: 2 * i + side for i, link in enumerate(topology.links) for side, end in enumerate((link.a, link.b))}
    return np.array([links[host] for host in topology.agent_hosts], np.int64)


class Meter:
    """Measurement of one run, period by period. Arrays of flows are [n_flows].

    Attributes:
        start_s: start of each flow; of requests, NaN if it has not started.
        size_bytes: size of each flow.
        known_bytes: part of the size that the host knows (`Nic.knows`). If hosts know the backlog only, these are the
            bytes that the kernel has reported as sent or waiting in the socket; 0 before its first report.
        delivered_bytes: acknowledged bytes of each flow, each byte once.
        left_bytes: payload that has left the host at least once; at least `delivered_bytes`.
        live: rows of flows that have arrived and are not delivered; the next period overwrites it.
    """

    def __init__(self, scenario: Scenario, flows: FlowTable, first: IntArray) -> None:
        topology = scenario.network()
        n = len(flows)
        self.n_agents = len(topology.agent_hosts)
        area_of, limited = topology.limited_to
        index = np.full(len(topology.nodes), self.n_agents)
        index[list(topology.agent_hosts)] = np.arange(self.n_agents)
        self.start_s = flows.start_s if flows.graph is None else np.full(n, np.nan)
        self.size_bytes = np.array(flows.size_bytes, np.int64)
        self._order, self._n_begun = np.arange(n), None if flows.graph is None else 0
        self.agent: IntArray = index[flows.src]
        """Row of the agent that sends each flow; n_agents: no agent does."""
        self.limited: BoolArray = limited[area_of[flows.src], flows.dst]
        """True for flows that leave their neighbourhood, which their host's limit covers."""
        self.inside_rows: IntArray = np.flatnonzero(~self.limited & (self.agent < self.n_agents))
        """Rows of agents' flows that stay inside their neighbourhood."""
        acks_inside = ~limited[area_of[flows.dst], flows.src] & (index[flows.dst] < self.n_agents)
        self._inside = len(self.inside_rows) > 0 or bool(acks_inside.any())
        self.known_bytes = np.zeros(n, np.int64) if scenario.nic.knows == "backlog" else self.size_bytes.copy()
        self.delivered_bytes, self.left_bytes = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self.rtt_sum_s, self.rtt_samples = np.zeros(n), np.zeros(n, np.int64)
        self.live = np.zeros(0, np.int64)
        self.flows = extension().Flows(
            self.size_bytes, self.known_bytes, self.delivered_bytes, self.left_bytes, self.rtt_sum_s, self.rtt_samples
        )
        """The arrays above, for the extension; `update` brings flows up to date, by counts since each of them began."""
        self._live, self._topology = np.zeros(n, np.int64), topology
        self._epochs = extension().Epochs(
            flows=self.flows,
            start_s=self.start_s,
            order=self._order,
            agent=self.agent,
            limited=self.limited.astype(np.uint8),
            rtt_s=_base_rtts(scenario, flows, self.agent, self.n_agents),
            host_ports=host_ports(topology),
            uplinks=np.array([area.uplink_port for area in topology.neighbourhoods], np.int64),
            ports=first,
            live=self._live,
        )

    def not_honoured(self) -> tuple[str, ...]:
        """Return sentences on how columns differ from the signals in `ncc.core.signals`."""
        if not self._inside:
            return ()
        return (
            "throughput_bps counts all packets that a host sent, also those to nodes inside its neighbourhood, of "
            "which this run has some.",
        )

    def begun(self, started: IntArray, start_s: FloatArray) -> None:
        """Note the flows of requests that have started so far, in order.

        Args:
            started: their rows [n]; the first ones are those of the last call.
            start_s: start of each flow [n_flows].
        """
        new = started[self._n_begun :]
        self._order[self._n_begun : len(started)] = new
        self.start_s[new] = start_s[new]
        self._n_begun = len(started)

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
        """Measure the period that ends at `time_s`, `interval_s` after the last measurement.

        Args:
            limits_bps: limits in force [n_agents].
            finished: True for each flow [n_flows] whose receiver has every byte.
            ports: counters [n_ports, PORT_COUNTERS] of all directed ports.
        """
        blocks = Blocks(self._topology)
        arrived = self._n_begun
        if arrived is None:  # at time 0 no flow counts as arrived, even if it starts then
            arrived = int(np.searchsorted(self.start_s, time_s, side="right")) if epoch > 0 else 0
        live, started, delivered = self._epochs.end(
            time_s, arrived, interval_s, finished.view(np.uint8), ports, *blocks.arrays[:4]
        )
        measured = blocks.made(Measurement, time_s, epoch, started, delivered)
        measured.rate_limit_bps[:] = limits_bps
        self.live = self._live[:live]
        return measured


def _base_rtts(scenario: Scenario, flows: FlowTable, agent: IntArray, n_agents: int) -> FloatArray:
    """Return the longest base RTT [n_agents] of each host's flows; for a host without flows, the longest of all."""
    rtt_s = np.zeros(n_agents)
    for src, dst, row in np.unique(np.stack([flows.src, flows.dst, agent]), axis=1).T.tolist():
        if row < n_agents and src != dst:
            rtt_s[row] = max(rtt_s[row], base_rtt_s(scenario, src, dst))
    return np.where(rtt_s > 0, rtt_s, rtt_s.max(initial=0.0))
