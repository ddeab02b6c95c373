# SPDX-License-Identifier: BSD-3-Clause
"""Bandwidth-delay products: bytes that a path holds."""

from functools import lru_cache
from itertools import permutations

from ncc.core.topology import Topology
from ncc.core.units import bdp_bytes


def bandwidth_delay_bytes(network: Topology, src: int, dst: int) -> float:
    """Rate of the slowest link from `src` to `dst` times the delay of all links there and back."""
    links = [network.links[port // 2] for port in network.path(src, dst)]
    rate_bps = min((link.rate_bps for link in links), default=0.0)
    return bdp_bytes(rate_bps, 2 * sum(link.delay_s for link in links))


@lru_cache(maxsize=32)
def longest_pipe(network: Topology) -> tuple[int, int]:
    """Find the two hosts with the largest product between them.

    Hosts at one switch are alike if their links are, and the first of them stands for all.
    """
    alike: dict[tuple[int, float, float], list[int]] = {}
    for host in network.hosts:
        link = network.host_link(host)
        alike.setdefault((link.a + link.b - host, link.rate_bps, link.delay_s), []).append(host)
    few = [host for hosts in alike.values() for host in hosts[: 1 if len(alike) > 1 else 2]]
    pairs = [*permutations(few, 2)] or [(few[0], few[0])]
    return max(pairs, key=lambda pair: bandwidth_delay_bytes(network, *pair))
