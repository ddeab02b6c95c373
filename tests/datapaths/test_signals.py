# SPDX-License-Identifier: BSD-3-Clause
"""Signals of switches, controllers with a timer, and stacks of components: the same on every simulator."""

from typing import Any

import numpy as np
import pytest

from ncc.core.errors import ConfigError, UnknownNameError
from ncc.core.scenario import Nic, Scenario, Transport
from ncc.core.topologies import Dumbbell, LeafSpine, ManyToOne, Pods
from ncc.core.topology import Program
from ncc.core.units import MS
from ncc.core.workload import Fixed
from ncc.envs.linux.stack import check_stack
from ncc.envs.ns3 import Ns3Datapath
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.datapath import ComponentStack, HostStack
from tests.datapaths.runs import MSS, Simulator, drops, fixed, flow, long_path, run
from tests.datapaths.test_same_packets import (
    run_alike,
)

WITH_SIGNALS = ["annulus_dctcp", "annulus_cubic"]


def qcn(**params: int) -> tuple[Program, ...]:
    return (Program(name="qcn", params=tuple(params.items())),)


def into_one(senders: int, programs: tuple[Program, ...]) -> ManyToOne:
    return ManyToOne(
        senders=senders, rate_bps=10e9, delay_s=10e-6, buffer_bytes=1_000_000, mark_threshold_bytes=0, programs=programs
    )


def test_a_signal_slows_its_sender_long_before_an_rtt_is_over(simulator: Simulator) -> None:
    """Two flows over a WAN of 20 ms meet in their own switch. Without a signal they overflow its buffer."""
    far = Transport(recovery="modern", min_rto_s=0.1, send_buffer_bytes=100_000_000, receive_buffer_bytes=100_000_000)

    def dropped(programs: tuple[Program, ...]) -> int:
        topology = Dumbbell(
            pairs=2, host_rate_bps=1e9, bottleneck_rate_bps=1e9, delay_s=10 * MS / 3, buffer_bytes=100_000,
            mark_threshold_bytes=0, programs=programs,
        )  # fmt: skip
        flows = [flow(f"s{i}", f"r{i}", 3_000_000) for i in range(2)]
        done = run(simulator, fixed(topology, *flows, transport=far), "annulus_cubic", max_epochs=3000)
        return int(done.records.ports.dropped_pkts.sum())

    assert dropped(qcn(sample_bytes=1_500)) < 0.5 * dropped(())


@pytest.mark.parametrize("far_only", [False, True])
def test_only_senders_within_max_hops_are_told(simulator: Simulator, far_only: bool) -> None:
    """Two hosts send to one of another leaf: the port to the spine is one hop from them, the host three."""
    topology = LeafSpine(
        leaves=2, spines=1, hosts_per_leaf=3, host_rate_bps=10e9, spine_rate_bps=100e9 if far_only else 10e9,
        buffer_bytes=1_000_000, mark_threshold_bytes=0, programs=qcn(max_hops=1, sample_bytes=15_000),
    )  # fmt: skip
    flows = [flow(f"h0_{i}", "h1_0", 2_000_000) for i in range(2)]

    def fct_s(programs: tuple[Program, ...]) -> Any:
        return run(simulator, fixed(topology.replace(programs=programs), *flows), "annulus_cubic").fct_s.tolist()

    assert (fct_s(topology.programs) == fct_s(())) == far_only


@pytest.mark.parametrize("controller", WITH_SIGNALS)
def test_an_answer_to_a_syn_sent_again_undoes_no_signal(controller: str) -> None:
    """Over a WAN of 20 ms the SYN is sent again after 10. When its answer comes, switches have slowed the flow."""
    topology = Pods(
        buffer_bytes=100_000, mark_threshold_bytes=30_000, programs=qcn(target_bytes=5000, sample_bytes=5000)
    )
    transport = Transport(
        recovery="classic", mtu_bytes=9000, initial_window_pkts=30, min_rto_s=10 * MS, initial_rto_s=10 * MS
    )
    nic = Nic(bucket_bytes=18_000, small_queue_bytes=180_000)
    scenario = fixed(topology, flow("h2_2_3", "far2", 157_680), transport=transport, nic=nic)
    run_alike(scenario, HostStack(transport=controller))


def test_ns3_s_own_transports_hear_nothing() -> None:
    scenario = fixed(
        into_one(3, qcn(target_bytes=1500, sample_bytes=1500)), *(flow(f"s{i}", "receiver", 10**6) for i in range(3))
    )
    assert np.isfinite(run(Ns3Datapath, scenario, "ns3::TcpNewReno").fct_s).all()


def test_dcqcn_s_flows_come_to_equal_rates(simulator: Simulator) -> None:
    """One has the line for itself, then another begins; Jain's index of 100 ms later."""
    topology = into_one(2, ()).replace(mark_threshold_bytes=50_000)
    flows = [flow("s0", "receiver", 10**9), flow("s1", "receiver", 10**9, 20 * MS)]
    done = run(simulator, fixed(topology, *flows), "dcqcn", max_epochs=160, until_done=False)
    goodput = done.column("goodput_bps")[-40:, :2].mean(axis=0)
    assert goodput.sum() ** 2 / (2 * (goodput**2).sum()) > 0.99
    assert goodput.sum() > 0.9 * 10e9 * MSS / 1538


def mixed(**settings: Any) -> Scenario:
    """Two components: a flow each, from two hosts into a third."""
    scenario = fixed(into_one(2, qcn()), flow("s0", "receiver", 3_000_000), **settings)
    near, wan = (Fixed(flows=(flow(f"s{i}", "receiver", 3_000_000),)) for i in range(2))
    return scenario.replace(workload=(("near", near), ("wan", wan)))


def test_a_component_s_flows_run_its_own_controller_and_timers() -> None:
    scenario = mixed()
    wan = ComponentStack(component="wan", transport="dcqcn")
    both = HostStack(transport="newreno", components=(wan,))
    run_alike(scenario, both)
    slow = ComponentStack(component="wan", transport="newreno", min_rto_s=50 * MS, initial_rto_s=50 * MS)
    lost = drops(scenario, tor__receiver=1)
    for simulator in (PacketsimDatapath, Ns3Datapath):
        done = run(simulator, scenario, both)
        assert done.fct_s[0] != done.fct_s[1]
        # The first packet of all is dropped: only an RTO repairs a window of one.
        one = scenario.replace(transport=Transport(recovery="classic", initial_window_pkts=1))
        early, late = (
            run(simulator, one, HostStack(transport="newreno", components=parts), prepare=lost).fct_s.max()
            for parts in ((), (slow, slow.replace(component="near")))
        )
        assert late > early + 20 * MS


def test_a_component_s_flows_begin_with_its_own_window() -> None:
    """One flow sends its 40 packets at once, the other one in several rounds."""
    near, wan = (Fixed(flows=(flow(f"s{i}", f"r{i}", 40 * MSS),)) for i in range(2))
    topology = long_path(5 * MS).replace(pairs=2)
    scenario = mixed().replace(topology=topology, workload=(("near", near), ("wan", wan)))
    large = ComponentStack(component="wan", transport="newreno", initial_window_pkts=40)
    done = run_alike(scenario, HostStack(transport="newreno", components=(large,)))
    assert done.fct_s[1] < 20 * MS < 30 * MS < done.fct_s[0]


@pytest.mark.parametrize(
    ("components", "settings", "error", "message"),
    [
        (
            [{"component": "wan", "transport": "cubic", "initial_window_pkts": 2**31}],
            {},
            ConfigError,
            "initial_window_pkts",
        ),
        (
            [{"component": "far", "transport": "cubic"}],
            {},
            UnknownNameError,
            "component of the traffic.*far.*near, wan",
        ),
        ([{"component": "wan", "transport": "cubik"}], {}, UnknownNameError, "transport 'cubik'"),
        (
            [{"component": "wan", "transport": "cubic"}],
            {"transport": Transport(recovery="classic", connections_per_pair=1)},
            ConfigError,
            "set Scenario.transport.connections_per_pair to 0",
        ),
    ],
)
def test_stacks_of_components_that_cannot_be_are_refused(
    components: list[dict[str, Any]], settings: dict[str, Any], error: type[ConfigError], message: str
) -> None:
    stack = HostStack(components=tuple(ComponentStack(**each) for each in components))
    with pytest.raises(error, match=message):
        run(PacketsimDatapath, mixed(**settings), stack)


def test_linux_gives_all_traffic_one_stack() -> None:
    stack = HostStack(components=(ComponentStack(component="wan", transport="cubic"),))
    with pytest.raises(ConfigError, match="leave them out, or use a simulator"):
        check_stack(stack)


def test_a_component_has_one_stack() -> None:
    with pytest.raises(ConfigError, match="'wan' twice"):
        HostStack(components=(ComponentStack(component="wan"), ComponentStack(component="wan")))
