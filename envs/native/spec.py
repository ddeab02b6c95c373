# SPDX-License-Identifier: BSD-3-Clause
"""A run as an extension module takes it: scenario, flows, host stack and seed as plain numbers."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ncc.core.errors import ConfigError, UnknownNameError
from ncc.core.flows import FloatArray, FlowTable, IntArray, check_columns
from ncc.core.scenario import MAX_BUFFER_BYTES, Nic, Scenario, Transport
from ncc.core.topology import Buffer, NodeKind, Program, Topology
from ncc.core.units import BITS_PER_BYTE, HEADER_BYTES, NS_PER_S, to_ns
from ncc.core.writes import pieces
from ncc.envs.native.extension import Extension, Spec
from ncc.envs.native.params import check_params
from ncc.harness.datapath import ComponentStack, HostStack
from ncc.harness.messages import patience_s

MAX_ROUTES = 2**26
"""Nodes times hosts: the routing table has 8 bytes for each pair, so 512 MiB."""
MAX_WAIT_S = 1e6
"""Longest wait in a full queue. Simulators keep transmission times in ps, of which 64 bits hold 9.2 million seconds."""


@dataclass(frozen=True)
class _Arrays:
    """A topology as `Spec` takes it."""

    is_host: NDArray[np.uint8]
    links: tuple[IntArray, FloatArray, IntArray, IntArray, FloatArray]
    pools: tuple[IntArray, FloatArray, IntArray, IntArray, FloatArray]
    programs: tuple[tuple[Program, ...], ...]
    """Distinct lists of programs at ports."""
    slowest_port: int | None
    """The switch port whose queue takes longest to empty."""


def spec_of(
    module: Extension, simulator: str, scenario: Scenario, flows: FlowTable, stack: HostStack, *, seed: int
) -> Spec:
    """Describe a run for an extension module; `simulator` is its name in messages.

    Raises:
        UnknownNameError: no such transport, parameter, order, tags or program; the message lists what exists.
        ConfigError: a parameter out of range, a topology above `MAX_ROUTES`, or flows that it cannot carry.
    """
    check_columns(flows)
    topology, transport = scenario.network(), scenario.sockets
    _check_widths(transport, simulator)
    arrays = _arrays(topology)
    _check_routes(arrays.is_host, simulator)
    _check_wait(topology, arrays.slowest_port, transport, simulator)
    spec = module.Spec()
    spec.set_nodes(arrays.is_host)
    spec.set_links(*arrays.links)
    spec.set_pools(*arrays.pools)
    spec.set_programs([[(one.name, list(one.params)) for one in programs] for programs in arrays.programs])
    spec.symmetric, spec.sprayed = scenario.routing == "symmetric", scenario.routing == "spray"
    try:
        spec.set_flows(
            np.rint(flows.start_s * NS_PER_S).astype(np.int64),
            np.ascontiguousarray(flows.src, np.int64),
            np.ascontiguousarray(flows.dst, np.int64),
            np.ascontiguousarray(flows.size_bytes, np.int64),
        )
    except ValueError as error:
        raise ConfigError(f"The flow table cannot be used: {error}.") from None
    area_of, limited = topology.limited_to
    spec.set_limited(
        limited[area_of[flows.src], flows.dst].astype(np.uint8), limited[area_of[flows.dst], flows.src].astype(np.uint8)
    )
    if (written := pieces([traffic.writes for _, traffic in scenario.workload], flows.traffic)) is not None:
        spec.set_writes(*written)
    spec.agents = topology.agent_hosts
    spec.uplinks = [area.uplink_port for area in topology.neighbourhoods]
    for name in _SAME:
        setattr(spec, name, getattr(transport, name))
    spec.min_rto_ns = to_ns(transport.min_rto_s)
    spec.initial_rto_ns = to_ns(transport.initial_rto_s)
    spec.modern = transport.recovery == "modern"
    spec.timer_slack_ns = to_ns(transport.timer_slack_s)
    spec.timer_tick_ns = to_ns(transport.timer_tick_s)
    spec.delayed_ack_ns = to_ns(transport.delayed_ack_s)
    spec.rtt_noise_max_ns = to_ns(transport.rtt_noise_max_s)
    _set_nic(spec, scenario.nic, flows, area_of)
    if stack.hold and not scenario.has_receivers:
        raise ConfigError("hold needs receivers: set Scenario.neighbourhoods to receivers or both")
    spec.receivers, spec.instant = scenario.has_receivers, stack.messages == "instant"
    if stack.hold:
        spec.set_held(np.ones(len(flows), np.uint8))
    if stack.answer_frac is not None:
        spec.set_answers(*_answers(topology, transport, stack.answer_frac))
    spec.patience_ns = to_ns(patience_s(scenario))
    if arrays.slowest_port is not None:
        port = arrays.slowest_port
        spec.queue_ns = to_ns(topology.reach_bytes(port) * BITS_PER_BYTE / topology.port_rate_bps(port))
    spec.period_ns = to_ns(scenario.period_s)
    spec.latency_ns = to_ns(scenario.decision_latency_s)
    spec.seed = seed % 2**63
    _choose(spec, module, stack)
    if stack.components:
        _set_components(spec, module, simulator, scenario=scenario, flows=flows, stack=stack)
    return spec


def _answers(topology: Topology, transport: Transport, ahead_frac: float) -> tuple[FloatArray, FloatArray]:
    """Return by node the payload that may wait ahead of a flow that begins at once, and the port's ns per byte."""
    ahead_bytes, ns_per_byte = np.zeros(len(topology.nodes)), np.zeros(len(topology.nodes))
    on_wire = (transport.mtu_bytes + transport.frame_overhead_bytes) / transport.mss_bytes
    for host in topology.hosts:
        port = topology.down_port(host)
        ahead_bytes[host] = ahead_frac * topology.reach_bytes(port)
        ns_per_byte[host] = on_wire * BITS_PER_BYTE * NS_PER_S / topology.port_rate_bps(port)
    return ahead_bytes, ns_per_byte


def _set_components(
    spec: Spec, module: Extension, simulator: str, *, scenario: Scenario, flows: FlowTable, stack: HostStack
) -> None:
    """Set the stacks of components; a flow has the stack of its component."""
    names, transport = [name for name, _ in scenario.workload], scenario.sockets
    if transport.connections_per_pair:
        raise ConfigError(
            "stack.components gives flows controllers of their own, and an open connection keeps its first one: set "
            "Scenario.transport.connections_per_pair to 0"
        )
    which = np.zeros(len(names), np.uint8)
    rows = []
    for part in stack.components:
        if part.component not in names:
            raise UnknownNameError("component of the traffic in stack.components", part.component, names)
        _check_transport(module, part)
        settings = {name: getattr(part, name) for name in ("min_rto_s", "initial_rto_s", "initial_window_pkts")}
        tcp = transport.replace(**{name: value for name, value in settings.items() if value is not None})
        try:
            _check_widths(tcp, simulator)
        except ConfigError as error:
            raise ConfigError(f"component {part.component!r} of stack.components: {error}") from None
        timers_ns = to_ns(tcp.min_rto_s), to_ns(tcp.initial_rto_s)
        rows.append((part.transport, list(part.params), *timers_ns, tcp.initial_window_pkts))
        which[names.index(part.component)] = len(rows)
    spec.set_stacks(rows, which[flows.traffic])


def _set_nic(spec: Spec, nic: Nic, flows: FlowTable, area_of: IntArray) -> None:
    spec.bucket_bytes = nic.bucket_bytes
    spec.small_queue_bytes = nic.small_queue_bytes
    spec.backlog = nic.knows != "sizes"
    spec.first_write_pkts = nic.first_write_pkts
    if nic.knows != "services":
        return
    owner = len(area_of) + flows.src
    if nic.learns_from == "neighbourhood":
        inside = area_of < len(spec.uplinks)
        owner = np.where(inside[flows.src], area_of[flows.src], owner)
    predictors = np.unique(np.stack([owner, flows.traffic]), axis=1, return_inverse=True)[1]
    spec.set_predictors(np.ascontiguousarray(predictors.ravel(), np.int64))


_SAME = (
    "mtu_bytes",
    "frame_overhead_bytes",
    "initial_window_pkts",
    "delayed_ack_pkts",
    "send_buffer_bytes",
    "receive_buffer_bytes",
    "dup_ack_pkts",
    "handshake",
    "connections_per_pair",
    "idle_restart",
    "sack",
    "limited_transmit",
)
"""Fields of `Transport` that `Spec` has under the same name and in the same unit."""


def _arrays(topology: Topology) -> _Arrays:
    arrays = topology.__dict__.get("_native")
    if not isinstance(arrays, _Arrays):
        buffers = [(link.a_buffer, link.b_buffer) for link in topology.links]
        programs = tuple(dict.fromkeys(b.programs for pair in buffers for b in pair if b and b.programs))
        red = [[b.red.max_prob_frac if b and b.red else 0.0 for b in pair] for pair in buffers]
        arrays = topology.__dict__["_native"] = _Arrays(
            is_host=np.array([node.kind is NodeKind.HOST for node in topology.nodes], np.uint8),
            links=(
                np.array([(link.a, link.b) for link in topology.links], np.int64).reshape(-1, 2),
                np.array([link.rate_bps for link in topology.links], np.float64),
                np.array([to_ns(link.delay_s) for link in topology.links], np.int64),
                np.array([[_queue(b, programs) for b in pair] for pair in buffers], np.int64).reshape(-1, 2, 9),
                np.array(red, np.float64).reshape(-1, 2),
            ),
            pools=(
                np.array([pool.size_bytes for pool in topology.pools], np.int64),
                np.array([pool.alpha for pool in topology.pools], np.float64),
                np.array([pool.red.min_bytes if pool.red else 0 for pool in topology.pools], np.int64),
                np.array([pool.red.max_bytes if pool.red else 0 for pool in topology.pools], np.int64),
                np.array([pool.red.max_prob_frac if pool.red else 0.0 for pool in topology.pools], np.float64),
            ),
            programs=programs,
            slowest_port=max(
                (port for port in range(2 * len(topology.links)) if topology.port_buffer(port) is not None),
                key=lambda port: topology.reach_bytes(port) / topology.port_rate_bps(port),
                default=None,
            ),
        )
    return arrays


def _queue(buffer: Buffer | None, programs: tuple[tuple[Program, ...], ...]) -> tuple[int, ...]:
    """Return a port's settings as a row of `Spec.set_links`, which `bind_spec.h` reads by position."""
    if buffer is None:
        return (-1, 0, 0, 0, -1, 0, 0, 1, -1)
    low, high = (buffer.red.min_bytes, buffer.red.max_bytes) if buffer.red else (0, 0)
    pool = -1 if buffer.pool is None else buffer.pool
    which = programs.index(buffer.programs) if buffer.programs else -1
    rest = (pool, buffer.control_first, buffer.mark_on_departure, buffer.classes, which)
    return (buffer.size_bytes, buffer.mark_threshold_bytes, low, high, *rest)


def _check_widths(transport: Transport, simulator: str) -> None:
    """Raise `ConfigError` unless buffers hold two packets, and windows and counts fit TCP and the simulator."""
    limits = {
        "send_buffer_bytes": (2 * transport.mtu_bytes, MAX_BUFFER_BYTES),
        "receive_buffer_bytes": (2 * transport.mtu_bytes, MAX_BUFFER_BYTES),
        "initial_window_pkts": (1, MAX_BUFFER_BYTES // transport.mtu_bytes),
        "connections_per_pair": (0, 2**32 - 1),
        "delayed_ack_pkts": (1, 2**16),
        "frame_overhead_bytes": (0, 2**16),
    }
    for name, (low, high) in limits.items():
        if not low <= getattr(transport, name) <= high:
            raise ConfigError(
                f"Scenario.transport.{name} must be from {low} to {high} on {simulator}, got {getattr(transport, name)}"
            )


def _check_routes(is_host: NDArray[np.uint8], simulator: str) -> None:
    nodes, hosts = len(is_host), int(is_host.sum())
    if nodes * hosts > MAX_ROUTES:
        raise ConfigError(
            f"Scenario.topology must have at most {MAX_ROUTES} nodes x hosts on {simulator} (a routing table of "
            f"{8 * MAX_ROUTES / 2**20:g} MiB), got {nodes} x {hosts} = {nodes * hosts}: choose fewer hosts"
        )


def _check_wait(topology: Topology, port: int | None, transport: Transport, simulator: str) -> None:
    if port is None:
        return
    most_packets = topology.reach_bytes(port) / HEADER_BYTES
    on_wire_bytes = topology.reach_bytes(port) + most_packets * transport.frame_overhead_bytes
    wait_s = on_wire_bytes * BITS_PER_BYTE / topology.port_rate_bps(port)
    if wait_s > MAX_WAIT_S:
        raise ConfigError(
            f"Scenario.topology: the queue of port {topology.port_name(port)} may take {wait_s:.3g} s to empty, at "
            f"most {MAX_WAIT_S:g} s are allowed on {simulator}: choose a smaller buffer or a faster link"
        )


def _check_transport(module: Extension, stack: HostStack | ComponentStack) -> None:
    if stack.transport not in (known := module.transports()):
        raise UnknownNameError("transport", stack.transport, known)
    check_params(stack.transport, module.params(stack.transport), stack.params)


def _choose(spec: Spec, module: Extension, stack: HostStack) -> None:
    _check_transport(module, stack)
    if stack.order not in (orders := module.orders()):
        raise UnknownNameError("flow order", stack.order, orders)
    if stack.tags not in (tags := module.tags()):
        raise UnknownNameError("tags", stack.tags, tags)
    check_params(f"flow order {stack.order}", module.order_params(stack.order), stack.order_params)
    check_params(f"tags {stack.tags}", module.tag_params(stack.tags), stack.tag_params)
    spec.tags, spec.tag_params = stack.tags, list(stack.tag_params)
    spec.transport, spec.params = stack.transport, list(stack.params)
    spec.order, spec.order_params = stack.order, list(stack.order_params)
