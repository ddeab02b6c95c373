# SPDX-License-Identifier: BSD-3-Clause
"""Topology specs: small frozen values that build a `Topology`.

To add one: write a `TopologySpec` subclass with a `tag` and a `build`, and add it to `AnyTopology`.
"""

from itertools import combinations
from math import isqrt
from typing import Annotated

import numpy as np
from msgspec import Meta

from ncc.core.errors import ConfigError
from ncc.core.topology import Buffer, Pool, Topology
from ncc.core.topology_spec import SAME_AT_ALL_PORTS, Builder, TopologySpec
from ncc.core.units import GBPS, MS, US
from ncc.core.value import Count, Delay, LineRate, Natural


class Dumbbell(TopologySpec, frozen=True, tag="dumbbell"):
    """`pairs` senders and receivers on two switches joined by one bottleneck (switch `left` to `right`)."""

    pairs: Count = 2
    host_rate_bps: LineRate = 1 * GBPS
    bottleneck_rate_bps: LineRate = 1 * GBPS

    def build(self) -> Topology:
        net = Builder(self)
        left, right = net.switch("left"), net.switch("right")
        middle = net.link(left, right, self.bottleneck_rate_bps)
        senders = net.leaves("s", self.pairs, left, self.host_rate_bps)
        receivers = net.leaves("r", self.pairs, right, self.host_rate_bps)
        return net.build({"senders": senders, "receivers": receivers}, [(senders, middle)])


class Rack(TopologySpec, frozen=True, tag="rack"):
    """One rack behind a shared uplink: the neighbourhood of the NCC paper (wang2021 section 5.1).

    `hosts` neighbours are under switch `tor`, which has one uplink to switch `core`. The `remotes` hosts under `core`
    stand for the rest of the fabric; by default their links are as fast as the uplink, so that it is the bottleneck.
    """

    hosts: Annotated[int, Meta(ge=2)] = 16
    host_rate_bps: LineRate = 1 * GBPS
    uplink_rate_bps: LineRate = 4 * GBPS
    remotes: Count = 4
    remote_rate_bps: LineRate = 4 * GBPS

    def build(self) -> Topology:
        net = Builder(self)
        tor, core = net.switch("tor"), net.switch("core")
        uplink = net.link(tor, core, self.uplink_rate_bps)
        hosts = net.leaves("h", self.hosts, tor, self.host_rate_bps)
        remotes = net.leaves("r", self.remotes, core, self.remote_rate_bps)
        return net.build({"hosts": hosts, "remotes": remotes}, [(hosts, uplink)])


class ManyToOne(TopologySpec, frozen=True, tag="many_to_one"):
    """`senders` and one receiver under one switch: incast. The uplink port is the port towards the receiver."""

    senders: Count = 16
    rate_bps: LineRate = 1 * GBPS
    last_delay_s: Delay | None = None
    """Delay of the last sender's link; those of the others lie evenly between `delay_s` and it. None: all `delay_s`."""

    def build(self) -> Topology:
        net = Builder(self)
        tor = net.switch("tor")
        receiver = net.leaf("receiver", tor, self.rate_bps)
        down = 2 * (len(net.links) - 1) + 1  # `leaf` links run host (a) to switch (b): the odd port is switch to host
        last_s = self.delay_s if self.last_delay_s is None else self.last_delay_s
        senders = [
            net.leaf(f"s{i}", tor, self.rate_bps, delay_s=float(delay_s))
            for i, delay_s in enumerate(np.linspace(self.delay_s, last_s, self.senders))
        ]
        return net.build({"senders": senders, "receiver": [receiver]}, [(senders, down)])


class SingleSwitch(TopologySpec, frozen=True, tag="single_switch"):
    """`senders` and `receivers` under one switch: many to many, congested at the ports to the receivers.

    The receivers are linked first, so that with `ports_per_pool` equal to their number they share one pool that no
    other port uses (bai2020 section III-C). The senders' uplink port is the port to the first receiver, which
    represents all of them when traffic spreads evenly.
    """

    senders: Count = 24
    receivers: Count = 8
    rate_bps: LineRate = 1 * GBPS

    def build(self) -> Topology:
        net = Builder(self)
        switch = net.switch("switch")
        receivers = net.leaves("r", self.receivers, switch, self.rate_bps)
        senders = net.leaves("s", self.senders, switch, self.rate_bps)
        # The first link is the first receiver's, host (a) to switch (b): port 1 is switch to host.
        return net.build({"senders": senders, "receivers": receivers}, [(senders, 1)])


class LeafSpine(TopologySpec, frozen=True, tag="leaf_spine"):
    """`leaves` x `hosts_per_leaf` hosts, every leaf linked to every spine (ECMP).

    The neighbours are the hosts of one leaf. The uplink port of a leaf is its port to the first spine; it stands for
    the ports to all spines, because flows spread by hash.
    """

    leaves: Annotated[int, Meta(ge=2)] = 8
    spines: Count = 8
    hosts_per_leaf: Count = 16
    host_rate_bps: LineRate = 10 * GBPS
    spine_rate_bps: LineRate = 10 * GBPS
    host_delay_s: Delay | None = None
    """Delay of the links to hosts, including a host's processing time per packet; None: `delay_s`."""
    slow_link_frac: Annotated[float, Meta(gt=0, le=1)] = 1.0
    """Rate of the link between the last leaf and the last spine, as a fraction of `spine_rate_bps`."""

    def build(self) -> Topology:
        net = Builder(self, leaf_delay_s=self.host_delay_s)
        spines = [net.switch(f"spine{i}") for i in range(self.spines)]
        groups: dict[str, list[int]] = {"hosts": []}
        areas = []
        for i in range(self.leaves):
            name, up_bps = f"leaf{i}", [self.spine_rate_bps] * self.spines
            if i == self.leaves - 1:
                up_bps[-1] *= self.slow_link_frac
            groups[name], up = net.edge(name, f"h{i}_", spines, self.hosts_per_leaf, self.host_rate_bps, up_bps=up_bps)
            groups["hosts"] += groups[name]
            areas.append((groups[name], up))
        return net.build(groups, areas)


class FatTree(TopologySpec, frozen=True, tag="fat_tree"):
    """The k-ary fat tree (Al-Fares et al., SIGCOMM 2008): k pods, k^3/4 hosts, all links of one rate."""

    k: Annotated[int, Meta(ge=2)] = 4
    rate_bps: LineRate = 10 * GBPS
    slow_links: Natural = 0
    """Number of links between aggregation and core, from those of the first pod on, that have `slow_frac` of the rate
    in both directions."""
    slow_frac: Annotated[float, Meta(gt=0, le=1)] = 0.25

    def check(self) -> None:
        super().check()
        if self.k % 2:
            raise ConfigError(f"FatTree.k must be even, got {self.k}")
        if self.slow_links > (most := self.k**3 // 4):
            raise ConfigError(f"FatTree.slow_links must be at most the {most} links to cores, got {self.slow_links}")

    def build(self) -> Topology:
        half = self.k // 2
        net = Builder(self)
        cores = [net.switch(f"core{i}") for i in range(half * half)]
        groups: dict[str, list[int]] = {"hosts": []}
        areas = []
        for pod in range(self.k):
            slow = self.slow_links - pod * half * half
            aggs = net.aggregation(pod, half, cores, self.rate_bps, slow=slow, slow_frac=self.slow_frac)
            for e in range(half):
                name = f"edge{pod}_{e}"
                groups[name], up = net.edge(name, f"h{pod}_{e}_", aggs, half, self.rate_bps)
                groups["hosts"] += groups[name]
                areas.append((groups[name], up))
        return net.build(groups, areas)


class TwoDatacentres(TopologySpec, frozen=True, tag="two_datacentres"):
    """Two datacentres joined by a WAN (GEMINI, zeng2022 section 3.1.2).

    Each datacentre has `hosts` hosts, spread equally over `switches` top-of-rack switches, which are linked to a border
    switch. The WAN joins the two borders. As in the paper, ports inside have shallow buffers with ECN marks and may
    share pools; ports to the WAN have deep buffers without marks or pools. Congestion of the WAN needs two top-of-rack
    switches: with one, whose uplink is as fast as the WAN, the queue would be at this uplink.
    """

    hosts: Count = 4
    switches: Count = 1
    rate_bps: LineRate = 1 * GBPS
    wan_rate_bps: LineRate = 1 * GBPS
    delay_s: Delay = 25 * US
    wan_delay_s: Delay = 4.85 * MS
    wan_buffer_bytes: Count = 15_000_000
    deep_borders: bool = False
    """Give the borders' ports towards their own datacentre the buffers of ports to the WAN: deep, without marks."""

    def check(self) -> None:
        super().check()
        if self.hosts % self.switches:
            raise ConfigError(
                f"TwoDatacentres.hosts must be a multiple of switches ({self.switches}), got {self.hosts}"
            )

    def build(self) -> Topology:
        net = Builder(self)
        ports = {name: getattr(self, name) for name in SAME_AT_ALL_PORTS}
        wan = Buffer(size_bytes=self.wan_buffer_bytes, **ports)
        borders = [net.switch("border0"), net.switch("border1")]
        net.link(borders[0], borders[1], self.wan_rate_bps, delay_s=self.wan_delay_s, buffer=wan)
        groups, areas = {}, []
        for i, border in enumerate(borders):
            below: list[int] = []
            for k in range(self.switches):
                tor = net.switch(f"tor{i}" if self.switches == 1 else f"tor{i}_{k}")
                down = wan if self.deep_borders else None
                up = net.link(tor, border, self.rate_bps, b_buffer=down)
                hosts = net.leaves(f"h{i}_", self.hosts // self.switches, tor, self.rate_bps, first=len(below))
                below += hosts
                areas.append((hosts, up))
            groups[f"dc{i}"] = below
        return net.build(groups, areas)


class Regions(TopologySpec, frozen=True, tag="regions"):
    """Datacentres of `hosts` hosts each around a border switch, with a WAN link between any two (zeng2022 Figure 4.11).

    As in the paper, the WAN's ports have buffers of their own size and no marks. The neighbours are the hosts of one
    datacentre; their uplink is the link to the next one.
    """

    hosts: Count = 20
    rate_bps: LineRate = 1 * GBPS
    wan_rate_bps: LineRate = 10 * GBPS
    wan_delays_s: Annotated[tuple[Delay, ...], Meta(min_length=1)] = (20 * MS, 30 * MS, 40 * MS)
    """Delays between datacentres 0 and 1, 0 and 2, ..., 1 and 2, ...: 1 for two, 3 for three, 6 for four."""
    wan_buffer_bytes: Count = 200_000

    def check(self) -> None:
        super().check()
        n = self._n()
        if n * (n - 1) // 2 != len(self.wan_delays_s):
            raise ConfigError(
                "Regions.wan_delays_s must have a delay for each pair of datacentres (1, 3, 6, 10, ...), got "
                f"{len(self.wan_delays_s)}"
            )

    def _n(self) -> int:
        return (1 + isqrt(1 + 8 * len(self.wan_delays_s))) // 2

    def build(self) -> Topology:
        net, n = Builder(self), self._n()
        wan = Buffer(size_bytes=self.wan_buffer_bytes, **{name: getattr(self, name) for name in SAME_AT_ALL_PORTS})
        borders = [net.switch(f"border{i}") for i in range(n)]
        ports: dict[tuple[int, int], int] = {}
        for (i, j), delay_s in zip(combinations(range(n), 2), self.wan_delays_s, strict=True):
            ports[i, j] = net.link(borders[i], borders[j], self.wan_rate_bps, delay_s=delay_s, buffer=wan)
            ports[j, i] = ports[i, j] + 1
        groups = {f"dc{i}": net.leaves(f"h{i}_", self.hosts, borders[i], self.rate_bps) for i in range(n)}
        return net.build(groups, [(groups[f"dc{i}"], ports[i, (i + 1) % n]) for i in range(n)])


class MultiHop(TopologySpec, frozen=True, tag="multi_hop"):
    """Two bottlenecks in a row (Alizadeh et al., SIGCOMM 2010, Figure 17): `edge0` to `core`, and `edge1` to host r1.

    Groups of senders: `s1`, `near` hosts under `edge0`; `s2`, `cross` hosts under `edge0`; `s3`, `far` hosts under
    `edge1`. Groups of receivers, both under `edge1`: `r1`, one host; `r2`, `cross` hosts. The trunks between the edges
    and `core` have a marking threshold of their own.
    """

    near: Count = 10
    cross: Count = 20
    far: Count = 10
    host_rate_bps: LineRate = 1 * GBPS
    trunk_rate_bps: LineRate = 10 * GBPS
    trunk_mark_threshold_bytes: Natural = 30_000

    def check(self) -> None:
        super().check()
        reach_bytes = self.buffer_bytes
        if self.shared_buffer_bytes:
            reach_bytes += Pool(size_bytes=self.shared_buffer_bytes, alpha=self.dt_alpha).lone_share_bytes
        if self.trunk_mark_threshold_bytes >= reach_bytes:
            raise ConfigError(
                f"MultiHop.trunk_mark_threshold_bytes must be below what a queue may take ({reach_bytes}), "
                f"got {self.trunk_mark_threshold_bytes}"
            )

    def build(self) -> Topology:
        net = Builder(self)
        edges, core = [net.switch("edge0"), net.switch("edge1")], net.switch("core")
        marks = self.trunk_mark_threshold_bytes
        up = [net.link(edge, core, self.trunk_rate_bps, mark_threshold_bytes=marks) for edge in edges]
        groups = {"r1": [net.leaf("r1", edges[1], self.host_rate_bps)]}
        down = 2 * (len(net.links) - 1) + 1  # `leaf` links run host (a) to switch (b): the odd port is switch to host
        for name, n, edge in (("s1", self.near, 0), ("s2", self.cross, 0), ("s3", self.far, 1), ("r2", self.cross, 1)):
            groups[name] = net.leaves(f"{name}_", n, edges[edge], self.host_rate_bps)
        return net.build(groups, [(groups["s1"] + groups["s2"], up[0]), (groups["s3"], down)])


class Pods(TopologySpec, frozen=True, tag="pods"):
    """A fat tree of three tiers with borders to a WAN (Annulus, saeed2020 section 5.2; the defaults are its figures).

    There are `pods` x `tors` x `hosts_per_tor` hosts. Every top-of-rack switch has a link to each of the `aggs`
    aggregation switches of its pod. Aggregation switch i of each pod has links to the i-th part of the `cores`. All
    these links have `rate_bps`. Each aggregation switch also has a link of `border_rate_bps` to its pod's border
    switch. The borders are linked to one switch, `wan`, by links with the sum of the rates to a border and the delay
    `wan_delay_s`. The `far` hosts are under `wan`. Traffic between pods crosses the cores, which is fewer hops than
    over the WAN. The ports of the borders and of `wan` have no marks, shared buffers or programs.
    """

    pods: Annotated[int, Meta(ge=2)] = 4
    tors: Count = 4
    aggs: Count = 4
    cores: Count = 8
    hosts_per_tor: Count = 8
    far: Count = 16
    rate_bps: LineRate = 10 * GBPS
    host_rate_bps: LineRate | None = None
    """Rate of the links to the pods' hosts; None: `rate_bps`."""
    border_rate_bps: LineRate = 5 * GBPS
    host_delay_s: Delay = 1 * US
    wan_delay_s: Delay = 10 * MS
    wan_buffer_bytes: Count = 1_000_000

    def check(self) -> None:
        super().check()
        if self.cores % self.aggs:
            raise ConfigError(f"Pods.cores must be a multiple of aggs ({self.aggs}), got {self.cores}")

    def build(self) -> Topology:
        net = Builder(self, leaf_delay_s=self.host_delay_s)
        cores = [net.switch(f"core{i}") for i in range(self.cores)]
        wan = net.switch("wan")
        beyond = Buffer(size_bytes=self.wan_buffer_bytes, control_first=self.control_first, classes=self.classes)
        groups: dict[str, list[int]] = {"hosts": []}
        areas = []
        for pod in range(self.pods):
            aggs = net.aggregation(pod, self.aggs, cores, self.rate_bps)
            border = net.switch(f"border{pod}")
            for agg in aggs:
                net.link(agg, border, self.border_rate_bps, b_buffer=beyond)
            out_bps = self.aggs * self.border_rate_bps
            net.link(border, wan, out_bps, delay_s=self.wan_delay_s, buffer=beyond)
            for t in range(self.tors):
                name = f"tor{pod}_{t}"
                groups[name], up = net.edge(
                    name, f"h{pod}_{t}_", aggs, self.hosts_per_tor, self.host_rate_bps or self.rate_bps,
                    up_bps=[self.rate_bps] * self.aggs,
                )  # fmt: skip
                groups["hosts"] += groups[name]
                areas.append((groups[name], up))
        groups["far"] = [net.leaf(f"far{i}", wan, self.rate_bps, b_buffer=beyond) for i in range(self.far)]
        return net.build(groups, areas)


AnyTopology = (
    Dumbbell | Rack | ManyToOne | SingleSwitch | LeafSpine | FatTree | Pods | TwoDatacentres | Regions | MultiHop
)
