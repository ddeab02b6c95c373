# SPDX-License-Identifier: BSD-3-Clause
"""Kernel connections that stay open between flows: the one that a flow takes, and the counts of each flow.

What it inherits is in test_idle.py."""

import subprocess
import time
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.scenario import Scenario, Transport
from ncc.core.topologies import Dumbbell
from ncc.core.workload import Fixed, Flow
from ncc.envs.linux import layout, machine, namespaces, traffic
from ncc.envs.linux.datapath import LinuxDatapath
from ncc.envs.linux.delay import OWN_S
from ncc.envs.linux.traffic import Sender, Traffic, TrafficOptions
from ncc.harness.datapath import HostStack, Records
from tests.linux.lab import FOR_EVER_S, registered, reports
from tests.linux.runs import start, until_done
from tests.linux.test_traffic import begin_now, finish, hosts, table
from tests.support.linux import TRAFFIC, needs
from tests.support.processes import PATIENCE_S, eventually

MSS = 1460
ONE = Transport(recovery="classic", connections_per_pair=1, min_rto_s=0.05)
LINK_S = 5e-3
"""Delay of each of three links: a round trip takes 30 ms."""
NEAR = Dumbbell(pairs=1, host_rate_bps=1e8, bottleneck_rate_bps=1e8, buffer_bytes=1_000_000)
FAR = NEAR.replace(delay_s=LINK_S, buffer_bytes=10_000_000)

pytestmark = needs(*TRAFFIC)


def pair(*flows: tuple[float, int], topology: Dumbbell = NEAR, transport: Transport = ONE) -> Scenario:
    """Flows from s0 to r0, as start and packets."""
    fixed = Fixed(flows=tuple(Flow(start_s=at, src="s0", dst="r0", size_bytes=MSS * pkts) for at, pkts in flows))
    return Scenario(
        name="test",
        topology=topology,
        workload=(("fixed", fixed),),
        duration_s=3.0,
        period_s=0.01,
        drain_s=100.0,
        transport=transport,
    )


def run(datapath: LinuxDatapath, scenario: Scenario, control: str) -> Records:
    start(datapath, scenario, HostStack(transport=control))
    _, records = until_done(datapath, scenario, np.full(1, np.inf))
    assert not datapath.facts["failed_flows"]
    return records


def left_host(scenario: Scenario, records: Records) -> int:
    """Packets that s0 sent."""
    return int(records.ports.tx_pkts[scenario.network().port("s0->left")])


@pytest.mark.parametrize("control", ["dctcp", "linux::cubic"])
def test_flows_in_sequence_have_one_connection_and_counts_of_their_own(datapath: LinuxDatapath, control: str) -> None:
    pkts = [10, 200, 1, 37]
    scenario = pair(*((0.25 * i, n) for i, n in enumerate(pkts)))
    records = run(datapath, scenario, control)
    flows = records.flows
    assert (flows.sent_pkts - flows.retransmitted_pkts).tolist() == pkts
    assert left_host(scenario, records) == flows.sent_pkts.sum()  # no SYN
    assert (flows.rtt_min_s > 0).all()
    if datapath.shim is not None:
        counters = datapath.shim.counters()
        assert (counters["started"], counters["unreported"], counters["late_inits"]) == (4, 0, 0)
    alone = scenario.replace(transport=ONE.replace(connections_per_pair=0))
    records = run(datapath, alone, control)
    assert left_host(alone, records) == records.flows.sent_pkts.sum() + 4 * 2  # a SYN, and the ACK of its answer


def test_a_flow_on_an_open_connection_takes_a_round_trip_less(datapath: LinuxDatapath) -> None:
    """One packet takes one way of the path; a handshake and a packet take three, on any machine."""
    starts_s, way_s = [0.0, 0.1, 0.2, 0.3, 0.4], 3 * (LINK_S - OWN_S)

    def least_s(connections: int) -> float:
        transport = ONE.replace(connections_per_pair=connections)
        records = run(datapath, pair(*((at, 1) for at in starts_s), topology=FAR, transport=transport), "dctcp")
        return float((records.flows.finish_s - starts_s).min())

    assert way_s < least_s(1) < 3 * way_s < least_s(0)


def test_a_flow_that_finds_no_idle_connection_opens_another_which_stays(datapath: LinuxDatapath) -> None:
    scenario = pair((0.0, 500), (0.0, 100), (0.5, 500), (0.5, 100), (1.0, 5))
    records = run(datapath, scenario, "linux::cubic")
    assert left_host(scenario, records) == records.flows.sent_pkts.sum() + 2
    two = scenario.replace(transport=ONE.replace(connections_per_pair=2))
    records = run(datapath, two, "linux::cubic")
    assert left_host(two, records) == records.flows.sent_pkts.sum()


def established(host: Sender, state: str = "established") -> list[str]:
    """Connections of a host."""
    found = subprocess.run(
        ["ip", "netns", "exec", host.netns, "ss", "-Htn", "state", state], capture_output=True, text=True, check=True
    ).stdout  # fmt: skip
    return found.splitlines()


def options(connections: int) -> TrafficOptions:
    return TrafficOptions(congestion="cubic", deadline_s=2 * PATIENCE_S, connections_per_pair=connections)


def test_connections_are_open_before_the_start_and_closed_at_the_end() -> None:
    flows = table([0.0, 0.0, 0.3, 0.3], [30_000] * 4, pairs=2)
    with hosts(2, 100e6) as (_, ends), Traffic(ends, flows, flows.src, flows.dst, options(3)) as sending:
        assert [len(established(end)) for end in ends] == [3, 3, 3, 3]
        sending.begin(time.monotonic_ns() + 5_000_000)
        finish(sending)
        assert (sending.flows["state"] == traffic.DONE).all()
        assert (sending.flows["acked_bytes"] == flows.size_bytes).all()
        assert [established(end, "connected") for end in ends] == [[]] * 4


def test_nothing_is_left_of_idle_connections_when_the_program_is_ended() -> None:
    flows = table([0.0, 1e6], [30_000] * 2)
    with hosts(1, 100e6) as (_, ends):
        with Traffic(ends, flows, flows.src, flows.dst, options(2)) as sending:
            sending.begin(time.monotonic_ns())
            assert eventually(lambda: sending.flows["state"][0] == traffic.DONE)
            assert len(established(ends[0])) == 2
        assert [established(end, "connected") for end in ends] == [[], []]


def test_the_kernel_reports_each_flow_of_a_connection_by_itself() -> None:
    flows = table([0.0, 0.2, 0.4], [300_000, 1_000_000, 20_000])
    with ExitStack() as opened:
        _, ends = opened.enter_context(hosts(1, 100e6))
        shim = opened.enter_context(registered("newreno", timeout_s=FOR_EVER_S))
        with namespaces.inside(ends[0].netns):
            shim.add_host(0, ends[0].address, machine.namespace_cookie())
        spec = replace(options(1), congestion=shim.name)
        sending = opened.enter_context(Traffic(ends, flows, flows.src, flows.dst, spec))
        sending.begin(time.monotonic_ns())
        found: dict[int, np.void] = {}

        def ended() -> int:
            _, rows = reports(shim)
            found.update((int(row["flow"]), row) for row in rows[rows["state"] == layout.FINISHED])
            return len(found)

        assert eventually(lambda: ended() == 3)
        assert (sending.flows["state"] == traffic.DONE).all()
        rows = np.array([found[number] for number in (1, 2, 3)])
        for column in (rows["delivered_bytes"], rows["sent_bytes"] - rows["retrans_bytes"]):
            assert column.tolist() == flows.size_bytes.tolist()
        assert rows["sent_packets"].tolist() == sending.flows["sent_pkts"].tolist()
        assert (rows["rtt_samples"] <= rows["acks"]).all()
        assert (np.diff(rows["began_ns"].astype(np.int64)) > 0).all()
        assert (shim.counters()["started"], shim.counters()["finished"]) == (3, 3)


@pytest.mark.parametrize("busy", [True, False])
def test_a_connection_that_has_ended_is_not_used_again(busy: bool) -> None:
    flows = table([0.0, 1e6, 1e6], [3_000_000 if busy else 30_000, 30_000, 30_000])
    with hosts(1, 20e6) as (_, ends), Traffic(ends, flows, flows.src, flows.dst, options(1)) as sending:
        sending.begin(time.monotonic_ns())
        assert eventually(lambda: sending.flows["state"][0] == (traffic.SENDING if busy else traffic.DONE))
        (first,) = established(ends[0])
        subprocess.run(
            ["ip", "netns", "exec", ends[0].netns, "ss", "-K", "dport", "=", "5001"], capture_output=True, check=True
        )  # fmt: skip
        begin_now(sending, 1)
        assert eventually(lambda: sending.flows["state"][1] == traffic.DONE)
        (second,) = established(ends[0])
        assert second.split()[2] != first.split()[2]  # another port
        begin_now(sending, 2)
        finish(sending)
        assert sending.flows["state"].tolist() == [traffic.FAILED if busy else traffic.DONE, traffic.DONE, traffic.DONE]


def test_too_many_connections_are_refused_by_name(datapath: LinuxDatapath) -> None:
    scenario = pair((0.0, 1), transport=ONE.replace(connections_per_pair=4097))
    said = "connections_per_pair must be at most 4096 on linux for flows between 1 pairs of hosts, got 4097"
    with pytest.raises(ConfigError, match=said):
        datapath.start(scenario, scenario.flows(1), HostStack(), 1)
