# SPDX-License-Identifier: BSD-3-Clause
"""SICC's requests: hubs collect the answers of their racks and pass them on (Wang, PhD thesis 2021, chapter 3)."""

from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from ncc.core.errors import ConfigError
from ncc.core.flows import BoolArray, FloatArray, IntArray
from ncc.core.graph import NONE, Rows
from ncc.core.placement import depths, most_hubs, redirect, swarms, tree
from ncc.core.topology import Topology
from ncc.core.value import Fraction, Value

ENTRY_BYTES = 16
"""Bytes of a query to a hub for each object that it names. It is ours: wang2021 gives none."""
FULL_BYTES = 1460
"""Payload of a full packet: an object that is larger fills several (eq. 3.1)."""
SLOW_FRAC = 0.1
"""Speed of an overloaded hub as a share of its assigned speed (wang2021 section 3.2.4)."""


class Sicc(Value, frozen=True, kw_only=True):
    """SICC's plan of a request (section 3.1). `controller=sicc` changes the rates of hubs later."""

    redirect: bool = True
    """Choose the copies so that all hubs need about the same time (eq. 3.7 and 3.8), before the request starts. False:
    the copies are drawn, and eq. 3.2 alone counts."""
    by_bytes: bool = False
    """Share the front end's line among hubs by the bytes that each brings. False: evenly (eq. 3.2)."""
    tree: bool = True
    """Link hubs to a tree if there are more than eq. 3.1 allows (Algorithm 1)."""
    nearby: bool = True
    """A swarm is the servers of a rack. False: as many servers, drawn from all of the request."""
    packed: bool = True
    """Fill packets with objects in order of arrival. False: a hub sends each object as a flow of its own; needs
    tree: false."""
    use_frac: Annotated[float, Meta(gt=0, le=1)] = 0.97
    """Share of the front end's line that is assigned to its hubs, in IP packets; frames add 2.5 % to full ones."""
    overloaded_frac: Fraction = 0.0
    """Probability with which a hub sends at `SLOW_FRAC` of its rate."""

    def check(self) -> None:
        if self.tree and not self.packed:
            raise ConfigError("Sicc.packed false needs hubs without a tree: set Sicc.tree to false")


class Fabric:
    """The racks of a network as SICC sees them; arrays are by node id."""

    def __init__(self, topology: Topology) -> None:
        self.rack_of: IntArray = np.zeros(len(topology.nodes), np.int64)
        """Switch before each host."""
        self.router_of: IntArray = np.zeros(len(topology.nodes), np.int64)
        """Aggregation router of each rack's switch: the first switch that it is linked to, or itself."""
        for host in topology.hosts:
            link = topology.host_link(host)
            self.rack_of[host] = link.a + link.b - host
        for rack in np.unique(self.rack_of[list(topology.hosts)]).tolist():
            switches = [peer for peer, _ in topology.peers[rack] if not topology.is_host[peer]]
            self.router_of[rack] = min(switches, default=rack)
        self._topology = topology

    def most_hubs(self, front_end: int, packet_bytes: float) -> int:
        """Return M of eq. 3.1 for a front end; hubs' links count as fast as its own."""
        link_bps, port = self._topology.host_link(front_end).rate_bps, self._topology.down_port(front_end)
        down_bps = self._topology.port_rate_bps(port)
        return most_hubs(self._topology.reach_bytes(port), down_bps, link_bps, packet_bytes)

    def line_bps(self, front_end: int) -> float:
        """Return the rate of the line to a front end."""
        return self._topology.port_rate_bps(self._topology.down_port(front_end))


def ask_hubs(
    rows: Rows,
    sicc: Sicc,
    fabric: Fabric,
    front_end: int,
    *,
    sizes: IntArray,
    holders: IntArray,
    rng: np.random.Generator,
    query_bytes: int,
    after: int,
    think_s: float,
    service_s: float,
    start_s: float,
) -> int:
    """Append a request for objects through hubs; return the group of what the front end gets.

    Args:
        sizes: bytes of each object, [n_objects].
        holders: servers of its copies, the drawn one first, [n_objects, n_copies].
        rng: draws the hubs that are overloaded, and swarms that are not of racks.
        query_bytes: payload of a query to a server; that to a hub also names its objects.
        after: group that the request waits for; -1: none.
        think_s: time from then to the request.
        service_s: time from a query to its answer.
        start_s: start without a group to wait for.
    """
    speed = np.ones(len(fabric.rack_of))  # by rack
    racks = np.unique(fabric.rack_of[holders])
    speed[racks[rng.random(len(racks)) < sicc.overloaded_frac]] = SLOW_FRAC
    at = redirect(sizes, holders, fabric.rack_of, speed) if sicc.redirect else holders[:, 0]
    hubs, swarm = swarms(at, fabric.rack_of, None if sicc.nearby else rng)
    rack = fabric.rack_of[hubs]
    count = np.bincount(swarm, minlength=len(hubs))
    parent = np.full(len(hubs), NONE)
    if sicc.tree:
        parent = tree(count, fabric.most_hubs(front_end, min(float(sizes.mean()), FULL_BYTES)), fabric.router_of[rack])
    depth = depths(parent)
    bytes_below, named = np.bincount(swarm, sizes, len(hubs)).astype(np.int64), count.copy()
    for level in range(int(depth.max()), 0, -1):
        (of,) = np.nonzero(depth == level)
        np.add.at(bytes_below, parent[of], bytes_below[of])
        np.add.at(named, parent[of], named[of])
    shared: dict[str, Any] = {"start_s": start_s, "request": rows.request}
    order, top = np.argsort(depth, kind="stable"), parent < 0  # a parent has lower numbers than its children
    asked, stream = np.zeros(len(hubs), np.int64), np.zeros(len(hubs), np.int64)
    asked[order], stream[order] = rows.groups(len(hubs)), rows.streams(len(hubs))
    to = np.where(top, front_end, hubs[parent])
    rows.add(
        to, hubs, query_bytes + ENTRY_BYTES * named,
        group=asked, after=np.where(top, after, asked[parent]), think_s=np.where(top, think_s, 0.0), **shared,
    )  # fmt: skip
    query_rate_bps = _assigned_bps(sicc, fabric.line_bps(front_end), bytes_below, top) * speed[rack]
    pair, which = np.unique(np.stack([swarm, at]), axis=1, return_inverse=True)
    of, server, which = pair[0], pair[1], which.ravel()
    far = server != hubs[of]
    leg = rows.groups(int(far.sum()))
    rows.add(hubs[of[far]], server[far], query_bytes, group=leg, after=asked[of[far]], **shared)
    leg_bytes = np.bincount(which, sizes).astype(np.int64)[far]
    given = {"after": leg, "think_s": service_s, "answer": True, **shared}
    if not sicc.packed:
        came = np.full(len(far), NONE)
        came[far] = rows.groups(len(leg))
        rows.add(server[far], hubs[of[far]], leg_bytes, group=came[far], **given)
        whole, ready = rows.group(), np.where(far, came, asked[of])[which]
        rows.add(
            hubs[swarm], front_end, sizes,
            group=whole, after=ready, answer=True, query_rate_bps=query_rate_bps[swarm], **shared,
        )  # fmt: skip
        return whole
    rows.add(server[far], hubs[of[far]], leg_bytes, feeds=stream[of[far]], **given)
    whole = rows.group()
    rows.add(
        hubs, to, bytes_below,
        group=np.where(top, whole, NONE), after=asked, think_s=service_s, answer=True,
        stream=stream, feeds=np.where(top, NONE, stream[parent]), query_rate_bps=query_rate_bps, **shared,
    )  # fmt: skip
    return whole


def _assigned_bps(sicc: Sicc, line_bps: float, bytes_below: IntArray, top: BoolArray) -> FloatArray:
    """Return the rates assigned to hubs, [n_hubs]; 0 for those that send to other hubs."""
    weight = np.where(top, bytes_below if sicc.by_bytes else 1.0, 0.0)
    rates: FloatArray = sicc.use_frac * line_bps * weight / weight.sum()
    return rates
