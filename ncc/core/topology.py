# SPDX-License-Identifier: BSD-3-Clause
"""A network as data: nodes, links, egress ports, and which hosts are neighbours.

Node ids are indices into `Topology.nodes`. A link has two directed *ports*: port ``2*i`` transmits
from ``links[i].a`` to ``links[i].b``, port ``2*i + 1`` the other way. A switch end owns a finite
buffer and a marking threshold; a host end has none, because its queue is held per flow above the NIC.
"""

from enum import StrEnum
from functools import cached_property

import msgspec

from ncc.core.errors import ConfigError, UnknownNameError
from ncc.core.value import Count, Delay, LineRate, Name, Natural, Value


class NodeKind(StrEnum):
    """What a node does with a packet that is not its own."""

    HOST = "host"
    SWITCH = "switch"


class Node(Value, frozen=True):
    """One host or switch."""

    name: Name
    kind: NodeKind


class Buffer(Value, frozen=True):
    """The finite egress queue of a switch port, counted in bytes of IP packets.

    `mark_threshold_bytes` is K of step marking (RFC 8257 section 3.1 and the DCTCP paper): an arriving ECN-capable
    packet is marked when the queue it joins is longer than K. 0 switches marking off.
    """

    size_bytes: Count
    mark_threshold_bytes: Natural = 0

    def check(self) -> None:
        if self.mark_threshold_bytes >= self.size_bytes:
            raise ConfigError(
                f"Buffer.mark_threshold_bytes must be below size_bytes ({self.size_bytes}), "
                f"got {self.mark_threshold_bytes}"
            )


class Link(Value, frozen=True):
    """A full-duplex link; `a_buffer` queues packets from a to b. Host ends have no buffer."""

    a: Natural
    b: Natural
    rate_bps: LineRate
    delay_s: Delay
    a_buffer: Buffer | None = None
    b_buffer: Buffer | None = None


class Neighbourhood(Value, frozen=True):
    """Hosts that share state, and the egress port (the *upper node*) they share towards the rest."""

    hosts: tuple[Natural, ...]
    upper_port: Natural


class Group(Value, frozen=True):
    """A named set of hosts that a workload can speak of."""

    name: Name
    hosts: tuple[Natural, ...]


class Topology(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A validated network. Built by a spec in `ncc.core.topologies`."""

    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    groups: tuple[Group, ...]
    neighbourhoods: tuple[Neighbourhood, ...]

    def __post_init__(self) -> None:
        n_nodes = len(self.nodes)
        for i, link in enumerate(self.links):
            for end, buffer in ((link.a, link.a_buffer), (link.b, link.b_buffer)):
                if end >= n_nodes:
                    raise ConfigError(f"link {i} names node {end}; there are {n_nodes} nodes")
                if (self.nodes[end].kind is NodeKind.SWITCH) != (buffer is not None):
                    raise ConfigError(
                        f"link {i}: a switch end has a buffer and a host end has none ({self.nodes[end].name})"
                    )
        degree = [0] * n_nodes
        for link in self.links:
            degree[link.a] += 1
            degree[link.b] += 1
        for node, n in zip(self.nodes, degree, strict=True):
            if node.kind is NodeKind.HOST and n != 1:
                raise ConfigError(f"host {node.name} has {n} links; a host has exactly one")
        if len({node.name for node in self.nodes}) != n_nodes:
            raise ConfigError("two nodes of a topology have one name")
        for group in self.groups:
            self._check_hosts(f"group {group.name}", group.hosts)
        for i, area in enumerate(self.neighbourhoods):
            self._check_hosts(f"neighbourhood {i}", area.hosts)
            if area.upper_port >= 2 * len(self.links) or self.port_buffer(area.upper_port) is None:
                raise ConfigError(f"neighbourhood {i}: upper_port {area.upper_port} is not the port of a switch")
        listed = [host for area in self.neighbourhoods for host in area.hosts]
        if len(set(listed)) != len(listed):
            raise ConfigError("a host may belong to one neighbourhood only")

    def _check_hosts(self, what: str, hosts: tuple[int, ...]) -> None:
        if not hosts or len(set(hosts)) != len(hosts):
            raise ConfigError(f"{what} must list hosts, each once")
        for host in hosts:
            if host >= len(self.nodes) or self.nodes[host].kind is not NodeKind.HOST:
                raise ConfigError(f"{what} lists node {host}, which is not a host")

    @cached_property
    def hosts(self) -> tuple[int, ...]:
        """Node ids of all hosts."""
        return tuple(i for i, node in enumerate(self.nodes) if node.kind is NodeKind.HOST)

    @cached_property
    def agent_hosts(self) -> tuple[int, ...]:
        """Node ids of the hosts whose sending rate is decided each epoch, neighbourhood by neighbourhood."""
        return tuple(host for area in self.neighbourhoods for host in area.hosts)

    @cached_property
    def agent_area(self) -> tuple[int, ...]:
        """For each entry of `agent_hosts`, the index of its neighbourhood."""
        return tuple(i for i, area in enumerate(self.neighbourhoods) for _ in area.hosts)

    def group(self, name: str) -> tuple[int, ...]:
        """Host ids of a named group."""
        for group in self.groups:
            if group.name == name:
                return group.hosts
        raise UnknownNameError("host group", name, [group.name for group in self.groups])

    def host_link(self, host: int) -> Link:
        """The one link of a host."""
        return self.links[self._host_link_index[host]]

    @cached_property
    def _host_link_index(self) -> dict[int, int]:
        hosts = set(self.hosts)
        return {end: i for i, link in enumerate(self.links) for end in (link.a, link.b) if end in hosts}

    def port_rate_bps(self, port: int) -> float:
        """Line rate of a directed port."""
        return self.links[port // 2].rate_bps

    def port_buffer(self, port: int) -> Buffer | None:
        """The egress buffer of a directed port; None at a host's end."""
        link = self.links[port // 2]
        return link.b_buffer if port % 2 else link.a_buffer

    def port_name(self, port: int) -> str:
        """`from->to` by node name."""
        link = self.links[port // 2]
        ends = (link.a, link.b) if port % 2 == 0 else (link.b, link.a)
        return "->".join(self.nodes[end].name for end in ends)

    def port(self, name: str) -> int:
        """The directed port called `from->to`."""
        names = [self.port_name(port) for port in range(2 * len(self.links))]
        if name not in names:
            raise UnknownNameError("port", name, names)
        return names.index(name)

    def path(self, src: int, dst: int) -> tuple[int, ...]:
        """One shortest path as directed ports (hops; ties by lowest node id). All equal-cost paths cost the same."""
        return _shortest_path(self, src, dst)


def _shortest_path(topology: Topology, src: int, dst: int) -> tuple[int, ...]:
    memo: dict[tuple[int, int], tuple[int, ...]] = topology.__dict__.setdefault("_paths", {})
    if (src, dst) in memo:
        return memo[src, dst]
    edges: dict[int, list[tuple[int, int]]] = topology.__dict__.setdefault("_edges", {})
    if not edges:
        for i, link in enumerate(topology.links):
            edges.setdefault(link.a, []).append((link.b, 2 * i))
            edges.setdefault(link.b, []).append((link.a, 2 * i + 1))
        for out in edges.values():
            out.sort()
    via: dict[int, tuple[int, int]] = {src: (-1, -1)}
    frontier = [src]
    while frontier and dst not in via:
        reached = []
        for node in frontier:
            if node != src and topology.nodes[node].kind is NodeKind.HOST:
                continue
            for peer, port in edges.get(node, []):
                if peer not in via:
                    via[peer] = (node, port)
                    reached.append(peer)
        frontier = reached
    if dst not in via:
        raise ConfigError(f"no path from {topology.nodes[src].name} to {topology.nodes[dst].name}")
    ports: list[int] = []
    node = dst
    while node != src:
        node, port = via[node]
        ports.append(port)
    memo[src, dst] = tuple(reversed(ports))
    return memo[src, dst]
