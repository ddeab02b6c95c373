# SPDX-License-Identifier: BSD-3-Clause
"""A scenario: everything about a run except the controller, the datapath and the seed."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import ceil
from typing import Annotated, Any, Literal

from msgspec import Meta

from ncc.core.errors import ConfigError, UnknownNameError
from ncc.core.flows import FlowTable
from ncc.core.pipes import ends, longest_pipe, with_uet
from ncc.core.sizes import with_tables
from ncc.core.topologies import AnyTopology
from ncc.core.topology import Share, Topology
from ncc.core.units import HEADER_BYTES, MS, US
from ncc.core.value import Count, Name, Natural, NonNegative, Positive, Value, digest_of, from_dict, usual
from ncc.core.workload import Workload, check_fits, draw_flows, offered_load

MAX_EPOCHS = 10_000_000
BUFFER_BYTES = 4 * 2**20
"""Size of a socket's buffers in networks that need no more; Linux' largest send buffer (net.ipv4.tcp_wmem)."""
MAX_BUFFER_BYTES = 2**30 - 1
"""Largest window that TCP can advertise (RFC 7323 section 2.3)."""
PIPES = 4
"""Size of larger buffers, in bandwidth-delay products of the longest path; above 1, as queues hold packets as well."""
SEND_BUFFER_FRAC = 0.75
"""Part of a send buffer that stays filled, because an application writes as soon as a quarter of it is free."""
Timer = Annotated[float, Meta(ge=1e-6, le=60), usual(high=5)]
"""Seconds. RFC 6298 rule 2.5 allows a maximum of 60; a timer of 0 would fire forever without time passing."""
Knows = Literal["sizes", "backlog", "services"]
"""Knowledge of a host about the sizes of its flows; see `Nic.knows`."""
LearnsFrom = Literal["host", "neighbourhood"]

Neighbourhoods = Literal["uplink", "receivers", "both"]
Routing = Literal["ecmp", "symmetric", "spray", "entropy"]


class Transport(Value, frozen=True):
    """Settings of every TCP connection of the run. Defaults suit a datacentre; ns-3's own suit a WAN."""

    mtu_bytes: Annotated[int, Meta(ge=256, le=9000)] = 1500
    """Largest IP packet; payload per packet is 40 bytes less (no TCP timestamps)."""
    frame_overhead_bytes: Natural = 38
    """Bytes on the wire per packet beyond the IP packet: Ethernet preamble 8, header 14, FCS 4, gap 12."""
    initial_window_pkts: Count = 10
    """Initial window in packets (RFC 6928)."""
    min_rto_s: Timer = 5 * MS
    """Minimum retransmission timeout; ns-3's default of 1 s (RFC 6298) would dominate every result in a rack."""
    initial_rto_s: Timer = 20 * MS
    """Retransmission timeout before the first RTT sample, also for the handshake."""
    handshake: bool = True
    """SYN, SYN-ACK, ACK before data (RFC 9293 section 3.5). False: both ends are connected when the flow arrives."""
    connections_per_pair: Natural = 0
    """Connections that are open from the start between each ordered pair of hosts that has flows; 0: each flow opens
    its own. A connection is idle when all its data is acknowledged. A flow takes the idle connection of its pair that
    became idle last; unused ones come after all used ones. If none is idle, the flow opens another one (by
    `handshake`), which stays open as well. A connection carries one flow at a time. The next flow inherits the window,
    the RTTs, the controller's state and the path. Its packets are numbered from 0, and its records are its own; late
    duplicates of the flow before are ignored. In the simulations that the authors of BCC published
    (spine_empirical.tcl) a flow takes the idle connection of the lowest number, and each connection has carried one
    packet before the first flow."""
    idle_restart: bool = True
    """Shrink the window of a connection that has sent no data for more than one RTO before it carries the next flow.
    The window halves for each RTO, down to the initial window, as in Linux (tcp_slow_start_after_idle; RFC 2861, RFC
    5681 section 4.1). Controllers that model the path, such as BBR, keep their window. In the simulations of BCC's
    authors the window falls to the initial one at once."""
    sack: bool = True
    """Selective acknowledgements and recovery with them (RFC 2018, RFC 6675). False: NewReno's recovery (RFC 6582)."""
    limited_transmit: bool = True
    """Each of the first duplicate ACKs allows one new segment (RFC 3042), so that short windows need no timeout. This
    matters only without SACK: a selective acknowledgement makes room for a segment anyway (RFC 6675)."""
    recovery: Literal["classic", "modern"] = "modern"
    """Classic: losses are found by duplicate ACKs (RFC 6675), and windows shrink at once, as in ns-3 and TCP of about
    2012. Modern: RACK-TLP (RFC 8985), PRR (RFC 6937), F-RTO (RFC 5682) and DSACK (RFC 2883), as in Linux."""
    timer_slack_s: Annotated[float, Meta(ge=0, le=1)] = 2 * MS
    """Addition to the timers of loss probes and of reordering (modern recovery only). Linux has 2 ms
    (TCP_TIMEOUT_MIN_US)."""
    timer_tick_s: Annotated[float, Meta(ge=0, le=0.1)] = 0.0
    """Tick at which the sender's timers fire (modern recovery only); 0: at any time. Linux has 1 to 10 ms (jiffies)."""
    dup_ack_pkts: Annotated[int, Meta(ge=1, le=1000)] = 3
    """Duplicate ACKs that mean a loss (RFC 5681 section 3.2); with SACK, DupThresh of RFC 6675."""
    delayed_ack_pkts: Count = 2
    """Number of packets, arriving in order, for which a receiver sends one ACK. A NIC that merges arriving packets
    (GRO) raises it to the packets in 64 KB, and the sender's bursts become as long."""
    delayed_ack_s: Timer = 100 * US
    """Longest delay of an ACK. With a NIC that merges packets it is the time between interrupts (tens of us). ns-3's
    default of 200 ms makes an incast collapse."""
    send_buffer_bytes: Count | None = None
    """Size of every socket's send buffer; null: enough for the longest path (`Scenario.sockets`), as Linux' autotuning
    would find."""
    receive_buffer_bytes: Count | None = None
    """Size of every socket's receive buffer; null: enough for the longest path (`Scenario.sockets`)."""
    rtt_noise_max_s: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """Largest measurement error of an RTT: each sample that a congestion controller sees is too long by a uniform
    random amount up to this. Retransmission timers and recorded RTTs use the true value."""

    @property
    def mss_bytes(self) -> int:
        """Payload of a full packet, in bytes."""
        return self.mtu_bytes - HEADER_BYTES

    def check(self) -> None:
        if self.recovery == "modern" and not self.sack:
            raise ConfigError(
                "Scenario.transport.recovery=modern finds losses by selective acknowledgements: set sack to true, or "
                "choose recovery=classic"
            )
        receive_bytes = self.receive_buffer_bytes or BUFFER_BYTES
        if self.delayed_ack_pkts > max(2, window_pkts := receive_bytes // self.mss_bytes):
            raise ConfigError(
                f"Scenario.transport.delayed_ack_pkts must fit in receive_buffer_bytes ({window_pkts} full packets), "
                f"or every ACK waits for delayed_ack_s, got {self.delayed_ack_pkts}"
            )


class Nic(Value, frozen=True):
    """The part of a sending host below TCP: one queue per flow, and a rate limiter for all of them.

    TCP puts at most `small_queue_bytes` of a flow into its queue and adds more when these leave (Linux: TCP small
    queues). So the limiter can choose among flows, and an RTT includes the wait of at most that many bytes. A datapath
    may let retransmissions exceed the limit; its documentation then says so.
    """

    bucket_bytes: Count = 3000
    """Token bucket: at most this many bytes of IP packets leave beyond rate * time."""
    small_queue_bytes: Count = 6000
    shaped_frac: Share = 0.0
    """Share of the line for the shaped queue of every NIC; see `Buffer.shaped_frac`, also for the next two."""
    shaped_pkts: Count = 8
    selective_pkts: Natural = 2
    knows: Knows = "sizes"
    """Part of a flow's size that its host knows.

    `sizes`: the whole size from the beginning. `backlog`: the bytes that are acknowledged or in the send buffer. The
    application writes as soon as the buffer has room. The buffer grows as in Linux, to `first_write_pkts` or two
    windows, at most `transport.send_buffer_bytes`. The known size never falls. `services`: as `backlog`, and also the
    service of each flow, as a port number would tell; services are the components of the workload. While the send
    buffer is full, a host predicts the rest of a flow from the sizes of the flows of that service that it has sent
    (envs/native/predictor.h).

    Flow orders, signals of queues, and everything that hosts observe and share use the known or predicted size.
    Results, and the signals `active_per_byte` and `active_left` of rewards, use true sizes."""
    learns_from: LearnsFrom = "host"
    """Hosts whose flows train a host's predictors (`knows: services` only): itself, or all of its neighbourhood. The
    exchange of sizes is not simulated: neighbours know them at once, and no message is lost."""
    first_write_pkts: Annotated[int, Meta(ge=1, le=1_000_000)] = 22
    """Room of a new socket's send buffer, in full packets (not with `knows: sizes`). Linux has 22 with its default of
    net.ipv4.tcp_wmem, as measured; an administrator may change it. The size of a message that fits is known from its
    first packet on."""


class Scenario(Value, frozen=True):
    """Topology, workload and timing of a run."""

    name: Name
    topology: AnyTopology
    workload: Workload
    duration_s: Annotated[float, Meta(gt=0, le=3600), usual(high=300)]
    """Flows arrive in [0, duration_s)."""
    drain_s: Positive | None = 2.0
    """Time that flows get to finish after `duration_s`; None: until all have finished. None is refused for endless
    flows and for a load above 1."""
    neighbourhoods: Neighbourhoods = "uplink"
    """Groups of hosts that share state. `uplink`: hosts behind an uplink, as the topology declares. `receivers`: the
    senders of each receiver, which grants them a start and a rate. `both`: the two together."""
    period_s: Annotated[float, Meta(ge=1e-5, le=1)] = 1 * MS
    """Length of a period, which begins with a decision and ends with a measurement."""
    decision_latency_s: NonNegative = 0.0
    """Time from the start of a period until its new rate limits take effect."""
    sharing_delay_periods: Annotated[int, Meta(ge=1, le=100)] = 1
    """Age, in periods, of the state that a host sees of its neighbours and of the uplink."""
    sharing_loss_frac: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    """Share of the messages between hosts, and from the uplink, that are lost; the last message received stays in
    use."""
    sharing_silent: tuple[Name, ...] = ()
    """Hosts that send no messages to others."""
    sharing_silent_from_s: NonNegative = 0.0
    """Time at which the agents of the receivers in `sharing_silent` stop; before that they send grants as usual. It
    does not apply to the state that hosts share, which hosts in `sharing_silent` never send."""
    sharing_unsynchronised: bool = False
    """Each receiver sends its grants at its own time in a period; if false, all send at the start of it."""
    sharing_lying: tuple[Name, ...] = ()
    """Hosts that always report to others that they are idle."""
    routing: Routing = "ecmp"
    """Choice among paths of equal length. `ecmp`: a hash of the flow at each switch, another one for ACKs. `symmetric`:
    ACKs take the path of their data, in the other direction. `spray`: a switch sends the packets for a host over its
    ports towards it in turn, whatever their flow, so that packets overtake each other. `entropy`: a hash of the flow
    and of a number that a sender chooses for each packet, as only some message transports do."""
    transport: Transport = Transport()
    nic: Nic = Nic()

    def check(self) -> None:
        if self.decision_latency_s >= self.period_s:
            raise ConfigError(
                f"Scenario.decision_latency_s must be below period_s ({self.period_s} s), "
                f"got {self.decision_latency_s} s"
            )
        if self.period_s > self.duration_s:
            raise ConfigError(
                f"Scenario.period_s must not exceed duration_s ({self.duration_s} s), got {self.period_s} s"
            )
        if self.duration_s / self.period_s > MAX_EPOCHS:
            raise ConfigError(
                f"Scenario.period_s makes more than {MAX_EPOCHS} epochs in duration_s ({self.duration_s} s)"
            )
        for name in ("bucket_bytes", "small_queue_bytes"):
            if getattr(self.nic, name) < self.transport.mtu_bytes:
                raise ConfigError(
                    f"Scenario.nic.{name} must hold a packet of transport.mtu_bytes ({self.transport.mtu_bytes}), "
                    f"got {getattr(self.nic, name)}"
                )
        try:
            network = self.network()
        except ConfigError as error:
            raise ConfigError(f"Scenario.topology: {error}") from None
        self._check_sharing(network)
        self._check_receivers(network)
        port = network.shallowest_port
        if port is not None and (reach_bytes := network.reach_bytes(port)) < self.transport.mtu_bytes:
            raise ConfigError(
                f"Scenario.topology: the queue of port {network.port_name(port)} must hold a packet of "
                f"transport.mtu_bytes ({self.transport.mtu_bytes}), got {reach_bytes} bytes"
            )
        try:
            check_fits(self.workload, network, self.duration_s)
        except ConfigError as error:
            raise ConfigError(f"Scenario.{error}") from None
        if not self.has_receivers and (setting := [name for name, traffic in self.workload if traffic.sets_rates]):
            raise ConfigError(
                f"Scenario.workload.{setting[0]} sets the rates of hubs, which needs receivers: set "
                "neighbourhoods to receivers or both"
            )
        if self.drain_s is None and (lasting := [name for name, traffic in self.workload if traffic.endless]):
            raise ConfigError(
                f"Scenario.workload.{lasting[0]} never ends, and with drain_s null the run waits for every flow: "
                "set drain_s"
            )
        for port, load_frac in offered_load(self.workload, network).items():
            if load_frac > 1 and self.drain_s is None:
                raise ConfigError(
                    f"Scenario.workload offers {load_frac:.2f} of {network.port_name(port)}: with drain_s null (wait "
                    "until every flow finishes) the load must not exceed 1; lower load_frac or set drain_s"
                )

    def unusual(self) -> Iterator[str]:
        for name, traffic in self.workload:
            if doubt := traffic.unusual_on(self.network()):
                yield f"workload.{name}.{doubt}"
        network, sockets = self.network(), self.sockets
        mtu_bytes = self.transport.mtu_bytes
        pipes = [longest_pipe(network, mtu_bytes, *ends(traffic, network)) for _, traffic in self.workload]
        src, dst, pipe_bytes = max(pipes, key=lambda pipe: pipe.bytes)
        need_bytes = pipe_bytes + self.transport.delayed_ack_pkts * mtu_bytes
        for field, part in (("send_buffer_bytes", SEND_BUFFER_FRAC), ("receive_buffer_bytes", 1.0)):
            if (bytes_ := part * getattr(sockets, field)) < need_bytes:
                yield (
                    f"transport.{field} is {getattr(sockets, field)}, which holds a flow from "
                    f"{network.nodes[src].name} to {network.nodes[dst].name} to {bytes_ / need_bytes:.2g} of its line, "
                    f"whatever its controller: {need_bytes:.0f} bytes are under way there, and "
                    f"{ceil(need_bytes / part)} are enough"
                )

    def _check_sharing(self, network: Topology) -> None:
        hosts = network.hosts if self.has_receivers else network.agent_hosts
        agents = [network.nodes[host].name for host in hosts]
        for field in ("sharing_silent", "sharing_lying"):
            if unknown := sorted(set(getattr(self, field)) - set(agents)):
                raise UnknownNameError(f"host in Scenario.{field}", unknown[0], agents)
        if both := sorted(set(self.sharing_silent) & set(self.sharing_lying)):
            raise ConfigError(
                f"Scenario: host {both[0]!r} is in sharing_silent and in sharing_lying, and a silent host "
                "sends nothing: name it in one of them"
            )

    def _check_receivers(self, network: Topology) -> None:
        for name in ("sharing_silent_from_s", "sharing_unsynchronised"):
            if getattr(self, name) and not self.has_receivers:
                raise ConfigError(f"Scenario.{name} needs receivers: set neighbourhoods to receivers or both")
        try:
            for host in network.hosts if self.has_receivers else ():
                network.down_port(host)
        except ConfigError as error:
            raise ConfigError(f"Scenario.neighbourhoods={self.neighbourhoods}: {error}") from None

    def digest(self) -> str:
        """Compute the digest (`Value.digest`), without the newer keys whose values are the defaults.

        So a scenario keeps its digest, and its stored results stay valid, when a new version of ncc adds a key. A
        buffer size of null counts as the size that `sockets` gives it.
        """
        plain = self.to_dict()
        traffic = [part for _, part in plain["workload"]]
        for part, key, default in (
            (plain, "neighbourhoods", "uplink"),
            (plain, "routing", "ecmp"),
            (plain["topology"], "classes", 1),
            (plain["topology"], "programs", ()),
            (plain["topology"], "uet", False),
            (plain["topology"], "last_delay_s", None),
            (plain["topology"], "slow_links", 0),
            (plain["topology"], "slow_frac", 0.25),
            (plain, "sharing_silent_from_s", 0.0),
            (plain, "sharing_unsynchronised", False),
            *((part, "shaped_frac", 0.0) for part in (plain["topology"], plain["nic"])),
            *((part, "shaped_pkts", 8) for part in (plain["topology"], plain["nic"])),
            *((part, "selective_pkts", 2) for part in (plain["topology"], plain["nic"])),
            (plain["nic"], "knows", "sizes"),
            (plain["nic"], "first_write_pkts", 22),
            (plain["nic"], "learns_from", "host"),
            *((part, "writes", "at_once") for part in traffic),
            *((part, "receivers", 1) for part in traffic if part["kind"] == "incast"),
            *((part, "sicc", None) for part in traffic if part["kind"] == "store"),
        ):
            if part.get(key, default) == default:
                part.pop(key, None)
        plain["transport"] = self.sockets.to_dict()
        return digest_of(plain)

    def network(self) -> Topology:
        """The topology, built once per process."""
        if self.topology.uet:
            return _build_uet(self.topology, self.transport.mtu_bytes, self.transport.frame_overhead_bytes)
        return _build(self.topology)

    @property
    def sockets(self) -> Transport:
        """The transport with a size for each buffer whose setting is null.

        The size is `BUFFER_BYTES`, or `PIPES` bandwidth-delay products of the network's longest path if these are
        more; at most `MAX_BUFFER_BYTES`.
        """
        network = self.network()
        everybody = frozenset(network.hosts)
        pipe_bytes = longest_pipe(network, self.transport.mtu_bytes, everybody, everybody).bytes
        own_bytes = BUFFER_BYTES if pipe_bytes <= SEND_BUFFER_FRAC * BUFFER_BYTES else ceil(PIPES * pipe_bytes)
        named = (self.transport.send_buffer_bytes, self.transport.receive_buffer_bytes)
        send_bytes, receive_bytes = (min(own_bytes, MAX_BUFFER_BYTES) if size is None else size for size in named)
        made: Transport = self.transport.replace(send_buffer_bytes=send_bytes, receive_buffer_bytes=receive_bytes)
        return made

    @property
    def has_receivers(self) -> bool:
        """True if receivers send grants."""
        return self.neighbourhoods != "uplink"

    def flows(self, seed: int) -> FlowTable:
        """The flows of this scenario for a seed, the same for every controller and datapath."""
        return draw_flows(self.workload, self.network(), self.duration_s, seed)

    @property
    def n_agents(self) -> int:
        """Number of hosts whose rate is decided each period."""
        return len(self.network().agent_hosts)


@lru_cache(maxsize=32)
def _build(spec: AnyTopology) -> Topology:
    return spec.build()


@lru_cache(maxsize=32)
def _build_uet(spec: AnyTopology, mtu_bytes: int, frame_overhead_bytes: int) -> Topology:
    return with_uet(_build(spec), mtu_bytes, frame_overhead_bytes)


def scenario_from_dict(data: Mapping[str, Any], where: str = "scenario") -> Scenario:
    """Make a scenario from plain data, as YAML and Hydra give it.

    In plain data `workload` is a mapping of named components, and a table of flow sizes may be a file. An error names
    the field; its message begins with `where`.

    Raises:
        ConfigError: the data is no valid scenario.
    """
    plain = with_tables(data)
    if isinstance(plain, Mapping) and isinstance(plain.get("workload"), Mapping):
        plain = {**plain, "workload": [[name, traffic] for name, traffic in plain["workload"].items()]}
    return from_dict(Scenario, plain, where)
