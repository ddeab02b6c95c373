# SPDX-License-Identifier: BSD-3-Clause
"""Connections that stay open between flows: what a flow inherits, which connection it takes, what stays its own."""

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.scenario import Nic, Scenario, Transport
from ncc.core.topologies import Dumbbell, LeafSpine
from ncc.core.units import MS
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.datapath import HostStack
from tests.datapaths.runs import MSS, Window, drops, engine, fixed, flow, long_path, run

ONE = Transport(recovery="classic", connections_per_pair=1)


def pair(*flows: tuple[float, int], transport: Transport = ONE) -> Scenario:
    """Flows from s0 to r0, as start and packets."""
    return fixed(
        Dumbbell(pairs=1), *(flow("s0", "r0", MSS * pkts, start) for start, pkts in flows), transport=transport
    )


def bursts(scenario: Scenario, control: str, within_s: float) -> list[int]:
    """Packets that each flow sends at once."""
    datapath, flows = PacketsimDatapath(), scenario.flows(1)
    datapath.start(scenario, flows, HostStack(transport=control), 1)
    engine(datapath).record_sent()
    while datapath.step(np.array([np.inf])).flows_finished < len(flows):
        pass
    rows = engine(datapath).sent_packets()
    datapath.close()
    starts_s = flows.start_s.tolist()
    return [sum(of == n and ns < (start + within_s) * 1e9 for ns, of, _ in rows) for n, start in enumerate(starts_s)]


@pytest.mark.parametrize(
    ("rtos", "halvings"),
    [(0.5, 0), (0.95, 0), (1.05, 1), (1.95, 1), (2.05, 2), (2.95, 2), (3.05, 3), (4.05, 4), (6, 5)],
)
@pytest.mark.parametrize(("recovery", "rto_s", "window_pkts"), [("classic", 0.05, 81), ("modern", 0.052, 160)])
def test_an_idle_time_halves_the_window_for_each_rto(
    recovery: str, rto_s: float, window_pkts: int, rtos: float, halvings: int
) -> None:
    """The first flow sends 10, 20, 40 and 80 packets in rounds of 2 ms, the last at 6 ms.

    In classic recovery the first ACK of the last round alone finds the window full; in modern the window grows while
    half of it is used. The RTO is `min_rto_s`, in modern recovery beyond the RTT.
    """
    transport = ONE.replace(min_rto_s=0.05, delayed_ack_pkts=1, recovery=recovery)
    flows = [flow("s0", "r0", MSS * 150), flow("s0", "r0", MSS * 300, 6 * MS + rtos * rto_s)]
    scenario = fixed(long_path(1 * MS), *flows, transport=transport, nic=Nic(small_queue_bytes=10**6))
    assert bursts(scenario, "newreno", 1 * MS) == [10, max(window_pkts >> halvings, 10)]
    kept = scenario.replace(transport=transport.replace(idle_restart=False))
    assert bursts(kept, "newreno", 1 * MS) == [10, window_pkts]


def test_a_model_of_the_path_outlasts_an_idle_time() -> None:
    flows = [flow("s0", "r0", MSS * 2000), flow("s0", "r0", MSS * 2000, 0.5)]
    topology = Dumbbell(pairs=1, delay_s=1 * MS)
    idle, kept = (
        run(PacketsimDatapath, fixed(topology, *flows, transport=ONE.replace(idle_restart=restart)), "bbr")
        for restart in (True, False)
    )
    assert idle.fct_s.tobytes() == kept.fct_s.tobytes()
    assert idle.fct_s[1] < idle.fct_s[0] - 5 * MS  # no second search for the rate


@pytest.mark.checkout  # a wheel has no test_window
def test_byte_counts_of_a_controller_go_on_through_the_flows_of_a_connection() -> None:
    scenario = pair((0, 7), (1e-3, 5), (2e-3, 100_000), transport=ONE)
    with Window(PacketsimDatapath, scenario, show=2) as window:
        window.run(6)
        cwnd, una, own = engine(window.datapath).sender_window(2)
    assert cwnd > 0
    assert own > 0
    assert una == 12 * MSS + own


def test_alpha_of_dctcp_goes_on_in_the_next_flow() -> None:
    """200 rounds without marks in the first flow, then 10 with a mark on each packet in the second."""
    transport = ONE.replace(receive_buffer_bytes=30_000, mtu_bytes=1500)
    scenario = fixed(
        long_path(0.1 * MS), flow("s0", "r0", 4000 * MSS), flow("s0", "r0", 2000 * MSS, 0.05), transport=transport,
        period_s=1e-4,
    )  # fmt: skip
    datapath = PacketsimDatapath()
    datapath.start(scenario, scenario.flows(1), HostStack(), 1)
    for nth in range(4001, 4201):
        engine(datapath).plan_fault(scenario.network().port("left->right"), nth, mark=True)
    windows = []
    while datapath.step(np.array([np.inf])).flows_finished < 2:
        windows.append([engine(datapath).sender_window(of)[0] for of in range(2)])
    first, second = np.array(windows).T
    assert first[first > 0].max() >= 20 * MSS
    assert second[second > 0].min() < 12 * MSS
    assert datapath.finish().flows.ce_pkts.tolist() == [0, 200]


def test_a_flow_that_finds_no_idle_connection_opens_another_with_a_handshake() -> None:
    scenario = pair((0, 100), (1e-4, 100), (0.02, 100), (0.0201, 100), (0.0202, 1))
    done = run(PacketsimDatapath, scenario)
    ports = done.records.ports.tx_pkts
    sent_pkts = 401 + 2 * 2  # a SYN, and the ACK of its answer, of the second flow and the last
    assert ports[scenario.network().port("s0->left")] == sent_pkts
    without = scenario.replace(transport=ONE.replace(handshake=False))
    assert run(PacketsimDatapath, without).records.ports.tx_pkts[scenario.network().port("s0->left")] == 401
    two = scenario.replace(transport=ONE.replace(connections_per_pair=2))
    assert run(PacketsimDatapath, two).records.ports.tx_pkts[scenario.network().port("s0->left")] == 403


@pytest.mark.parametrize(("short_start_s", "burst_pkts"), [(1 * MS, 81), (7.5 * MS, 10)])
def test_a_flow_takes_the_connection_that_became_idle_last(short_start_s: float, burst_pkts: int) -> None:
    """The long flow is acknowledged at 8 ms, the short one on another connection before or after it."""
    flows = [
        flow("s0", "r0", MSS * 150),
        flow("s0", "r0", MSS * 5, short_start_s),
        flow("s0", "r0", MSS * 300, 20 * MS),
    ]
    transport = ONE.replace(min_rto_s=0.05, delayed_ack_pkts=1, connections_per_pair=2, initial_window_pkts=10)
    scenario = fixed(long_path(1 * MS), *flows, transport=transport, nic=Nic(small_queue_bytes=10**6))
    assert bursts(scenario, "newreno", 1 * MS) == [10, 5, burst_pkts]


def test_a_connection_keeps_its_path() -> None:
    topology = LeafSpine(leaves=2, spines=4, hosts_per_leaf=1)
    names = [node.name for node in topology.build().nodes]
    src, dst = (name for name in names if name.startswith("h"))
    flows = [flow(src, dst, MSS * 10, i * 1e-3) for i in range(20)]

    def uplinks(transport: Transport) -> int:
        scenario = fixed(topology, *flows, transport=transport)
        ports, network = run(PacketsimDatapath, scenario).records.ports, scenario.network()
        spines = [name for name in names if name.startswith("spine")]
        leaf = next(name for name in names if name.startswith("leaf"))
        return sum(ports.tx_pkts[network.port(f"{leaf}->{spine}")] > 0 for spine in spines)

    assert uplinks(Transport(recovery="classic")) > 1
    assert uplinks(ONE) == 1


def test_records_are_the_flows_own() -> None:
    scenario = pair((0, 100), (0.02, 100), (0.04, 100))
    done = run(PacketsimDatapath, scenario, prepare=drops(scenario, left__right=150))
    flows = done.records.flows
    assert flows.sent_pkts.tolist() == [100, 101, 100]
    assert flows.retransmitted_pkts.tolist() == [0, 1, 0]
    assert flows.timeouts.tolist() == [0, 0, 0]
    assert (flows.rtt_min_s > 0).all()


def test_too_many_connections_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"^Transport.connections_per_pair: Expected `int` >= 0"):
        ONE.replace(connections_per_pair=-1)
    said = r"transport.connections_per_pair must be at most 8388607 for flows between 1 pairs of hosts, got 8388608"
    with pytest.raises(ConfigError, match=said):
        run(PacketsimDatapath, pair((0, 1), transport=Transport(recovery="classic", connections_per_pair=2**23)))
    said = r"^Scenario.transport.connections_per_pair must be from 0 to 4294967295 on packetsim, got 4294967296$"
    with pytest.raises(ConfigError, match=said):
        run(PacketsimDatapath, pair((0, 1), transport=Transport(recovery="classic", connections_per_pair=2**32)))
    assert (
        run(
            PacketsimDatapath, pair((0, 1), transport=Transport(recovery="classic", connections_per_pair=2**23 - 1))
        ).fct_s[0]
        > 0
    )
