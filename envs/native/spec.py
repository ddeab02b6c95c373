# SPDX-License-Identifier: BSD-3-Clause
"""A run as an extension module takes it: scenario, flows, host stack and seed as plain numbers."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ncc.baselines.registry import ParamInfo, check_named, with_defaults
from ncc.core.errors import ConfigError, UnknownNameError
from ncc.core.flows import FlowTable, IntArray, check_columns
from ncc.core.graph import check_graph
from ncc.core.scenario import MAX_BUFFER_BYTES, Nic, Scenario, Transport
from ncc.core.topology import Buffer, Pool, Program, Topology
from ncc.core.units import BITS_PER_BYTE, HEADER_BYTES, NS_PER_S, to_ns
from ncc.core.writes import pieces
from ncc.envs.native.extension import Extension, Spec, filled
from ncc.envs.native.requests import set_requests
from ncc.harness.datapath import ComponentStack, HostStack
from ncc.harness.messages import patience_s

MAX_ROUTES = 2**26
"""Nodes times hosts: the routing table has 8 bytes for each pair, so 512 MiB."""
MAX_WAIT_S = 1e6
"""Longest wait in a full queue. Simulators keep transmission times in ps, of which 64 bits hold 9.2 million seconds."""


Transports = Mapping[str, tuple[ParamInfo, ...]]
"""Parameters of a simulator's transports, by name."""


def spec_of(
    module: Extension,
    simulator: str,
    scenario: Scenario,
    flows: FlowTable,
    stack: HostStack,
    *,
    transports: Transports,
    seed: int,
) -> Spec:
    """Describe a run for an extension module; `simulator` is its name in messages.

    Raises:
        UnknownNameError: no such transport, parameter, order, tags or program; the message lists what exists.
        ConfigError: a parameter out of range, a topology above `MAX_ROUTES`, or flows that it cannot carry.
    """
    check_columns(flows)
    check_graph(flows)
    topology, transport = scenario.network(), scenario.sockets
    _check_widths(transport, simulator)
    _check_routes(topology, simulator)
    parts = _parts(topology)
    if parts.slowest_port is not None:
        _check_wait(topology, parts.slowest_port, transport, simulator)
    spec = filled(module.Spec(), **_structs(module, parts.fields))
    spec.symmetric, spec.sprayed = scenario.routing == "symmetric", scenario.routing == "spray"
    spec.by_entropy = scenario.routing == "entropy"
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
    for name in _TIMES:
        setattr(spec, f"{name}_ns", to_ns(getattr(transport, f"{name}_s")))
    spec.modern = transport.recovery == "modern"
    _set_nic(spec, scenario.nic, flows, area_of)
    if stack.hold and not scenario.has_receivers:
        raise ConfigError("hold needs receivers: set Scenario.neighbourhoods to receivers or both")
    spec.receivers, spec.instant = scenario.has_receivers, stack.messages == "instant"
    spec.hold = stack.hold
    if stack.answer_frac is not None:
        spec.answers = _answers(module, topology, transport, stack.answer_frac)
    spec.patience_ns = to_ns(patience_s(scenario))
    if parts.slowest_port is not None:
        spec.queue_ns = to_ns(_wait_s(topology, parts.slowest_port))
    spec.period_ns = to_ns(scenario.period_s)
    spec.latency_ns = to_ns(scenario.decision_latency_s)
    spec.seed = seed % 2**63
    _choose(spec, transports, stack)
    set_requests(spec, module, scenario, flows, stack)
    if stack.components:
        _set_components(spec, module, simulator, transports, scenario=scenario, flows=flows, stack=stack)
    return spec


class _Parts(NamedTuple):
    """A topology as `Spec` takes it."""

    fields: dict[str, Any]
    """Fields of `Spec`, with a dict of fields in place of each struct: a struct must not outlive its module."""
    slowest_port: int | None
    """The switch port whose queue takes longest to empty; None: there is no switch port."""


def _answers(module: Extension, topology: Topology, transport: Transport, ahead_frac: float) -> list[Any]:
    """Return how the receiver at each node answers SYNs of held flows."""
    answers = [module.AnswerSpec() for _ in topology.nodes]
    on_wire = (transport.mtu_bytes + transport.frame_overhead_bytes) / transport.mss_bytes
    for host in topology.hosts:
        port = topology.down_port(host)
        filled(
            answers[host],
            ahead_bytes=ahead_frac * topology.reach_bytes(port),
            ns_per_byte=on_wire * BITS_PER_BYTE * NS_PER_S / topology.port_rate_bps(port),
        )
    return answers


def _set_components(
    spec: Spec,
    module: Extension,
    simulator: str,
    transports: Transports,
    *,
    scenario: Scenario,
    flows: FlowTable,
    stack: HostStack,
) -> None:
    """Set the stacks of components; a flow has the stack of its component."""
    names, transport = [name for name, _ in scenario.workload], scenario.sockets
    if transport.connections_per_pair:
        raise ConfigError(
            "stack.components gives flows controllers of their own, and an open connection keeps its first one: set "
            "Scenario.transport.connections_per_pair to 0"
        )
    which = np.zeros(len(names), np.uint8)
    stacks = []
    for part in stack.components:
        if part.component not in names:
            raise UnknownNameError("component of the traffic in stack.components", part.component, names)
        _check_transport(transports, part)
        settings = {name: getattr(part, name) for name in ("min_rto_s", "initial_rto_s", "initial_window_pkts")}
        tcp = transport.replace(**{name: value for name, value in settings.items() if value is not None})
        try:
            _check_widths(tcp, simulator)
        except ConfigError as error:
            raise ConfigError(f"component {part.component!r} of stack.components: {error}") from None
        stacks.append(
            filled(
                module.StackSpec(),
                transport=part.transport,
                params=part.params,
                min_rto_ns=to_ns(tcp.min_rto_s),
                initial_rto_ns=to_ns(tcp.initial_rto_s),
                initial_window_pkts=tcp.initial_window_pkts,
            )
        )
        which[names.index(part.component)] = len(stacks)
    spec.stacks = stacks
    spec.set_stack_of(which[flows.traffic])


def _set_nic(spec: Spec, nic: Nic, flows: FlowTable, area_of: IntArray) -> None:
    for name in ("bucket_bytes", "small_queue_bytes", "shaped_frac", "shaped_pkts", "selective_pkts"):
        setattr(spec, name, getattr(nic, name))
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
_TIMES = ("min_rto", "initial_rto", "timer_slack", "timer_tick", "delayed_ack", "rtt_noise_max")
"""Times of `Transport`, without their unit `_s`, that `Spec` has in ns."""


def _parts(topology: Topology) -> _Parts:
    """Return the parts of a topology. They are made once and kept with the topology."""
    key = "_parts"
    if key in topology.__dict__:
        made: _Parts = topology.__dict__[key]
        return made
    buffers = [buffer for link in topology.links for buffer in (link.a_buffer, link.b_buffer)]
    programs = tuple(dict.fromkeys(buffer.programs for buffer in buffers if buffer and buffer.programs))
    links = [
        {
            "a": link.a,
            "b": link.b,
            "rate_bps": link.rate_bps,
            "delay_ns": to_ns(link.delay_s),
            "queue": [_queue(buffer, programs) for buffer in (link.a_buffer, link.b_buffer)],
        }
        for link in topology.links
    ]
    pools = [{"size_bytes": pool.size_bytes, "alpha": pool.alpha, **_red(pool)} for pool in topology.pools]
    of_ports = [[{"name": one.name, "params": one.params} for one in port_programs] for port_programs in programs]
    switch_ports = (port for port in range(2 * len(links)) if topology.port_buffer(port) is not None)
    topology.__dict__[key] = made = _Parts(
        {"is_host": topology.is_host.tolist(), "links": links, "pools": pools, "programs": of_ports},
        max(switch_ports, key=lambda port: _wait_s(topology, port), default=None),
    )
    return made


def _structs(module: Extension, fields: dict[str, Any]) -> dict[str, Any]:
    """Return fields of `_Parts` as `Spec` takes them."""

    def made(kind: Any, rows: list[dict[str, Any]]) -> list[Any]:
        return [filled(kind(), **row) for row in rows]

    links = [{**link, "queue": made(module.QueueSpec, link["queue"])} for link in fields["links"]]
    return {
        "is_host": fields["is_host"],
        "links": made(module.LinkSpec, links),
        "pools": made(module.PoolSpec, fields["pools"]),
        "programs": [made(module.ProgramSpec, rows) for rows in fields["programs"]],
    }


def _queue(buffer: Buffer | None, programs: tuple[tuple[Program, ...], ...]) -> dict[str, Any]:
    """Return the fields of one end of a link; a host's end has no buffer."""
    if buffer is None:
        return {}
    return {
        "buffer_bytes": buffer.size_bytes,
        "threshold_bytes": buffer.mark_threshold_bytes,
        "pool": -1 if buffer.pool is None else buffer.pool,
        "control_first": buffer.control_first,
        "mark_leaving": buffer.mark_on_departure,
        "classes": buffer.classes,
        "shaped_frac": buffer.shaped_frac,
        "shaped_pkts": buffer.shaped_pkts,
        "selective_pkts": buffer.selective_pkts,
        "programs": programs.index(buffer.programs) if buffer.programs else -1,
        **_red(buffer),
    }


def _red(of: Buffer | Pool) -> dict[str, Any]:
    if of.red is None:
        return {}
    return {
        "red_min_bytes": of.red.min_bytes,
        "red_max_bytes": of.red.max_bytes,
        "red_max_prob": of.red.max_prob_frac,
    }


def _wait_s(topology: Topology, port: int) -> float:
    return topology.reach_bytes(port) * BITS_PER_BYTE / topology.port_rate_bps(port)


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


def _check_routes(topology: Topology, simulator: str) -> None:
    nodes, hosts = len(topology.nodes), len(topology.hosts)
    if nodes * hosts > MAX_ROUTES:
        raise ConfigError(
            f"Scenario.topology must have at most {MAX_ROUTES} nodes x hosts on {simulator} (a routing table of "
            f"{8 * MAX_ROUTES / 2**20:g} MiB), got {nodes} x {hosts} = {nodes * hosts}: choose fewer hosts"
        )


def _check_wait(topology: Topology, port: int, transport: Transport, simulator: str) -> None:
    most_packets = topology.reach_bytes(port) / HEADER_BYTES
    on_wire_bytes = topology.reach_bytes(port) + most_packets * transport.frame_overhead_bytes
    wait_s = on_wire_bytes * BITS_PER_BYTE / topology.port_rate_bps(port)
    if wait_s > MAX_WAIT_S:
        raise ConfigError(
            f"Scenario.topology: the queue of port {topology.port_name(port)} may take {wait_s:.3g} s to empty, at "
            f"most {MAX_WAIT_S:g} s are allowed on {simulator}: choose a smaller buffer or a faster link"
        )


def _check_transport(transports: Transports, stack: HostStack | ComponentStack) -> None:
    if stack.transport not in transports:
        raise UnknownNameError("transport", stack.transport, transports)
    with_defaults(stack.transport, transports[stack.transport], stack.params)


def _choose(spec: Spec, transports: Transports, stack: HostStack) -> None:
    _check_transport(transports, stack)
    check_named("flow order", stack.order, stack.order_params)
    check_named("tags", stack.tags, stack.tag_params)
    front, front_params = stack.front_end
    check_named("front end", front, front_params)
    spec.front, spec.front_params = front, list(front_params)
    spec.tags, spec.tag_params = stack.tags, list(stack.tag_params)
    spec.transport, spec.params = stack.transport, list(stack.params)
    spec.order, spec.order_params = stack.order, list(stack.order_params)
