# SPDX-License-Identifier: BSD-3-Clause
"""Bandwidth-delay products of the paths of a network: the bytes that a path holds."""

from functools import lru_cache
from typing import NamedTuple

from ncc.core.topology import Topology
from ncc.core.traffic import Requests
from ncc.core.units import BITS_PER_BYTE, HEADER_BYTES, bdp_bytes
from ncc.core.workload import AnyTraffic, Fixed, Permutation


class Pipe(NamedTuple):
    """A path between two hosts, given by their node ids, and the bytes that it holds."""

    src: int
    dst: int
    bytes: float
    """Rate of the path's slowest link times the RTT of a full packet and its ACK in the empty network."""


def ends(traffic: AnyTraffic, topology: Topology) -> tuple[frozenset[int], frozenset[int]]:
    """Return the node ids of the hosts that may send flows of `traffic`, and of those that may receive them."""
    match traffic:
        case Requests():
            return traffic.ends(topology), traffic.ends(topology)
        case Fixed(flows=flows):
            ids = {topology.nodes[host].name: host for host in topology.hosts}
            return frozenset(ids[flow.src] for flow in flows), frozenset(ids[flow.dst] for flow in flows)
        case Permutation(hosts=hosts):
            return frozenset(topology.group(hosts)), frozenset(topology.group(hosts))
    return frozenset(topology.group(traffic.sources)), frozenset(topology.group(traffic.destinations))


@lru_cache(maxsize=32)
def longest_pipe(network: Topology, packet_bytes: int, sources: frozenset[int], destinations: frozenset[int]) -> Pipe:
    """Find the path that holds the most bytes, among the shortest paths from a source to another host.

    Hosts at one switch with equal links have equal paths, so only the first source and the first destination among
    them are looked at. The result has 0 bytes if no source has a destination other than itself.

    Args:
        packet_bytes: size of a full IP packet.
        sources: node ids of the senders.
        destinations: node ids of the receivers.
    """
    senders, receivers = (_alike(network, hosts) for hosts in (sources, destinations))
    pairs = [(src, dst) for src, *_ in senders for hosts in receivers for dst in [h for h in hosts if h != src][:1]]
    pipes = [Pipe(src, dst, _pipe_bytes(network, src, dst, packet_bytes)) for src, dst in pairs]
    return max(pipes, key=lambda pipe: pipe.bytes, default=Pipe(min(sources), min(destinations), 0.0))


def _alike(network: Topology, hosts: frozenset[int]) -> list[list[int]]:
    groups: dict[tuple[int, float, float], list[int]] = {}
    for host in sorted(hosts):
        link = network.host_link(host)
        groups.setdefault((link.a + link.b - host, link.rate_bps, link.delay_s), []).append(host)
    return list(groups.values())


def _pipe_bytes(network: Topology, src: int, dst: int, packet_bytes: int) -> float:
    links = [network.links[port // 2] for port in network.path(src, dst)]
    bits = BITS_PER_BYTE * (packet_bytes + HEADER_BYTES)
    rtt_s = sum(2 * link.delay_s + bits / link.rate_bps for link in links)
    return bdp_bytes(min(link.rate_bps for link in links), rtt_s)
