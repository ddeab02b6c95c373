# SPDX-License-Identifier: BSD-3-Clause
"""The share of packets outside the order in the limit, and the ceiling of what is outside the limit."""

import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from ncc.core.units import NS_PER_S
from ncc.envs.linux import device, namespaces, netlink, queue
from ncc.envs.linux.order_program import MODES, Mode
from tests.linux.lines import DATAGRAM, PORT, Line, sending
from tests.linux.rates import Count, check_limit, class_bytes_per_s
from tests.linux.spaces import say, spaces, wire
from tests.support.linux import TRAFFIC, needs
from tests.support.processes import PATIENCE_S, eventually

LIMIT_BPS = 4e6
BACKLOG_BYTES = 30_000
SHORT = b"an ordinary question"
HOP_LIMIT_OF_LINK = 255
FRAMES = {
    kind: bytes(12) + struct.pack(">H", kind) + bytes(100)
    for kind in (0x8100, 0x88A8, 0x8847, 0x8864, 0x88B5, 0x88E5, 0x8906, 0x0800, 0x86DD, 0x0806, 0x8809, 0x888E, 0x88CC)
}
"""A frame of each type: VLAN, MPLS, PPPoE, an experiment, MACsec, FCoE, IP, and ARP, LACP, EAPOL and LLDP."""
HOST_ADDRESS, BOX_ADDRESS = bytes.fromhex("020000000002"), bytes.fromhex("020000000001")
MANY = 20
KEEP_LINK = [0x0806, 0x8809, 0x888E, 0x88CC]

pytestmark = needs(*TRAFFIC)


def discovery(kind: int, hop_limit: int = HOP_LIMIT_OF_LINK) -> bytes:
    """Frame with an ICMPv6 packet of a type."""
    header = struct.pack(">IHBB", 6 << 28, 64, socket.IPPROTO_ICMPV6, hop_limit) + bytes(32)
    return bytes(12) + struct.pack(">H", 0x86DD) + header + bytes([kind]) + bytes(63)


def classes(made: queue.HostQueue) -> dict[int, int]:
    """Bytes that have left by each class."""
    answers = made._opened().ask(netlink.request(netlink.GET_CLASS, netlink.DUMP, made._index))
    return {answer.handle: answer.counts[0] for answer in answers if answer.counts is not None}


@contextmanager
def full(host: Line, mode: Mode = "known") -> Iterator[queue.HostQueue]:
    """A queue with a backlog of messages that all are in the first class, of so many that none waits for its pace."""
    with host.queue(mode) as (program, made), host.setting("net/ipv4/tcp_limit_output_bytes", "1000000"):
        program._config["upto_bytes"] = 1 << 40
        made.limit(LIMIT_BPS)
        with ExitStack() as senders:
            for _ in range(16):
                senders.enter_context(host.sending())
            assert eventually(lambda: made.counters()["backlog_bytes"] > BACKLOG_BYTES)
            yield made
            made.limit(float("inf"))  # or the connections' ends take seconds


@contextmanager
def asked(host: Line) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A socket for datagrams to the peer, and its other end."""
    with host.opened(socket.SOCK_DGRAM) as sender, host.opened(socket.SOCK_DGRAM, there=True) as receiver:
        receiver.bind((host.address, PORT + 1))
        receiver.settimeout(PATIENCE_S)
        sender.connect((host.address, PORT + 1))
        yield sender, receiver


@pytest.mark.attack("n27")
@pytest.mark.parametrize("mode", MODES)
def test_a_question_passes_the_backlog_of_full_connections(host: Line, mode: Mode) -> None:
    """Behind it, more bytes would leave before each question, however late the machine is."""
    with full(host, mode) as made, asked(host) as (sender, receiver):

        def passes() -> bool:
            assert eventually(lambda: made.counters()["backlog_bytes"] > BACKLOG_BYTES)
            began = made.counters()["limited_bytes"]
            sender.send(SHORT)
            assert receiver.recv(100) == SHORT
            return made.counters()["limited_bytes"] - began < BACKLOG_BYTES / 2

        assert eventually(passes)


@pytest.mark.attack("n27")
def test_what_is_outside_the_order_has_its_share_and_no_more_while_the_order_is_full(host: Line) -> None:
    """A flood of small and of large datagrams beside full connections."""
    with (
        full(host) as made,
        asked(host) as (small, _),
        host.datagrams() as large,
        sending(large),
        sending(small, datagram=bytes(200)),
    ):
        began = classes(made)
        assert eventually(lambda: made.counters()["limited_bytes"] - began[device.LIMIT] > 1_000_000)
        sent = {handle: count - began[handle] for handle, count in classes(made).items()}
        shares = [sent[handle] / sent[device.LIMIT] for handle in (queue.REST, queue.EARLY)]
    assert all(0.7 * queue.SHARE_FRAC < share < 1.3 * queue.SHARE_FRAC for share in shares), shares
    assert len(DATAGRAM) > queue.SMALL_BYTES


def test_a_datagram_that_finds_no_other_packets_may_use_the_whole_limit(host: Line) -> None:
    with host.queue() as (_, made), host.sending(socket.SOCK_DGRAM):
        made.limit(LIMIT_BPS)
        check_limit(host.count, LIMIT_BPS * (1514 / 1500) * 1428 / 1442)


def test_shares_follow_a_limit_that_changes_each_period_now_and_then(host: Line) -> None:
    """They follow the first limit at once, and a lasting limit in the end."""
    period_ns, follows_ns = 2_000_000, round(queue.SHARE_FOLLOWS_S * NS_PER_S)
    with host.queue() as (_, made):
        began_ns, rates = time.monotonic_ns(), list[int]()
        for now_ns in range(began_ns, began_ns + 4 * follows_ns, period_ns):
            made.limit(1e7 if len(rates) % 2 else 9e7, now_ns)
            rates.append(class_bytes_per_s(made, queue.REST))
        changes = np.flatnonzero(np.diff(rates)) * period_ns / follows_ns
        assert rates[0] == pytest.approx(queue.SHARE_FRAC * 9e7 / 8, rel=0.02)
        assert np.diff(changes).min(initial=1) >= 1
        made.limit(1e7, now_ns + follows_ns)
        assert class_bytes_per_s(made, queue.REST) == pytest.approx(queue.SHARE_FRAC * 1e7 / 8, rel=0.02)


@pytest.mark.attack("n27")
def test_the_queue_of_what_is_outside_the_order_is_short(host: Line) -> None:
    with host.queue() as (_, made):
        made.limit(LIMIT_BPS)  # before the first packet: those that wait when a limit comes stay
        with host.sending(socket.SOCK_DGRAM):
            assert eventually(lambda: made.counters()["dropped_pkts"] > 0)
            assert made.counters()["backlog_bytes"] <= queue.SHARE_PKTS * 1514


@contextmanager
def behind(host: Line, how: str) -> Iterator[str]:
    """A container behind the host, `routed` or `bridged`; its name."""
    with spaces("box", lines=(f"link add box0 netns {{0}} type veth peer name host1 netns {host.host}",)) as (box,):
        say("-n", box, "link set box0 up")
        say("-n", host.host, f"link set host1 address {HOST_ADDRESS.hex(':')} up")
        if how == "bridged":
            say("-n", host.host, "link add bridge type bridge")
            for name in ("host1", host.device):
                say("-n", host.host, f"link set {name} master bridge")
            say("-n", host.host, "link set bridge up")
        with namespaces.inside(host.host):
            for setting in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"):
                Path("/proc/sys/net", setting).write_text("1")
        yield box


def left_by(made: queue.HostQueue, send: Callable[[], object]) -> str:
    """`limited` or `open`: the way of something of 100 bytes or more; the kernel's own packets are shorter."""
    before = made.counters()

    def grown() -> list[str]:
        after = made.counters()
        return [name for name in ("limited", "open") if after[f"{name}_bytes"] - before[f"{name}_bytes"] >= 100]

    send()
    assert eventually(grown), "it has not left"
    (by,) = grown()
    return by


class TestOutsideTheLimit:
    """On a line of its own, since forwarding stays on."""

    @pytest.fixture
    def line(self) -> Iterator[Line]:
        ends = [f"-n {{{i}}} address add fd00:9::{i + 1}/64 dev line{i} nodad" for i in (0, 1)]
        ups = [f"-n {{{i}}} link set line{i} up" for i in (0, 1)]
        with spaces("lhost", "lpeer", lines=(wire("line0", "line1"), *ends, *ups)) as (host, peer):
            yield Line(host, peer, "line0", "fd00:9::2")

    @pytest.mark.attack("n4")
    def test_a_short_list_of_frames_and_neighbour_discovery_are_outside_it(self, line: Line) -> None:
        with line.queue() as (_, made), line.opened(socket.SOCK_RAW, family=socket.AF_PACKET) as raw:
            made.limit(LIMIT_BPS)

            def sent(frame: bytes) -> str:
                raw.bind((line.device, struct.unpack_from(">H", frame, 12)[0]))
                return left_by(made, lambda: raw.send(frame))

            assert [kind for kind, frame in FRAMES.items() if sent(frame) == "open"] == KEEP_LINK
            assert [kind for kind in range(128, 145) if sent(discovery(kind)) == "open"] == [*range(133, 138)]
            assert sent(discovery(135, HOP_LIMIT_OF_LINK - 1)) == "limited", "no link's"

    def test_a_user_who_sends_to_unused_addresses_does_not_fill_it(self, line: Line) -> None:
        """The kernel has as many unresolved neighbours at most, and asks for each once a second."""
        most_pkts, asked = 1024, 400  # the table is the machine's: others may need room in it
        assert 8 * most_pkts * (42 + 86) < 0.6 * queue.LINK_BPS
        assert 2 * most_pkts <= queue.LINK_PKTS
        say("-n", line.host, f"address add 10.99.0.1/16 dev {line.device}")
        with line.queue() as (_, made), line.opened(socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            for i in range(asked):
                with suppress(OSError):
                    sender.sendto(b"", (f"10.99.{1 + i // 250}.{1 + i % 250}", PORT))
            assert eventually(lambda: classes(made)[queue.LINK] >= 0.9 * asked * 42)
            assert made.counters()["dropped_pkts"] == 0

    @pytest.mark.attack("n4")
    @pytest.mark.parametrize("kind", [0x0806, 0x86DD])
    def test_it_has_a_ceiling(self, line: Line, kind: int) -> None:
        frame = discovery(135) if kind == 0x86DD else FRAMES[kind]
        with line.queue() as (_, made), line.opened(socket.SOCK_RAW, family=socket.AF_PACKET) as raw:
            made.limit(LIMIT_BPS)
            raw.bind((line.device, kind))
            raw.setblocking(False)

            def filled() -> Count:
                with suppress(OSError):  # no room
                    while True:
                        raw.send(frame)
                return line.count()

            check_limit(filled, queue.LINK_BPS, reached_frac=0.3)

    @pytest.mark.attack("n4")
    def test_nothing_of_a_container_is_outside_it(self, line: Line) -> None:
        with line.queue() as (_, made), behind(line, "bridged") as box, namespaces.inside(box):
            made.limit(LIMIT_BPS)
            with closing(socket.socket(socket.AF_PACKET, socket.SOCK_RAW)) as raw:
                raw.bind(("box0", 0))
                for frame in (*FRAMES.values(), *map(discovery, range(133, 138))):
                    to_all = bytes([0xFF] * 6) + BOX_ADDRESS + frame[12:]
                    assert left_by(made, partial(raw.send, to_all)) == "limited"

    @pytest.mark.attack("n27")
    def test_packets_of_a_routed_container_have_the_share(self, line: Line) -> None:
        """Also those of TCP without payload, which would go first if they were the host's own."""
        with line.queue() as (_, made), behind(line, "routed") as box, namespaces.inside(box):
            made.limit(LIMIT_BPS)
            tcp = struct.pack(">HHIIBBHHH", 1, 2, 0, 0, 5 << 4, 16, 0, 0, 0)
            head = struct.pack(">IHBB", 6 << 28, len(tcp), socket.IPPROTO_TCP, 64)
            ends = socket.inet_pton(socket.AF_INET6, "fd00:8::1") + socket.inet_pton(socket.AF_INET6, line.address)
            frame = HOST_ADDRESS + BOX_ADDRESS + struct.pack(">H", 0x86DD) + head + ends + tcp
            with closing(socket.socket(socket.AF_PACKET, socket.SOCK_RAW)) as raw:
                raw.bind(("box0", 0))
                before = classes(made)
                for _ in range(MANY):
                    raw.send(frame)
                sent_bytes = MANY * len(frame)
                assert eventually(lambda: classes(made)[queue.EARLY] >= before[queue.EARLY] + sent_bytes)
                assert classes(made)[queue.FIRST] == before[queue.FIRST]
