# SPDX-License-Identifier: BSD-3-Clause
"""Bandwidth-delay products of the paths of a network: the bytes that a path holds, and thresholds of ports by them.

Ultra Ethernet's thresholds are shares of the bandwidth-delay product of the longest path (UE specification 1.0). The
shares are those of the consortium's simulator (uet-htsim, commit 40ccb05), as section 3.6.13 leaves them open.
"""

from functools import lru_cache
from math import ceil
from typing import NamedTuple

from ncc.core.errors import ConfigError
from ncc.core.topology import Buffer, Program, Red, Topology
from ncc.core.traffic import Requests
from ncc.core.units import BITS_PER_BYTE, HEADER_BYTES, bdp_bytes
from ncc.core.workload import AnyTraffic, Fixed, Permutation

MARK_BDP = (1, 5), (4, 5)
"""Queue from which packets are marked, and from which all are, as fractions. Between them the probability rises from 0
to 1."""
DATA_BDP, HEADERS_BDP = 1, 2
"""Queue of data beyond which packets are trimmed, and room for headers."""


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


def with_uet(network: Topology, mtu_bytes: int, frame_overhead_bytes: int) -> Topology:
    """Give all switch ports of a network the thresholds of Ultra Ethernet, in place of all other marking.

    The BDP of a port is what its line carries in the longest RTT between two hosts, counted in full packets and rounded
    up, as are the thresholds. Marking goes by the queue that a packet leaves, and headers are sent before data.

    Args:
        mtu_bytes: size of a full IP packet.
        frame_overhead_bytes: bytes on the wire beside it.

    Raises:
        ConfigError: a buffer is too small.
    """
    wire_bytes = mtu_bytes + frame_overhead_bytes
    rtt_s = longest_rtt_s(network, wire_bytes, HEADER_BYTES + frame_overhead_bytes)

    def port(buffer: Buffer | None, rate_bps: float) -> Buffer | None:
        if buffer is None:
            return None
        bdp_pkts = ceil(bdp_bytes(rate_bps, rtt_s) / wire_bytes)
        low, high = (ceil(bdp_pkts * part / whole) * mtu_bytes for part, whole in MARK_BDP)
        data, headers = (part * bdp_pkts * mtu_bytes for part in (DATA_BDP, HEADERS_BDP))
        if buffer.size_bytes < data + headers:
            raise ConfigError(
                f"uet takes {DATA_BDP + HEADERS_BDP} bandwidth-delay products of each port, and a port of "
                f"{rate_bps / 1e9:g} Gbit/s has {buffer.size_bytes} bytes: set buffer_bytes to {data + headers} or more"
            )
        trim = Program(name="trim", params=(("over_bytes", data), ("header_bytes", headers)))
        changed: Buffer = buffer.replace(
            mark_threshold_bytes=0,
            red=Red(min_bytes=low, max_bytes=max(high, low + mtu_bytes), max_prob_frac=1.0),
            mark_on_departure=True,
            control_first=True,
            programs=(*buffer.programs, trim),
        )
        return changed

    links = (
        link.replace(a_buffer=port(link.a_buffer, link.rate_bps), b_buffer=port(link.b_buffer, link.rate_bps))
        for link in network.links
    )
    return Topology(
        nodes=network.nodes, links=tuple(links), groups=network.groups, neighbourhoods=network.neighbourhoods
    )
