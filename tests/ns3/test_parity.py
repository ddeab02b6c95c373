# SPDX-License-Identifier: BSD-3-Clause
"""Our hosts and switches against an ordinary ns-3 program, our controllers against ns-3's own."""

from typing import Any

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.scenario import Scenario, Transport
from ncc.core.topologies import Dumbbell, ManyToOne
from ncc.core.topology import Red
from ncc.core.workload import Incast
from ncc.envs.ns3 import Ns3Datapath
from ncc.envs.ns3.plain import PlainRun, run_plain
from ncc.harness.datapath import HostStack
from tests.datapaths.runs import Run, fixed, flow
from tests.datapaths.runs import run as run_on

PPP = Transport(recovery="classic", frame_overhead_bytes=2)  # what ns-3's point-to-point device adds


def run(scenario: Scenario, stack: HostStack | str, *, seed: int = 1) -> Run:
    return run_on(Ns3Datapath, scenario, stack, seed=seed)


def plain(scenario: Scenario, transport: str) -> PlainRun:
    return run_plain(scenario, scenario.flows(1), transport, 1, stop_s=3)


def two_flows(**topology: Any) -> Scenario:
    """Two long flows into a bottleneck of half the hosts' speed."""
    return fixed(
        Dumbbell(pairs=2, host_rate_bps=2e9, **topology),
        *(flow(f"s{i}", f"r{i}", 10_000_000, i * 1e-3) for i in range(2)),
        transport=PPP,
    )


def test_unloaded_flows_finish_at_the_same_nanosecond() -> None:
    flows = [flow("s0", "r0", size, i * 2e-3) for i, size in enumerate([1, 1460, 20_000, 150_000])]
    scenario = fixed(Dumbbell(pairs=1), *flows, transport=PPP)
    ours = run(scenario, "ns3::TcpDctcp")
    theirs = plain(scenario, "ns3::TcpDctcp")
    assert ours.records.flows.finish_s == pytest.approx(theirs.finish_s, abs=3e-9)


def test_marking_queue_behaves_like_red_as_a_step() -> None:
    scenario = two_flows()
    port = scenario.network().neighbourhoods[0].uplink_port
    ours, theirs = run(scenario, "ns3::TcpDctcp"), plain(scenario, "ns3::TcpDctcp")
    assert ours.records.flows.finish_s == pytest.approx(theirs.finish_s, rel=0.01)
    assert ours.records.ports.marked_pkts[port] == pytest.approx(theirs.marked_pkts[port], rel=0.05)
    assert ours.records.ports.dropped_pkts.sum() == theirs.dropped_pkts.sum() == 0


def test_incast_loses_and_finishes_alike() -> None:
    topology = ManyToOne(senders=20, buffer_bytes=100_000, mark_threshold_bytes=30_000)
    flows = [flow(f"s{i}", "receiver", 60_000, i * 1e-6) for i in range(20)]
    scenario = fixed(topology, *flows, transport=PPP)
    ours, theirs = run(scenario, "ns3::TcpDctcp"), plain(scenario, "ns3::TcpDctcp")
    assert np.isfinite(theirs.finish_s).all()
    dropped = ours.records.ports.dropped_pkts.sum()
    assert dropped > 50
    assert dropped == pytest.approx(theirs.dropped_pkts.sum(), rel=0.2)
    assert ours.fct_s.mean() == pytest.approx((theirs.finish_s - ours.flows.start_s).mean(), rel=0.3)


@pytest.mark.parametrize("transport", ["ns3::TcpDctcp", "ns3::TcpCubic", "ns3::TcpBbr"])
def test_overlapping_incasts_leave_no_flow_behind(transport: str) -> None:
    # With a few bytes of window left (ns3::TcpDctcp has no floor) TCP declines to send until its timer expires.
    topology = ManyToOne(senders=32, buffer_bytes=100_000, mark_threshold_bytes=30_000)
    incast = Incast(events_per_s=60, fan_in=32, bytes_per_server=64_000, sources="senders", destinations="receiver")
    scenario = Scenario(
        name="incasts", topology=topology, workload=(("incast", incast),), duration_s=0.1, transport=PPP
    )
    ours = run(scenario, transport, seed=3)
    assert len(ours.flows) == 160
    assert np.isfinite(ours.fct_s).all()
    assert ours.records.flows.timeouts.sum() > 100
    assert np.isfinite(run_plain(scenario, ours.flows, transport, 3, stop_s=3).finish_s).all()


MARKING = {"mark_threshold_bytes": 60_000}
LOSSLESS = {"buffer_bytes": 9_000_000, "mark_threshold_bytes": 0}
"""A buffer that the receive window cannot overflow: slow start, then a window at its limit."""


@pytest.mark.parametrize(
    ("ours", "theirs", "topology", "fct", "queue", "from_epoch"),
    [
        ("dctcp", HostStack(transport="ns3::TcpDctcp"), {}, 0.06, 0.1, 20),
        ("newreno", HostStack(transport="ns3::TcpLinuxReno"), LOSSLESS, 0.02, None, 0),
        ("newreno", HostStack(transport="ns3::TcpLinuxReno", params=(("ecn", 1),)), MARKING, 0.05, 0.25, 20),
        # RTTs so short that both are in the Reno-friendly region; a reduction leaves 0.7 in either.
        ("cubic", HostStack(transport="ns3::TcpCubic", params=(("ecn", 1),)), MARKING, 0.15, 0.25, 50),
    ],
)
def test_our_controllers_and_ns3s_agree_where_nothing_is_lost(
    *, ours: str, theirs: HostStack, topology: dict[str, int], fct: float, queue: float | None, from_epoch: int
) -> None:
    """In completion times, mean queues, and marks."""
    done = [run(two_flows(**topology), each) for each in (ours, theirs)]
    assert [each.records.ports.dropped_pkts.sum() for each in done] == [0, 0]
    assert done[0].fct_s == pytest.approx(done[1].fct_s, rel=fct)
    assert done[0].fct_s.max() == pytest.approx(done[1].fct_s.max(), rel=min(fct, 0.05))
    if queue is not None:
        means = [each.column("uplink_queue_mean_bytes")[from_epoch:150].mean() for each in done]
        assert means[0] == pytest.approx(means[1], rel=queue)
        marks = [each.records.ports.marked_pkts.sum() for each in done]
        assert marks[0] == pytest.approx(marks[1], rel=0.3)


def test_our_vegas_and_ns3s_keep_the_same_few_packets_queued() -> None:
    """Without a handshake, which ns-3's takes for its base RTT and ours does not.

    Either flow that begins second takes the first one's packets for its path, and more of the line.
    """
    transport = PPP.replace(handshake=False)
    scenario = two_flows(buffer_bytes=9_000_000, mark_threshold_bytes=0).replace(transport=transport)
    ours, theirs = run(scenario, "vegas"), run(scenario, "ns3::TcpVegas")
    assert ours.fct_s == pytest.approx(theirs.fct_s, rel=0.07)
    for each in (ours, theirs):  # two flows with alpha = 2 to beta = 4 packets; a packet being sent waits no more
        queue = each.column("uplink_queue_mean_bytes")[50:150].mean()
        assert 2 * 1500 < queue < 2 * 4 * 1500
        assert each.records.ports.dropped_pkts.sum() == 0


def test_an_ordinary_program_refuses_what_it_cannot_do() -> None:
    scenario = two_flows()
    with pytest.raises(ConfigError, match="ns-3's own, not dctcp"):
        plain(scenario, "dctcp")
    with pytest.raises(ConfigError, match="frame_overhead_bytes must be 2"):
        plain(fixed(Dumbbell(pairs=1), flow("s0", "r0", 1)), "ns3::TcpDctcp")
    assert np.isfinite(plain(scenario, "ns3::TcpDctcp").finish_s).all()  # and the process is none the worse


@pytest.mark.parametrize(
    "change", [{"shared_buffer_bytes": 10**6}, {"control_first": True}, {"red": Red(min_bytes=0, max_bytes=9)}]
)
def test_an_ordinary_program_refuses_switches_it_does_not_have(change: dict[str, Any]) -> None:
    scenario = two_flows(**change)
    with pytest.raises(
        ConfigError, match="must not set red, control_first, mark_on_departure, classes, programs or shared_buffer"
    ):
        plain(scenario, "ns3::TcpDctcp")
