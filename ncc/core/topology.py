# SPDX-License-Identifier: BSD-3-Clause
"""A network as data: nodes, links, egress ports, and the hosts that are neighbours.

Node ids are indices into `Topology.nodes`. A link has two directed *ports*: port ``2*i`` transmits from ``links[i].a``
to ``links[i].b``, port ``2*i + 1`` the other way. A switch's port has a buffer; a host has queues per flow instead.
"""

from enum import StrEnum
from functools import cached_property
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from ncc.core.errors import ConfigError, UnknownNameError
from ncc.core.flows import BoolArray, IntArray
from ncc.core.routes import Routes
from ncc.core.value import Count, Delay, Fraction, LineRate, Name, Natural, Value, part_of

Alpha = Annotated[float, Meta(ge=1 / 1024, le=1024)]
"""Alpha of dynamic thresholds, in steps of 1/1024. Chips offer powers of 2 from 1/128 to 8 (bai2020 section IV-B)."""
MOST_CLASSES = 8
Classes = Annotated[int, Meta(ge=1, le=MOST_CLASSES)]
"""Number of classes of a port; switches have up to 8 (IEEE 802.1Q)."""
Share = Annotated[float, Meta(ge=0, lt=1)]
"""Share of a line; 0: nothing."""
MAX_POOL_BYTES = 2**43
"""Largest pool in bytes, so that `alpha` times its size fits 64 bits."""


class NodeKind(StrEnum):
    """Kind of a node: a host, or a switch, which forwards packets."""

    HOST = "host"
    SWITCH = "switch"


class Node(Value, frozen=True):
    """One host or switch."""

    name: Name
    kind: NodeKind


class Red(Value, frozen=True):
    """Random marking (Floyd & Jacobson 1993) by the current queue (bai2020 section IV-C): `baselines/red.h`.

    An ECN-capable packet is marked with a probability that rises linearly from 0 at `min_bytes` of queue to
    `max_prob_frac` at `max_bytes`; beyond that, every packet is marked. Packets that are not ECN-capable pass.
    """

    min_bytes: Natural
    max_bytes: Count
    max_prob_frac: Fraction = 0.1
    """Marking probability at `max_bytes`. Floyd & Jacobson use 0.02 to 0.1; bai2020 0.1."""

    def check(self) -> None:
        if not self.min_bytes < self.max_bytes < self.min_bytes + 2**32:
            raise ConfigError(
                f"Red.max_bytes must be above min_bytes ({self.min_bytes}) by less than 4 GiB, got {self.max_bytes}"
            )


class Pool(Value, frozen=True):
    """A buffer that ports of one switch share by dynamic thresholds: `baselines/dynamic_threshold.h`.

    A queue that has filled its own buffer may use the pool until it holds `alpha` times the free bytes of the pool
    (Choudhury & Hahne 1998; bai2020 eq. 1).
    """

    size_bytes: Annotated[int, Meta(ge=1, le=MAX_POOL_BYTES)]
    alpha: Alpha
    red: Red | None = None
    """Marking by the occupancy of the pool, in whichever port a packet waits (bai2020 section IV-B, `ncc.core.bcc`):
    `baselines/bcc.h`."""

    def check(self) -> None:
        if self.red is not None and self.red.max_bytes > self.size_bytes:
            raise ConfigError(
                f"Pool.red.max_bytes must be at most size_bytes ({self.size_bytes}), so that a full pool marks all "
                f"packets, got {self.red.max_bytes}"
            )

    @property
    def lone_share_bytes(self) -> int:
        """Bytes that one queue gets while no other uses the pool: alpha/(1 + alpha) of it."""
        return int(self.size_bytes * self.alpha / (1 + self.alpha))


class Program(Value, frozen=True):
    """A program at a switch port: one of `baselines/` with an NCC_SW_REGISTER line (`baselines/switch.h`)."""

    name: Name
    params: tuple[tuple[Name, int], ...] = ()
    """Parameters that differ from the program's defaults, as (name, value) in the program's own integer units."""


class Buffer(Value, frozen=True):
    """The finite egress queue of a switch port, counted in bytes of IP packets.

    `mark_threshold_bytes` is K of step marking (RFC 8257 section 3.1 and the DCTCP paper): an arriving ECN-capable
    packet is marked if the queue that it joins is longer than K. K = 0 switches step marking off. With `red` as well,
    a packet is marked if either of the two marks it.
    """

    size_bytes: Natural
    """Bytes that only this port uses; 0 only with a pool."""
    mark_threshold_bytes: Natural = 0
    red: Red | None = None
    pool: Natural | None = None
    """Index in `Topology.pools` of the pool that the port may use beyond its own bytes."""
    control_first: bool = False
    """Send packets without payload (ACKs, handshakes) ahead of data: strict priority, one buffer for both."""
    mark_on_departure: bool = False
    """Mark packets as they leave the queue, by the queue and the pool that they leave behind, instead of as they join.

    The mark then shows a state that is newer by the packet's wait (the switch of bai2020, section V-B).
    """
    classes: Classes = 1
    """Number of strict-priority queues that share the buffer, class 0 first; 1: first in, first out. Packets without
    data have class 0. Data has the class of its tag (`HostStack.tags`); tags beyond the last class have the last."""
    shaped_frac: Share = 0.0
    """Share of the line, with what frames add, at which control packets of message transports
    (`baselines/transport.h`) leave, in a queue of their own before all others; 0: there is no such queue."""
    shaped_pkts: Count = 8
    """Control packets that may wait in it."""
    selective_pkts: Natural = 2
    """Words that may wait in it before expendable ones are dropped (selective dropping of FlashPass)."""
    programs: tuple[Program, ...] = ()
    """Programs of the port, which run one after the other."""


def check_marks(owner: str, limit: str, reach_bytes: int, mark_threshold_bytes: int, red: Red | None) -> None:
    """Raise `ConfigError` if marking is on but a queue of at most `reach_bytes` would never be marked."""
    if mark_threshold_bytes >= reach_bytes:
        raise ConfigError(
            f"{owner}.mark_threshold_bytes must be below {limit} ({reach_bytes}; 0 switches marking off), "
            f"got {mark_threshold_bytes}"
        )
    if red is not None and red.min_bytes >= reach_bytes:
        raise ConfigError(f"{owner}.red.min_bytes must be below {limit} ({reach_bytes}), got {red.min_bytes}")


class Link(Value, frozen=True):
    """A full-duplex link between nodes a and b: `a_buffer` queues packets from a to b, `b_buffer` those from b to a.

    The buffer at a host's end is None.
    """

    a: Natural
    b: Natural
    rate_bps: LineRate
    delay_s: Delay
    a_buffer: Buffer | None = None
    b_buffer: Buffer | None = None


class Neighbourhood(Value, frozen=True):
    """Hosts that share state, and their shared egress port towards the rest: the uplink (*upper node* of wang2021)."""

    hosts: tuple[Natural, ...]
    uplink_port: Natural


class Group(Value, frozen=True):
    """A named set of hosts that a workload can refer to."""

    name: Name
    hosts: tuple[Natural, ...]


class Topology(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A network, built by a spec in `ncc.core.topologies`."""

    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    groups: tuple[Group, ...]
    neighbourhoods: tuple[Neighbourhood, ...]
    pools: tuple[Pool, ...] = ()

    @cached_property
    def hosts(self) -> tuple[int, ...]:
        """Node ids of all hosts."""
        return tuple(i for i, node in enumerate(self.nodes) if node.kind is NodeKind.HOST)

    @cached_property
    def is_host(self) -> BoolArray:
        """Mask [n_nodes] of the hosts."""
        return np.array([node.kind is NodeKind.HOST for node in self.nodes], np.bool_)

    @cached_property
    def agent_hosts(self) -> tuple[int, ...]:
        """Node ids of the hosts whose sending rate is decided each period, neighbourhood by neighbourhood."""
        return tuple(host for area in self.neighbourhoods for host in area.hosts)

    @cached_property
    def agent_area(self) -> tuple[int, ...]:
        """Index in `neighbourhoods` for each entry of `agent_hosts`."""
        return tuple(i for i, area in enumerate(self.neighbourhoods) for _ in area.hosts)

    def group(self, name: str) -> tuple[int, ...]:
        """Node ids of the hosts of a group, or of a part of it as ``group:first:count``, counted from 0.

        ``tor0:8:2`` are two hosts of group ``tor0``: its ninth and its tenth.

        Raises:
            UnknownNameError: there is no such group; the message lists those that exist.
            ConfigError: the group has no such part.
        """
        whole, _, part = name.partition(":")
        for group in self.groups:
            if group.name == whole:
                return part_of(group.hosts, part, f"host group {name!r}") if part else group.hosts
        raise UnknownNameError("host group", whole, [group.name for group in self.groups])

    def host_link(self, host: int) -> Link:
        """The only link of a host."""
        return self.links[self._host_link_index[host]]

    @cached_property
    def _host_link_index(self) -> dict[int, int]:
        hosts = set(self.hosts)
        return {end: i for i, link in enumerate(self.links) for end in (link.a, link.b) if end in hosts}

    def down_port(self, host: int) -> int:
        """The switch port that leads to a host, where the flows to it meet.

        Raises:
            ConfigError: the host is linked to another host and not to a switch.
        """
        number = self._host_link_index[host]
        port = 2 * number + (self.links[number].a == host)
        if self.port_buffer(port) is None:
            raise ConfigError(f"host {self.nodes[host].name} has no down port: no switch is before it")
        return port

    def port_rate_bps(self, port: int) -> float:
        """Line rate of a directed port, in bits per second."""
        return self.links[port // 2].rate_bps

    def uplink_capacity_bps(self, area: Neighbourhood) -> float:
        """Total rate in bits per second of all ports out of a neighbourhood at the switch of its uplink port.

        A switch may have several equal ports out, such as a leaf with one to each spine. The uplink port is then the
        first of them, and its queue stands for the queues of the others.
        """
        return sum(self.port_rate_bps(port) for port in self._ways_up(area))

    def beyond(self, area: Neighbourhood) -> BoolArray:
        """Mask [n_nodes] of the nodes that a neighbourhood's hosts reach only through its ports out."""
        ways_up = set(self._ways_up(area))
        outside = np.ones(len(self.nodes), dtype=np.bool_)
        frontier = list(area.hosts)
        while frontier:
            outside[frontier] = False
            peers = [peer for node in frontier for peer, port in self.peers[node] if port not in ways_up]
            frontier = [peer for peer in dict.fromkeys(peers) if outside[peer]]
        return outside

    @cached_property
    def limited_to(self) -> tuple[IntArray, BoolArray]:
        """Nodes to which a host's rate limit applies: those beyond the ports out of its neighbourhood.

        Returns:
            the neighbourhood of each node [n_nodes], which is n_neighbourhoods for a node without one; and a table
            [n_neighbourhoods + 1, n_nodes]. An entry is true if packets from hosts of that neighbourhood to that node
            are limited. For hosts without a neighbourhood (the last row) all entries are true.
        """
        area_of = np.full(len(self.nodes), len(self.neighbourhoods))
        area_of[list(self.agent_hosts)] = self.agent_area
        everything = np.ones(len(self.nodes), dtype=np.bool_)
        return area_of, np.stack([*(self.beyond(area) for area in self.neighbourhoods), everything])

    @cached_property
    def peers(self) -> dict[int, list[tuple[int, int]]]:
        """Neighbours of each node, lowest id first, as (node id, port that leads there)."""
        peers: dict[int, list[tuple[int, int]]] = {node: [] for node in range(len(self.nodes))}
        for i, link in enumerate(self.links):
            peers[link.a].append((link.b, 2 * i))
            peers[link.b].append((link.a, 2 * i + 1))
        for out in peers.values():
            out.sort()
        return peers

    def _ways_up(self, area: Neighbourhood) -> list[int]:
        away, frontier = dict.fromkeys(area.hosts, 0), list(area.hosts)
        while frontier:
            reached = [peer for node in frontier for peer, _ in self.peers[node] if peer not in away]
            steps = away[frontier[0]] + 1
            frontier = list(dict.fromkeys(reached))
            away |= dict.fromkeys(frontier, steps)
        link = self.links[area.uplink_port // 2]
        node = link.b if area.uplink_port % 2 else link.a
        return [port for peer, port in self.peers[node] if away[peer] > away[node]]

    def port_buffer(self, port: int) -> Buffer | None:
        """The egress buffer of a directed port; None at a host's end."""
        link = self.links[port // 2]
        return link.b_buffer if port % 2 else link.a_buffer

    def reach_bytes(self, port: int) -> int:
        """The greatest length of a switch port's queue in bytes; with a pool, while no other queue uses the pool.

        Raises:
            ConfigError: the port is a host's, whose queue has no such bound.
        """
        buffer = self.port_buffer(port)
        if buffer is None:
            raise ConfigError(f"{self.port_name(port)} is a host's port, which has no finite queue")
        return buffer.size_bytes + (0 if buffer.pool is None else self.pools[buffer.pool].lone_share_bytes)

    @cached_property
    def marks(self) -> bool:
        """True if any port marks packets with Congestion Experienced, or has a program, which may."""
        buffers = (buffer for link in self.links for buffer in (link.a_buffer, link.b_buffer))
        used = [buffer for buffer in buffers if buffer is not None]
        if any(buffer.mark_threshold_bytes or buffer.red is not None or buffer.programs for buffer in used):
            return True
        return any(self.pools[buffer.pool].red is not None for buffer in used if buffer.pool is not None)

    @cached_property
    def shallowest_port(self) -> int | None:
        """The switch port with the smallest `reach_bytes`; None without switches."""
        ports = [port for port in range(2 * len(self.links)) if self.port_buffer(port) is not None]
        return min(ports, key=self.reach_bytes, default=None)

    def port_name(self, port: int) -> str:
        """Name of a directed port: `from->to` by node name."""
        link = self.links[port // 2]
        ends = (link.a, link.b) if port % 2 == 0 else (link.b, link.a)
        return "->".join(self.nodes[end].name for end in ends)

    def port(self, name: str) -> int:
        """Look up the directed port called `from->to`; of parallel links, the first.

        Raises:
            UnknownNameError: there is no such port; the message lists those that exist.
        """
        if name not in self._ports:
            raise UnknownNameError("port", name, sorted(self._ports))
        return self._ports[name]

    @cached_property
    def _ports(self) -> dict[str, int]:
        """Directed ports by name; of parallel links, the first."""
        return {self.port_name(port): port for port in reversed(range(2 * len(self.links)))}

    def path(self, src: int, dst: int) -> tuple[int, ...]:
        """Find the shortest path from node `src` to node `dst`, as directed ports.

        Length is counted in hops. Among equally short paths, it is the one through the lowest node ids.

        Raises:
            ConfigError: there is no path.
        """
        ports = self.routes.path(src, dst)
        if ports is None:
            raise ConfigError(f"no path from {self.nodes[src].name} to {self.nodes[dst].name}")
        return ports

    @cached_property
    def routes(self) -> Routes:
        """Shortest paths of all pairs of nodes."""
        return Routes(self.peers, [node.kind is NodeKind.SWITCH for node in self.nodes])
