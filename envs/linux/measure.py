# SPDX-License-Identifier: BSD-3-Clause
"""`Meter`: from what sockets and ports have counted to the columns of an epoch (`ncc.core.measurement`).

All columns are of arrays over flows; nothing here is done flow by flow. Of a flow the kernel says at its last ACK what
had left the host, and what has been delivered; so `queued_bytes` and `wait_s` are as old as that, and of a flow whose
first data is not acknowledged yet nothing has left. When the receiver has every byte a flow counts as delivered, even
if its last ACK is still on its way.
"""

import numpy as np

from ncc.core.flows import BoolArray, FloatArray, FlowTable, IntArray
from ncc.core.measurement import Measurement
from ncc.core.scenario import Scenario
from ncc.core.topology import Topology
from ncc.envs.linux.extension import HOST_COUNTS, HOST_REALS, UPPER_COUNTS, UPPER_REALS, extension
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
_THROUGHPUT, _QUEUED = HOST_REALS.index("throughput_bps"), HOST_REALS.index("queued_bytes")


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
        live: rows of flows that have arrived and not been delivered; the next epoch overwrites it.
        interval_s: how long the last epoch was; 0 before the first.
        sent_bps: [n_agents] `throughput_bps` of the last epoch.
        waiting_bytes: [n_agents] its `queued_bytes`.
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
        self.interval_s, self.sent_bps, self.waiting_bytes = 0.0, np.zeros(self.n_agents), np.zeros(self.n_agents)
        self.flows = extension().Flows(
            self.size_bytes, self.delivered_bytes, self.left_bytes, self.rtt_sum_s, self.rtt_samples
        )
        """These arrays, for the extension."""
        zeros = np.zeros(n, np.int64)
        self._live, self._n_areas = np.zeros(n, np.int64), len(topology.neighbourhoods)
        self._epochs = extension().Epochs(
            flows=self.flows,
            before=extension().Before(zeros, zeros.copy(), np.zeros(n), zeros.copy(), self.last_left_s),
            start_s=self.start_s,
            agent=self.agent,
            limited=self.limited.astype(np.uint8),
            rtt_s=_base_rtts(scenario, flows, self.agent, self.n_agents),
            host_ports=host_ports(topology),
            upper_ports=np.array([area.upper_port for area in topology.neighbourhoods], np.int64),
            ports=first,
            live=self._live,
        )

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
        host_reals, host_counts = np.empty((len(HOST_REALS), n := self.n_agents)), np.empty((len(HOST_COUNTS), n), int)
        upper_reals = np.empty((len(UPPER_REALS), self._n_areas))
        upper_counts = np.empty((len(UPPER_COUNTS), self._n_areas), int)
        # At time 0 nothing has arrived, not even what arrives then.
        live, started, delivered = self._epochs.end(
            time_s,
            epoch > 0,
            interval_s,
            finished.view(np.uint8),
            ports,
            host_reals,
            host_counts,
            upper_reals,
            upper_counts,
        )
        self.live, self.interval_s = self._live[:live], interval_s
        self.sent_bps, self.waiting_bytes = host_reals[_THROUGHPUT], host_reals[_QUEUED]
        # All fields at once: the initialiser of a frozen dataclass sets them one by one.
        made = object.__new__(Measurement)
        made.__dict__.update(
            time_s=time_s,
            epoch=epoch,
            rate_limit_bps=limits_bps.copy(),
            flows_started=started,
            flows_finished=delivered,
        )
        for names, rows in (
            (HOST_REALS, host_reals),
            (HOST_COUNTS, host_counts),
            (UPPER_REALS, upper_reals),
            (UPPER_COUNTS, upper_counts),
        ):
            made.__dict__.update(zip(names, rows, strict=True))
        return made


def _base_rtts(scenario: Scenario, flows: FlowTable, agent: IntArray, n_agents: int) -> FloatArray:
    """[n_agents] the longest base RTT of a host's flows; of one without flows, the longest of all."""
    rtt_s = np.zeros(n_agents)
    for src, dst, row in np.unique(np.stack([flows.src, flows.dst, agent]), axis=1).T.tolist():
        if row < n_agents:
            rtt_s[row] = max(rtt_s[row], base_rtt_s(scenario, src, dst))
    return np.where(rtt_s > 0, rtt_s, rtt_s.max(initial=0.0))
