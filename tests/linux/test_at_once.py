# SPDX-License-Identifier: BSD-3-Clause
"""Flows on Linux that start without a grant because their receiver allows it, or because it sends no grants."""

import socket
from contextlib import ExitStack, closing
from typing import Any

import numpy as np
import pytest

from ncc.core.workload import Fixed, Flow
from ncc.envs.linux import layout, namespaces, traffic
from ncc.envs.linux.datapath import LinuxDatapath
from ncc.envs.linux.machine import namespace_cookie
from ncc.envs.linux.shim import Shim
from ncc.envs.linux.wake import FIELDS, Waker
from tests.linux.gates import HOLDS, STAR, SenderSlots, burst, gates_of, run
from tests.linux.lab import FOR_EVER_S
from tests.linux.runs import TRANSPORT
from tests.linux.spaces import say, spaces, wire
from tests.support.linux import TRAFFIC, needs
from tests.support.processes import PATIENCE_S, eventually


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
                sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1400)
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


@needs(*TRAFFIC)
def test_one_flow_of_one_packet_per_pair_of_hosts_goes_at_once() -> None:
    """ACKs of the receiver go astray until the neighbour's right address is found; no timer expires meanwhile."""
    own, peer, other = (f"10.7.0.{i}" for i in (1, 2, 3))
    lines = (
        wire("one", "two"),
        "-n {0} link set one up gso_max_segs 1",
        "-n {1} link set two up",
        f"-n {{0}} address add {own}/32 dev one",
        f"-n {{0}} route add 10.7.0.0/24 dev one src {own} rto_min 100s",
        *(f"-n {{1}} address add {address}/24 dev two" for address in (peer, other)),
    )
    with ExitStack() as undo:
        here, there = undo.enter_context(spaces("here", "there", lines=lines))
        with namespaces.inside(there):
            listeners = {at: undo.enter_context(socket.create_server((at, 0))) for at in (peer, other)}
        undo.enter_context(namespaces.inside(here))
        shim = undo.enter_context(Shim("dctcp", timeout_s=FOR_EVER_S, name="ncc_test_packet"))
        shim.add_host(0, own, namespace_cookie())
        shim.hosts["patience_ns"][0] = 10**15
        shim.beat()

        def connected(to: str) -> tuple[socket.socket, socket.socket]:
            sender = undo.enter_context(socket.socket())
            sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"ncc_test_packet")
            sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sender.bind((own, 0))
            sender.connect(listeners[to].getsockname())
            receiver = undo.enter_context(listeners[to].accept()[0])
            receiver.settimeout(PATIENCE_S)
            return sender, receiver

        def held() -> int:
            return int(shim.reports["held"].sum())

        (first, first_end), (second, second_end), (third, third_end), (far, far_end) = map(
            connected, (peer, peer, peer, other)
        )
        mss = first.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
        say("-n", there, f"neigh replace {own} dev two lladdr 02:00:00:00:00:01 nud permanent")
        third.sendall(bytes(mss + 1))
        assert held() == 1, "it takes two packets, though it has written only one when the kernel first asks"
        for sender, receiver, size in ((first, first_end, mss), (far, far_end, 100)):  # the second is of another pair
            sender.sendall(bytes(size))
            assert len(receiver.recv(size, socket.MSG_WAITALL)) == size
        assert held() == 1
        second.sendall(bytes(100))
        assert held() == 2, "the first one's packet is not acknowledged"
        first.sendall(bytes(1000))
        assert held() == 3, "with what was sent it does not fit a packet"
        say("-n", there, f"neigh del {own} dev two")
        first_end.sendall(b"1")  # with an ACK
        assert len(first_end.recv(1000, socket.MSG_WAITALL)) == 1000
        assert eventually(lambda: mss + 1000 in shim.reports["delivered_bytes"])
        assert held() == 2, "nothing wakes the others"
        second_end.sendall(b"2")
        assert len(second_end.recv(100, socket.MSG_WAITALL)) == 100, "another may go once the first is acknowledged"
        third_end.setblocking(False)
        with pytest.raises(BlockingIOError):
            third_end.recv(1)


def let_go(shim: Shim, waker: Waker, address: str) -> None:
    """Let the one flow that waits for a receiver begin."""
    (slot,) = np.flatnonzero(shim.reports["held"])
    report = shim.reports[slot]
    assert (report["peer"], report["unsent_bytes"]) == (layout.address_bytes(address), 5000)
    shim.decisions["start_ns"][slot], shim.decisions["generation"][slot] = 1, report["generation"]
    waker.wake(layout.address_bytes(address), **{name: int(report[name]) for name in FIELDS})


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
    gates, meter, _ = gates_of(burst(1000, transport=transport, **changed), answer_frac=0.6)
    slots, seen = SenderSlots(1), list[bool]()
    for period, size_bytes in enumerate((0, 58_000, 0)):
        meter.known_bytes[:] = size_bytes
        gates.edges(meter, np.full(1, traffic.HANDED), 0.005 * period)
        gates.decide(slots, 0, 5_000_000 * period)  # type: ignore[arg-type]
        seen.append(slots.waits["10.0.0.1"])
    assert seen == waits


def test_without_answers_no_receiver_is_written_to_the_kernel() -> None:
    gates, meter, _ = gates_of(burst(1000))
    slots = SenderSlots(1)
    gates.edges(meter, np.full(1, traffic.HANDED), 0.0)
    gates.decide(slots, 0, 5_000_000)  # type: ignore[arg-type]
    assert slots.waits == {}


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
def test_of_the_flows_of_a_pair_one_of_one_packet_needs_no_grant(datapath: LinuxDatapath) -> None:
    """A round trip takes 20 ms, so that the first is not acknowledged when the second begins."""
    flows = tuple(
        Flow(start_s=0.0, src=src, dst="receiver", size_bytes=size)
        for src, size in (("s0", 1000), ("s0", 1000), ("s1", 1000), ("s2", 3000))
    )
    transport = TRANSPORT.replace(min_rto_s=0.2, recovery="modern", connections_per_pair=2)
    changed = {"topology": STAR.replace(delay_s=5e-3), "workload": (("fixed", Fixed(flows=flows)),)}
    _, records = run(datapath, burst(transport=transport).replace(**changed), HOLDS)
    assert np.isfinite(records.flows.finish_s).all()
    assert datapath.facts["receivers"]["woken"] == 2, "the second of s0 and that of s2 wait"
