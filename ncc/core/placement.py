# SPDX-License-Identifier: BSD-3-Clause
"""PICC's placement of objects on servers (Wang, PhD thesis 2021, section 4.1), as functions of numbers alone."""

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
