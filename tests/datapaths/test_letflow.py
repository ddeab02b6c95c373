# SPDX-License-Identifier: BSD-3-Clause
"""Switches that choose a way for each flowlet: where they go, and the same on every simulator."""

import numpy as np

from ncc.core.topologies import LeafSpine, Pods
from ncc.core.topology import Program
from ncc.envs.packetsim import PacketsimDatapath
from tests.datapaths.runs import MSS, Simulator, fixed, flow, run

PORTS = [f"leaf0->spine{i}" for i in range(4)]


def letflow(gap_ns: int = 500_000) -> tuple[Program, ...]:
    return (Program(name="letflow", params=(("gap_ns", gap_ns),)),)


def used(simulator: Simulator, *, gap_ns: int, flows: int = 1, gap_s: float = 0.0) -> list[int]:
    """Return packets over each of four spines, of flows between the same hosts that begin after each other."""
    topology = LeafSpine(leaves=2, spines=4, hosts_per_leaf=4, programs=letflow(gap_ns))
    made = [flow("h0_0", "h1_0", 40 * MSS, i * (gap_s + 1e-3)) for i in range(flows)]
    done = run(simulator, fixed(topology, *made))
    assert np.isfinite(done.fct_s).all()
    assert done.records.flows.retransmitted_pkts.sum() == 0
    network = topology.build()
    return [int(done.records.ports.tx_pkts[network.port(port)]) for port in PORTS]


def test_a_flow_without_gaps_takes_one_way(simulator: Simulator) -> None:
    assert sorted(used(simulator, gap_ns=10**9))[:3] == [0, 0, 0]


def test_flows_spread_over_all_ways(simulator: Simulator) -> None:
    assert min(used(simulator, gap_ns=500_000, flows=40)) > 0


def test_a_switch_without_the_program_hashes(simulator: Simulator) -> None:
    """The borders of pods have no programs, and send by as many ways as they would if no switch had one."""
    flows = [flow(f"far{i % 4}", f"h0_{i % 3}_0", 10 * MSS) for i in range(24)]

    def sent(programs: tuple[Program, ...]) -> list[int]:
        topology = Pods(programs=programs)
        network, done = topology.build(), run(simulator, fixed(topology, *flows))
        ports = [port for port in range(2 * len(network.links)) if network.port_name(port).startswith("border")]
        return [int(done.records.ports.tx_pkts[port]) for port in ports]

    assert sent(letflow()) == sent(())
    assert sum(count > 0 for count in sent(())) > 4


def test_a_slow_link_is_left() -> None:
    """Twelve long flows over four links, one of which has a tenth of the rate: it gets a tenth of their packets."""
    topology = LeafSpine(leaves=2, spines=4, hosts_per_leaf=12, slow_link_frac=0.1, buffer_bytes=100_000)
    flows = [flow(f"h0_{i}", f"h1_{i}", 4_000_000) for i in range(12)]

    def share_and_mean(programs: tuple[Program, ...]) -> tuple[float, float]:
        done = run(PacketsimDatapath, fixed(topology.replace(programs=programs), *flows))
        return done.records.ports.tx_bytes[topology.build().port(PORTS[3])] / (12 * 4_000_000), done.fct_s.mean()

    (share, mean_s), (by_hash, mean_by_hash_s) = share_and_mean(letflow(100_000)), share_and_mean(())
    assert share < 0.12
    assert by_hash > 0.25
    assert mean_s < 0.6 * mean_by_hash_s
