# SPDX-License-Identifier: BSD-3-Clause
"""Base of the topology specs, and the builder that they collect nodes and links with."""

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta

from ncc.core.bcc import Bcc, with_bcc
from ncc.core.errors import ConfigError
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
    Share,
    Topology,
    check_marks,
)
from ncc.core.units import US
from ncc.core.value import Count, Delay, Natural, Value, usual

SAME_AT_ALL_PORTS = ("control_first", "classes", "programs", "shaped_frac", "shaped_pkts", "selective_pkts")
"""Settings of a spec that buffers with sizes of their own have too."""
MAX_NODES = 20_000
MAX_LINKS = 100_000


class TopologySpec(Value, frozen=True, tag_field="kind"):
    """Base of the specs: settings of all links and switch ports, except those for which a spec has its own."""

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
    shaped_frac: Share = 0.0
    """Share of the line for the shaped queue of every switch port; see `Buffer.shaped_frac`, also for the next two."""
    shaped_pkts: Count = 8
    selective_pkts: Natural = 2
    programs: tuple[Program, ...] = ()
    """Programs of every switch port; see `Buffer.programs`."""
    uet: bool = False
    """Marks and trims as Ultra Ethernet does, by the bandwidth-delay product of the longest path (`ncc.core.pipes`), in
    place of `mark_threshold_bytes`, `mark_on_departure` and `control_first`."""
    shared_buffer_bytes: Annotated[int, Meta(ge=0, le=MAX_POOL_BYTES)] = 0
    """Size of each pool that ports of a switch share in addition to their own buffers; 0: no pools."""
    dt_alpha: Alpha = 1.0
    """Alpha of dynamic thresholds: a queue may hold this many times the free bytes of its pool."""
    ports_per_pool: Natural = 0
    """Number of ports of a switch that share one pool, in the order in which the spec links them; 0: all.

    In a chip with several memories only the ports of one memory share it (bai2020 section II-B: 8 of a Tomahawk).
    """
    shared_red: Red | None = None
    """Marking by the occupancy of each pool, in addition to the marking of ports."""
    bcc: Bcc | None = None
    """Marking by the occupancy of each pool, with thresholds computed from rates and the number of ports."""

    def check(self) -> None:
        owner = type(self).__name__
        if self.bcc is not None and self.shared_red is not None:
            raise ConfigError(
                f"{owner}.bcc and {owner}.shared_red must not both be set: bcc computes what the other says"
            )
        trims = any(program.name == "trim" for program in self.programs)
        if self.uet and (self.red is not None or trims or self.shared_buffer_bytes or self.classes > 1):
            raise ConfigError(
                f"{owner}.uet sets thresholds of marking and trimming in ports of one class with buffers of their own: "
                "leave red, the program trim, shared_buffer_bytes and classes out, or set uet to false"
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


class Builder:
    """A collector of the nodes and links of a network. Methods that add nodes return the ids of these nodes.

    Args:
        spec: source of the settings of links and switch ports.
        leaf_delay_s: delay of the links to hosts; None: that of the spec.
    """

    def __init__(self, spec: TopologySpec, *, leaf_delay_s: float | None = None) -> None:
        self.nodes: list[Node] = []
        self.links: list[Link] = []
        self.pools: list[Pool] = []
        self._spec = spec
        self._leaf_delay_s = spec.delay_s if leaf_delay_s is None else leaf_delay_s
        same = ("mark_threshold_bytes", "red", "mark_on_departure", *SAME_AT_ALL_PORTS)
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

    def leaf(
        self,
        name: str,
        switch: int,
        rate_bps: float,
        *,
        b_buffer: Buffer | None = None,
        delay_s: float | None = None,
    ) -> int:
        host, delay_s = self._node(name, NodeKind.HOST), self._leaf_delay_s if delay_s is None else delay_s
        self._link(a=host, b=switch, rate_bps=rate_bps, delay_s=delay_s, b_buffer=b_buffer or self._port(switch))
        return host

    def edge(
        self, name: str, prefix: str, above: list[int], hosts: int, rate_bps: float, *, up_bps: Sequence[float] = ()
    ) -> tuple[list[int], int]:
        """Add a switch that is linked to each switch in `above`, and `hosts` hosts under it.

        Args:
            rate_bps: rate of the links to hosts, and of the links up unless `up_bps` is given.
            up_bps: rates of the links up, in the order of `above`.

        Returns:
            the ids of the hosts, and the switch's port to the first switch above.
        """
        switch = self.switch(name)
        rates_bps = up_bps or [rate_bps] * len(above)
        up = [self.link(switch, upper, upper_bps) for upper, upper_bps in zip(above, rates_bps, strict=True)]
        return self.leaves(prefix, hosts, switch, rate_bps), up[0]

    def aggregation(
        self, pod: int, n: int, cores: list[int], rate_bps: float, *, slow: int = 0, slow_frac: float = 1.0
    ) -> list[int]:
        """Add the `n` aggregation switches of a pod: the i-th has links to the i-th part of the cores.

        The first `slow` of these links have `slow_frac` of the rate.
        """
        aggs = [self.switch(f"agg{pod}_{i}") for i in range(n)]
        part = len(cores) // n
        for i, core in enumerate(cores[: n * part]):
            self.link(aggs[i // part], core, rate_bps * (slow_frac if i < slow else 1))
        return aggs

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
        """Add a link between two switches and return its port from `a` to `b`.

        Args:
            delay_s: delay of the link; None: the spec's.
            buffer: buffer of both ends, without a pool; None: the spec's.
            b_buffer: buffer of the end at `b`, without a pool; None: as for `buffer`.
            mark_threshold_bytes: marking threshold of both ends; None: that of their buffers.
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
