# SPDX-License-Identifier: BSD-3-Clause
"""Streams that a host passes on as they come, and rates that queries tell, on both simulators."""

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.flows import FlowRecords
from ncc.core.graph import Rows
from ncc.core.scenario import Nic, Scenario
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.datapath import HostStack
from studies.random_graphs import Case, run, table
from tests.core.graphs import fan_out
from tests.datapaths.runs import SIMULATED, Simulator
from tests.datapaths.stars import DELAY_S, RATE_BPS, star

FULL_NS, ACK_NS = 1538 * 8 / RATE_BPS * 1e9, 78 * 8 / RATE_BPS * 1e9
HOP_NS = FULL_NS + DELAY_S * 1e9


def passed_on(leg_bytes: int, own_bytes: int, *, query_rate_bps: float = 0.0) -> Rows:
    """A flow to a hub, which passes it on with bytes of its own; both start at once."""
    rows, hosts = Rows(), star().network().hosts
    (up,) = rows.streams(1)
    rows.add(hosts[1], hosts[2], leg_bytes, feeds=up, request=0)
    rows.add(
        hosts[2],
        hosts[0],
        leg_bytes + own_bytes,
        stream=up,
        group=rows.group(),
        request=0,
        query_rate_bps=query_rate_bps,
    )
    return rows


def records(simulator: Simulator, rows: Rows, scenario: Scenario | None = None) -> FlowRecords:
    return run(simulator(), Case(scenario or star(), table(rows), HostStack(transport="newreno")))


@SIMULATED
@pytest.mark.parametrize("pkts", [1, 5])
def test_packets_are_passed_on_as_they_come(simulator: Simulator, pkts: int) -> None:
    """The hub's line carries an ACK and a packet for each packet that comes, which then has two more hops."""
    ends = 1e9 * records(simulator, passed_on(pkts * 1460, 0)).finish_s
    assert ends[0] == pytest.approx((pkts + 1) * FULL_NS + 2e9 * DELAY_S, abs=pkts + 3)
    assert ends[1] - ends[0] == pytest.approx(pkts * ACK_NS + 2 * HOP_NS, abs=pkts + 3)


@SIMULATED
def test_a_packet_is_filled_with_own_bytes_and_what_comes(simulator: Simulator) -> None:
    found = records(simulator, passed_on(100, 200))
    assert found.sent_pkts.tolist() == [1, 1]
    assert found.finish_s[1] > found.finish_s[0], "it leaves when it is full or nothing more will come"
    assert records(simulator, passed_on(100, 2 * 1460)).sent_pkts.tolist() == [1, 3]


@SIMULATED
def test_own_bytes_leave_before_anything_comes(simulator: Simulator) -> None:
    """The own packets take longer than the first that comes, so only the last one is passed on after it."""
    took_ns = [1e9 * records(simulator, passed_on(1460, own * 1460)).finish_s[1] for own in (0, 2)]
    assert took_ns[1] - took_ns[0] < FULL_NS


@SIMULATED
def test_a_rate_that_a_query_tells_is_kept(simulator: Simulator) -> None:
    scenario = star().replace(neighbourhoods="receivers")
    took_s = [
        records(simulator, passed_on(1460, 40 * 1460, query_rate_bps=query_rate_bps), scenario).finish_s[1]
        for query_rate_bps in (0.0, 1e9)
    ]
    assert took_s[0] == pytest.approx(41 * FULL_NS * 1e-9, rel=0.2)
    # 40 packets of 1,500 bytes wait for their tokens; the first has them.
    assert took_s[1] == pytest.approx(40 * 1500 * 8 / 1e9, rel=0.02)


def test_a_told_rate_needs_receivers() -> None:
    with pytest.raises(ConfigError, match=r"flow 1 has a rate from its query, which needs receivers"):
        records(PacketsimDatapath, passed_on(1460, 1460, query_rate_bps=1e9))


def test_messages_and_pieces_are_not_passed_on() -> None:
    flows = table(passed_on(1460, 1460))
    classes = star().replace(topology=star().topology.replace(classes=8))
    with pytest.raises(ConfigError, match="transport homa sends messages as a whole, and hosts pass streams on"):
        PacketsimDatapath().start(classes, flows, HostStack(transport="homa"), 1)
    pieces = star(workload=fan_out(writes={"chunk_bytes": 1000, "every_s": 1e-3}))
    with pytest.raises(ConfigError, match="flow 1 is fed by others, so its application writes it as it comes"):
        PacketsimDatapath().start(pieces, flows, HostStack(), 1)


@SIMULATED
def test_a_host_that_does_not_know_sizes_knows_what_has_been_passed_on(simulator: Simulator) -> None:
    scenario = star().replace(nic=Nic(knows="backlog"))
    datapath = simulator()
    measurement = datapath.start(scenario, table(passed_on(400 * 1460, 1460)), HostStack(transport="newreno"), 1)
    measurement = datapath.step(np.full(scenario.n_agents, np.inf))
    assert measurement.flows_finished == 2
    datapath.close()
