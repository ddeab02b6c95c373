# SPDX-License-Identifier: BSD-3-Clause
"""SICC's choice of servers and hubs, and PICC's placement of objects, as functions of numbers alone.

Sections and equations are those of Wang, PhD thesis 2021: 3.1 is SICC, 4.1 PICC.
"""

import heapq
from collections.abc import Iterable

import numpy as np

from ncc.core.extras import require_extra
from ncc.core.flows import FloatArray, IntArray

MAX_CLUSTERED = 500
"""Most objects that `clusters` takes: a cut tree of n objects is n minimum cuts."""


def gather(
    sizes: IntArray,
    holders: IntArray,
    rack_of: IntArray,
    frequency: FloatArray,
    *,
    theta: int,
    capacity_bytes: float = np.inf,
) -> IntArray:
    """Move the popular objects of each rack to its gathering servers (section 4.1.1); return the new holders.

    In each rack the `theta` copies of the objects that are asked for most often move to the server with the largest
    weight, the sum of size x frequency of its objects. If that has no capacity left, they move to the next.

    Args:
        sizes: bytes of each object, [n_objects].
        holders: servers of the copies of each object, [n_objects, n_copies].
        rack_of: rack of each node, by node id.
        frequency: times that each object was asked for, [n_objects].
        theta: copies of a rack that count as popular.
        capacity_bytes: size x frequency from which on a gathering server takes no further object.
    """
    load = sizes * frequency
    weight = np.bincount(holders.ravel(), np.repeat(load, holders.shape[1]), minlength=len(rack_of))
    moved = holders.copy()
    racks = rack_of[holders]
    for rack in np.unique(racks):
        objects, copies = np.nonzero(racks == rack)
        servers = np.unique(holders[objects, copies])
        servers = servers[np.argsort(-weight[servers], kind="stable")]
        most = np.argsort(-frequency[objects], kind="stable")[:theta]
        objects, copies = objects[most], copies[most]
        before = np.cumsum(load[objects]) - load[objects]
        moved[objects, copies] = servers[np.minimum(before // capacity_bytes, len(servers) - 1).astype(np.int64)]
    return moved


def together(holders: IntArray, groups: Iterable[Iterable[int]]) -> IntArray:
    """Move the first copy of each object of a group to the server that holds most of the group (section 4.1.2)."""
    moved = holders.copy()
    for group in groups:
        objects = np.array(sorted(group), np.int64)
        servers, count = np.unique(moved[objects], return_counts=True)
        moved[objects, 0] = servers[np.argmax(count)]
    return moved


def cover(holders: IntArray) -> IntArray:
    """Choose a copy of each object, [n_objects] servers, so that few servers are asked.

    The server of `holders` [n_objects, n_copies] that holds most of these objects is chosen; of equal ones the first.
    """
    _, which, count = np.unique(holders, return_inverse=True, return_counts=True)
    best = count[which.reshape(holders.shape)].argmax(axis=1)
    chosen: IntArray = holders[np.arange(len(holders)), best]
    return chosen


def closeness(asked: IntArray, objects: int) -> FloatArray:
    """Times that two of the first `objects` objects were asked for by one request, [objects, objects] (eq. 4.1).

    This is the first sum of eq. 4.1, with weight 1, over one period.

    Args:
        asked: numbers of the objects of each request, [n_requests, n_asked].
        objects: number of objects, of which those that are asked for most often come first.
    """
    in_request = np.zeros((len(asked), objects))
    rows, columns = np.nonzero(asked < objects)
    in_request[rows, asked[rows, columns]] = 1
    both: FloatArray = in_request.T @ in_request
    np.fill_diagonal(both, 0)
    return both


def clusters(close: FloatArray, weight: float) -> list[set[int]]:
    """Divide objects into clusters of correlated ones (Algorithm 2), by the cut tree of Flake et al. (2004).

    A node that is linked to every object with `weight` is added. What hangs together in the cut tree without this node
    is a cluster. Cuts between clusters are below `weight` per object, and cuts within them above it.

    Args:
        close: closeness of two objects, [n, n], symmetric; n is at most `MAX_CLUSTERED`.
        weight: from 0, with one cluster of all that are linked, to large, with a cluster for each object.
    """
    require_extra("placement", "PICC's clusters of correlated objects")
    import networkx as nx

    graph = nx.Graph()
    rows, columns = np.nonzero(np.triu(close))
    for x, y in zip(rows.tolist(), columns.tolist(), strict=True):
        graph.add_edge(x, y, capacity=float(close[x, y]))
    for x in range(len(close)):
        graph.add_edge("all", x, capacity=weight)
    tree = nx.gomory_hu_tree(graph)
    tree.remove_node("all")
    return [set(part) for part in nx.connected_components(tree)]


def most_hubs(buffer_bytes: float, down_bps: float, up_bps: float, packet_bytes: float) -> int:
    """Return M, the most hubs that may send to a front end at once (eq. 3.1); at least 1.

    Packets of all hubs come at the same time, and the buffer takes them:

        M = (S_e / B_d) B_u / s

    Args:
        buffer_bytes: S_e, buffer of the port to the front end.
        down_bps: B_d, rate of that port.
        up_bps: B_u, rate of a hub's link.
        packet_bytes: s, mean size of a packet.
    """
    return max(1, int(buffer_bytes / down_bps * up_bps / packet_bytes))


def swarms(at: IntArray, rack_of: IntArray, rng: np.random.Generator | None = None) -> tuple[IntArray, IntArray]:
    """Group servers by racks, and choose the hub of each group (Algorithm 1, lines 1 to 4).

    The hub is the server with most objects; of equal ones, that with the lowest number.

    Args:
        at: server of each object of a request, [n_objects].
        rack_of: rack of each node, by node id.
        rng: draws as large groups from all of these servers, in place of the racks' (SICC-NPS of section 3.2.2).

    Returns:
        the hub of each swarm [n_swarms], and the swarm of each object [n_objects].
    """
    n, objects = len(rack_of), np.bincount(at, minlength=len(rack_of))
    servers = np.flatnonzero(objects)
    of = _numbered(rack_of[servers])
    if rng is not None:
        of = rng.permutation(of)
    best = np.zeros(of.max() + 1, np.int64)
    np.maximum.at(best, of, objects[servers] * n + (n - 1 - servers))  # most objects, then the lowest number
    swarm_of = np.zeros(n, np.int64)
    swarm_of[servers] = of
    return n - 1 - best % n, swarm_of[at]


def _numbered(values: IntArray) -> IntArray:
    """Number the distinct values in ascending order; return the number of each, [n]."""
    numbers: IntArray = np.cumsum(np.bincount(values) > 0) - 1
    return numbers[values]


def tree(objects: IntArray, most: int, router_of: IntArray) -> IntArray:
    """Link hubs to a tree until at most `most` are left for the front end (Algorithm 1, lines 5 to 13).

    The hub with the fewest objects becomes a child of the one with the next fewest under the same router, which also
    takes its children, the largest first, while it has fewer than `most`. Objects count with those of the hubs below.
    The thesis does not say what happens if a router has no other hub: here, any router's hub with the fewest is taken.

    Args:
        objects: objects of each hub's swarm, [n_hubs].
        most: N, hubs that may send to the front end; at least 1.
        router_of: aggregation router of each hub, [n_hubs].

    Returns:
        the parent of each hub [n_hubs]; -1: the front end.
    """
    n, total = len(objects), objects.tolist()
    parent, children = [-1] * n, [list[int]() for _ in range(n)]
    everywhere = sorted((count, hub) for hub, count in enumerate(total))  # a sorted list is a heap
    under: dict[int, list[tuple[int, int]]] = {}
    for entry in everywhere:
        under.setdefault(int(router_of[entry[1]]), []).append(entry)

    def fewest(heap: list[tuple[int, int]]) -> int | None:
        """Return the hub with the fewest objects; entries that are out of date are thrown away."""
        while heap and (parent[heap[0][1]] >= 0 or total[heap[0][1]] != heap[0][0]):
            heapq.heappop(heap)
        return heap[0][1] if heap else None

    for _ in range(n - most):
        hub = fewest(everywhere)
        assert hub is not None  # more than `most` are left
        heapq.heappop(everywhere)
        beside = under[int(router_of[hub])]
        fewest(beside)
        heapq.heappop(beside)  # this hub: it has the fewest of all
        near = fewest(beside)
        to = fewest(everywhere) if near is None else near
        assert to is not None  # `most` are left, and at least one
        parent[hub] = to
        children[to].append(hub)
        children[hub].sort(key=total.__getitem__)
        while len(children[to]) < most and children[hub]:
            child = children[hub].pop()
            parent[child] = to
            children[to].append(child)
        total[to] += total[hub]
        heapq.heappush(everywhere, (total[to], to))
        heapq.heappush(under[int(router_of[to])], (total[to], to))
    return np.array(parent, np.int64)


def depths(parent: IntArray) -> IntArray:
    """Return the number of hubs above each hub, [n_hubs]."""
    depth, above = np.zeros(len(parent), np.int64), parent.copy()
    while (linked := above >= 0).any():
        depth += linked
        above = np.where(linked, parent[above], -1)
    return depth


def redirect(sizes: IntArray, holders: IntArray, rack_of: IntArray, speed: FloatArray) -> IntArray:
    """Choose copies so that all hubs need about the same time (section 3.1.3.2); return the servers [n_objects].

    A hub needs the time p = |D| s / b for the objects D of its swarm (eq. 3.7), at its speed b. From the hub with the
    longest time on, objects move to the hub with the shortest time that has a copy, until the time is not above the
    mean of all hubs (eq. 3.8). Only hubs with a time below the mean take objects; ours is that an object stays if its
    new hub would then need longer than the old one. The thesis does this while a request runs. Here it is done before,
    with speeds that are known.

    Args:
        sizes: bytes of each object, [n_objects].
        holders: servers of its copies, [n_objects, n_copies], the one that is asked without redirection first.
        rack_of: rack of each node, by node id; every rack has a hub.
        speed: speed of each rack's hub, in any unit, by rack.
    """
    racks = rack_of[holders]
    chosen, at = holders[:, 0].copy(), racks[:, 0].copy()
    took = np.bincount(at, sizes, len(speed)) / speed
    live = np.unique(at)
    with_hub = np.isin(racks, live)
    for hub in live[np.argsort(-took[live], kind="stable")].tolist():
        for item in np.flatnonzero(at == hub).tolist():
            mean = took[live].mean()
            if took[hub] <= mean:
                break
            times = np.where(with_hub[item] & (racks[item] != hub), took[racks[item]], np.inf)
            copy = int(times.argmin())
            to = int(racks[item, copy])
            if times[copy] >= mean or times[copy] + sizes[item] / speed[to] > took[hub]:
                continue
            took[hub] -= sizes[item] / speed[hub]
            took[to] += sizes[item] / speed[to]
            at[item], chosen[item] = to, holders[item, copy]
    return chosen
