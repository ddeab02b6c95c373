# SPDX-License-Identifier: BSD-3-Clause
"""Shortest paths between hosts, one for each pair."""

from typing import TYPE_CHECKING

from ncc.core.errors import ConfigError

if TYPE_CHECKING:
    from ncc.core.topology import Topology


def shortest_path(topology: "Topology", src: int, dst: int) -> tuple[int, ...]:
    """Directed ports on a path with the fewest hops, of those the one through the lowest node ids."""
    memo = topology.__dict__.setdefault("_paths", {})
    if (src, dst) not in memo:
        source, via = topology.__dict__.get("_last_tree", (-1, {}))  # the next pair is often of the same source
        if source != src:
            _, via = topology.__dict__["_last_tree"] = src, _tree(topology, src)
        if dst not in via:
            raise ConfigError(f"no path from {topology.nodes[src].name} to {topology.nodes[dst].name}")
        node, ports = dst, []
        while node != src:
            node, port = via[node]
            ports.append(port)
        memo[src, dst] = tuple(reversed(ports))
    found: tuple[int, ...] = memo[src, dst]
    return found


def _tree(topology: "Topology", src: int) -> dict[int, tuple[int, int]]:
    """The node before each node on a shortest path from `src`, and the port from there; hosts forward nothing."""
    via: dict[int, tuple[int, int]] = {src: (-1, -1)}
    frontier = [src]
    while frontier:
        reached = []
        for node in frontier:
            if node != src and topology.nodes[node].kind == "host":
                continue
            for peer, port in topology.peers[node]:
                if peer not in via:
                    via[peer] = (node, port)
                    reached.append(peer)
        frontier = reached
    return via
