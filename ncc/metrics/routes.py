# SPDX-License-Identifier: BSD-3-Clause
"""Shortest paths of a network, all of them at once."""

from functools import lru_cache

import numpy as np

from ncc.core.flows import IntArray
from ncc.core.topology import NodeKind, Topology


@lru_cache(maxsize=8)
def routes(network: Topology) -> "Routes":
    """Shortest paths of a network; kept, because many flows ask for them."""
    return Routes(network)


class Routes:
    """Shortest paths of a network, computed once per pair of hosts."""

    def __init__(self, network: Topology) -> None:
        self._forwards = [node.kind is not NodeKind.HOST for node in network.nodes]
        self._out: list[list[tuple[int, int]]] = [[] for _ in network.nodes]
        for i, link in enumerate(network.links):
            self._out[link.a].append((link.b, 2 * i))
            self._out[link.b].append((link.a, 2 * i + 1))
        self._away: dict[int, dict[int, int]] = {}
        self._hops: dict[tuple[int, int], tuple[IntArray, ...]] = {}

    def hops(self, src: int, dst: int) -> tuple[IntArray, ...]:
        """Directed ports of each hop from `src` to `dst`, of all shortest paths."""
        if (src, dst) not in self._hops:
            self._hops[src, dst] = self._walk(src, dst)
        return self._hops[src, dst]

    def certain_ports(self, src: int, dst: int) -> IntArray:
        """Directed ports that all shortest paths from `src` to `dst` have in common, in order."""
        return np.array([ports[0] for ports in self.hops(src, dst) if len(ports) == 1], dtype=np.int64)

    def _walk(self, src: int, dst: int) -> tuple[IntArray, ...]:
        away = self._hops_to(dst)
        hops, at = [], {src}
        while dst not in at:
            steps = {(peer, port) for node in at for peer, port in self._out[node] if away.get(peer) == away[node] - 1}
            hops.append(np.array(sorted(port for _, port in steps), dtype=np.int64))
            at = {peer for peer, _ in steps}
        return tuple(hops)

    def _hops_to(self, dst: int) -> dict[int, int]:
        """Hops to `dst` from every node that reaches it; hosts forward nothing."""
        if dst in self._away:
            return self._away[dst]
        away, frontier = {dst: 0}, [dst]
        while frontier:
            reached = []
            for node in frontier:
                for peer, _ in self._out[node] if node == dst or self._forwards[node] else ():
                    if peer not in away:
                        away[peer] = away[node] + 1
                        reached.append(peer)
            frontier = reached
        self._away[dst] = away
        return away
