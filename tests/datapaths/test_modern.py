# SPDX-License-Identifier: BSD-3-Clause
"""Modern recovery of ns-3's sockets, beside that of packetsim."""

import numpy as np
import pytest

from ncc.baselines.registry import controllers
from ncc.core.errors import ConfigError
from ncc.core.scenario import Nic, Transport
from ncc.core.topologies import Dumbbell
from ncc.core.units import MS
from ncc.envs.ns3 import Ns3Datapath
from ncc.envs.ns3.plain import run_plain
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.datapath import HostStack
from tests.datapaths.runs import MSS, drops, fixed, flow, long_path, run
from tests.datapaths.test_same_packets import random_flows, random_topology, random_transport

MODERN = Transport(recovery="modern")
UNMARKED = Dumbbell(pairs=1, mark_threshold_bytes=0)


@pytest.mark.parametrize("controller", ["newreno", "cubic", "dctcp"])
@pytest.mark.parametrize(
    ("size_pkts", "lost"), [(300, 100), (300, 299), (300, 300), (10, 1), (10, 9), (10, 10), (3, 2), (1, 1)]
)
def test_a_loss_is_repaired_at_the_same_time_in_both_simulators(controller: str, size_pkts: int, lost: int) -> None:
    """In the middle of a flow by RACK, of its tail by a probe."""
    scenario = fixed(UNMARKED, flow("s0", "r0", size_pkts * MSS), transport=MODERN)
    ours, theirs = (
        run(each, scenario, controller, prepare=drops(scenario, left__right=lost))
        for each in (PacketsimDatapath, Ns3Datapath)
    )
    assert ours.fct_s.tolist() == theirs.fct_s.tolist()
    assert ours.records.flows.retransmitted_pkts.tolist() == theirs.records.flows.retransmitted_pkts.tolist() == [1]
    assert ours.records.flows.timeouts.tolist() == theirs.records.flows.timeouts.tolist() == [0]


@pytest.mark.parametrize(
    ("controller", "size_pkts", "lost"),
    [("newreno", 43, (23, 34, 42, 46)), ("cubic", 47, (23, 36, 42, 50)), ("dctcp", 38, (19, 25, 32, 36, 42))],
)
def test_a_last_packet_that_has_arrived_is_not_probed(controller: str, size_pkts: int, lost: tuple[int, ...]) -> None:
    """A repair of a packet sent in the recovery is lost, so that the recovery ends with only that packet missing."""
    scenario = fixed(UNMARKED, flow("s0", "r0", size_pkts * MSS), transport=MODERN)
    ours, theirs = (
        run(each, scenario, controller, prepare=drops(scenario, left__right=lost))
        for each in (PacketsimDatapath, Ns3Datapath)
    )
    assert ours.records.flows.retransmitted_pkts.tolist() == theirs.records.flows.retransmitted_pkts.tolist()
    assert ours.records.flows.timeouts.tolist() == theirs.records.flows.timeouts.tolist() == [1]
    assert theirs.fct_s == pytest.approx(ours.fct_s, rel=0.01)


@pytest.mark.parametrize("controller", sorted(controllers()))
def test_flows_on_an_open_connection_take_the_same_time_in_both_simulators(controller: str) -> None:
    """Soon after one another and after RTOs, on a path where the time is that of windows; the fourth opens another."""
    starts_s = [0.0, 20 * MS, 60 * MS, 61 * MS, 100 * MS, 150 * MS]
    flows = [flow("s0", "r0", 200 * MSS + 7, start_s) for start_s in starts_s]
    scenario = fixed(long_path(1 * MS), *flows, transport=MODERN.replace(connections_per_pair=1))
    ours, theirs = (run(each, scenario, controller) for each in (PacketsimDatapath, Ns3Datapath))
    assert ours.fct_s.tolist() == theirs.fct_s.tolist()
    assert len(set(ours.fct_s.tolist())) > 2


def test_most_flows_take_the_same_time_in_random_networks() -> None:
    ratios, timeouts = [], {"classic": 0, "modern": 0}
    names = sorted(name for name, info in controllers().items() if not info.needs.simulated)
    for seed in range(40):
        random = np.random.default_rng(seed)
        topology = random_topology(random)
        flows = random_flows(random, topology.build())
        transport = random_transport(random, 0.0).replace(sack=True, recovery="modern")
        if names[seed % len(names)] == "swift":  # to which the wait of a delayed ACK is congestion
            transport = transport.replace(delayed_ack_pkts=1)
        nic = Nic(bucket_bytes=2 * transport.mtu_bytes, small_queue_bytes=4 * transport.mtu_bytes)
        scenario = fixed(topology, *flows, transport=transport, nic=nic)
        ours, theirs = (run(each, scenario, names[seed % len(names)]) for each in (PacketsimDatapath, Ns3Datapath))
        assert np.isfinite(ours.fct_s).all(), seed
        ratios.append(theirs.fct_s / ours.fct_s)
        timeouts["modern"] += int(theirs.records.flows.timeouts.sum())
        classic = scenario.replace(transport=transport.replace(recovery="classic"))
        timeouts["classic"] += int(run(Ns3Datapath, classic, names[seed % len(names)]).records.flows.timeouts.sum())
    ratio = np.concatenate(ratios)
    assert (np.abs(ratio - 1) < 1e-9).mean() > 0.6
    assert np.exp(np.log(ratio).mean()) == pytest.approx(1, abs=0.03)
    assert timeouts["modern"] < 0.7 * timeouts["classic"]


@pytest.mark.parametrize("transport", ["ns3::TcpCubic", "ns3::TcpDctcp", "ns3::TcpBbr"])
def test_the_tail_of_a_flow_is_probed_below_controls_of_ns3(transport: str) -> None:
    timeouts = []
    for recovery in ("classic", "modern"):
        scenario = fixed(UNMARKED, flow("s0", "r0", 300 * MSS), transport=Transport(recovery=recovery))
        done = run(Ns3Datapath, scenario, transport, prepare=drops(scenario, left__right=300))
        timeouts.append(int(done.records.flows.timeouts[0]))
    assert timeouts == [1, 0]


def test_coarse_timers_are_refused() -> None:
    scenario = fixed(UNMARKED, flow("s0", "r0", 1), transport=MODERN.replace(timer_tick_s=4 * MS))
    with pytest.raises(ConfigError, match=r"timer_tick_s must be 0 on ns-3.*or use datapath=packetsim"):
        Ns3Datapath().start(scenario, scenario.flows(1), HostStack(), 1)


def test_an_ordinary_program_refuses_modern_recovery() -> None:
    scenario = fixed(UNMARKED, flow("s0", "r0", 1), transport=MODERN.replace(frame_overhead_bytes=2))
    with pytest.raises(ConfigError, match=r"recovery must be classic in an ordinary ns-3 program"):
        run_plain(scenario, scenario.flows(1), "ns3::TcpCubic", 1, stop_s=1)
