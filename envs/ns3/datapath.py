# SPDX-License-Identifier: GPL-2.0-only
"""`Ns3Datapath`: hosts with ns-3's TCP, switches with finite marking queues, stepped one period at a time.

The model contains ns-3 3.44's TCP at both ends (SACK, window scaling, delayed ACKs, no timestamps); at the sending host
a queue per flow, a token bucket and the wire; store-and-forward switches with shortest paths, ECMP by flow, drop-tail,
shared buffers, step marking and RED (the headers of `baselines/`), and priority for control packets if the scenario
asks for it. Every packet takes the wire time of its IP bytes plus `frame_overhead_bytes`. A packet has left a host or
port when its transmission begins. Not modelled are ARP, ICMP, link layers' own queues, and the closing of connections
(an end is freed when its flow is acknowledged; no FIN is sent).

The rate limit acts below TCP on every packet to nodes beyond the neighbourhood (`Topology.limited_to`), including ACKs
and retransmissions. While such packets wait for tokens, other packets pass them. Handshake packets and pure ACKs go
before data. TCP hands down at most `nic.small_queue_bytes` per flow, and nothing is dropped inside the host. An RTT
sample therefore contains the wait of the bytes handed down (and other flows' turns meanwhile), but not of bytes that
TCP still holds back. Some repairs exceed this limit, because ns-3 sends them without asking for room: one packet at the
beginning of a fast recovery, and one on each partial ACK in it. The retransmission timer of a segment that waited
starts when the segment leaves. If a connection begins with a handshake, its first RTT sample is the handshake's, of
small packets.

With `transport.recovery: modern`, ns-3's sockets probe the tail of a flow (TLP), find the first loss of a window by
time (RACK) and shrink windows by PRR. Unlike packetsim and Linux they have no F-RTO and no DSACK; a retransmission that
is lost waits for the timeout; and within a recovery a packet counts as lost at the first selective acknowledgement of
a later one.
"""

from collections.abc import Mapping
from threading import get_ident
from typing import ClassVar
from weakref import WeakSet

from ncc.baselines.registry import ParamInfo
from ncc.core.errors import ConfigError, DatapathError
from ncc.core.flows import FlowTable
from ncc.core.measurement import Measurement
from ncc.core.scenario import Scenario
from ncc.core.topology import Topology
from ncc.envs.native.base import NativeDatapath
from ncc.envs.native.extension import Network
from ncc.harness.datapath import HostStack

OWN_PARAMS = (
    ParamInfo("ecn", 0, 0, 1, "1: negotiate ECN (RFC 3168); ns3::TcpDctcp always does"),
    ParamInfo("prr", 1, 0, 1, "1: ns3::TcpPrrRecovery, ns-3's default; 0: ns3::TcpClassicRecovery"),
)
"""Parameters of ns-3's own congestion controls."""


class Ns3Datapath(NativeDatapath):
    """ns-3 behind the `Datapath` protocol. A process can have one simulation at a time, because ns-3 has one clock.

    `transports` are the controllers of `baselines/`, and ns-3's own as ``ns3::TcpCubic`` and so on. `start` raises
    `DatapathError` if another simulation is live in this process, or was live when the process was forked.
    """

    name = "ns3"
    title = "ns-3"
    module = "ncc.envs.ns3._ns3"
    extra = "ns3"
    _live: ClassVar["WeakSet[Ns3Datapath]"] = WeakSet()

    def __init__(self) -> None:
        super().__init__()
        self._thread: int | None = None

    @classmethod
    def known(cls) -> Mapping[str, tuple[ParamInfo, ...]]:
        """Return the parameters of each transport, ns-3's own among them, by name."""
        return {**super().known(), **dict.fromkeys(cls.extension().own_transports(), OWN_PARAMS)}

    @classmethod
    def check(cls, scenario: Scenario) -> None:
        """Raise `ConfigError` for programs of ports that do not fit, and for coarse timers, which ns-3 lacks."""
        super().check(scenario)
        if scenario.transport.timer_tick_s > 0:
            raise ConfigError(
                f"Scenario.transport.timer_tick_s must be 0 on ns-3, whose timers fire at any time, got "
                f"{scenario.transport.timer_tick_s} s: set it so, or use datapath=packetsim"
            )

    @classmethod
    def taken(cls) -> bool:
        """Return True if this process has a simulation, its own or its parent's; see `OnePerProcess` in the harness."""
        return bool(cls._live)

    def start(self, scenario: Scenario, flows: FlowTable, stack: HostStack, seed: int) -> Measurement:
        measurement = super().start(scenario, flows, stack, seed)
        self._thread = get_ident()
        self._live.add(self)
        return measurement

    def close(self) -> None:
        """Free the simulation, so that another may be started in this process."""
        super().close()
        self._live.discard(self)
        self._thread = None

    def _running(self, call: str) -> tuple[Network, Topology]:
        if self._thread not in (None, get_ident()):  # ns-3 would abort the whole process
            raise DatapathError(f"Ns3Datapath.{call}() must be called by the thread that called start().")
        return super()._running(call)


DATAPATH = Ns3Datapath
