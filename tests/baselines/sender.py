# SPDX-License-Identifier: BSD-3-Clause
"""A sender, one FIFO link and a receiver, small enough to follow by hand: it turns a controller's window into events.

Packets are numbered from 0. The link serves 1 Gbps after a queue without end; the base RTT is 100 us. Loss recovery is
RFC 6675 (three packets acknowledged above a hole make it lost); ECN echo is RFC 3168 or RFC 8257 section 3.2, as the
controller asks. Pacing holds packets back by a timer; delivery rates are those of
draft-cheng-iccrg-delivery-rate-estimation, in packets. For controllers that read telemetry, the link writes it into a
packet as its transmission begins: its rate, the packets that wait then, and what it has sent.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from ncc.baselines import _baselines
from ncc.baselines.registry import Ecn, Needs, connect, controller

MSS = 1460
RTT_NS = 100_000
PACKET_NS = 12_000
PACKET_BYTES = 1500
LINK_BYTES_PER_S = 125_000_000
RTO_NS = 5_000_000


@dataclass(frozen=True)
class Stimulus:
    """Events of the connection. A transmission is (packet, n-th time it is sent, from 0)."""

    n_acks: int
    drops: frozenset[tuple[int, int]] = frozenset()
    marks: Callable[[int], bool] = lambda _: False
    ack_every: int = 1
    burst_pkts: int | None = None
    """The application writes this many packets, waits until all are acknowledged, and so on."""
    bursts: int = 0
    """So many times; then it always has data."""


@dataclass(frozen=True)
class Transmission:
    """Packets delivered, and the time, as a packet was last sent (P.* of the draft)."""

    sent: int
    first_sent: int
    delivered_at: int
    delivered: int
    app_limited: bool


@dataclass
class Sender:
    """Runs a controller through a stimulus; `curve` gets (event, cwnd_bytes, ssthresh_bytes) after every event."""

    name: str
    stimulus: Stimulus
    params: dict[str, int] = field(default_factory=dict)
    init_pkts: int = 10

    def __post_init__(self) -> None:
        self.cc = connect(self.name, MSS, self.init_pkts * MSS, self.params)
        self.ecn = controller(self.name).ecn
        self.cwnd, _, self.pacing = self.cc.out
        self.curve: list[tuple[str, int, int]] = []
        self.now = self.link_free = self.pace_free = self.min_rtt = self.srtt = 0
        self.delivered = self.delivered_at = self.first_sent = self.app_limited = 0
        self.last_sent: dict[int, Transmission] = {}
        self.una = self.nxt = self.recover = 0
        self.sacked: set[int] = set()
        self.lost: set[int] = set()
        self.times_sent: dict[int, int] = {}
        # Arrival, sent, packet, CE, CWR, n-th on the link.
        self.pipe: deque[tuple[int, int, int, bool, bool, int]] = deque()
        self.on_link: list[tuple[int, int]] = []  # times at which a packet comes to the link, and leaves it
        self.reads_hops = bool(controller(self.name).needs & Needs.HOPS)
        self.recovering = self.cwr = False
        self.got: set[int] = set()
        self.rcv_next = self.unacked = self.backoff = 0
        self.last_ce = self.latched = False
        self.hops: list[tuple[int, int, int, int]] = []
        self.written = self.stimulus.burst_pkts or 1 << 40
        self.writes = 1

    def inflight(self) -> int:
        return self.nxt - self.una - len(self.sacked) - len(self.lost)

    def run(self) -> "Sender":
        while len(self.curve) < self.stimulus.n_acks:
            if self.send() and (not self.pipe or self.pace_free <= self.pipe[0][0]):
                self.now = self.pace_free
                continue
            if not self.pipe:
                self.expire()
                continue
            arrival, sent, packet, ce, cwr, nth = self.pipe.popleft()
            self.now = max(self.now, arrival)
            self.hops = self.telemetry(nth) if self.reads_hops else []
            self.receive(sent, packet, ce, cwr)
        return self

    def send(self) -> bool:
        """Send; return True if pacing holds something back."""
        if self.una == self.nxt == self.written and self.stimulus.burst_pkts:
            self.writes += 1
            self.written = self.written + self.stimulus.burst_pkts if self.writes <= self.stimulus.bursts else 1 << 40
        while (self.inflight() + 1) * MSS <= self.cwnd:
            ready = bool(self.lost) or self.nxt < self.written
            if ready and self.pacing and self.pace_free > self.now:
                return True
            if self.lost:
                packet = min(self.lost)
                self.lost.remove(packet)
            elif self.nxt < self.written:
                packet = self.nxt
                self.nxt += 1
            else:
                self.app_limited = max(self.delivered + self.inflight(), 1)
                return False
            nth = self.times_sent.get(packet, 0)
            self.times_sent[packet] = nth + 1
            self.pace_free = self.now + (MSS * 10**9 // self.pacing if self.pacing else 0)
            if self.una == packet == self.nxt - 1:
                self.first_sent = self.delivered_at = self.now
            self.last_sent[packet] = Transmission(
                self.now, self.first_sent, self.delivered_at, self.delivered, self.app_limited > 0
            )
            self.on_link.append((self.now, max(self.link_free, self.now)))
            self.link_free = max(self.link_free, self.now) + PACKET_NS
            if (packet, nth) not in self.stimulus.drops:
                ce = self.ecn is not Ecn.NONE and nth == 0 and self.stimulus.marks(packet)
                arrival = self.link_free + RTT_NS - PACKET_NS
                self.pipe.append((arrival, self.now, packet, ce, self.cwr, len(self.on_link)))
                self.cwr = False
        return False

    def telemetry(self, nth: int) -> list[tuple[int, int, int, int]]:
        """Telemetry of the n-th packet on the link, counted from 1."""
        left = self.on_link[nth - 1][1]
        waiting = sum(came <= left for came, _ in self.on_link[nth:])
        return [(LINK_BYTES_PER_S, waiting * PACKET_BYTES, nth * PACKET_BYTES, left)]

    def receive(self, sent: int, packet: int, ce: bool, cwr: bool) -> None:
        if cwr:
            self.latched = False
        if ce != self.last_ce and self.ecn is Ecn.DCTCP and self.unacked:
            self.acknowledge(0, self.last_ce)
        self.last_ce = ce
        self.latched = self.latched or ce
        in_order = packet == self.rcv_next
        self.got.add(packet)
        while self.rcv_next in self.got:
            self.got.remove(self.rcv_next)
            self.rcv_next += 1
        self.unacked += 1
        if self.unacked >= self.stimulus.ack_every or not in_order or self.got or not self.pipe:
            rtt = self.now - sent if self.times_sent[packet] == 1 else 0
            self.acknowledge(rtt, ce if self.ecn is Ecn.DCTCP else self.latched)

    def acknowledge(self, rtt: int, ece: bool) -> None:
        self.unacked = 0
        before = self.inflight()
        full = (before + 1) * MSS > self.cwnd
        una, known, lost = self.una, self.sacked, len(self.lost)
        self.una = max(self.una, self.rcv_next)
        self.sacked = {p for p in self.got if p >= self.una}
        self.lost = {p for p in self.lost if p >= self.una and p not in self.sacked}
        if rtt:
            self.min_rtt = min(self.min_rtt or rtt, rtt)
            self.srtt = self.srtt - self.srtt // 8 + rtt // 8 if self.srtt else rtt
        below = sorted(self.sacked)[-3] if len(self.sacked) >= 3 else 0
        self.lost |= {p for p in range(self.una, below) if p not in self.sacked and self.times_sent[p] == 1}
        rate = self.rate([p for p in (*range(una, self.una), *sorted(self.sacked)) if p not in known])
        if self.recovering and self.una >= self.recover:
            self.recovering = False
        if self.lost and not self.recovering:
            self.recovering, self.recover = True, self.nxt
            self.note("loss", self.cc.on_loss(**self.common()))
        acked = self.una - una
        flags = (_baselines.ECE if ece else 0) | (_baselines.IN_RECOVERY if self.recovering else 0)
        flags |= 0 if full else _baselines.APP_LIMITED
        flags |= rate.pop("flags", 0)
        old = self.cwnd
        delivered = acked + len(self.sacked) - len(known)
        self.note(
            "ack",
            self.cc.on_ack(
                rtt_ns=rtt,
                acked_bytes=acked * MSS,
                delivered_bytes=delivered * MSS,
                lost_bytes=max(len(self.lost) - lost, 0) * MSS,
                flags=flags,
                hops=self.hops,
                **rate,
                **self.common(),
            ),
        )
        self.cwr = self.cwr or (ece and self.cwnd < old)
        self.backoff = 0 if acked else self.backoff

    def expire(self) -> None:
        self.now += RTO_NS << self.backoff
        self.backoff += 1
        self.lost = {p for p in range(self.una, self.nxt) if p not in self.sacked}
        self.recovering, self.recover = True, self.nxt
        self.note("timeout", self.cc.on_timeout(**self.common()))

    def rate(self, packets: list[int]) -> dict[str, int]:
        """The sample of an ACK that newly acknowledges `packets`."""
        sent = [self.last_sent[packet] for packet in packets]
        self.delivered += len(packets)
        if self.app_limited and self.delivered > self.app_limited:
            self.app_limited = 0
        if not sent:
            return {}
        self.delivered_at = self.now
        last = max(sent, key=lambda each: (each.sent, each.delivered))
        self.first_sent = last.sent
        interval = max(last.sent - last.first_sent, self.now - last.delivered_at)
        if interval < max(self.min_rtt, 1):
            return {}
        flags = _baselines.RATE_APP_LIMITED if last.app_limited else 0
        return {"prior_delivered_bytes": last.delivered * MSS, "interval_ns": interval, "flags": flags}

    def common(self) -> dict[str, int]:
        return {
            "now_ns": self.now,
            "min_rtt_ns": self.min_rtt,
            "srtt_ns": self.srtt,
            "inflight_bytes": self.inflight() * MSS,
            "una_bytes": self.una * MSS,
            "nxt_bytes": self.nxt * MSS,
            "total_delivered_bytes": self.delivered * MSS,
        }

    def note(self, event: str, out: tuple[int, int, int]) -> None:
        self.cwnd, _, self.pacing = out
        self.curve.append((event, out[0], out[1]))
