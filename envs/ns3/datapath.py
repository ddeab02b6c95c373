# SPDX-License-Identifier: GPL-2.0-only
"""`Ns3Datapath`: hosts with ns-3's TCP, switches with finite marking queues, stepped one period at a time.

What is modelled: ns-3 3.44's TCP at both ends (SACK, window scaling, delayed ACKs, no timestamps); at the sending host
a queue per flow, a token bucket and the wire; store-and-forward switches with shortest paths, ECMP by flow, drop-tail
and step marking (`baselines/step_mark.h`). Every packet costs its IP bytes plus `frame_overhead_bytes` of wire time.
A packet has left a host or port when its transmission begins. Not modelled: ARP, ICMP, link layers' own queues, and the
closing of connections (an end is freed when its flow is acknowledged; no FIN is sent).

The rate limit acts below TCP on every packet, ACKs and retransmissions included; handshake packets and pure ACKs go
ahead of data. TCP hands down at most `nic.small_queue_bytes` per flow and nothing is dropped inside the host, so an RTT
sample contains the wait of those bytes (and of other flows' turns meanwhile) but not of what TCP still holds back. Only
some repairs come on top, because ns-3 sends them without asking how much may go: one packet where a fast recovery
begins, and one on each partial ACK in it.
The retransmission timer of a segment that waited starts when it leaves. A connection's first RTT sample is the
handshake's, of small packets.
"""

from functools import cache
from importlib import import_module
from threading import get_ident
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ncc.core.errors import ConfigError, DatapathError, UnknownNameError
from ncc.core.flows import FloatArray, FlowRecords, FlowTable, PortRecords, check_columns
from ncc.core.measurement import Measurement
from ncc.core.scenario import Scenario, Transport
from ncc.core.topology import NodeKind, Topology
from ncc.core.units import NS_PER_S, to_ns
from ncc.harness.datapath import HostStack, Records

if TYPE_CHECKING:
    from ncc.envs.ns3._ns3 import Network, Spec

_HOST_FLOATS = ("rate_limit_bps", "throughput_bps", "goodput_bps", "rtt_s", "wait_s", "queued_bytes")
_HOST_COUNTS = ("rtt_samples", "queued_flows", "active_flows")
_UPPER_FLOATS = ("upper_throughput_bps", "upper_queue_bytes", "upper_queue_mean_bytes", "upper_queue_delay_s")
_UPPER_COUNTS = ("upper_marked_pkts", "upper_dropped_pkts")


MAX_ROUTES = 2**26
"""Nodes times hosts: the routing table has 8 bytes for each pair, so 512 MiB."""


class Ns3Datapath:
    """ns-3 behind the `Datapath` protocol. One simulation may live per process (ns-3 has one clock)."""

    name = "ns3"

    def __init__(self) -> None:
        self._network: Network | None = None
        self._topology: Topology | None = None
        self._thread: int | None = None

    def transports(self) -> tuple[str, ...]:
        """Controllers of `baselines/`, and ns-3's own as ``ns3::TcpCubic`` and so on."""
        return tuple(extension().transports())

    def start(self, scenario: Scenario, flows: FlowTable, stack: HostStack, seed: int) -> Measurement:
        """Build the network at time 0; ends an earlier run of this object.

        Raises:
            UnknownNameError: no such transport, parameter or order; the message lists what exists.
            ConfigError: a parameter out of range, a topology above `MAX_ROUTES`, or flows that it cannot carry.
            DatapathError: another simulation is live in this process, or was when it was forked.
        """
        spec = spec_of(scenario, flows, stack, seed)
        self.close()
        try:
            self._network = extension().Network(spec)
        except ValueError as error:
            raise ConfigError(f"Scenario {scenario.name!r} cannot run on ns-3: {error}.") from None
        except RuntimeError as error:
            raise DatapathError(f"Cannot start: {error}.") from None
        self._topology = scenario.network()
        self._thread = get_ident()
        return _measure(self._network, self._topology)

    def step(self, rate_limits_bps: FloatArray) -> Measurement:
        """Apply limits [n_agents] (bits/s, > 0, inf for none) and run one period.

        Raises:
            ConfigError: wrong shape, NaN, zero or negative limits, naming the host.
            DatapathError: nothing is started, or a controller or connection failed while running.
        """
        network, topology = self._running("step")
        limits = _limits(rate_limits_bps, topology)
        try:
            network.step(limits)
        except RuntimeError as error:
            raise DatapathError(f"The ns-3 run stopped at {network.now_ns / NS_PER_S:.6f} s: {error}.") from None
        return _measure(network, topology)

    def finish(self) -> Records:
        """Records as of now; may be called again later."""
        network, _ = self._running("finish")
        return Records(
            flows=FlowRecords(**network.flow_records()),  # type: ignore[arg-type]
            ports=PortRecords(**network.port_records()),  # type: ignore[arg-type]
        )

    def close(self) -> None:
        """Free the simulation; another may then be started in this process."""
        self._network = None
        self._topology = None
        self._thread = None

    def _running(self, call: str) -> tuple["Network", Topology]:
        if self._network is None or self._topology is None:
            raise DatapathError(f"Ns3Datapath.{call}() needs a running simulation: call start() first.")
        if self._thread not in (None, get_ident()):  # ns-3 would abort the whole process
            raise DatapathError(f"Ns3Datapath.{call}() must be called by the thread that called start().")
        return self._network, self._topology


def _measure(network: "Network", topology: Topology) -> Measurement:
    n_agents, n_areas = len(topology.agent_hosts), len(topology.neighbourhoods)
    hosts, host_counts = np.empty((len(_HOST_FLOATS), n_agents)), np.empty((len(_HOST_COUNTS), n_agents), np.int64)
    uppers, upper_counts = np.empty((len(_UPPER_FLOATS), n_areas)), np.empty((len(_UPPER_COUNTS), n_areas), np.int64)
    network.measure(hosts, host_counts, uppers, upper_counts)
    return Measurement(
        time_s=network.now_ns / NS_PER_S,
        epoch=network.epoch,
        flows_started=network.flows_started,
        flows_finished=network.flows_finished,
        **dict(zip(_HOST_FLOATS, hosts, strict=True)),  # type: ignore[arg-type]
        **dict(zip(_HOST_COUNTS, host_counts, strict=True)),  # type: ignore[arg-type]
        **dict(zip(_UPPER_FLOATS, uppers, strict=True)),  # type: ignore[arg-type]
        **dict(zip(_UPPER_COUNTS, upper_counts, strict=True)),  # type: ignore[arg-type]
    )


@cache
def extension() -> ModuleType:
    """The extension module, loaded on first use; raises `DatapathError` that says how to build it."""
    try:
        return import_module("ncc.envs.ns3._ns3")
    except ImportError as error:
        raise DatapathError(
            f"The ns-3 extension ncc.envs.ns3._ns3 cannot be loaded ({error}): run `make build` in a checkout, or "
            "reinstall ncc with the ns3==3.44.post0 package present."
        ) from error


def _limits(limits_bps: FloatArray, topology: Topology) -> FloatArray:
    limits = np.ascontiguousarray(limits_bps, dtype=np.float64)
    if limits.shape != (len(topology.agent_hosts),):
        raise ConfigError(
            f"rate_limits_bps must have shape ({len(topology.agent_hosts)},), one per agent host, got {limits.shape}"
        )
    if (bad := extension().bad_limit(limits)) >= 0:
        host = topology.nodes[topology.agent_hosts[bad]].name
        raise ConfigError(
            f"rate_limits_bps of host {host} (index {bad}) must be above 0 bits/s, or inf for no limit, "
            f"got {limits[bad]}"
        )
    return limits


def spec_of(scenario: Scenario, flows: FlowTable, stack: HostStack, seed: int) -> "Spec":
    """The extension's view of a run; raises as `Ns3Datapath.start` does."""
    module = extension()
    check_columns(flows)
    topology, transport, nic = scenario.network(), scenario.transport, scenario.nic
    _check_widths(transport)
    is_host = np.array([node.kind is NodeKind.HOST for node in topology.nodes], np.uint8)
    _check_routes(is_host)
    spec: Spec = module.Spec()
    spec.set_nodes(is_host)
    buffers = [(link.a_buffer, link.b_buffer) for link in topology.links]
    spec.set_links(
        np.array([(link.a, link.b) for link in topology.links], np.int64).reshape(-1, 2),
        np.array([link.rate_bps for link in topology.links], np.float64),
        np.array([to_ns(link.delay_s) for link in topology.links], np.int64),
        np.array([[b.size_bytes if b else -1 for b in pair] for pair in buffers], np.int64).reshape(-1, 2),
        np.array([[b.mark_threshold_bytes if b else 0 for b in pair] for pair in buffers], np.int64).reshape(-1, 2),
    )
    try:
        spec.set_flows(
            np.rint(flows.start_s * NS_PER_S).astype(np.int64),
            np.ascontiguousarray(flows.src, np.int64),
            np.ascontiguousarray(flows.dst, np.int64),
            np.ascontiguousarray(flows.size_bytes, np.int64),
        )
    except ValueError as error:
        raise ConfigError(f"The flow table cannot be used: {error}.") from None
    spec.agents = list(topology.agent_hosts)
    spec.upper_ports = [area.upper_port for area in topology.neighbourhoods]
    spec.mtu_bytes = transport.mtu_bytes
    spec.frame_overhead_bytes = transport.frame_overhead_bytes
    spec.initial_window_pkts = transport.initial_window_pkts
    spec.delayed_ack_pkts = transport.delayed_ack_pkts
    spec.send_buffer_bytes = transport.send_buffer_bytes
    spec.receive_buffer_bytes = transport.receive_buffer_bytes
    spec.min_rto_ns = to_ns(transport.min_rto_s)
    spec.initial_rto_ns = to_ns(transport.initial_rto_s)
    spec.delayed_ack_ns = to_ns(transport.delayed_ack_s)
    spec.bucket_bytes = nic.bucket_bytes
    spec.small_queue_bytes = nic.small_queue_bytes
    spec.period_ns = to_ns(scenario.period_s)
    spec.latency_ns = to_ns(scenario.decision_latency_s)
    spec.seed = seed % 2**63
    _choose(spec, module, stack)
    return spec


def _check_widths(transport: Transport) -> None:
    """ns-3 counts windows and packets in 32 bits; buffers must hold a packet and a window needs two."""
    limits = {
        "send_buffer_bytes": (2 * transport.mtu_bytes, 2**30 - 1),
        "receive_buffer_bytes": (2 * transport.mtu_bytes, 2**30 - 1),
        "initial_window_pkts": (1, (2**30 - 1) // transport.mtu_bytes),
        "delayed_ack_pkts": (1, 2**16),
        "frame_overhead_bytes": (0, 2**16),
    }
    for name, (low, high) in limits.items():
        if not low <= getattr(transport, name) <= high:
            raise ConfigError(
                f"Scenario.transport.{name} must be from {low} to {high} on ns-3, got {getattr(transport, name)}"
            )


def _check_routes(is_host: NDArray[np.uint8]) -> None:
    nodes, hosts = len(is_host), int(is_host.sum())
    if nodes * hosts > MAX_ROUTES:
        raise ConfigError(
            f"Scenario.topology must have at most {MAX_ROUTES} nodes x hosts on ns-3 (a routing table of "
            f"{8 * MAX_ROUTES / 2**20:g} MiB), got {nodes} x {hosts} = {nodes * hosts}: choose fewer hosts"
        )


def _choose(spec: "Spec", module: ModuleType, stack: HostStack) -> None:
    if stack.transport not in (known := module.transports()):
        raise UnknownNameError("transport", stack.transport, known)
    if stack.order not in (orders := module.orders()):
        raise UnknownNameError("flow order", stack.order, orders)
    ranges = {name: (low, high) for name, _, low, high, _ in module.params(stack.transport)}
    for name, value in stack.params:
        if name not in ranges:
            raise UnknownNameError(f"parameter of {stack.transport}", name, ranges)
        low, high = ranges[name]
        if not low <= value <= high:
            raise ConfigError(f"Parameter {name} of {stack.transport} must be from {low} to {high}, got {value}")
    spec.transport, spec.order, spec.params = stack.transport, stack.order, list(stack.params)


DATAPATH = Ns3Datapath
