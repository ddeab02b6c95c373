# SPDX-License-Identifier: BSD-3-Clause
"""Congestion control of a run's connections: one of our headers in the shim, or one of the kernel's own."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ncc.core.errors import ConfigError, DatapathError, UnknownNameError
from ncc.core.flows import FloatArray, IntArray
from ncc.core.topology import Topology
from ncc.core.units import NS_PER_S
from ncc.envs.linux.extension import extension, reports_of
from ncc.envs.linux.measure import Meter
from ncc.envs.linux.offer import offered
from ncc.envs.linux.order import Weights
from ncc.envs.linux.order_program import Mode, OrderProgram
from ncc.envs.linux.queue import HostQueue
from ncc.envs.linux.settings import LinuxSettings
from ncc.envs.linux.shim import Shim
from ncc.envs.linux.stack import HELD_BYTES
from ncc.envs.linux.traffic import Traffic
from ncc.envs.native.params import check_params
from ncc.harness.datapath import HostStack

if TYPE_CHECKING:  # transports must be listed without pyroute2, too
    from ncc.envs.linux.rack import Rack

KERNEL = "linux::"
"""Prefix of the names of the kernel's own congestion controls."""
NO_ECN = ("bbr",)
"""Congestion controls of the kernel that ignore marks: with ECN, switches would mark their packets, never drop them."""
KNOWN = ("known", "sjf", "srpt")
"""Orders by size, which hosts' queues keep as far as sizes are known there."""
DEPTH = "kappa"
"""Parameter of orders that hosts' queues cannot keep: how many flows are put in order."""
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


def wanted_mode(stack: HostStack, settings: LinuxSettings) -> Mode | None:
    """Return the mode of hosts' queues for a stack; None if its limits and order are by pacing."""
    if settings.order == "pacing":
        return None
    if stack.order == "fifo":
        return "fifo" if settings.order == "kernel" else None
    return "known" if stack.order in KNOWN and not dict(stack.order_params).get(DEPTH) else None


def queue_mode(stack: HostStack, settings: LinuxSettings) -> Mode | None:
    """Return `wanted_mode` if this kernel offers it, else None.

    Raises:
        DatapathError: the settings ask for it, or the order among the kernel's own controls, and there is none.
    """
    mode = wanted_mode(stack, settings)
    if mode is None or (offer := offered()).kind != "none":
        return mode
    if settings.order == "kernel" or (stack.transport.startswith(KERNEL) and stack.order != "fifo"):
        raise DatapathError(
            f"No order in the kernel is possible here: {offer.sentence}; or set datapath.linux.settings.order=pacing "
            "and a transport of our own."
        )
    return None


def check_stack(stack: HostStack, settings: LinuxSettings) -> None:
    """Raise an error as `Datapath.start` does if a stack names something that does not exist."""
    if stack.transport in extension().simulated():
        raise ConfigError(
            f"Controller {stack.transport} needs a timer or telemetry, which the kernel gives none: use a simulator"
        )
    if stack.transport not in (known := transports()):
        raise UnknownNameError("transport", stack.transport, known)
    if stack.order not in (orders := extension().orders()):
        raise UnknownNameError("flow order", stack.order, orders)
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
        if stack.order != "fifo" and wanted_mode(stack, settings) is None:
            raise ConfigError(
                f"Flow order {stack.order} needs a transport of our own, which can be paced; {stack.transport} is the "
                f"kernel's: set stack.order to fifo, or to {' or '.join(KNOWN)} with "
                "datapath.linux.settings.order=kernel"
            )
        return
    check_params(stack.transport, extension().params(stack.transport), stack.params)
    check_params(f"flow order {stack.order}", extension().order_params(stack.order), stack.order_params)


class Queues:
    """Queues of the agents' hosts, in which limits and an order are in force."""

    def __init__(self, program: OrderProgram, queues: Sequence[HostQueue]) -> None:
        self._program, self._queues = program, queues
        self._silent_pkts: int | None = None

    def decide(self, limits_bps: FloatArray, now_ns: int) -> None:
        """Put limits [n_agents] into force, and renew them."""
        if self._silent_pkts is None:  # what has left before the first decision
            self._silent_pkts = self._program.counters()["silent_pkts"]
        self._program.beat(now_ns)
        for queue, limit_bps in zip(self._queues, limits_bps.tolist(), strict=True):
            queue.limit(limit_bps, now_ns)

    def counters(self) -> dict[str, int]:
        """Return counts of the program since the first decision, and of all queues."""
        counted = self._program.counters()
        counted["silent_pkts"] -= self._silent_pkts or 0
        for queue in self._queues:
            for name, count in queue.counters().items():
                counted[name] = counted.get(name, 0) + count
        return counted


class ShimSenders(Senders):
    """One of our headers in the kernel, reported by the shim, and limited by it or by the hosts' queues."""

    def __init__(
        self,
        stack: HostStack,
        rack: "Rack",
        topology: Topology,
        queues: Queues | None = None,
        *,
        timeout_s: float,
        proportional: bool,
        patience_s: float = 0.0,
    ) -> None:
        self.ecn = int(extension().ecn(stack.transport) != 0)
        self.shim = Shim(stack.transport, stack.params, timeout_s=timeout_s, proportional=proportional)
        self.congestion = self.shim.name
        self._topology = topology
        self._queues = queues
        paced = queues is None and stack.order != "fifo"
        self._weights = Weights(stack.order, stack.order_params) if paced else None
        self._timeout_ns, self._beat_ns = round(timeout_s * NS_PER_S), 0
        self._limits, self._weighed_ns = b"", 0
        self.steers = stack.order != "fifo" or stack.hold
        reports = self.shim.reports
        self._reports = reports_of(reports)
        # Slots in use at the last reports, the first `_n`: whose they are.
        self._slots, self._rows = np.zeros(len(reports), np.int64), np.zeros(len(reports), np.int64)
        self._generations, self._n = np.zeros(len(reports), np.uint32), 0
        agents = topology.agent_hosts
        others = tuple(host for host in topology.hosts if host not in agents)
        # Who has no limit is no host of the shim's, unless it holds flows.
        steered = {host: index for index, host in enumerate((*agents, *others) if patience_s else agents)}
        for host in topology.hosts:
            self.shim.add_host(steered.get(host), rack.address(host), rack.cookie(host))
        self.shim.hosts["patience_ns"] = round(patience_s * NS_PER_S)
        if (hears := self.shim.programs().get("shim_signal")) is not None:
            for host in topology.hosts:
                rack.hear(host, hears)

    def decide(self, limits_bps: FloatArray, now_ns: int, meter: Meter, time_s: float) -> None:
        if now_ns - self._beat_ns > self._timeout_ns:  # after a silence, others may be in force
            self._limits = b""
        self.shim.beat(now_ns)
        self._beat_ns = now_ns
        if (limits := limits_bps.tobytes()) != self._limits:
            check_limits(limits_bps, meter, self._topology)
            self.steers |= bool(np.isfinite(limits_bps).any())
            self._limits = limits
            if self._queues is None:
                self.shim.limit(limits_bps)
            else:
                self.shim.hold(np.where(np.isfinite(limits_bps), HELD_BYTES, 0))
        if self._queues is not None:
            self._queues.decide(limits_bps, now_ns)
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

    def counters(self) -> dict[str, int]:
        return self.shim.counters()

    def close(self) -> None:
        self.shim.close()


def check_limits(limits_bps: FloatArray, meter: Meter, topology: Topology) -> None:
    """Raise `ConfigError` if a limit would hold for flows that it is not for."""
    inside = meter.inside_rows
    if not len(inside) or np.isinf(limits_bps).all():
        return
    limited = np.isfinite(np.append(limits_bps, np.inf))[meter.agent[inside]]
    if limited.any():
        row = int(inside[limited][0])
        host = topology.nodes[topology.agent_hosts[int(meter.agent[row])]].name
        raise ConfigError(
            f"The limit of host {host} is of packets that leave its neighbourhood, and on linux it holds for all "
            f"its connections, also for flow {row}, which stays inside: use a workload without such flows"
        )


class KernelSenders(Senders):
    """One of the kernel's own controls, an independent reference: TCP_INFO for reports, and limits only by queues."""

    samples = True

    def __init__(self, stack: HostStack, topology: Topology, queues: Queues | None = None) -> None:
        self.congestion = stack.transport.removeprefix(KERNEL)
        self.ecn = int(self.congestion not in NO_ECN)
        self._transport, self._topology, self._queues = stack.transport, topology, queues
        self.steers = stack.order != "fifo"

    def decide(self, limits_bps: FloatArray, now_ns: int, meter: Meter, time_s: float) -> None:
        if self._queues is not None:
            check_limits(limits_bps, meter, self._topology)
            self.steers |= bool(np.isfinite(limits_bps).any())
            self._queues.decide(limits_bps, now_ns)
            return
        if (finite := np.flatnonzero(np.isfinite(limits_bps))).size:
            host = self._topology.nodes[self._topology.agent_hosts[int(finite[0])]].name
            raise ConfigError(
                f"Host {host} cannot be limited to {limits_bps[finite[0]]:g} bits/s: {self._transport} is the kernel's "
                "own and takes no rate limit by pacing; use a transport of our own, or "
                "datapath.linux.settings.order=kernel"
            )

    def report(self, meter: Meter, traffic: Traffic) -> None:
        """Give the counts to the meter; RTTs are the smoothed RTT once a period, as `TCP_INFO` has no other."""
        rows = meter.live
        flows = traffic.flows[rows]
        meter.update(
            rows,
            known_bytes=_signed(flows["handed_bytes"]),
            delivered_bytes=_signed(flows["acked_bytes"]),
            left_bytes=_signed(flows["left_bytes"]),
            rtt_sum_s=flows["rtt_sum_us"] / US,
            rtt_samples=flows["rtt_samples"].astype(np.int64),
        )


def _signed(column: Any) -> IntArray:
    found: IntArray = column.astype(np.int64)
    return found
