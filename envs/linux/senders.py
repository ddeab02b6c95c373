# SPDX-License-Identifier: BSD-3-Clause
"""Congestion control of a run's connections: one of our headers in the shim, or one of the kernel's own."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ncc.core.errors import ConfigError, DatapathError, UnknownNameError
from ncc.core.flows import FloatArray, IntArray
from ncc.core.topology import Topology
from ncc.core.units import NS_PER_S
from ncc.envs.linux.check import has_queue
from ncc.envs.linux.extension import extension, reports_of
from ncc.envs.linux.measure import Meter
from ncc.envs.linux.order_program import Mode
from ncc.envs.linux.queues import Queues
from ncc.envs.linux.settings import LinuxSettings
from ncc.envs.linux.shim import Shim
from ncc.envs.linux.traffic import Traffic
from ncc.envs.native.params import check_params
from ncc.harness.datapath import HostStack

if TYPE_CHECKING:  # transports must be listed without pyroute2, too
    from ncc.envs.linux.rack import Rack

KERNEL = "linux::"
"""Prefix of the names of the kernel's own congestion controls."""
NO_ECN = ("bbr",)
"""Kernel controls that ignore marks. They run without ECN; otherwise switches would mark, never drop, their packets."""
KNOWN = ("known", "sjf", "srpt")
"""Orders by size, which hosts' queues keep as far as they know sizes."""
DEPTH = "kappa"
"""Parameter of orders: the number of flows that are ordered. Hosts' queues support only 0."""
US = 1_000_000


class Senders(ABC):
    """Control of a run's connections, and reports of them."""

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
        """Give the connections' counts to the meter."""

    def counters(self) -> dict[str, int]:
        """Return counters for the facts of the run."""
        return {} if self.shim is None else self.shim.counters()

    def close(self) -> None:
        """Unregister the congestion control; may be called twice."""
        if self.shim is not None:
            self.shim.close()


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


def mode_of(order: str) -> Mode:
    """Return the mode of hosts' queues for an order among flows."""
    return "fifo" if order == "fifo" else "known"


def queue_mode(stack: HostStack, settings: LinuxSettings) -> Mode | None:
    """Return the mode of hosts' queues for a stack; None if it needs none.

    Raises:
        DatapathError: this kernel offers no such queue.
    """
    if stack.order == "fifo" and not settings.queues:
        return None
    try:
        has_queue("htb")
    except OSError as error:
        raise DatapathError(
            f"Hosts can have no queue for limits and orders here ({error}): boot a kernel with CONFIG_NET_SCH_HTB."
        ) from None
    return mode_of(stack.order)


def check_stack(stack: HostStack) -> None:
    """Raise `UnknownNameError` or `ConfigError`, as `Datapath.start`, for a stack that cannot run on linux."""
    if stack.transport in extension().simulated():
        raise ConfigError(
            f"Controller {stack.transport} needs a timer or telemetry, which the kernel gives none: use a simulator"
        )
    if stack.transport not in (known := transports()):
        raise UnknownNameError("transport", stack.transport, known)
    if stack.order not in (orders := extension().orders()):
        raise UnknownNameError("flow order", stack.order, orders)
    if stack.order not in ("fifo", *KNOWN) or dict(stack.order_params).get(DEPTH):
        raise ConfigError(
            f"Hosts on linux keep the orders {', '.join(KNOWN)}, each with {DEPTH} 0, and not {stack.order} with "
            f"{dict(stack.order_params)}: set stack.order to one of them or to fifo, or use a simulator"
        )
    if stack.components:
        raise ConfigError(
            "The Linux datapath gives all traffic one stack, and the controller has stack.components: leave them out, "
            "or use a simulator"
        )
    if stack.tags not in (tags := extension().tags()):
        raise UnknownNameError("tags", stack.tags, tags)
    check_params(f"tags {stack.tags}", extension().tag_params(stack.tags), stack.tag_params)
    if stack.transport.startswith(KERNEL):
        if stack.params:
            raise ConfigError(
                f"Transport {stack.transport} is the kernel's own and takes no parameters, got {stack.params[0][0]}"
            )
        return
    check_params(stack.transport, extension().params(stack.transport), stack.params)
    check_params(f"flow order {stack.order}", extension().order_params(stack.order), stack.order_params)


class ShimSenders(Senders):
    """One of our headers in the kernel, reported by the shim."""

    shim: Shim

    def __init__(
        self,
        stack: HostStack,
        rack: "Rack",
        topology: Topology,
        queues: Queues | None,
        *,
        timeout_s: float,
        proportional: bool,
        patience_s: float = 0.0,
    ) -> None:
        super().__init__(stack, topology, queues)
        self.ecn = int(extension().ecn(stack.transport) != 0)
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
    """One of the kernel's own controls, an independent reference, with TCP_INFO for reports."""

    samples = True

    def __init__(self, stack: HostStack, topology: Topology, queues: Queues | None) -> None:
        super().__init__(stack, topology, queues)
        self.congestion = stack.transport.removeprefix(KERNEL)
        self.ecn = int(self.congestion not in NO_ECN)

    def report(self, meter: Meter, traffic: Traffic) -> None:
        """Give the counts to the meter; RTTs are the smoothed RTT once a period, as `TCP_INFO` has no other."""
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
