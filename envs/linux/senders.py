# SPDX-License-Identifier: BSD-3-Clause
"""Congestion control of a run's connections: one of our headers in the shim, or one of the kernel's own."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ncc.core.errors import ConfigError, UnknownNameError
from ncc.core.flows import FloatArray, IntArray
from ncc.core.topology import Topology
from ncc.core.units import NS_PER_S
from ncc.envs.linux.extension import extension, reports_of
from ncc.envs.linux.measure import Meter
from ncc.envs.linux.order import Weights
from ncc.envs.linux.shim import Shim
from ncc.envs.linux.traffic import Traffic
from ncc.envs.native.params import check_params
from ncc.harness.datapath import HostStack

KERNEL = "linux::"
"""Prefix of the names of the kernel's own congestion controls."""
NO_ECN = ("bbr",)
"""Congestion controls of the kernel that ignore marks: with ECN, switches would mark their packets, never drop them."""
US = 1_000_000
WEIGH_NS = 8_000_000
"""Least time between two updates of weights, in which the kernel passes on the unused parts of shares. More frequent
updates do harm: a flow that claims more by its new weight still sends at its old rate until its next ACK."""


class Senders(ABC):
    """Control of a run's connections, and reports of them."""

    congestion: str
    """TCP_CONGESTION of both ends."""
    ecn: int
    """net.ipv4.tcp_ecn of hosts."""
    torn = 0
    """Number of reports that could not be read at a period's end and were read at the next."""
    steers = False
    """True if a limit or an order among flows has been decided so far, which connections must obey."""
    samples = False
    """True if the traffic program must read TCP_INFO every period, because there are no other reports."""

    @abstractmethod
    def decide(self, limits_bps: FloatArray, now_ns: int, meter: Meter, time_s: float) -> None:
        """Put limits [n_agents] and the order among flows into force, and show that user space is alive."""

    @abstractmethod
    def report(self, meter: Meter, traffic: Traffic) -> None:
        """Give the connections' counts to the meter."""

    def counters(self) -> dict[str, int]:
        """Return counters for the facts of the run."""
        return {}

    def close(self) -> None:  # noqa: B027 - the kernel's own controls have nothing to unregister
        """Unregister the congestion control; may be called twice."""


def transports() -> tuple[str, ...]:
    """List our headers, and the kernel's own as ``linux::cubic`` and so on."""
    return (*extension().transports(), *(KERNEL + name for name in kernel_controls()))


def kernel_controls() -> tuple[str, ...]:
    """List the kernel's own congestion controls, without those that a shim registered."""
    try:
        names = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    except OSError:  # not Linux, or a kernel without networking
        return ()
    return tuple(sorted(name for name in names if not name.startswith("ncc_")))


def check_stack(stack: HostStack) -> None:
    """Raise an error as `Datapath.start` does if a stack names something that does not exist."""
    if stack.transport not in (known := transports()):
        raise UnknownNameError("transport", stack.transport, known)
    if stack.order not in (orders := extension().orders()):
        raise UnknownNameError("flow order", stack.order, orders)
    if stack.transport.startswith(KERNEL):
        if stack.params:
            raise ConfigError(
                f"Transport {stack.transport} is the kernel's own and takes no parameters, got {stack.params[0][0]}"
            )
        if stack.order != "fifo":
            raise ConfigError(
                f"Flow order {stack.order} needs a transport of our own, which can be paced; {stack.transport} is the "
                "kernel's: set stack.order to fifo"
            )
        return
    check_params(stack.transport, extension().params(stack.transport), stack.params)
    check_params(f"flow order {stack.order}", extension().order_params(stack.order), stack.order_params)


class ShimSenders(Senders):
    """One of our headers in the kernel, limited and reported by the shim."""

    def __init__(
        self, stack: HostStack, addresses: Sequence[str], topology: Topology, *, timeout_s: float, proportional: bool
    ) -> None:
        self.ecn = int(extension().ecn(stack.transport) != 0)
        self.shim = Shim(stack.transport, stack.params, timeout_s=timeout_s, proportional=proportional)
        self.congestion = self.shim.name
        self._topology = topology
        self._weights = Weights(stack.order, stack.order_params) if stack.order != "fifo" else None
        self._timeout_ns, self._beat_ns = round(timeout_s * NS_PER_S), 0
        self._limits, self._weighed_ns = b"", 0
        self.steers = self._weights is not None
        reports = self.shim.reports
        self._reports = reports_of(reports)
        # Slots in use at the last reports, the first `_n`: whose they are.
        self._slots, self._rows = np.zeros(len(reports), np.int64), np.zeros(len(reports), np.int64)
        self._generations, self._n = np.zeros(len(reports), np.uint32), 0
        for index, address in enumerate(addresses):
            self.shim.add_host(index, address)

    def decide(self, limits_bps: FloatArray, now_ns: int, meter: Meter, time_s: float) -> None:
        if now_ns - self._beat_ns > self._timeout_ns:  # after a silence, others may be in force
            self._limits = b""
        self.shim.beat(now_ns)
        self._beat_ns = now_ns
        if (limits := limits_bps.tobytes()) != self._limits:
            self._check_limits(limits_bps, meter)
            self.steers |= bool(np.isfinite(limits_bps).any())
            self._limits = limits
            self.shim.limit(limits_bps)
        if self._weights is not None and len(meter.live) and now_ns - self._weighed_ns >= WEIGH_NS:
            self._weighed_ns = now_ns
            self._weigh(*self._weights.of(meter, time_s), len(meter.size_bytes))

    def _weigh(self, rows: IntArray, weights: IntArray, n_flows: int) -> None:
        """Write the weights of flows into the slots of the last reports."""
        weight = np.ones(n_flows + 1, np.uint32)  # the last is for connections that are no flow of the run
        weight[rows] = weights
        slots = self._slots[: self._n]
        self.shim.decisions["weight"][slots] = weight[self._rows[: self._n]]
        self.shim.decisions["generation"][slots] = self._generations[: self._n]

    def _check_limits(self, limits_bps: FloatArray, meter: Meter) -> None:
        inside = meter.inside_rows
        if not len(inside) or np.isinf(limits_bps).all():
            return
        limited = np.isfinite(np.append(limits_bps, np.inf))[meter.agent[inside]]
        if limited.any():
            row = int(inside[limited][0])
            host = self._topology.nodes[self._topology.agent_hosts[int(meter.agent[row])]].name
            raise ConfigError(
                f"The limit of host {host} is of packets that leave its neighbourhood, and on linux it holds for all "
                f"its connections, also for flow {row}, which stays inside: use a workload without such flows"
            )

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

    def counters(self) -> dict[str, int]:
        return self.shim.counters()

    def close(self) -> None:
        self.shim.close()


class KernelSenders(Senders):
    """One of the kernel's own controls, an independent reference: no limit, no order, and TCP_INFO for reports."""

    samples = True

    def __init__(self, stack: HostStack, topology: Topology) -> None:
        self.congestion = stack.transport.removeprefix(KERNEL)
        self.ecn = int(self.congestion not in NO_ECN)
        self._transport, self._topology = stack.transport, topology

    def decide(self, limits_bps: FloatArray, now_ns: int, meter: Meter, time_s: float) -> None:
        if (finite := np.flatnonzero(np.isfinite(limits_bps))).size:
            host = self._topology.nodes[self._topology.agent_hosts[int(finite[0])]].name
            raise ConfigError(
                f"Host {host} cannot be limited to {limits_bps[finite[0]]:g} bits/s: {self._transport} is the kernel's "
                "own and takes no rate limit on linux; use a transport of our own"
            )

    def report(self, meter: Meter, traffic: Traffic) -> None:
        """Give the counts to the meter; RTTs are the smoothed RTT once a period, as `TCP_INFO` has no other."""
        rows = meter.live
        flows = traffic.flows[rows]
        meter.update(
            rows,
            _signed(flows["acked_bytes"]),
            _signed(flows["left_bytes"]),
            flows["rtt_sum_us"] / US,
            flows["rtt_samples"].astype(np.int64),
        )


def _signed(column: Any) -> IntArray:
    found: IntArray = column.astype(np.int64)
    return found
