# SPDX-License-Identifier: BSD-3-Clause
"""Congestion control of a run's connections: a controller of `baselines/` in the shim, or one of the kernel's own."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from ncc.baselines.registry import Ecn, controller
from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray, IntArray
from ncc.core.topology import Topology
from ncc.core.units import NS_PER_S
from ncc.envs.linux.extension import extension, reports_of
from ncc.envs.linux.measure import Meter
from ncc.envs.linux.queue import Queues
from ncc.envs.linux.rack import Rack
from ncc.envs.linux.shim import Shim
from ncc.envs.linux.stack import KERNEL
from ncc.envs.linux.traffic import Traffic
from ncc.harness.datapath import HostStack

NO_ECN = ("bbr",)
"""Kernel controls that ignore marks. They run without ECN; otherwise switches would mark, never drop, their packets."""
US = 1_000_000


class Senders(ABC):
    """Base of the congestion controls that a run's connections can have, with their limits and reports."""

    congestion: str
    """TCP_CONGESTION of both ends."""
    ecn: int
    """net.ipv4.tcp_ecn of hosts."""
    shim: Shim | None = None
    """Shim of the connections; None for the kernel's own controls."""
    torn = 0
    """Number of reports that could not be read at a period's end and were read at the next."""
    samples = False
    """True if the traffic program must read TCP_INFO every period, because there are no other reports."""

    def __init__(self, stack: HostStack, topology: Topology, queues: Queues | None) -> None:
        self._topology, self._queues, self._limits = topology, queues, b""
        self.steers = stack.order != "fifo" or stack.hold
        """True once connections have a limit, an order among flows or a held start to obey."""

    def decide(self, limits_bps: FloatArray, now_ns: int, meter: Meter) -> None:
        """Put limits [n_agents] (bits/s, inf: none) and the order among flows into force, and renew the heartbeat."""
        if self.shim is not None:
            self.shim.beat(now_ns)
        if (limits := limits_bps.tobytes()) != self._limits:
            self._check_limits(limits_bps, meter)
            self.steers |= bool(np.isfinite(limits_bps).any())
            self._limits = limits
        if self._queues is not None:
            self._queues.decide(limits_bps, now_ns, self.shim)

    def _check_limits(self, limits_bps: FloatArray, meter: Meter) -> None:
        """Raise `ConfigError` if a limit cannot be enforced, or would also hold for flows inside the neighbourhood."""
        limited = np.isfinite(limits_bps)
        if self._queues is None and limited.any():
            first = int(np.flatnonzero(limited)[0])
            raise ConfigError(
                f"Host {self._name(first)} cannot be limited to {limits_bps[first]:g} bits/s, because hosts without an "
                "order have no queues for it: set datapath.linux.settings.queues=true"
            )
        rows = meter.inside_rows
        if (rows := rows[limited[meter.agent[rows]]]).size:
            host = self._name(int(meter.agent[rows[0]]))
            raise ConfigError(
                f"The limit of host {host} is of packets that leave its neighbourhood, and on linux it holds for all "
                f"its connections, also for flow {rows[0]}, which stays inside: use a workload without such flows"
            )

    def _name(self, agent: int) -> str:
        return self._topology.nodes[self._topology.agent_hosts[agent]].name

    @abstractmethod
    def report(self, meter: Meter, traffic: Traffic) -> None:
        """Pass the connections' latest counts to the meter."""

    def counters(self) -> dict[str, int]:
        """Return counters for the facts of the run."""
        return {} if self.shim is None else self.shim.counters()

    def close(self) -> None:
        """Unregister the congestion control; may be called twice."""
        if self.shim is not None:
            self.shim.close()


class ShimSenders(Senders):
    """A controller of `baselines/` in the kernel, whose connections the shim reports."""

    shim: Shim

    def __init__(
        self,
        stack: HostStack,
        rack: Rack,
        topology: Topology,
        queues: Queues | None,
        *,
        timeout_s: float,
        proportional: bool,
        patience_s: float = 0.0,
    ) -> None:
        super().__init__(stack, topology, queues)
        self.ecn = int(controller(stack.transport).ecn != Ecn.NONE)
        self.shim = Shim(stack.transport, stack.params, timeout_s=timeout_s, proportional=proportional)
        self.congestion = self.shim.name
        reports = self.shim.reports
        self._reports = reports_of(reports)
        # Slots in use at the last report (the first `_n` entries), and the row of the flow and generation of each.
        self._slots, self._rows = np.zeros(len(reports), np.int64), np.zeros(len(reports), np.int64)
        self._generations, self._n = np.zeros(len(reports), np.uint32), 0
        agents = topology.agent_hosts
        others = tuple(host for host in topology.hosts if host not in agents)
        # Only hosts with a window or a patience have a row in the shim; others are just reported.
        steered = {host: index for index, host in enumerate((*agents, *others) if patience_s else agents)}
        for host in topology.hosts:
            self.shim.add_host(steered.get(host), rack.address(host), rack.cookie(host))
        self.shim.hosts["patience_ns"] = round(patience_s * NS_PER_S)
        self.shim.hosts["named_only"] = stack.answer_frac is not None
        if (listener := self.shim.programs().get("shim_signal")) is not None:
            for host in topology.hosts:
                rack.hear(host, listener)

    def report(self, meter: Meter, traffic: Traffic) -> None:
        self._n, ended, torn = extension().collect(
            reports=self._reports,
            used=self.shim.used(),
            flows=meter.flows,
            slots=self._slots,
            generations=self._generations,
            rows=self._rows,
        )
        self.torn += torn
        if ended:
            self.shim.give_back(ended)

    def connections(self) -> tuple[IntArray, IntArray, Any]:
        """Return the slots in use at the last reports, the rows of their flows (-1: none), and their generations."""
        return self._slots[: self._n], self._rows[: self._n], self._generations[: self._n]


class KernelSenders(Senders):
    """One of the kernel's own controls, as an independent reference; its reports are TCP_INFO."""

    samples = True

    def __init__(self, stack: HostStack, topology: Topology, queues: Queues | None) -> None:
        super().__init__(stack, topology, queues)
        self.congestion = stack.transport.removeprefix(KERNEL)
        self.ecn = int(self.congestion not in NO_ECN)

    def report(self, meter: Meter, traffic: Traffic) -> None:
        """Pass the counts to the meter. Its RTT samples are the smoothed RTT of `TCP_INFO`, one per period."""
        rows = meter.live
        flows = traffic.flows[rows]
        meter.flows.update(
            rows,
            known_bytes=_signed(flows["handed_bytes"]),
            delivered_bytes=_signed(flows["acked_bytes"]),
            left_bytes=_signed(flows["left_bytes"]),
            rtt_sum_s=flows["rtt_sum_us"] / US,
            rtt_samples=flows["rtt_samples"].astype(np.int64),
        )


def _signed(column: Any) -> IntArray:
    counts: IntArray = column.astype(np.int64)
    return counts
