# SPDX-License-Identifier: BSD-3-Clause
"""Shortest paths: their lengths on drawn networks are those of networkx, and hosts forward nothing."""

import networkx as nx
import numpy as np
import pytest

from ncc.core.routes import Routes


@pytest.mark.parametrize("seed", range(20))
def test_paths_are_as_short_as_can_be(seed: int) -> None:
    """Hosts have one link or two, to switches or to each other; a few nodes are out of reach."""
    rng = np.random.default_rng(seed)
    switches, n = 5, 25
    forwards = [node < switches for node in range(n)]
    links = {(a, b) for a in range(switches) for b in range(a) if rng.random() < 0.4}
    for host in range(switches, n):
        links |= {(host, int(rng.integers(switches if rng.random() < 0.8 else host))) for _ in range(rng.integers(3))}
    numbered = sorted(links)
    peers: dict[int, list[tuple[int, int]]] = {node: [] for node in range(n)}
    for port, (a, b) in enumerate(numbered):
        peers[a].append((b, 2 * port))
        peers[b].append((a, 2 * port + 1))
    routes = Routes({node: sorted(found) for node, found in peers.items()}, forwards)
    graph = nx.Graph(numbered)
    graph.add_nodes_from(range(n))
    for src in range(switches, n):
        for dst in (node for node in range(switches, n) if node != src):
            seen = graph.subgraph([node for node in range(n) if forwards[node] or node in (src, dst)])
            path = routes.path(src, dst)
            if nx.has_path(seen, src, dst):
                assert path is not None
                assert len(path) == nx.shortest_path_length(seen, src, dst) == len(routes.hops(src, dst))
            else:
                assert path is None
