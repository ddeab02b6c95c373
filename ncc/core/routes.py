# SPDX-License-Identifier: BSD-3-Clause
"""Shortest paths of a network, by number of hops; hosts forward nothing."""

from array import array
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

Ports = npt.NDArray[np.int64]
UNREACHED = -1


class Routes:
    """Shortest paths, computed once per pair of nodes.

    Args:
        peers: neighbours of each node, lowest id first, as (node id, port that leads there).
        forwards: True for each node that forwards packets of others.
    """

    def __init__(self, peers: Mapping[int, Sequence[tuple[int, int]]], forwards: Sequence[bool]) -> None:
        self._peers, self._forwards = peers, forwards
        self._distances: dict[int, array[int]] = {}
        self._paths: dict[tuple[int, int], tuple[int, ...] | None] = {}
        self._hops: dict[tuple[int, int], tuple[Ports, ...]] = {}

    def path(self, src: int, dst: int) -> tuple[int, ...] | None:
        """Return the directed ports of the shortest path through the lowest node ids; None if there is no path."""
        if (src, dst) not in self._paths:
            away, node, ports = self._distance(dst), src, []
            while node != dst and away[src] != UNREACHED:
                node, port = next(step for step in self._peers[node] if away[step[0]] == away[node] - 1)
                ports.append(port)
            self._paths[src, dst] = None if away[src] == UNREACHED else tuple(ports)
        return self._paths[src, dst]

    def hops(self, src: int, dst: int) -> tuple[Ports, ...]:
        """Return for each hop from `src` to `dst` the directed ports of all shortest paths; there must be a path."""
        if (src, dst) not in self._hops:
            away, hops, at = self._distance(dst), [], {src}
            while dst not in at:
                steps = {step for node in at for step in self._peers[node] if away[step[0]] == away[node] - 1}
                hops.append(np.array(sorted(port for _, port in steps), dtype=np.int64))
                at = {peer for peer, _ in steps}
            self._hops[src, dst] = tuple(hops)
        return self._hops[src, dst]

    def certain_ports(self, src: int, dst: int) -> Ports:
        """Return the directed ports that all shortest paths from `src` to `dst` have in common, in order."""
        return np.array([ports[0] for ports in self.hops(src, dst) if len(ports) == 1], dtype=np.int64)

    def _distance(self, dst: int) -> "array[int]":
        """Hops to `dst` from every node."""
        if dst not in self._distances:
            switches = [peer for peer, _ in self._peers[dst] if self._forwards[peer]]
            behind_one = len(self._peers[dst]) == len(switches) == 1 and not self._forwards[dst]
            self._distances[dst] = self._behind(switches[0], dst) if behind_one else self._walked(dst)
        return self._distances[dst]

    def _behind(self, switch: int, dst: int) -> "array[int]":
        """Hops to a host with one link: one more than to its switch."""
        to_switch = np.frombuffer(self._distance(switch), np.intc)
        hops = np.where(to_switch == UNREACHED, UNREACHED, to_switch + 1).astype(np.intc)
        hops[dst] = 0
        return array("i", hops.tobytes())

    def _walked(self, dst: int) -> "array[int]":
        """Hops to `dst`, by a walk from it."""
        away = array("i", [UNREACHED] * len(self._forwards))
        away[dst], frontier = 0, [dst]
        for node in frontier:  # grows while it is walked
            for peer, _ in self._peers[node] if node == dst or self._forwards[node] else ():
                if away[peer] == UNREACHED:
                    away[peer] = away[node] + 1
                    frontier.append(peer)
        return away
