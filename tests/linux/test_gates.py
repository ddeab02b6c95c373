# SPDX-License-Identifier: BSD-3-Clause
"""Grants on Linux: what receivers know, what they grant, and real flows that wait in their sockets for a grant."""

import struct
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.measurement import Measurement
from ncc.core.receivers import Grants, parts
from ncc.core.scenario import Scenario
from ncc.core.workload import Fixed, Flow
from ncc.envs.linux import layout, traffic
from ncc.envs.linux.datapath import LinuxDatapath
from ncc.envs.linux.wake import checksum, wake_ack
from ncc.harness.controller import Formula
from ncc.harness.datapath import HostStack
from ncc.run.controllers import load_controller
from tests.linux.gates import HOLDS, SERVERS, SIZE, STAR, SenderSlots, at, burst, gates_of, grants, run
from tests.linux.runs import SETTINGS, start
from tests.support.linux import TRAFFIC, needs
from tests.support.processes import eventually


def test_receivers_know_connections_that_are_up() -> None:
    gates, meter, flows = gates_of(burst(1000, 2000, 3000))
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
    gates, meter, _ = gates_of(scenario.replace(workload=(("fixed", Fixed(flows=flows)),)))
    edges = gates.edges(meter, np.full(2, traffic.HANDED), 0.005)
    assert (edges.flows.tolist(), edges.waiting_bytes.tolist(), edges.next_bytes.tolist()) == ([2], [4000], [1000])


def test_grants_apply_to_the_flows_that_their_receiver_knew() -> None:
    scenario = burst(1000, 2000)
    gates, meter, flows = gates_of(scenario)
    states, slots = np.array([traffic.HANDED, traffic.CONNECTING]), SenderSlots(2)
    now = at(0.005, gates.edges(meter, states, 0.005))
    gates.tell(grants(scenario, flows.src, flows.dst, start_s=np.array([1.0, 2.0]), window_pkts=np.array([4, 4])), now)
    gates.decide(slots, 0, 5_000_000)  # type: ignore[arg-type]
    assert slots.decisions["start_ns"].tolist() == [10**9, 0], (
        "the receiver does not know the second flow, so it grants nothing to it"
    )
    assert slots.decisions["most_bytes"].tolist() == [4 * scenario.transport.mss_bytes, 0]
    assert slots.decisions["generation"].tolist() == [7, 7]
    gates.decide(slots, 0, 10**9 - 2_000_000)  # type: ignore[arg-type]
    assert slots.decisions["start_ns"][0] == 1, "the nearest beginning of a period"
    assert gates.counts["messages"] == 1


def test_a_rate_is_shared_by_the_flows_of_a_pair_and_ends_with_the_last() -> None:
    flows = tuple(Flow(start_s=0.0, src="s0", dst="receiver", size_bytes=3000) for _ in range(2))
    scenario = burst().replace(workload=(("fixed", Fixed(flows=flows)),))
    gates, meter, table = gates_of(scenario)
    slots, states = SenderSlots(2), np.full(2, traffic.HANDED)
    now = at(0.005, gates.edges(meter, states, 0.005))
    gates.tell(grants(scenario, table.src[:1], table.dst[:1], rate_bps=np.array([8e6])), now)
    gates.decide(slots, 0, 15_000_000)  # type: ignore[arg-type]
    payload = scenario.transport.mss_bytes / scenario.transport.mtu_bytes
    assert slots.decisions["rate_bytes_per_s"].tolist() == [int(5e5 * payload)] * 2
    live, meter.live = meter.live, meter.live[:0]
    gates.edges(meter, states, 0.01)
    meter.live = live
    gates.edges(meter, states, 0.015)
    gates.decide(slots, 0, 15_000_000)  # type: ignore[arg-type]
    assert slots.decisions["rate_bytes_per_s"].tolist() == [0, 0]


@pytest.mark.parametrize(("link_frac", "paced"), [(0.97, False), (0.5, True)])
def test_almost_the_whole_link_is_no_limit(link_frac: float, paced: bool) -> None:
    """Pacing at it would mix the packets of the pair's flows, which the host's queue sends one flow after the other."""
    scenario = burst(3000)
    gates, meter, table = gates_of(scenario)
    slots, states = SenderSlots(1), np.full(1, traffic.HANDED)
    now = at(0.005, gates.edges(meter, states, 0.005))
    gates.tell(grants(scenario, table.src, table.dst, rate_bps=np.array([link_frac * STAR.rate_bps])), now)
    gates.decide(slots, 0, 15_000_000)  # type: ignore[arg-type]
    assert bool(slots.decisions["rate_bytes_per_s"][0]) == paced


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


def test_grants_are_late_or_lost_as_the_scenario_says() -> None:
    scenario = burst(1000, sharing_delay_periods=3)
    gates, meter, flows = gates_of(scenario)
    states, slots = np.array([traffic.HANDED]), SenderSlots(1)
    now = at(0.005, gates.edges(meter, states, 0.005))
    gates.tell(grants(scenario, flows.src, flows.dst, start_s=np.array([1.0])), now)
    for at_ns, start_ns in ((5_000_000, 0), (10_000_000, 0), (15_000_000, 10**9)):
        gates.decide(slots, 0, at_ns)  # type: ignore[arg-type]
        assert slots.decisions["start_ns"].tolist() == [start_ns]
    scenario = burst(1000, sharing_loss_frac=1 - 1e-9)
    gates, meter, flows = gates_of(scenario)
    now = at(0.005, gates.edges(meter, states, 0.005))
    gates.tell(grants(scenario, flows.src, flows.dst, start_s=np.array([1.0])), now)
    for at_ns, start_ns in ((5_000_000, 0), (15_000_000, 1)):
        gates.decide(slots, 0, at_ns)  # type: ignore[arg-type]
        assert slots.decisions["start_ns"].tolist() == [start_ns], "a flow waits at most two periods for a grant"


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


def grants_once(scenario: Scenario, starts_s: Any) -> Any:
    """Grants of a receiver that gives the server of each edge its start, once."""
    network, granted = scenario.network(), set[int]()
    servers = network.group("senders")

    def decide(now: Measurement) -> Grants:
        new = [src for src in now.edges.src.tolist() if src not in granted]
        granted.update(new)
        starts = np.array([starts_s[servers.index(src)] for src in new])
        return grants(
            scenario, np.array(new, np.int64), np.full(len(new), network.group("receiver")[0]), start_s=starts
        )

    return decide


@needs(*TRAFFIC)
def test_held_flows_start_when_granted_and_measure_no_delay(datapath: LinuxDatapath) -> None:
    starts_s = np.array([0.6, 0.2, 0.4])
    scenario = burst(SIZE, SIZE, SIZE)
    seen, records = run(datapath, scenario, HOLDS, grants_once(scenario, starts_s))
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
def test_without_a_grant_flows_start_after_two_periods(datapath: LinuxDatapath) -> None:
    scenario = burst(SIZE, SIZE)
    seen, records = run(datapath, scenario, HOLDS)
    assert np.isfinite(records.flows.finish_s).all()
    assert records.flows.timeouts.sum() == 0
    assert datapath.facts["receivers"]["unanswered"] >= 2
    assert sum(now.time_s < 0.01 and now.goodput_bps.any() for now in seen) == 0


@needs(*TRAFFIC)
def test_senders_of_a_receiver_that_dies_go_on(datapath: LinuxDatapath) -> None:
    scenario = burst(SIZE, SIZE, sharing_silent=("receiver",), sharing_silent_from_s=0.1)
    seen, records = run(datapath, scenario, HOLDS, grants_once(scenario, [9.0, 9.0]))
    assert (records.flows.finish_s > 0.1).all()
    assert (records.flows.finish_s < 9.0).all()
    assert records.flows.timeouts.sum() == 0
    assert seen[-1].flows_finished == 2


@needs(*TRAFFIC)
def test_when_user_space_dies_held_flows_go_on() -> None:
    """The kernel's own probes make it try again."""
    scenario = burst(SIZE, SIZE)
    decide = grants_once(scenario, [100.0, 100.0])
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
        return grants(scenario, servers, np.full(2, receiver), rate_bps=rate_bps) if len(now.edges) else None

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
