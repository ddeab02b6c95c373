# SPDX-License-Identifier: BSD-3-Clause
"""Workloads: frozen values that draw a flow list once from (topology, duration, seed).

To add one, write a `Traffic` subclass with a `tag` and a `draw` (a `Requests` subclass: `draw_rows`), and add it to
`AnyTraffic`.
"""

from typing import ClassVar

import numpy as np

from ncc.core.benchmarks import HiBench, Ycsb
from ncc.core.collectives import Collective
from ncc.core.distributions import SizeDistribution, distribution
from ncc.core.errors import ConfigError, UnknownNameError
from ncc.core.flows import BoolArray, FloatArray, FlowTable, Graph, IntArray, Streams
from ncc.core.graph import joined
from ncc.core.requests import FanOut
from ncc.core.seeding import generator
from ncc.core.stores import Store
from ncc.core.topology import Topology
from ncc.core.traces import Trace
from ncc.core.traffic import Columns, Requests, Traffic, at_most, check_groups, join, named, single, starts_in
from ncc.core.units import BITS_PER_BYTE, GBPS, NS_PER_S
from ncc.core.value import Count, Name, Natural, NonNegative, Positive, Value

OVERLOAD = 2.0
"""Largest usual `load_frac`. A larger one looks like a mistake if it also exceeds what the senders' links can carry."""


class Poisson(Traffic, frozen=True, tag="poisson"):
    """Flows that arrive as a Poisson process, with sizes from a table.

    `load_frac` is the payload rate offered to `link`, divided by its line rate: flows arrive at the rate load_frac *
    line rate / (8 * mean size). Headers are not included (about 5 % at 1500-byte packets). Sources and destinations are
    drawn uniformly from the two groups. An empty `link` means the uplink port of the first neighbourhood.
    """

    distribution: Name | SizeDistribution
    """A published table by its name; in YAML and on a command line also a file (`ncc.core.sizes.read_sizes`)."""
    load_frac: Positive
    sources: Name
    destinations: Name
    link: str = ""

    def check(self) -> None:
        with named("Poisson.distribution"):
            distribution(self.distribution)

    def fits(self, topology: Topology, duration_s: float) -> None:
        with named("link"):
            rate = self.arrivals_per_s(topology)
        check_groups(topology, sources=self.sources, destinations=self.destinations)
        if set(topology.group(self.sources)) == set(topology.group(self.destinations)) and single(
            topology, self.sources
        ):
            raise ConfigError("sources and destinations are the same single host")
        at_most("load_frac", rate * duration_s)

    def unusual_on(self, topology: Topology) -> str:
        can_bps = sum(topology.host_link(host).rate_bps for host in topology.group(self.sources))
        offered_bps = self.load_frac * topology.port_rate_bps(self._port(topology))
        if self.load_frac <= OVERLOAD or offered_bps <= can_bps:
            return ""
        return (
            f"load_frac is {self.load_frac:g}, which is {offered_bps / GBPS:g} Gbit/s, and the links of {self.sources} "
            f"carry {can_bps / GBPS:g} (80 percent are written 0.8 or 80%)"
        )

    def arrivals_per_s(self, topology: Topology) -> float:
        """Mean arrival rate of flows, per second."""
        bits = distribution(self.distribution).mean_bytes * BITS_PER_BYTE
        return self.load_frac * topology.port_rate_bps(self._port(topology)) / bits

    def draw(self, topology: Topology, duration_s: float, rng: np.random.Generator) -> Columns:
        n = int(rng.poisson(self.arrivals_per_s(topology) * duration_s))
        start = rng.random(n) * duration_s
        src, dst = _pairs(topology.group(self.sources), topology.group(self.destinations), n, rng)
        return start, src, dst, distribution(self.distribution).sample(n, rng)

    def offered_bps(self, topology: Topology) -> dict[int, float]:
        port = self._port(topology)
        return {port: self.load_frac * topology.port_rate_bps(port)}

    def _port(self, topology: Topology) -> int:
        return topology.port(self.link) if self.link else topology.neighbourhoods[0].uplink_port


class Incast(Traffic, frozen=True, tag="incast"):
    """Partition-aggregate: events are a Poisson process, and each makes `fan_in` servers send at the same time.

    Each event draws `receivers` hosts from `destinations` and, for each of them, `fan_in` servers from `sources`, which
    send it `bytes_per_server` each. A server is drawn once; only if `sources` has fewer than `fan_in` hosts, further
    rounds draw them again. Flows start at random times within `jitter_s` of their event. No event comes in the last
    `jitter_s` of the run.
    """

    events_per_s: Positive
    fan_in: Count
    bytes_per_server: Count
    sources: Name
    destinations: Name
    jitter_s: NonNegative = 0.0
    receivers: Count = 1

    def fits(self, topology: Topology, duration_s: float) -> None:
        check_groups(topology, sources=self.sources, destinations=self.destinations)
        if self.receivers > (n := len(topology.group(self.destinations))):
            raise ConfigError(f"receivers must be at most the {n} hosts of destinations, got {self.receivers}")
        if self.jitter_s >= duration_s:
            raise ConfigError(f"jitter_s must be below duration_s ({duration_s} s), got {self.jitter_s} s")
        if single(topology, self.sources) and topology.group(self.sources)[0] in topology.group(self.destinations):
            raise ConfigError(f"sources: group {self.sources!r} has no host other than a receiver")
        at_most("events_per_s", self.events_per_s * duration_s * self.fan_in * self.receivers)

    def draw(self, topology: Topology, duration_s: float, rng: np.random.Generator) -> Columns:
        span = duration_s - self.jitter_s
        n = int(rng.poisson(self.events_per_s * span))
        at = rng.random(n) * span
        sources, receivers = topology.group(self.sources), topology.group(self.destinations)
        src, dst, meeting = [], [], rng.choice(receivers, n)
        if self.receivers > 1:
            meeting = join([rng.choice(receivers, self.receivers, replace=False) for _ in range(n)])
        for receiver in meeting:
            servers = [host for host in sources if host != receiver]
            rounds = range(-(-self.fan_in // len(servers)))
            src.append(np.concatenate([rng.permutation(servers) for _ in rounds])[: self.fan_in])
            dst.append(np.full(self.fan_in, receiver))
        start = np.repeat(at, self.receivers * self.fan_in) + rng.random(len(meeting) * self.fan_in) * self.jitter_s
        return start, join(src), join(dst), np.full(len(start), self.bytes_per_server)


class Permutation(Traffic, frozen=True, tag="permutation"):
    """One flow at `start_s` from every host of `hosts` to another one, so that each also receives one."""

    hosts: Name
    size_bytes: Count
    start_s: NonNegative = 0.0

    def fits(self, topology: Topology, duration_s: float) -> None:
        check_groups(topology, hosts=self.hosts)
        if single(topology, self.hosts):
            raise ConfigError(f"hosts: group {self.hosts!r} has one host; a permutation takes at least 2")
        starts_in("start_s", self.start_s, duration_s)

    def draw(self, topology: Topology, duration_s: float, rng: np.random.Generator) -> Columns:
        hosts = rng.permutation(topology.group(self.hosts))
        # In a random cyclic order each host sends to its successor: a permutation without fixed points.
        return np.full(len(hosts), self.start_s), hosts, np.roll(hosts, -1), np.full(len(hosts), self.size_bytes)


class Flow(Value, frozen=True):
    """A flow of a fixed list, with hosts by name."""

    start_s: NonNegative
    src: Name
    dst: Name
    size_bytes: Count


class Fixed(Traffic, frozen=True, tag="fixed"):
    """A list of flows, the same for every seed."""

    flows: tuple[Flow, ...]

    def fits(self, topology: Topology, duration_s: float) -> None:
        names = [topology.nodes[host].name for host in topology.hosts]
        known = set(names)
        for i, flow in enumerate(self.flows):
            for field, name in (("src", flow.src), ("dst", flow.dst)):
                if name not in known:
                    with named(f"flows[{i}].{field}"):
                        raise UnknownNameError("host", name, names)
            if flow.src == flow.dst:
                raise ConfigError(f"flows[{i}].dst: {flow.src!r} sends to itself")
            starts_in(f"flows[{i}].start_s", flow.start_s, duration_s)

    def draw(self, topology: Topology, duration_s: float, rng: np.random.Generator) -> Columns:
        ids = {topology.nodes[host].name: host for host in topology.hosts}
        return (
            np.array([flow.start_s for flow in self.flows]),
            np.array([ids[flow.src] for flow in self.flows]),
            np.array([ids[flow.dst] for flow in self.flows]),
            np.array([flow.size_bytes for flow in self.flows]),
        )


class Queries(Traffic, frozen=True, tag="queries"):
    """A front end that asks for `response_bytes` every `interval_s`; each of `fan_in` servers sends an equal part.

    The basic incast of Alizadeh et al. (SIGCOMM 2010, section 4.2.1): the response stays the same size while the number
    of its parts grows. The receiver is the first host of `destinations`. The servers are the first `fan_in` of
    `sources`, with hosts repeated in turn if there are fewer. Each server starts at its own random time within
    `jitter_s` of the query.
    """

    fan_in: Count
    response_bytes: Count
    interval_s: Positive
    sources: Name
    destinations: Name
    jitter_s: NonNegative = 0.0

    def check(self) -> None:
        if self.jitter_s >= self.interval_s:
            raise ConfigError(f"Queries.jitter_s must be below interval_s ({self.interval_s} s), got {self.jitter_s} s")
        if self.response_bytes < self.fan_in:
            raise ConfigError(
                f"Queries.response_bytes must be at least fan_in ({self.fan_in}), a byte each, "
                f"got {self.response_bytes}"
            )

    def fits(self, topology: Topology, duration_s: float) -> None:
        check_groups(topology, sources=self.sources, destinations=self.destinations)
        if topology.group(self.destinations)[0] in topology.group(self.sources):
            raise ConfigError(f"sources: group {self.sources!r} holds the receiver")
        at_most("interval_s", self._n(duration_s) * float(self.fan_in))

    def draw(self, topology: Topology, duration_s: float, rng: np.random.Generator) -> Columns:
        n = self._n(duration_s)
        servers = np.resize(topology.group(self.sources), self.fan_in)
        asked_s = np.repeat(np.arange(n) * self.interval_s, self.fan_in)
        start = asked_s + rng.random(n * self.fan_in) * self.jitter_s
        dst = np.full(n * self.fan_in, topology.group(self.destinations)[0])
        part = self.response_bytes // self.fan_in
        return start, np.tile(servers, n), dst, np.full(n * self.fan_in, part)

    def query_of(self, start_s: FloatArray) -> IntArray:
        """Number, from 0, of the query that each flow answers, [n], by the flows' starts in seconds, [n]."""
        # Starts are whole nanoseconds, so a multiple of the interval may lie just below one: allow a picosecond.
        return np.floor(start_s / self.interval_s + 1e-3 / NS_PER_S / self.interval_s).astype(np.int64)

    def _n(self, duration_s: float) -> int:
        return int(np.ceil((duration_s - self.jitter_s) / self.interval_s - 1e-9))


class Long(Traffic, frozen=True, tag="long"):
    """Endless flows, `flows` of them; each has ten times the bytes that its sender's link can carry during the run.

    Flow i goes from host `first` + i of `sources` to host `first` + `shift` + i of `destinations`. After the last host
    of a group, counting continues at its first. With a shift, sources and destinations may be one group. Flows start at
    random times within `spread_s` after `start_s`.
    """

    endless: ClassVar[bool] = True

    sources: Name
    destinations: Name
    flows: Count
    first: Natural = 0
    shift: Natural = 0
    start_s: NonNegative = 0.0
    spread_s: NonNegative = 0.0

    def fits(self, topology: Topology, duration_s: float) -> None:
        check_groups(topology, sources=self.sources, destinations=self.destinations)
        at_most("flows", self.flows)
        starts_in("start_s + spread_s", self.start_s + self.spread_s, duration_s)
        if (same := [src for src, dst in zip(*self._ends(topology), strict=True) if src == dst]) != []:
            raise ConfigError(
                f"destinations: {topology.nodes[same[0]].name!r} would send to itself; name another group or a shift"
            )

    def draw(self, topology: Topology, duration_s: float, rng: np.random.Generator) -> Columns:
        src, dst = self._ends(topology)
        start = self.start_s + rng.random(self.flows) * self.spread_s
        rate = np.array([topology.host_link(host).rate_bps for host in src.tolist()])
        return start, src, dst, np.ceil(10 * rate * duration_s / BITS_PER_BYTE).astype(np.int64)

    def _ends(self, topology: Topology) -> tuple[IntArray, IntArray]:
        which = self.first + np.arange(self.flows)
        src, dst = (np.array(topology.group(name)) for name in (self.sources, self.destinations))
        return src[which % len(src)], dst[(which + self.shift) % len(dst)]


AnyTraffic = (
    Poisson | Incast | Permutation | Fixed | Queries | Long | FanOut | Ycsb | HiBench | Collective | Store | Trace
)
Workload = tuple[tuple[Name, AnyTraffic], ...]


def draw_flows(workload: Workload, topology: Topology, duration_s: float, seed: int) -> FlowTable:
    """Draw the flow list of a run; equal arguments give equal lists.

    Each component has random numbers of its own, so that it does not depend on the others. Starts are whole
    nanoseconds in [0, duration_s); rows are in order of start. The components must fit the topology (`check_fits`), as
    those of every scenario do.
    """
    drawn = [_columns(part, topology, duration_s, generator(seed, "flows", name)) for name, part in workload]
    traffic = np.repeat(np.arange(len(drawn)), [len(columns["src"]) for columns in drawn])
    start, src, dst, size = (join([columns[name] for columns in drawn]) for name in _NAMES)
    graph, streams = joined(drawn)
    last_ns = np.ceil(duration_s * NS_PER_S) - 1  # rounding must not move a flow past the end
    start = np.minimum(np.rint(start * NS_PER_S), last_ns) / NS_PER_S
    order = np.argsort(start, kind="stable")
    return FlowTable(
        start_s=start[order].astype(np.float64),
        src=src[order].astype(np.int64),
        dst=dst[order].astype(np.int64),
        size_bytes=size[order].astype(np.int64),
        traffic=traffic[order].astype(np.int64),
        graph=graph and Graph(**{name: column[order] for name, column in vars(graph).items()}),
        streams=streams and Streams(**{name: column[order] for name, column in vars(streams).items()}),
    )


_NAMES = ("start_s", "src", "dst", "size_bytes")


def _columns(
    traffic: Traffic, topology: Topology, duration_s: float, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Draw the columns of a component; those of requests have a graph's as well."""
    if isinstance(traffic, Requests):
        return traffic.draw_rows(topology, rng).columns()
    return dict(zip(_NAMES, traffic.draw(topology, duration_s, rng), strict=True))


def check_fits(workload: Workload, topology: Topology, duration_s: float) -> None:
    """Raise `ConfigError` with the component and field that cannot be drawn on this topology in this time."""
    if not workload:
        raise ConfigError("workload needs at least one traffic component")
    names = [name for name, _ in workload]
    if len(set(names)) != len(names):
        raise ConfigError(f"workload has two components of one name: {', '.join(names)}")
    for name, traffic in workload:
        try:
            traffic.fits(topology, duration_s)
        except ConfigError as error:
            raise ConfigError(f"workload.{name}.{error}") from None


def has_requests(workload: Workload) -> bool:
    """True if a component of the workload is of requests."""
    return any(isinstance(traffic, Requests) for _, traffic in workload)


def endless(workload: Workload, flows: FlowTable) -> BoolArray:
    """Mask [n_flows] of the flows of this workload that need not be delivered."""
    return np.array([traffic.endless for _, traffic in workload])[flows.traffic]


def offered_load(workload: Workload, topology: Topology) -> dict[int, float]:
    """Return the load of every port that a component names, by port id: offered payload rate divided by line rate."""
    load: dict[int, float] = {}
    for _, traffic in workload:
        for port, rate_bps in traffic.offered_bps(topology).items():
            load[port] = load.get(port, 0.0) + rate_bps / topology.port_rate_bps(port)
    return load


def _pairs(
    sources: tuple[int, ...], destinations: tuple[int, ...], n: int, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Draw `n` pairs of a source and another host as destination, uniformly."""
    src, dst = rng.choice(sources, n), rng.choice(destinations, n)
    while (clash := src == dst).any():
        src[clash] = rng.choice(sources, int(clash.sum()))
        dst[clash] = rng.choice(destinations, int(clash.sum()))
    return src, dst
