# SPDX-License-Identifier: BSD-3-Clause
"""Programs of ports and tags of packets, worked by hand."""

import pytest

from ncc.baselines.registry import named
from tests.baselines import ports
from tests.baselines.ports import DROP, FIN, HAS_WINDOW, PASS, SYN_ACK, TRIM, Program

MTU = 1500
BUFFER = 83 * MTU
TARGET = BUFFER * 20 // 100
PARAMS = {name: [param.default for param in params] for name, params in named("program of a switch").items()}
LARGE = 10**9


def rwndq(*, m: int = 1, as_printed: int = 0) -> Program:
    """RWNDQ at a port of 83 packets: its target is 16.6 packets."""
    return Program("rwndq", [20, 50_000, m, 262_144, as_printed], size_bytes=BUFFER, mtu_bytes=MTU)


def opens(port: Program, flows: int) -> None:
    for _ in range(flows):
        port.reverse(flags=SYN_ACK | HAS_WINDOW, window_bytes=65_535)


def share(port: Program) -> int:
    """The window that an ACK with a large one comes away with."""
    return port.reverse(flags=HAS_WINDOW, window_bytes=LARGE)


def test_flows_share_a_window_that_opening_and_closing_leave_alone() -> None:
    port = rwndq()
    assert share(port) == LARGE  # nobody is known
    opens(port, 1)
    assert share(port) == TARGET  # line 4
    opens(port, 3)
    assert share(port) == TARGET // 4  # line 6
    assert port.reverse(flags=HAS_WINDOW, window_bytes=3000) == 3000  # line 14: only lowered
    assert port.enqueue(flags=FIN) == (PASS, 0)
    assert share(port) == TARGET // 3  # line 10
    port.enqueue(flags=FIN, verdict=DROP)
    assert share(port) == TARGET // 3  # a FIN that is dropped comes again
    for _ in range(3):
        port.enqueue(flags=FIN)
    assert share(port) == LARGE
    opens(port, 1)
    assert share(port) == TARGET  # line 12


@pytest.mark.parametrize(("as_printed", "step"), [(0, 2 * MTU), (1, 4 * 2 * MTU)])
def test_slow_start_adds_two_packets_in_all_or_as_printed_to_each_flow(as_printed: int, step: int) -> None:
    port = rwndq(as_printed=as_printed)
    opens(port, 4)
    assert port.timer(queue_bytes=0) == 50_000
    assert share(port) == (TARGET + step) // 4


def test_beyond_slow_start_the_window_follows_the_mean_error() -> None:
    port = rwndq(m=2)
    opens(port, 2)
    for queue_bytes in (0, TARGET):  # ends slow start, with its step
        port.timer(queue_bytes=queue_bytes)
    before = 2 * share(port)
    port.timer(queue_bytes=TARGET + 4000)
    assert 2 * share(port) == before  # not before the second sample
    port.timer(queue_bytes=TARGET - 1000)
    assert 2 * share(port) == before - 1500  # (-4000 + 1000) / 2


def test_as_printed_the_error_is_a_share_of_the_target() -> None:
    port = rwndq(as_printed=1)
    opens(port, 2)
    port.timer(queue_bytes=TARGET)
    before = 2 * share(port)
    port.timer(queue_bytes=2 * TARGET)  # kappa = -1: one MSS less in all (lines 17, 18, 22)
    assert 2 * share(port) == before - MTU


def test_no_share_falls_below_a_packet_nor_wanders_off() -> None:
    port = rwndq()
    opens(port, 2)
    port.timer(queue_bytes=TARGET)
    for _ in range(50):
        port.timer(queue_bytes=BUFFER)
    assert share(port) == MTU
    for _ in range(50):
        port.timer(queue_bytes=0)
    assert share(port) == 262_144


def test_pfabric_puts_packets_without_data_first() -> None:
    port = Program("pfabric", PARAMS["pfabric"], size_bytes=36_000, mtu_bytes=MTU)
    assert port.enqueue(payload_bytes=1460, rank=77) == (PASS, 77)
    assert port.enqueue(payload_bytes=0, rank=77) == (PASS, 0)


TAGS = {name: [param.default for param in params] for name, params in named("tags").items()}


def tagged(name: str, *, offset: int = 0, size: int = 10**8, delivered: int = 0) -> tuple[int, int]:
    return ports.tag(
        name, TAGS[name], offset_bytes=offset, payload_bytes=1460, size_bytes=size, delivered_bytes=delivered
    )


def test_pias_sinks_by_what_is_sent() -> None:
    classes = [tagged("pias", offset=pkts * 1460)[0] for pkts in (0, 908, 909, 1328, 1329, 2483, 2484, 10**6)]
    assert classes == [0, 0, 1, 1, 2, 6, 7, 7]


def test_by_size_and_remaining() -> None:
    assert [tagged("by_size", size=size)[0] for size in (9_999, 10_000, 10**6, 10**9)] == [0, 1, 3, 4]
    assert tagged("remaining", size=50_000, delivered=20_000) == (0, 30_000)
    assert tagged("remaining", size=2**40)[1] == 2**32 - 1


def test_a_link_is_paused_above_xoff_and_goes_on_a_gap_below_it() -> None:
    port = Program("pfc", [10_000, 3000], size_bytes=BUFFER, mtu_bytes=MTU)
    said = [port.ingress(ingress_bytes=each) for each in (10_000, 10_001, 20_000, 7001, 7000, 6000, 10_001)]
    assert said == [0, ports.PAUSE, 0, 0, ports.RESUME, 0, ports.PAUSE]


def test_data_is_trimmed_above_a_queue_of_data() -> None:
    port = Program("trim", [4500, 10], size_bytes=BUFFER, mtu_bytes=MTU)
    assert [port.enqueue()[0] for _ in range(4)] == [PASS, PASS, PASS, TRIM]
    assert port.enqueue(payload_bytes=0)[0] == PASS  # headers and ACKs are in nobody's way
    port.dequeue(payload_bytes=0)
    assert port.enqueue()[0] == TRIM
    port.dequeue()
    assert [port.enqueue()[0] for _ in range(2)] == [PASS, TRIM]
    port.dequeue()
    assert port.enqueue(verdict=DROP)[0] == DROP  # what the port drops is not waiting
    assert port.enqueue()[0] == PASS


def test_only_so_many_are_trimmed_for_each_that_leaves_whole() -> None:
    port = Program("trim", [3000, 2], size_bytes=BUFFER, mtu_bytes=MTU)
    said = [port.enqueue()[0] for _ in range(2 + 3000 // 64 + 1)]
    assert said == [PASS] * 2 + [TRIM] * (3000 // 64) + [DROP]
    port.dequeue()
    assert [port.enqueue()[0] for _ in range(4)] == [PASS, TRIM, TRIM, DROP]


def test_a_flowlet_keeps_its_way_until_there_is_a_gap() -> None:
    switch = Program("letflow", [500_000], size_bytes=BUFFER, mtu_bytes=MTU)
    assert switch.route(now_ns=0, ways=4, random=6) == 2
    assert switch.route(now_ns=499_999, ways=4, random=7) == 2
    assert switch.route(now_ns=999_998, ways=4, random=7) == 2  # each packet lets it go on
    assert switch.route(now_ns=1_499_998, ways=4, random=7) == 3
    assert switch.route(now_ns=1_499_999, ways=4, flow=1, random=4) == 0
    assert switch.route(now_ns=1_499_999, ways=4, back=1, random=5) == 1  # its ACKs have a flowlet of their own
    assert switch.route(now_ns=1_500_000, ways=4, random=0) == 3
