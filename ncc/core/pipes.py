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
    both_bytes = packet_bytes + HEADER_BYTES
    pipes = [
        Pipe(src, dst, bdp_bytes(rate_bps, rtt_s))
        for src, dst in _pairs(network, sources, destinations)
        for rtt_s, rate_bps in [_rtt_s(network, src, dst, both_bytes)]
    ]
    return max(pipes, key=lambda pipe: pipe.bytes, default=Pipe(min(sources), min(destinations), 0.0))


def longest_rtt_s(network: Topology, packet_bytes: int, ack_bytes: int) -> float:
    """Find the longest RTT between two hosts in the empty network, in seconds, on shortest paths.

    Args:
        packet_bytes: size on the wire of a full packet.
        ack_bytes: size on the wire of its ACK.
    """
    hosts = frozenset(network.hosts)
    return max(_rtt_s(network, *pair, packet_bytes + ack_bytes)[0] for pair in _pairs(network, hosts, hosts))


def _pairs(network: Topology, sources: frozenset[int], destinations: frozenset[int]) -> list[tuple[int, int]]:
    """The first source and the first destination of each pair of groups of hosts with equal links at one switch."""
    senders, receivers = (_alike(network, hosts) for hosts in (sources, destinations))
    return [(src, dst) for src, *_ in senders for hosts in receivers for dst in [h for h in hosts if h != src][:1]]


def _alike(network: Topology, hosts: frozenset[int]) -> list[list[int]]:
    groups: dict[tuple[int, float, float], list[int]] = {}
    for host in sorted(hosts):
        link = network.host_link(host)
        groups.setdefault((link.a + link.b - host, link.rate_bps, link.delay_s), []).append(host)
    return list(groups.values())


def _rtt_s(network: Topology, src: int, dst: int, both_bytes: int) -> tuple[float, float]:
    """RTT in seconds of a packet and its ACK, which have `both_bytes` together, and rate of the slowest link."""
    links = [network.links[port // 2] for port in network.path(src, dst)]
    rtt_s = sum(2 * link.delay_s + BITS_PER_BYTE * both_bytes / link.rate_bps for link in links)
    return rtt_s, min(link.rate_bps for link in links)
