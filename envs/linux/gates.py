# SPDX-License-Identifier: BSD-3-Clause
"""`Gates`: receivers' knowledge of flows, their grants, and the flows that wait for a grant (docs/receivers.md).

One process decides for all hosts. Grants therefore take no time and are not lost, unless the scenario asks for late or
lost messages (`ncc.harness.messages`). A receiver learns of a flow at the end of the period in which its connection is
established. Bytes count as received once their sender has the ACK. The data of a waiting flow stays in the socket
(bpf/shim_gate.h). A flow begins at the start of the period that is nearest to its granted start. With
`HostStack.answer_frac` each receiver also says once per period whether new flows may begin without a grant
(`ncc.harness.receivers.Admission`).
"""

from collections.abc import Mapping

import numpy as np

from ncc.core.flows import FloatArray, FlowTable, IntArray
from ncc.core.measurement import Measurement
from ncc.core.receivers import NO_EDGES, Edges, Grants
from ncc.core.scenario import Scenario
from ncc.core.units import NS_PER_S
from ncc.envs.linux import layout, traffic
from ncc.envs.linux.extension import extension
from ncc.envs.linux.measure import Meter
from ncc.envs.linux.senders import ShimSenders
from ncc.envs.linux.wake import FIELDS, Waker
from ncc.envs.observation.losses import reliable
from ncc.harness.messages import Messages, patience_s
from ncc.harness.receivers import Admission, grant_delay_s

FULL_FRAC = 0.9
"""Share of its sender's link from which a granted rate is no limit. Pacing at such a rate would only mix the packets of
the pair's flows, which the host's queue sends one flow after the other."""


class Gates:
    """State of every sender-receiver pair with flows: the flows that the receiver knows of, and its last grant.

    Args:
        scenario: scenario of the run.
        flows: flows of the run.
        seed: seed of the messages that are late or lost, if the scenario allows that.
        wakers: object that starts the held flows of each sending host, by node; empty if no flow is held.
        addresses: address of each host, by node.
        answer_frac: as in `HostStack`: receivers say whether new flows may begin at once. If the scenario's messages
            may be late, lost or false, all flows wait. None: all flows wait.

    Attributes:
        counts: number of `messages` of receivers that arrived, of flows that were started (`woken`), and of those among
            them that started without a grant (`unanswered`).
    """

    def __init__(
        self,
        scenario: Scenario,
        flows: FlowTable,
        seed: int,
        wakers: Mapping[int, Waker],
        addresses: Mapping[int, str],
        *,
        answer_frac: float | None = None,
    ) -> None:
        n_nodes, transport = len(scenario.network().nodes), scenario.transport
        keys, pair = np.unique(flows.src * n_nodes + flows.dst, return_inverse=True)
        self._key, self._n_nodes = keys, n_nodes
        # Last grant of each pair.
        self._as_of_s, self._start_s = np.full(len(keys), -np.inf), np.zeros(len(keys))
        self._rate_bps, self._window_pkts = np.full(len(keys), np.inf), np.zeros(len(keys), np.int64)
        network = scenario.network()
        self._full_bps = FULL_FRAC * np.array([network.host_link(int(key) // n_nodes).rate_bps for key in keys])
        self._flows, self._edges = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
        self._columns, self._n_edges = np.zeros((4, len(keys))), 0
        self._pairs = extension().Pairs(
            pair=pair.astype(np.int64),
            heard_s=np.full(len(flows), np.nan),
            as_of_s=self._as_of_s,
            start_s=self._start_s,
            rate_bps=self._rate_bps,
            window_pkts=self._window_pkts,
            flows=self._flows,
            edges=self._edges,
            columns=self._columns,
        )
        self._wakers = wakers
        self._answers, self._admission = answer_frac is not None, None
        if answer_frac is not None and reliable(scenario) and grant_delay_s(scenario) == scenario.period_s:
            self._admission = Admission(scenario, answer_frac)
        self._receivers = {int(node): addresses[node] for node in np.unique(flows.dst)}
        # Whether new flows to each node wait, and the values last written to the kernel (-1: none).
        self._waits, self._told = np.ones(n_nodes, np.bool_), np.full(n_nodes, -1)
        self._address = {node: layout.address_bytes(address) for node, address in addresses.items()}
        self._src, self._dst = flows.src, flows.dst
        self._mss_bytes, self._payload = transport.mss_bytes, transport.mss_bytes / transport.mtu_bytes
        self._period_s, self._patience_s = scenario.period_s, patience_s(scenario)
        self._messages = Messages(scenario, seed)
        # Grants on their way: each with arrival times, and the time of the measurement that it is based on.
        self._under_way: list[tuple[Grants, FloatArray, float]] = []
        self.counts = dict.fromkeys(("messages", "woken", "unanswered"), 0)

    def edges(self, meter: Meter, states: IntArray, time_s: float) -> Edges:
        """Return receivers' knowledge at the end of a period; `states` [n_flows] are those of `traffic.FLOW`."""
        edges = self._known(meter, states, time_s)
        if self._admission is not None:
            self._waits = ~self._admission.at_once(edges)
        return edges

    def _known(self, meter: Meter, states: IntArray, time_s: float) -> Edges:
        if not len(meter.live) and not self._n_edges:
            return NO_EDGES
        kinds = (traffic.SENDING, traffic.FAILED)
        self._n_edges = n = self._pairs.edges(meter.flows, meter.live, states.astype(np.int64), *kinds, time_s)
        if not n:
            return NO_EDGES
        pair = self._edges[:n]
        return Edges(
            self._key[pair] // self._n_nodes,
            self._key[pair] % self._n_nodes,
            self._flows[pair],
            *self._columns[:, :n].copy(),
        )

    def tell(self, grants: Grants, now: Measurement) -> None:
        """Send the grants that receivers have decided from the measurement `now`."""
        grants, late_s = self._messages.sent(grants, now)
        if len(grants):
            self._under_way.append((grants, now.time_s + late_s, now.time_s))

    def _receive(self, grants: Grants, as_of_s: float) -> None:
        key = np.asarray(grants.src) * self._n_nodes + np.asarray(grants.dst)
        pair = np.minimum(np.searchsorted(self._key, key), len(self._key) - 1)
        valid = (self._key[pair] == key) & (self._flows[pair] > 0) & (self._as_of_s[pair] <= as_of_s)
        pair = pair[valid]
        self.counts["messages"] += len(pair)
        self._as_of_s[pair] = as_of_s
        self._start_s[pair], self._window_pkts[pair] = grants.start_s[valid], grants.window_pkts[valid]
        rate_bps = grants.rate_bps[valid]
        self._rate_bps[pair] = np.where(rate_bps >= self._full_bps[pair], np.inf, rate_bps)

    def decide(self, senders: ShimSenders, start_ns: int, now_ns: int) -> None:
        """Apply the grants that have arrived, and wake the flows that may begin; time 0 is at `start_ns`."""
        if self._answers:
            for node in np.flatnonzero(self._waits != self._told).tolist():
                if (address := self._receivers.get(node)) is not None:
                    senders.shim.wait_for(address, waits=bool(self._waits[node]))
            self._told[:] = self._waits
        due_s = (now_ns - start_ns) / NS_PER_S + self._period_s / 2
        under_way, self._under_way = self._under_way, []
        for grants, arrive_s, as_of_s in under_way:
            self._receive(grants.where(arrive_s <= due_s), as_of_s)
            if (late := arrive_s > due_s).any():
                self._under_way.append((grants.where(late), arrive_s[late], as_of_s))
        slots, rows, generations = senders.connections()
        if not len(rows):
            return
        decisions, reports = senders.shim.decisions, senders.shim.reports
        woken = self._pairs.decide(
            slots=slots,
            rows=rows,
            generations=generations,
            start_ns=start_ns,
            due_s=due_s,
            patience_s=self._patience_s,
            mss_bytes=self._mss_bytes,
            payload_frac=self._payload,
            start=decisions["start_ns"],
            most_bytes=decisions["most_bytes"],
            rate=decisions["rate_bytes_per_s"],
            generation=decisions["generation"],
            held=reports["held"],
        )
        for slot, row, granted in woken:
            report = reports[slot]
            self._wakers[int(self._src[row])].wake(
                self._address[int(self._dst[row])],
                **{name: int(report[name]) for name in FIELDS},
            )
            self.counts["woken"] += 1
            self.counts["unanswered"] += not granted
