# SPDX-License-Identifier: BSD-3-Clause
"""Receivers on Linux: their knowledge, their grants, and real flows that wait in their sockets for a grant."""

import socket
import struct
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.measurement import Measurement, idle
from ncc.core.receivers import Edges, Grants, parts
from ncc.core.scenario import Scenario
from ncc.core.topologies import ManyToOne
from ncc.core.workload import Fixed, Flow
from ncc.envs.linux import layout, namespaces, traffic
from ncc.envs.linux.datapath import LinuxDatapath
from ncc.envs.linux.gates import Gates
from ncc.envs.linux.machine import namespace_cookie
from ncc.envs.linux.measure import PORT_COUNTERS, Meter
from ncc.envs.linux.shim import Shim
from ncc.envs.linux.wake import FIELDS, Waker, checksum, wake_ack
from ncc.harness.controller import Formula
from ncc.harness.datapath import HostStack, Records
from ncc.run.controllers import load_controller
from tests.linux.lab import FOR_EVER_S
from tests.linux.runs import SETTINGS, TRANSPORT, start
from tests.linux.spaces import spaces
from tests.support.linux import TRAFFIC, needs
from tests.support.processes import PATIENCE_S, eventually

SERVERS = 8
STAR = ManyToOne(senders=SERVERS, rate_bps=5e7, delay_s=10e-6, buffer_bytes=100_000, mark_threshold_bytes=30_000)
SIZE = 60_000
HOLDS = HostStack(transport="dctcp", hold=True)


def burst(*sizes_bytes: int, **more: Any) -> Scenario:
    """One flow of each server to the receiver, at once."""
    flows = tuple(Flow(start_s=0.0, src=f"s{i}", dst="receiver", size_bytes=n) for i, n in enumerate(sizes_bytes))
    settings: dict[str, Any] = {
        "duration_s": 0.5,
        "drain_s": 100.0,
        "period_s": 0.005,
        "neighbourhoods": "receivers",
        "transport": TRANSPORT.replace(min_rto_s=0.2, recovery="modern"),
    } | more
    return Scenario(name="burst", topology=STAR, workload=(("fixed", Fixed(flows=flows)),), **settings)


def made(scenario: Scenario, **more: Any) -> tuple[Gates, Meter, Any]:
    """Gates, meter and flows of a run without a kernel."""
    flows, network = scenario.flows(1), scenario.network()
    meter = Meter(scenario, flows, np.zeros((2 * len(network.links), len(PORT_COUNTERS)), np.int64))
    meter.live = np.arange(len(flows))
    return Gates(scenario, flows, 1, {}, dict.fromkeys(network.hosts, "10.0.0.1"), **more), meter, flows


@needs(*TRAFFIC)
@pytest.mark.parametrize(
    ("family", "prefix"), [(socket.AF_INET, "127.0.0."), (socket.AF_INET6, "fd00:7::")], ids=["IPv4", "IPv6"]
)
def test_only_flows_to_receivers_that_are_named_wait(family: socket.AddressFamily, prefix: str) -> None:
    """Three addresses of loopback; waiting data is sent when it is released and woken."""
    own, named, silent = (f"{prefix}{i}" for i in (1, 2, 3))
    with ExitStack() as undo:
        lines = tuple(f"-n {{0}} address add fd00:7::{i} dev lo" for i in (1, 2, 3))
        (space,) = undo.enter_context(spaces("gates", lines=lines))
        undo.enter_context(namespaces.inside(space))
        shim = undo.enter_context(Shim("dctcp", timeout_s=FOR_EVER_S, name="ncc_test_named"))
        waker = undo.enter_context(closing(Waker(own)))
        shim.add_host(0, own, namespace_cookie())
        shim.hosts["patience_ns"][0], shim.hosts["named_only"][0] = 10**15, 1
        shim.wait_for(named, waits=True)
        shim.wait_for(silent, waits=False)
        for address, waits in ((own, False), (named, True), (silent, False)):
            shim.beat()
            with socket.create_server((address, 0), family=family) as listener, socket.socket(family) as sender:
                sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"ncc_test_named")
                sender.bind((own, 0))
                sender.connect(listener.getsockname())
                sender.sendall(bytes(5000))
                with listener.accept()[0] as receiver:
                    receiver.settimeout(0.15 if waits else PATIENCE_S)
                    if waits:
                        with pytest.raises(TimeoutError):
                            receiver.recv(1)
                        receiver.settimeout(PATIENCE_S)
                        let_go(shim, waker, address)
                    assert receiver.recv(1) == b"\0"


@needs(*TRAFFIC)
def test_a_flow_that_has_begun_does_not_wait_again() -> None:
    """More is written than the receiver takes at once, and new flows must wait from then on."""
    own, peer = "127.0.0.1", "127.0.0.2"
    with ExitStack() as undo:
        (space,) = undo.enter_context(spaces("begun"))
        undo.enter_context(namespaces.inside(space))
        shim = undo.enter_context(Shim("dctcp", timeout_s=FOR_EVER_S, name="ncc_test_begun"))
        shim.add_host(0, own, namespace_cookie())
        shim.hosts["patience_ns"][0], shim.hosts["named_only"][0] = 10**15, 1
        shim.wait_for(peer, waits=False)
        shim.beat()
        listener = undo.enter_context(socket.create_server((peer, 0)))
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 15)

        def flow() -> tuple[socket.socket, socket.socket]:
            sender = undo.enter_context(socket.socket())
            sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"ncc_test_begun")
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
            sender.bind((own, 0))
            sender.connect(listener.getsockname())
            sender.sendall(bytes(200_000))
            return sender, undo.enter_context(listener.accept()[0])

        sender, receiver = flow()
        assert eventually(lambda: 0 < shim.reports["delivered_bytes"][0] < 100_000)
        shim.wait_for(peer, waits=True)
        sender.shutdown(socket.SHUT_WR)
        receiver.settimeout(PATIENCE_S)
        came = 0
        while data := receiver.recv(1 << 16):
            came += len(data)
        assert came == 200_000
        assert not shim.reports["held"].any()
        flow()
        assert eventually(shim.reports["held"].any)


def let_go(shim: Shim, waker: Waker, address: str) -> None:
    """Let the one flow that waits for a receiver begin."""
    (slot,) = np.flatnonzero(shim.reports["held"])
    report = shim.reports[slot]
    assert (report["peer"], report["unsent_bytes"]) == (layout.address_bytes(address), 5000)
    shim.decisions["start_ns"][slot], shim.decisions["generation"][slot] = 1, report["generation"]
    waker.wake(layout.address_bytes(address), **{name: int(report[name]) for name in FIELDS})


def test_receivers_hear_of_connections_that_are_up() -> None:
    gates, meter, flows = made(burst(1000, 2000, 3000))
    states = np.array([traffic.CONNECTING, traffic.SENDING, traffic.FAILED])
    edges = gates.edges(meter, states, 0.005)
    assert (edges.src.tolist(), edges.dst.tolist()) == ([flows.src[1]], [flows.dst[1]])
    states[:] = traffic.HANDED
    meter.delivered_bytes[1] = 500
    edges = gates.edges(meter, states, 0.01)
    assert edges.src.tolist() == flows.src.tolist(), "the oldest first"
    assert edges.waiting_bytes.tolist() == edges.next_bytes.tolist() == [1000, 1500, 3000]
    assert edges.received_bytes.tolist() == [0, 500, 0]
    assert edges.age_s.tolist() == pytest.approx([0, 0.005, 0])
    meter.live = np.zeros(0, np.int64)
    assert len(gates.edges(meter, states, 0.015)) == 0


def test_flows_of_a_pair_are_one_edge() -> None:
    scenario = burst()
    flows = tuple(Flow(start_s=0.0, src="s0", dst="receiver", size_bytes=n) for n in (3000, 1000))
    gates, meter, _ = made(scenario.replace(workload=(("fixed", Fixed(flows=flows)),)))
    edges = gates.edges(meter, np.full(2, traffic.HANDED), 0.005)
    assert (edges.flows.tolist(), edges.waiting_bytes.tolist(), edges.next_bytes.tolist()) == ([2], [4000], [1000])


class _Said:
    """Senders as `Gates.decide` uses them, with a slot for each flow."""

    def __init__(self, n: int) -> None:
        self.shim, self.waits = self, dict[str, bool]()
        self.decisions, self.reports = np.zeros(n, layout.DECISION), np.zeros(n, layout.REPORT)

    def wait_for(self, receiver: str, *, waits: bool) -> None:
        self.waits[receiver] = waits

    def connections(self) -> Any:
        n = len(self.decisions)
        return np.arange(n), np.arange(n), np.full(n, 7, np.uint32)


def say(scenario: Scenario, src: Any, dst: Any, **columns: Any) -> Grants:
    n = len(src)
    values = {"start_s": np.zeros(n), "rate_bps": np.full(n, np.inf), "window_pkts": np.zeros(n, np.int64)} | columns
    return Grants(np.asarray(src), np.asarray(dst), **values)


def test_words_hold_for_the_flows_that_were_heard_of() -> None:
    scenario = burst(1000, 2000)
    gates, meter, flows = made(scenario)
    states, said = np.array([traffic.HANDED, traffic.CONNECTING]), _Said(2)
    now = at(0.005, gates.edges(meter, states, 0.005))
    gates.tell(say(scenario, flows.src, flows.dst, start_s=np.array([1.0, 2.0]), window_pkts=np.array([4, 4])), now)
    gates.decide(said, 0, 5_000_000)  # type: ignore[arg-type]
    assert said.decisions["start_ns"].tolist() == [10**9, 0], "the second is not heard of, so nothing is said of it"
    assert said.decisions["most_bytes"].tolist() == [4 * scenario.transport.mss_bytes, 0]
    assert said.decisions["generation"].tolist() == [7, 7]
    gates.decide(said, 0, 10**9 - 2_000_000)  # type: ignore[arg-type]
    assert said.decisions["start_ns"][0] == 1, "the nearest beginning of a period"
    assert gates.counts["messages"] == 1


def test_a_rate_is_shared_by_the_flows_of_a_pair_and_ends_with_the_last() -> None:
    flows = tuple(Flow(start_s=0.0, src="s0", dst="receiver", size_bytes=3000) for _ in range(2))
    scenario = burst().replace(workload=(("fixed", Fixed(flows=flows)),))
    gates, meter, table = made(scenario)
    said, states = _Said(2), np.full(2, traffic.HANDED)
    now = at(0.005, gates.edges(meter, states, 0.005))
    gates.tell(say(scenario, table.src[:1], table.dst[:1], rate_bps=np.array([8e6])), now)
    gates.decide(said, 0, 15_000_000)  # type: ignore[arg-type]
    payload = scenario.transport.mss_bytes / scenario.transport.mtu_bytes
    assert said.decisions["rate_bytes_per_s"].tolist() == [int(5e5 * payload)] * 2
    live, meter.live = meter.live, meter.live[:0]
    gates.edges(meter, states, 0.01)
    meter.live = live
    gates.edges(meter, states, 0.015)
    gates.decide(said, 0, 15_000_000)  # type: ignore[arg-type]
    assert said.decisions["rate_bytes_per_s"].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("changed", "waits"),
    [
        ({}, [False, True, False]),
        ({"sharing_delay_periods": 2}, [True] * 3),
        ({"sharing_loss_frac": 0.1}, [True] * 3),
        ({"sharing_silent": ("receiver",)}, [True] * 3),
    ],
    ids=["in time", "late", "lost", "dead"],
)
def test_receivers_say_each_period_whether_new_flows_wait(changed: dict[str, Any], waits: list[bool]) -> None:
    """At first, then with 58 KB missing, then with nothing. A first window has 3 packets, so those of 8 servers fit."""
    transport = TRANSPORT.replace(min_rto_s=0.2, recovery="modern", initial_window_pkts=3)
    gates, meter, _ = made(burst(1000, transport=transport, **changed), answer_frac=0.6)
    said, seen = _Said(1), list[bool]()
    for period, size_bytes in enumerate((0, 58_000, 0)):
        meter.known_bytes[:] = size_bytes
        gates.edges(meter, np.full(1, traffic.HANDED), 0.005 * period)
        gates.decide(said, 0, 5_000_000 * period)  # type: ignore[arg-type]
        seen.append(said.waits["10.0.0.1"])
    assert seen == waits


def test_without_answers_the_kernel_is_told_nothing_of_receivers() -> None:
    gates, meter, _ = made(burst(1000))
    said = _Said(1)
    gates.edges(meter, np.full(1, traffic.HANDED), 0.0)
    gates.decide(said, 0, 5_000_000)  # type: ignore[arg-type]
    assert said.waits == {}


@pytest.mark.parametrize(("link_frac", "paced"), [(0.97, False), (0.5, True)])
def test_almost_the_whole_link_is_no_limit(link_frac: float, paced: bool) -> None:
    """Pacing at it would mix the packets of the pair's flows, which the host's queue sends one flow after the other."""
    scenario = burst(3000)
    gates, meter, table = made(scenario)
    said, states = _Said(1), np.full(1, traffic.HANDED)
    now = at(0.005, gates.edges(meter, states, 0.005))
    gates.tell(say(scenario, table.src, table.dst, rate_bps=np.array([link_frac * STAR.rate_bps])), now)
    gates.decide(said, 0, 15_000_000)  # type: ignore[arg-type]
    assert bool(said.decisions["rate_bytes_per_s"][0]) == paced


def test_a_wake_is_an_ack_that_says_nothing_new() -> None:
    own, peer = map(layout.address_bytes, ("10.0.0.1", "10.0.0.2"))
    packet = wake_ack(own, peer, port=40000, peer_port=5001, una=2**32 - 1, rcv_nxt=17, window=99)
    assert struct.unpack("!2x H", packet[:4]) == (40,)
    assert packet[12:20] == b"\x0a\0\0\2\x0a\0\0\1", "from the receiver, to the sender"
    assert struct.unpack("!HHII", packet[20:32]) == (5001, 40000, 17, 2**32 - 1)
    assert struct.unpack("!BH", packet[33:36]) == (0x10, 99)
    assert checksum(packet[12:20] + struct.pack("!BBH", 0, 6, 20) + packet[20:]) == 0


def test_a_wake_over_ipv6_has_its_header_and_the_same_ack() -> None:
    own, peer = map(layout.address_bytes, ("fd00::1", "fd00::2"))
    packet = wake_ack(own, peer, port=40000, peer_port=5001, una=2**32 - 1, rcv_nxt=17, window=99)
    assert struct.unpack("!IHBB", packet[:8]) == (6 << 28, 20, 6, 64)
    assert packet[8:40] == peer + own
    assert struct.unpack("!HHII", packet[40:52]) == (5001, 40000, 17, 2**32 - 1)
    assert checksum(packet[8:40] + struct.pack("!IHBB", 20, 0, 0, 6) + packet[40:]) == 0  # RFC 8200 section 8.1


def test_words_are_late_or_lost_as_the_scenario_says() -> None:
    scenario = burst(1000, sharing_delay_periods=3)
    gates, meter, flows = made(scenario)
    states, said = np.array([traffic.HANDED]), _Said(1)
    now = at(0.005, gates.edges(meter, states, 0.005))
    gates.tell(say(scenario, flows.src, flows.dst, start_s=np.array([1.0])), now)
    for at_ns, start_ns in ((5_000_000, 0), (10_000_000, 0), (15_000_000, 10**9)):
        gates.decide(said, 0, at_ns)  # type: ignore[arg-type]
        assert said.decisions["start_ns"].tolist() == [start_ns]
    scenario = burst(1000, sharing_loss_frac=1 - 1e-9)
    gates, meter, flows = made(scenario)
    now = at(0.005, gates.edges(meter, states, 0.005))
    gates.tell(say(scenario, flows.src, flows.dst, start_s=np.array([1.0])), now)
    for at_ns, start_ns in ((5_000_000, 0), (15_000_000, 1)):
        gates.decide(said, 0, at_ns)  # type: ignore[arg-type]
        assert said.decisions["start_ns"].tolist() == [start_ns], "two periods without a word are enough"


@pytest.mark.parametrize(
    ("stack", "changed", "said"),
    [
        (HOLDS, {"neighbourhoods": "uplink"}, "hold needs receivers: set Scenario.neighbourhoods to receivers or both"),
        (HostStack(transport="linux::cubic", hold=True), {}, "Flows cannot be held over linux::cubic"),
        (HostStack(hold=True, messages="instant"), {}, "stack.messages must be packets on linux"),
    ],
)
@needs("objects")
def test_what_cannot_be_held_is_refused(
    datapath: LinuxDatapath, stack: HostStack, changed: dict[str, Any], said: str
) -> None:
    scenario = burst(1000).replace(**changed)
    with pytest.raises(ConfigError, match=said):
        datapath.start(scenario, scenario.flows(1), stack, 1)


def at(time_s: float, edges: Edges) -> Measurement:
    return replace(idle(SERVERS, 1), time_s=time_s, edges=edges)


def run(
    datapath: LinuxDatapath, scenario: Scenario, stack: HostStack, decide: Any = None
) -> tuple[list[Measurement], Records]:
    """A run to its end; `decide(measurement)` returns the grants of each period."""
    seen = [start(datapath, scenario, stack)]
    unlimited = np.full(scenario.n_agents, np.inf)
    while seen[-1].flows_finished < len(scenario.flows(1)) and seen[-1].time_s < 90:
        if decide is not None and (grants := decide(seen[-1])) is not None:
            datapath.tell(grants)
        seen.append(datapath.step(unlimited))
    return seen, datapath.finish()


def words(scenario: Scenario, starts_s: Any) -> Any:
    """Grants of a receiver that gives the server of each edge its start, once."""
    network, told = scenario.network(), set[int]()
    servers = network.group("senders")

    def decide(now: Measurement) -> Grants:
        new = [src for src in now.edges.src.tolist() if src not in told]
        told.update(new)
        starts = np.array([starts_s[servers.index(src)] for src in new])
        return say(scenario, np.array(new, np.int64), np.full(len(new), network.group("receiver")[0]), start_s=starts)

    return decide


@needs(*TRAFFIC)
def test_held_flows_begin_when_they_are_told_and_do_not_notice(datapath: LinuxDatapath) -> None:
    starts_s = np.array([0.6, 0.2, 0.4])
    scenario = burst(SIZE, SIZE, SIZE)
    seen, records = run(datapath, scenario, HOLDS, words(scenario, starts_s))
    finish_s = records.flows.finish_s
    assert np.isfinite(finish_s).all()
    assert np.argsort(finish_s).tolist() == [1, 2, 0]
    assert (finish_s > starts_s - scenario.period_s).all()
    assert records.flows.timeouts.sum() == 0
    assert (records.flows.rtt_mean_s < starts_s / 2).all(), "the wait is in no RTT"
    before = [now for now in seen if now.time_s < 0.15]
    assert not sum(now.goodput_bps.sum() for now in before), "nothing leaves before its start"
    assert datapath.facts["receivers"]["woken"] >= 3
    assert datapath.facts["receivers"]["messages"] == 3


@needs(*TRAFFIC)
def test_without_a_word_flows_begin_after_two_periods(datapath: LinuxDatapath) -> None:
    scenario = burst(SIZE, SIZE)
    seen, records = run(datapath, scenario, HOLDS)
    assert np.isfinite(records.flows.finish_s).all()
    assert records.flows.timeouts.sum() == 0
    assert datapath.facts["receivers"]["unanswered"] >= 2
    assert sum(now.time_s < 0.01 and now.goodput_bps.any() for now in seen) == 0


@needs(*TRAFFIC)
def test_flows_begin_at_once_while_their_receiver_says_so(datapath: LinuxDatapath) -> None:
    """A buffer of 100 KB has room for the first windows of eight servers, but not beside 200 KB that are missing."""
    flows = tuple(
        Flow(start_s=start_s, src=src, dst="receiver", size_bytes=size)
        for start_s, src, size in ((0.0, "s0", 200_000), (0.02, "s1", 10_000), (0.3, "s2", 10_000))
    )
    transport = TRANSPORT.replace(min_rto_s=0.2, recovery="modern", initial_window_pkts=3)
    scenario = burst(transport=transport).replace(workload=(("fixed", Fixed(flows=flows)),))
    _, records = run(datapath, scenario, HOLDS.replace(answer_frac=0.6))
    assert np.isfinite(records.flows.finish_s).all()
    assert datapath.facts["receivers"]["woken"] == 1, "the second waits"


@needs(*TRAFFIC)
def test_senders_of_a_receiver_that_dies_go_on(datapath: LinuxDatapath) -> None:
    scenario = burst(SIZE, SIZE, sharing_silent=("receiver",), sharing_silent_from_s=0.1)
    seen, records = run(datapath, scenario, HOLDS, words(scenario, [9.0, 9.0]))
    assert (records.flows.finish_s > 0.1).all()
    assert (records.flows.finish_s < 9.0).all()
    assert records.flows.timeouts.sum() == 0
    assert seen[-1].flows_finished == 2


@needs(*TRAFFIC)
def test_when_user_space_dies_held_flows_go_on() -> None:
    """The kernel's own probes make it try again."""
    scenario = burst(SIZE, SIZE)
    decide = words(scenario, [100.0, 100.0])
    with closing(LinuxDatapath(SETTINGS.replace(heartbeat_timeout_s=0.5))) as datapath:
        now = start(datapath, scenario, HOLDS)
        unlimited = np.full(scenario.n_agents, np.inf)
        while now.time_s < 0.1:
            datapath.tell(decide(now))
            now = datapath.step(unlimited)
        assert now.flows_finished == 0
        assert datapath._run is not None
        flows = datapath._run._traffic.flows
        assert eventually(lambda: flows["finish_ns"].min() > 0)
        datapath.step(unlimited)
        assert np.isfinite(datapath.finish().flows.finish_s).all()


@needs(*TRAFFIC)
def test_windows_and_rates_hold(datapath: LinuxDatapath) -> None:
    scenario = burst(SIZE, SIZE)
    network = scenario.network()
    servers, (receiver,) = np.array(network.group("senders")[:2]), network.group("receiver")

    def decide(now: Measurement) -> Grants | None:
        rate_bps = np.array([np.inf, 2e6])
        return say(scenario, servers, np.full(2, receiver), rate_bps=rate_bps) if len(now.edges) else None

    _, records = run(datapath, scenario, HOLDS, decide)
    assert records.flows.finish_s[1] > records.flows.finish_s[0]
    assert records.flows.finish_s[1] > 0.6 * SIZE * 8 / 2e6


@needs(*TRAFFIC)
def test_the_rule_lets_servers_answer_one_after_the_other(datapath: LinuxDatapath) -> None:
    scenario = burst(*[SIZE] * SERVERS)
    controller = load_controller("receiver_rule")
    assert isinstance(controller.limit, Formula)
    rule = controller.limit.build()
    rule.reset(scenario, 1)
    waiting, under_way = [], []

    def decide(now: Measurement) -> Grants | None:
        edges = now.edges
        waiting.append(len(edges))
        under_way.append(int(((edges.received_bytes > 0) & (edges.waiting_bytes > 0)).sum()))
        return parts(rule.decide(now))[1]

    _, ruled = run(datapath, scenario, controller.stack, decide)
    datapath.close()
    _, plain = run(datapath, scenario, HostStack(transport="linux::cubic"))
    assert max(waiting) == SERVERS
    assert max(under_way) < SERVERS / 2
    assert (ruled.ports.dropped_pkts.sum(), plain.ports.dropped_pkts.sum() > 0) == (0, True)
