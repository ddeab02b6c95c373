# SPDX-License-Identifier: BSD-3-Clause
"""Topology specs: small frozen values that build a `Topology`.

To add one: write a `TopologySpec` subclass with a `tag` and a `build`, and add it to `AnyTopology`.
"""

from typing import Annotated, Any

from msgspec import Meta

from ncc.core.bcc import Bcc, with_bcc
from ncc.core.errors import ConfigError
from ncc.core.plausible import usual
from ncc.core.topology import (
    MAX_POOL_BYTES,
    Alpha,
    Buffer,
    Classes,
    Group,
    Link,
    Neighbourhood,
    Node,
    NodeKind,
    Pool,
    Program,
    Red,
    Topology,
    check_marks,
)
from ncc.core.units import GBPS, MS, US
from ncc.core.value import Count, Delay, LineRate, Natural, Value

MAX_NODES = 20_000
MAX_LINKS = 100_000


class TopologySpec(Value, frozen=True, tag_field="kind"):
    """Base of the specs: settings of all links and switch ports, except where a spec sets some differently."""

    delay_s: Delay = 10 * US
    buffer_bytes: Annotated[Natural, usual(high=1e9)] = 512_000
    """A port's own buffer; 0 only where there is a shared one."""
    mark_threshold_bytes: Natural = 30_000
    red: Red | None = None
    control_first: bool = False
    """Send packets without payload ahead of data at switch ports."""
    mark_on_departure: bool = False
    """Mark packets as they leave a queue instead of as they join it; see `Buffer.mark_on_departure`."""
    classes: Classes = 1
    """Queues of strict priority of every switch port; see `Buffer.classes`."""
    programs: tuple[Program, ...] = ()
    """Programs of every switch port; see `Buffer.programs`."""
    shared_buffer_bytes: Annotated[int, Meta(ge=0, le=MAX_POOL_BYTES)] = 0
    """Size of each pool that ports of a switch share beyond their own buffers; 0: none."""
    dt_alpha: Alpha = 1.0
    """Alpha of dynamic thresholds: a queue may hold this many times the free bytes of its pool."""
    ports_per_pool: Natural = 0
    """Ports of a switch that share one pool, in the order in which the spec links them; 0: all.

    Chips with several memories share only within each (bai2020 section II-B: 8 ports of a Tomahawk).
    """
    shared_red: Red | None = None
    """Marking by the occupancy of each pool, in addition to that of ports."""
    bcc: Bcc | None = None
    """Marking by the occupancy of each pool, with thresholds that follow from the network."""

    def check(self) -> None:
        owner = type(self).__name__
        if self.bcc is not None and self.shared_red is not None:
            raise ConfigError(
                f"{owner}.bcc and {owner}.shared_red must not both be set: bcc computes what the other says"
            )
        for name, marking in (("shared_red", self.shared_red), ("bcc", self.bcc)):
            if marking is not None and not self.shared_buffer_bytes:
                raise ConfigError(f"{owner}.{name} marks by a shared buffer: set shared_buffer_bytes")
        if self.shared_buffer_bytes:
            pool = Pool(size_bytes=self.shared_buffer_bytes, alpha=self.dt_alpha, red=self.shared_red)
            limit, reach_bytes = "what a queue may take", self.buffer_bytes + pool.lone_share_bytes
        elif self.buffer_bytes == 0:
            raise ConfigError(f"{owner}.buffer_bytes must be at least 1 unless shared_buffer_bytes is, got 0")
        elif self.ports_per_pool:
            raise ConfigError(
                f"{owner}.ports_per_pool must be 0 where shared_buffer_bytes is, got {self.ports_per_pool}"
            )
        else:
            limit, reach_bytes = "buffer_bytes", self.buffer_bytes
        check_marks(owner, limit, reach_bytes, self.mark_threshold_bytes, self.red)

    def build(self) -> Topology:
        """Build the network that this spec describes."""
        raise TypeError(f"{type(self).__name__} must define build()")


class Dumbbell(TopologySpec, frozen=True, tag="dumbbell"):
    """`pairs` senders and receivers on two switches joined by one bottleneck (switch `left` to `right`)."""

    pairs: Count = 2
    host_rate_bps: LineRate = 1 * GBPS
    bottleneck_rate_bps: LineRate = 1 * GBPS

    def build(self) -> Topology:
        net = _Builder(self)
        left, right = net.switch("left"), net.switch("right")
        middle = net.link(left, right, self.bottleneck_rate_bps)
        senders = net.leaves("s", self.pairs, left, self.host_rate_bps)
        receivers = net.leaves("r", self.pairs, right, self.host_rate_bps)
        return net.build({"senders": senders, "receivers": receivers}, [(senders, middle)])


class Rack(TopologySpec, frozen=True, tag="rack"):
    """One rack behind a shared uplink: the neighbourhood of the NCC paper (wang2021 section 5.1).

    `hosts` neighbours under `tor`, one uplink to `core`, and `remotes` hosts there that stand for the rest of the
    fabric. The remotes' links are as fast as the uplink unless said otherwise, so that the uplink is the bottleneck.
    """

    hosts: Annotated[int, Meta(ge=2)] = 16
    host_rate_bps: LineRate = 1 * GBPS
    uplink_rate_bps: LineRate = 4 * GBPS
    remotes: Count = 4
    remote_rate_bps: LineRate = 4 * GBPS

    def build(self) -> Topology:
        net = _Builder(self)
        tor, core = net.switch("tor"), net.switch("core")
        uplink = net.link(tor, core, self.uplink_rate_bps)
        hosts = net.leaves("h", self.hosts, tor, self.host_rate_bps)
        remotes = net.leaves("r", self.remotes, core, self.remote_rate_bps)
        return net.build({"hosts": hosts, "remotes": remotes}, [(hosts, uplink)])


class ManyToOne(TopologySpec, frozen=True, tag="many_to_one"):
    """`senders` and one receiver under one switch: incast. The uplink port is the port towards the receiver."""

    senders: Count = 16
    rate_bps: LineRate = 1 * GBPS

    def build(self) -> Topology:
        net = _Builder(self)
        tor = net.switch("tor")
        receiver = net.leaf("receiver", tor, self.rate_bps)
        down = 2 * (len(net.links) - 1) + 1  # `leaf` links run host (a) to switch (b): the odd port is switch to host
        senders = net.leaves("s", self.senders, tor, self.rate_bps)
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
        net = _Builder(self)
        switch = net.switch("switch")
        receivers = net.leaves("r", self.receivers, switch, self.rate_bps)
        senders = net.leaves("s", self.senders, switch, self.rate_bps)
        # The first link is the first receiver's, host (a) to switch (b): port 1 is switch to host.
        return net.build({"senders": senders, "receivers": receivers}, [(senders, 1)])


class LeafSpine(TopologySpec, frozen=True, tag="leaf_spine"):
    """`leaves` x `hosts_per_leaf` hosts, every leaf linked to every spine (ECMP).

    The neighbours are the hosts of one leaf. The uplink port of a leaf is its port to the first spine, which represents
    all of them because flows spread by hash.
    """

    leaves: Annotated[int, Meta(ge=2)] = 8
    spines: Count = 8
    hosts_per_leaf: Count = 16
    host_rate_bps: LineRate = 10 * GBPS
    spine_rate_bps: LineRate = 10 * GBPS
    host_delay_s: Delay | None = None
    """Delay of the links to hosts, which includes what a host takes for each packet; None: `delay_s`."""

    def build(self) -> Topology:
        net = _Builder(self, leaf_delay_s=self.host_delay_s)
        spines = [net.switch(f"spine{i}") for i in range(self.spines)]
        groups: dict[str, list[int]] = {"hosts": []}
        areas = []
        for i in range(self.leaves):
            leaf = net.switch(f"leaf{i}")
            up = [net.link(leaf, spine, self.spine_rate_bps) for spine in spines]
            hosts = net.leaves(f"h{i}_", self.hosts_per_leaf, leaf, self.host_rate_bps)
            groups[f"leaf{i}"] = hosts
            groups["hosts"] += hosts
            areas.append((hosts, up[0]))
        return net.build(groups, areas)


class FatTree(TopologySpec, frozen=True, tag="fat_tree"):
    """The k-ary fat tree (Al-Fares et al., SIGCOMM 2008): k pods, k^3/4 hosts, all links of one rate."""

    k: Annotated[int, Meta(ge=2)] = 4
    rate_bps: LineRate = 10 * GBPS

    def check(self) -> None:
        super().check()
        if self.k % 2:
            raise ConfigError(f"FatTree.k must be even, got {self.k}")

    def build(self) -> Topology:
        half = self.k // 2
        net = _Builder(self)
        cores = [net.switch(f"core{i}") for i in range(half * half)]
        groups: dict[str, list[int]] = {"hosts": []}
        areas = []
        for pod in range(self.k):
            aggs = [net.switch(f"agg{pod}_{i}") for i in range(half)]
            for i, agg in enumerate(aggs):
                for core in cores[i * half : (i + 1) * half]:
                    net.link(agg, core, self.rate_bps)
            for e in range(half):
                edge = net.switch(f"edge{pod}_{e}")
                up = [net.link(edge, agg, self.rate_bps) for agg in aggs]
                hosts = net.leaves(f"h{pod}_{e}_", half, edge, self.rate_bps)
                groups[f"edge{pod}_{e}"] = hosts
                groups["hosts"] += hosts
                areas.append((hosts, up[0]))
        return net.build(groups, areas)


class TwoDatacentres(TopologySpec, frozen=True, tag="two_datacentres"):
    """Two datacentres joined by a WAN (GEMINI, zeng2022 section 3.1.2): shallow marking buffers inside, deep between.

    Inside: `hosts` per datacentre, an equal part of them under each of `switches` top-of-rack switches, then a border
    switch; the WAN joins the borders. A single switch whose uplink is as fast as the WAN would hold the queue itself,
    so congesting the WAN takes two. ECN marking and shared pools exist only inside, as in the paper.
    """

    hosts: Count = 4
    switches: Count = 1
    rate_bps: LineRate = 1 * GBPS
    wan_rate_bps: LineRate = 1 * GBPS
    delay_s: Delay = 25 * US
    wan_delay_s: Delay = 4.85 * MS
    wan_buffer_bytes: Count = 15_000_000
    deep_borders: bool = False
    """Give the borders' ports towards their own datacentre the buffers of those to the WAN: deep, and without marks."""

    def check(self) -> None:
        super().check()
        if self.hosts % self.switches:
            raise ConfigError(
                f"TwoDatacentres.hosts must be a multiple of switches ({self.switches}), got {self.hosts}"
            )

    def build(self) -> Topology:
        net = _Builder(self)
        ports = {name: getattr(self, name) for name in ("control_first", "classes", "programs")}
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


class MultiHop(TopologySpec, frozen=True, tag="multi_hop"):
    """Two bottlenecks in a row (Alizadeh et al., SIGCOMM 2010, Figure 17): `edge0` to `core`, and `edge1` to host r1.

    `s1` and `s2` are `near` and `cross` senders under `edge0`, `s3` are `far` senders under `edge1`. The receivers are
    there too: `r1`, one host, and `r2`, as many as `cross`. The trunks between the edges and `core` have their own
    marking threshold.
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
        net = _Builder(self)
        edges, core = [net.switch("edge0"), net.switch("edge1")], net.switch("core")
        marks = self.trunk_mark_threshold_bytes
        up = [net.link(edge, core, self.trunk_rate_bps, mark_threshold_bytes=marks) for edge in edges]
        groups = {"r1": [net.leaf("r1", edges[1], self.host_rate_bps)]}
        down = 2 * (len(net.links) - 1) + 1  # `leaf` links run host (a) to switch (b): the odd port is switch to host
        for name, n, edge in (("s1", self.near, 0), ("s2", self.cross, 0), ("s3", self.far, 1), ("r2", self.cross, 1)):
            groups[name] = net.leaves(f"{name}_", n, edges[edge], self.host_rate_bps)
        return net.build(groups, [(groups["s1"] + groups["s2"], up[0]), (groups["s3"], down)])


AnyTopology = Dumbbell | Rack | ManyToOne | SingleSwitch | LeafSpine | FatTree | TwoDatacentres | MultiHop


class _Builder:
    """A collector of nodes and links; its methods return node ids, and the a-to-b port of a link."""

    def __init__(self, spec: TopologySpec, *, leaf_delay_s: float | None = None) -> None:
        self.nodes: list[Node] = []
        self.links: list[Link] = []
        self.pools: list[Pool] = []
        self._spec = spec
        self._leaf_delay_s = spec.delay_s if leaf_delay_s is None else leaf_delay_s
        same = ("mark_threshold_bytes", "red", "control_first", "mark_on_departure", "classes", "programs")
        self._buffer = Buffer(
            size_bytes=spec.buffer_bytes,
            pool=0 if spec.shared_buffer_bytes else None,
            **{name: getattr(spec, name) for name in same},
        )
        self._pooled: dict[int, tuple[int, Buffer]] = {}  # by switch: ports in its newest pool, and their buffer

    def switch(self, name: str) -> int:
        return self._node(name, NodeKind.SWITCH)

    def leaves(self, prefix: str, n: int, switch: int, rate_bps: float, first: int = 0) -> list[int]:
        """Add `n` hosts under a switch, named by the prefix and their numbers from `first` on."""
        return [self.leaf(f"{prefix}{i}", switch, rate_bps) for i in range(first, first + n)]

    def leaf(self, name: str, switch: int, rate_bps: float) -> int:
        host = self._node(name, NodeKind.HOST)
        self._link(a=host, b=switch, rate_bps=rate_bps, delay_s=self._leaf_delay_s, b_buffer=self._port(switch))
        return host

    def link(
        self,
        a: int,
        b: int,
        rate_bps: float,
        *,
        delay_s: float | None = None,
        buffer: Buffer | None = None,
        b_buffer: Buffer | None = None,
        mark_threshold_bytes: int | None = None,
    ) -> int:
        """Add a link; `buffer` is that of both ends, `b_buffer` that of the second, outside any pool.

        None: the spec's delay, and its buffer, with `mark_threshold_bytes` if given.
        """
        ends = [buffer or self._port(a), b_buffer or buffer or self._port(b)]
        if mark_threshold_bytes is not None:
            ends = [end.replace(mark_threshold_bytes=mark_threshold_bytes) for end in ends]
        delay_s = self._spec.delay_s if delay_s is None else delay_s
        self._link(a=a, b=b, rate_bps=rate_bps, delay_s=delay_s, a_buffer=ends[0], b_buffer=ends[1])
        return 2 * (len(self.links) - 1)

    def _port(self, switch: int) -> Buffer:
        """The buffer of one more port of `switch`."""
        if self._buffer.pool is None:
            return self._buffer
        ports, buffer = self._pooled.get(switch, (0, self._buffer))
        if ports in (0, self._spec.ports_per_pool):
            ports, buffer = 0, self._buffer.replace(pool=len(self.pools))
            spec = self._spec
            self.pools.append(Pool(size_bytes=spec.shared_buffer_bytes, alpha=spec.dt_alpha, red=spec.shared_red))
        self._pooled[switch] = (ports + 1, buffer)
        return buffer

    def _node(self, name: str, kind: NodeKind) -> int:
        if len(self.nodes) == MAX_NODES:
            raise ConfigError(f"the topology has more than {MAX_NODES} nodes; make it smaller")
        self.nodes.append(Node(name=name, kind=kind))
        return len(self.nodes) - 1

    def _link(self, **link: Any) -> None:
        if len(self.links) == MAX_LINKS:
            raise ConfigError(f"the topology has more than {MAX_LINKS} links; make it smaller")
        self.links.append(Link(**link))

    def build(self, groups: dict[str, list[int]], areas: list[tuple[list[int], int]]) -> Topology:
        return Topology(
            nodes=tuple(self.nodes),
            links=tuple(self.links),
            groups=tuple(Group(name=name, hosts=tuple(hosts)) for name, hosts in groups.items()),
            neighbourhoods=tuple(Neighbourhood(hosts=tuple(hosts), uplink_port=port) for hosts, port in areas),
            pools=tuple(with_bcc(self.pools, self.links, self._spec.bcc) if self._spec.bcc else self.pools),
        )
