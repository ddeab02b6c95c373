# SPDX-License-Identifier: BSD-3-Clause
"""Bytes that the paths of a network hold."""

from functools import lru_cache
from typing import NamedTuple

from ncc.core.topology import NodeKind, Topology
from ncc.core.units import BITS_PER_BYTE, HEADER_BYTES, bdp_bytes
from ncc.core.workload import AnyTraffic, Fixed, Permutation


class Pipe(NamedTuple):
    """A path between two hosts."""

    src: int
    dst: int
    bytes: float
    """Rate of its slowest link times the RTT of a full packet and its ACK in the empty network."""


def ends(traffic: AnyTraffic, topology: Topology) -> tuple[frozenset[int], frozenset[int]]:
    """Hosts that may send, and hosts that may receive."""
    match traffic:
        case Fixed(flows=flows):
            ids = {topology.nodes[host].name: host for host in topology.hosts}
            return frozenset(ids[flow.src] for flow in flows), frozenset(ids[flow.dst] for flow in flows)
        case Permutation(hosts=hosts):
            return frozenset(topology.group(hosts)), frozenset(topology.group(hosts))
    return frozenset(topology.group(traffic.sources)), frozenset(topology.group(traffic.destinations))


@lru_cache(maxsize=32)
def longest_pipe(network: Topology, packet_bytes: int, sources: frozenset[int], destinations: frozenset[int]) -> Pipe:
    """Find the path that holds most, of the shortest ones from a source to another host that is a destination.

    Hosts at one switch are alike if their links are: the first source of them stands for all, and the first two
    destinations.
    """
    few = [host for hosts in _alike(network, destinations) for host in hosts[:2]]
    pipes = [p for hosts in _alike(network, sources) for p in _pipes_from(network, hosts[0], packet_bytes, few)]
    return max(pipes, key=lambda pipe: pipe.bytes, default=Pipe(few[0], few[0], 0.0))


def _alike(network: Topology, hosts: frozenset[int]) -> list[list[int]]:
    found: dict[tuple[int, float, float], list[int]] = {}
    for host in sorted(hosts):
        link = network.host_link(host)
        found.setdefault((link.a + link.b - host, link.rate_bps, link.delay_s), []).append(host)
    return list(found.values())


def _pipes_from(network: Topology, src: int, packet_bytes: int, hosts: list[int]) -> list[Pipe]:
    """Paths to these hosts, found at once; of equally short ones as `Topology.path` chooses."""
    reached = {src: (float("inf"), 0.0, 0.0)}  # slowest rate, delay there, seconds per bit over all links
    frontier = [src]
    while frontier:
        ahead = []
        for node in frontier:
            if node != src and network.nodes[node].kind is NodeKind.HOST:
                continue
            rate_bps, delay_s, per_bit_s = reached[node]
            for peer, port in network.peers[node]:
                if peer not in reached:
                    link = network.links[port // 2]
                    reached[peer] = (
                        min(rate_bps, link.rate_bps), delay_s + link.delay_s, per_bit_s + 1 / link.rate_bps
                    )  # fmt: skip
                    ahead.append(peer)
        frontier = ahead
    bits = BITS_PER_BYTE * (packet_bytes + HEADER_BYTES)
    found = []
    for dst in hosts:
        if dst != src and dst in reached:
            rate_bps, delay_s, per_bit_s = reached[dst]
            found.append(Pipe(src, dst, bdp_bytes(rate_bps, 2 * delay_s + bits * per_bit_s)))
    return found
