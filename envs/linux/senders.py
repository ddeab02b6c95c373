# SPDX-License-Identifier: BSD-3-Clause
"""Whose congestion control a run's connections have: one of our headers by the shim, or one of the kernel's own."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ncc.core.errors import ConfigError, UnknownNameError
from ncc.core.flows import FloatArray, IntArray
from ncc.core.topology import Topology
from ncc.core.units import NS_PER_S
from ncc.envs.linux import objects
from ncc.envs.linux.headers import check_params, headers
from ncc.envs.linux.measure import Meter
from ncc.envs.linux.order import Weights
from ncc.envs.linux.shim import Shim
from ncc.envs.linux.traffic import Traffic
from ncc.harness.datapath import HostStack

KERNEL = "linux::"
"""Before the name of a congestion control that the kernel brings itself."""
NO_ECN = ("bbr",)
"""Of the kernel's own those that do not slow down for marks: packets that say otherwise would never be dropped."""
US = 1_000_000


class Senders(Protocol):
    """What steers and reports the connections of a run."""

    congestion: str
    """TCP_CONGESTION of both ends."""
    ecn: int
    """net.ipv4.tcp_ecn of hosts."""
    samples: bool
    """Whether the traffic program must ask TCP_INFO every period, because nobody else says what connections do."""

    def decide(self, limits_bps: FloatArray, now_ns: int, meter: Meter, time_s: float) -> None:
        """Put limits [n_agents] and the order among flows into force, and show that user space is alive."""
        ...

    def hear(self, meter: Meter, traffic: Traffic) -> None:
        """Tell the meter what connections have counted."""
        ...

    def counters(self) -> dict[str, int]:
        """For the record."""
        ...

    def close(self) -> None:
        """Free it; may be called twice."""
        ...


def transports() -> tuple[str, ...]:
    """Our headers that were built for the kernel, and the kernel's own as ``linux::cubic`` and so on."""
    return (*objects.controllers(), *(KERNEL + name for name in kernel_controls()))


def kernel_controls() -> tuple[str, ...]:
    """Congestion controls that the kernel has now; those that a shim registered are not its own."""
    try:
        names = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    except OSError:  # not Linux, or without networking: then there are none
        return ()
    return tuple(sorted(name for name in names if not name.startswith("ncc_")))


def check_stack(stack: HostStack) -> None:
    """Raise as `Datapath.start` does for what a stack names and is not there."""
    if stack.transport not in (known := transports()):
        raise UnknownNameError("transport", stack.transport, known)
    if stack.order not in (orders := headers().orders()):
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
    check_params(stack.transport, headers().params(stack.transport), stack.params)
    check_params(f"flow order {stack.order}", headers().order_params(stack.order), stack.order_params)


class ShimSenders:
    """One of our headers in the kernel, limited and reported by the shim."""

    samples = False

    def __init__(self, stack: HostStack, addresses: Sequence[str], topology: Topology, *, timeout_s: float) -> None:
        self.ecn = int(headers().ecn(stack.transport) != 0)
        self._shim = Shim(stack.transport, stack.params, timeout_s=timeout_s)
        self.congestion = self._shim.name
        self._topology = topology
        self._weights = Weights(stack.order, stack.order_params) if stack.order != "fifo" else None
        self._known: tuple[Any, Any, IntArray] = (np.zeros(0, np.int64), np.zeros(0, np.uint32), np.zeros(0, np.int64))
        """Slots with reports of a flow of the run, their generations and the flows' rows."""
        for index, address in enumerate(addresses):
            self._shim.add_host(index, address)

    def decide(self, limits_bps: FloatArray, now_ns: int, meter: Meter, time_s: float) -> None:
        self._shim.beat(now_ns)
        self._check_limits(limits_bps, meter)
        self._shim.limit(limits_bps)
        if self._weights is not None and len(meter.live):
            self._weigh(*self._weights.of(meter, time_s), len(meter.size_bytes))

    def _weigh(self, rows: IntArray, weights: IntArray, n_flows: int) -> None:
        """Give flows their weights in the slots that the last reports came from."""
        weight = np.ones(n_flows, np.uint32)
        weight[rows] = weights
        slots, generation, flows = self._known
        self._shim.decisions["weight"][slots] = weight[flows]
        self._shim.decisions["generation"][slots] = generation

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

    def hear(self, meter: Meter, traffic: Traffic) -> None:
        reports: Any = self._shim.flows()
        rows = reports["flow"].astype(np.int64) - 1
        known = (rows >= 0) & (rows < len(meter.size_bytes))
        reports, rows = reports[known], rows[known]
        self._known = (self._shim.slots[known], reports["generation"], rows)
        meter.heard(
            rows,
            _signed(reports["delivered_bytes"]),
            _signed(reports["sent_bytes"]) - _signed(reports["retrans_bytes"]),
            reports["rtt_sum_ns"] / NS_PER_S,
            _signed(reports["rtt_samples"]),
        )

    def counters(self) -> dict[str, int]:
        return self._shim.counters()

    def close(self) -> None:
        self._shim.close()


class KernelSenders:
    """One of the kernel's own, as an independent reference: no limit, no order, and TCP_INFO for reports."""

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
                "own and takes no rate limit on linux; use a transport of our own below a limit"
            )

    def hear(self, meter: Meter, traffic: Traffic) -> None:
        """A flow's RTTs are samples of the smoothed one, once a period: `TCP_INFO` has no other."""
        rows = meter.live
        flows = traffic.flows[rows]
        meter.heard(
            rows,
            _signed(flows["acked_bytes"]),
            _signed(flows["left_bytes"]),
            flows["rtt_sum_us"] / US,
            flows["rtt_samples"].astype(np.int64),
        )

    def counters(self) -> dict[str, int]:
        return {}

    def close(self) -> None:
        return


def _signed(column: Any) -> IntArray:
    found: IntArray = column.astype(np.int64)
    return found
