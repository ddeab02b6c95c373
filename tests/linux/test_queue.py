# SPDX-License-Identifier: BSD-3-Clause
"""A host's queue with real packets: its limit holds whoever sends, and its order is strict."""

import socket
import struct
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack, closing

import numpy as np
import pytest

from ncc.core.errors import DatapathError
from ncc.core.units import NS_PER_S
from ncc.envs.linux import device, namespaces, netlink, queue
from ncc.envs.linux.extension import extension
from ncc.envs.linux.netlink import Route
from ncc.envs.linux.order_program import MODES, SIZE_LEVEL, SIZE_OPTION, Mode, OrderProgram
from ncc.envs.linux.rack import Rack
from tests.linux.lab import FOR_EVER_S
from tests.linux.lines import LIMIT_BPS, LINE_BPS, PAIR, TIMEOUT_S, Line, line_of, received
from tests.linux.rates import check_limit, class_bytes_per_s, exceeds
from tests.linux.sockets import info
from tests.support.linux import TRAFFIC, needs
from tests.support.processes import eventually

DEEP = ("net/ipv4/tcp_limit_output_bytes", "1000000")
"""Setting with which more than a few packets of a connection wait in the queue."""
BURSTS_AT = 28
"""Place of the two bursts in a class's options, in ticks."""


@needs(*TRAFFIC)
class TestLimit:
    @pytest.mark.parametrize(
        ("kind", "options"),
        [
            (socket.SOCK_STREAM, {"congestion": "cubic"}),
            (socket.SOCK_STREAM, {"congestion": "reno"}),
            (socket.SOCK_DGRAM, {}),
        ],
    )
    @pytest.mark.attack("1")
    def test_it_holds_for_every_sender(
        self, host: Line, kind: socket.SocketKind, options: dict[str, int | str]
    ) -> None:
        with host.queue() as (_, made):
            made.limit(LIMIT_BPS)
            with host.sending(kind, **options):
                packet = 1500 if kind == socket.SOCK_STREAM else 1428  # a limit is exact for full packets
                check_limit(host.count, LIMIT_BPS * (1514 / 1500) * packet / (packet + 14))

    def test_it_holds_for_an_older_connection_and_changes_at_once(self, host: Line) -> None:
        with host.sending():
            assert exceeds(host.count, 2 * LIMIT_BPS)
            with host.queue("fifo") as (_, made):
                for rate_bps in (LIMIT_BPS, 2 * LIMIT_BPS, LIMIT_BPS):
                    made.limit(rate_bps)
                    check_limit(host.count, rate_bps)
                made.limit(np.inf)
                check_limit(host.count, LINE_BPS * 1500 / 1538)

    def test_a_low_limit_right_after_a_high_one_is_raised_for_a_while(self, host: Line) -> None:
        with host.queue() as (_, made), host.sending():
            made.limit(LIMIT_BPS, now_ns=NS_PER_S)
            made.limit(1e6, now_ns=NS_PER_S + 1_000_000)
            check_limit(host.count, 8 * 1500 / queue.PROMPT_S)
            made.limit(1e6, now_ns=NS_PER_S + round((queue.SETTLED_S + 0.01) * NS_PER_S))
            check_limit(host.count, 1e6, window_s=0.3)

    def test_what_asks_for_the_open_class_is_not_under_it(self, host: Line) -> None:
        with host.queue() as (_, made):
            made.limit(LIMIT_BPS)
            with host.sending(priority=queue.OPEN):
                assert exceeds(host.count, 2 * LIMIT_BPS)
                assert made.counters()["open_bytes"] > made.counters()["limited_bytes"]

    def test_frames_that_carry_packets_are_under_it(self, host: Line) -> None:
        """Limits cover frames of VLAN, MPLS and PPPoE; other types, such as ARP and LLDP, keep a link up."""
        found = {}
        with host.queue() as (_, made), host.opened(socket.SOCK_RAW, family=socket.AF_PACKET) as raw:
            for kind in (0x8100, 0x88A8, 0x8847, 0x8848, 0x8864, 0x0806, 0x88CC, 0x8809):
                before = made.counters()
                raw.bind((host.device, kind))
                raw.send(bytes(12) + struct.pack(">H", kind) + bytes(100))
                found[kind] = {name: bytes_ - before[name] for name, bytes_ in made.counters().items()}
        limited = [kind for kind, counts in found.items() if counts["limited_bytes"] >= 114 > counts["open_bytes"]]
        assert limited == [0x8100, 0x88A8, 0x8847, 0x8848, 0x8864]

    def test_without_a_heartbeat_there_is_none(self, host: Line) -> None:
        with host.queue() as (program, made), host.sending():
            made.limit(LIMIT_BPS)
            check_limit(host.count, LIMIT_BPS)
            assert program.counters()["silent_pkts"] == 0
            assert program._config["timeout_ns"] == FOR_EVER_S * NS_PER_S
            program.beat(1)
            program._config["timeout_ns"] = round(TIMEOUT_S * NS_PER_S)
            assert exceeds(host.count, 2 * LIMIT_BPS)
            assert program.counters()["silent_pkts"] > 0

    @pytest.mark.attack("n5")
    def test_a_heartbeat_of_the_future_is_none(self, host: Line) -> None:
        """It comes from a process of another time namespace, whose death would not be noticed for as long."""
        with host.queue() as (program, made), host.sending():
            made.limit(LIMIT_BPS)
            check_limit(host.count, LIMIT_BPS)
            program.beat(time.monotonic_ns() + 600 * NS_PER_S)
            assert exceeds(host.count, 2 * LIMIT_BPS)
            assert program.counters()["silent_pkts"] > 0

    @pytest.mark.attack("n13")
    @pytest.mark.parametrize(
        "how",
        [
            "class change dev {} classid 1:18 parent 1:2 htb rate 1gbit",
            "class change dev {} classid 1:4 parent 1:2 htb rate 1gbit",
            "class change dev {} classid 2:18 parent 2:1 htb rate 1gbit",
            "class add dev {} classid 1:99 parent 1: htb rate 1gbit",
            "filter at 1:",
            "filter at 2:",
        ],
    )
    def test_whoever_changes_its_classes_or_filters_is_noticed(self, host: Line, how: str) -> None:
        with host.queue() as (program, made):
            for limit_bps in (LIMIT_BPS, 2 * LIMIT_BPS, np.inf, LIMIT_BPS):
                made.limit(limit_bps)
                made.check()
            if how.startswith("filter"):
                parent = device.ROOT if "1:" in how else device.ORDER
                with namespaces.inside(host.host), closing(Route()) as route:
                    route.send(device.bpf_filter(made._index, program.fd, parent=parent, preference=1))
            else:
                subprocess.run(["tc", "-n", host.host, *how.format(host.device).split()], check=True)
            with pytest.raises(DatapathError, match=f"Another program has changed the queue of {host.device} "):
                made.check()


@needs(*TRAFFIC)
class TestOrder:
    @pytest.mark.parametrize("mode", MODES)
    def test_a_short_message_passes_a_long_one(self, host: Line, mode: Mode) -> None:
        """The short one is written when 60 KB of the long one wait."""
        with (
            host.queue(mode) as (program, made),
            host.setting(*DEEP),
            host.connected() as (long, long_end),
            host.connected() as (short, short_end),
        ):
            made.limit(4e6)
            long.sendall(bytes(200_000))
            assert eventually(lambda: made.counters()["backlog_bytes"] > 60_000)
            made.limit(5e5)
            before = received(long_end)
            short.sendall(bytes(10_000))
            received(short_end, 10_000)
            meanwhile = received(long_end)
            made.limit(4e6)
            received(long_end, 200_000 - before - meanwhile)
            counted = program.counters()
        assert counted["hinted"] == 0
        if mode == "known":
            assert meanwhile < 30_000
            assert counted["messages"] == 2
            assert counted["demotions"] > 2
        else:
            assert meanwhile > 50_000
            assert counted["messages"] == 0

    def test_a_told_size_counts_from_the_first_packet(self, host: Line) -> None:
        with host.queue() as (program, _):
            assert program.takes_sizes
            for wrong in (b"", b"1", bytes(8)):
                with host.opened(socket.SOCK_STREAM) as refused, pytest.raises(PermissionError):
                    refused.setsockopt(SIZE_LEVEL, SIZE_OPTION, wrong)
            with closing(OrderProgram(60.0)), host.opened(socket.SOCK_STREAM) as of_two_agents:
                of_two_agents.setsockopt(SIZE_LEVEL, SIZE_OPTION, struct.pack("=I", 50_000))
            demotions = []
            for told in (False, True):
                with host.connected() as (sender, end):
                    if told:
                        sender.setsockopt(SIZE_LEVEL, SIZE_OPTION, struct.pack("=I", 50_000))
                    sender.sendall(bytes(50_000))
                    received(end, 50_000)
                demotions.append(program.counters()["demotions"])
            assert program.counters()["hinted"] == 1
            assert demotions[0] > 1
            assert demotions[1] - demotions[0] == 1  # to its class, at once
        with host.opened(socket.SOCK_STREAM) as other, pytest.raises(OSError, match="not available"):
            other.setsockopt(SIZE_LEVEL, SIZE_OPTION, struct.pack("=I", 50_000))

    def test_a_message_that_moves_to_later_classes_stays_in_order(self, host: Line) -> None:
        before = host.out_of_order()
        with host.queue() as (program, made), host.connected() as (sender, end):
            made.limit(4e6)
            sender.sendall(bytes(100_000))
            received(end, 100_000)
            assert program.counters()["demotions"] >= 3
        assert host.out_of_order() == before

    def test_the_end_of_a_connection_does_not_overtake_its_payload(self, host: Line) -> None:
        before = host.out_of_order()
        with host.queue() as (_, made), host.connected() as (sender, end):
            made.limit(1e6)
            sender.setsockopt(SIZE_LEVEL, SIZE_OPTION, struct.pack("=I", 10_000))  # one class for all
            sender.sendall(bytes(10_000))
            sender.shutdown(socket.SHUT_WR)
            received(end, 10_000)
            assert end.recv(1) == b""
        assert host.out_of_order() == before

    @pytest.mark.parametrize("mode", MODES)
    def test_packets_without_payload_go_first(self, host: Line, mode: Mode) -> None:
        """A connection is opened while the queue has a backlog; the kernel queues two packets per slow connection."""
        with ExitStack() as undo:
            _, made = undo.enter_context(host.queue(mode))
            made.limit(4e6)
            senders = [undo.enter_context(host.sending()) for _ in range(16)]
            deep = eventually(lambda: made.counters()["backlog_bytes"] > 30_000)
            assert deep, (made.counters(), info(senders[0]))
            made.limit(2e5)
            with host.opened(socket.SOCK_STREAM) as other:
                began = made.counters()["limited_bytes"]
                other.connect(senders[0].getpeername())
                assert made.counters()["limited_bytes"] - began < 20_000
            made.limit(np.inf)  # or the connections' ends take half a minute


@needs(*TRAFFIC)
class TestClasses:
    def test_a_refused_request_hides_no_other(self, host: Line) -> None:
        """The kernel takes what is before and after it, and the first refusal is told."""
        with host.queue() as (_, made):
            made._classes.set(queue.REST, queue.INSIDE, 1001, queue.RATE_MAX)
            made._classes.set(0x70001, queue.LINE, 1, queue.RATE_MAX)
            made._classes.set(queue.EARLY, queue.INSIDE, 1002, queue.RATE_MAX)
            with pytest.raises(OSError, match="Invalid argument"):
                made._classes.send()
            assert [class_bytes_per_s(made, handle) for handle in (queue.REST, queue.EARLY)] == [1001, 1002]
            with pytest.raises(DatapathError, match="Another program has changed"):
                made.check()  # the refused class is not there

    @pytest.mark.parametrize(
        ("packet_bytes", "rate", "burst_bytes"), [(1514, 10**6, 3028), (1514, 10**9, 10**5), (65_549, 100, None)]
    )
    def test_a_burst_has_two_packets_or_100_us(self, packet_bytes: int, rate: int, burst_bytes: int | None) -> None:
        """A tick has 64 ns. The last burst is longer than a field can say."""
        classes = extension().Classes(1, packet_bytes, queue.BURST_PKTS, queue.BURST_S)
        classes.set(2, 1, 1, rate)
        ticks = struct.unpack_from("=2I", classes.written()[2], BURSTS_AT)
        classes.close()
        assert ticks == (round(1e9 / 64), 2**32 - 1 if burst_bytes is None else round(burst_bytes / rate * 1e9 / 64))

    def test_a_limit_that_the_kernel_does_not_take_is_named_and_asked_for_again(self) -> None:
        with Rack(PAIR.build()) as rack, (host := line_of(rack)).queue() as (_, made):
            made.limit(1e7)
            subprocess.run(["tc", "-n", host.host, "qdisc", "del", "dev", host.device, "root"], check=True)
            for _ in range(2):
                with pytest.raises(DatapathError, match="does not take a limit"):
                    made.limit(2e7)


@needs("root", "net")
def test_requests_are_read_as_they_are_written() -> None:
    written = netlink.attribute(3, b"abcde") + netlink.attribute(4, struct.pack("=I", 7))
    read = netlink.attributes(memoryview(written))
    assert {kind: bytes(data) for kind, data in read.items()} == {3: b"abcde", 4: struct.pack("=I", 7)}
    wanted: Callable[..., bytes] = netlink.request
    assert len(wanted(netlink.GET_QDISC, 0, 5)) % 4 == 0
