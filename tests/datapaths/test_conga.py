# SPDX-License-Identifier: BSD-3-Clause
"""CONGA over leaves and spines: the same on both simulators, around a slow link, and refused elsewhere."""

from typing import Any

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.scenario import Scenario
from ncc.core.topologies import AnyTopology, Dumbbell, FatTree, LeafSpine
from ncc.core.topology import Program
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.datapath import HostStack
from tests.datapaths.runs import fixed, flow, run
from tests.datapaths.test_same_packets import random_case, random_stack, run_alike

PORTS = [f"leaf0->spine{i}" for i in range(4)]


def conga(**params: int) -> tuple[Program, ...]:
    return (Program(name="conga", params=tuple(params.items())),)


@pytest.mark.parametrize("seed", range(8))
def test_both_simulators_choose_the_same_paths(seed: int) -> None:
    random = np.random.default_rng(7000 + seed)
    topology = LeafSpine(
        leaves=2 + seed % 2, spines=2 + seed % 3, hosts_per_leaf=3, spine_rate_bps=0.5e9, buffer_bytes=60_000,
        slow_link_frac=[1.0, 0.3][seed % 2],
        programs=conga(gap_ns=int(random.choice([1, 20_000, 500_000])), dre_ns=int(random.choice([2_000, 20_000]))),
    )  # fmt: skip
    stack = random_stack(random, tags=["none", "by_size", "remaining"][seed % 3])
    scenario, lost = random_case(random, topology, nic={"knows": "sizes"} if seed % 3 else {})
    run_alike(scenario, stack, max_epochs=2000, prepare=lost)


def crossing(topology: AnyTopology, **settings: Any) -> Scenario:
    flows = [flow(f"h{i % 2}_{i % 12}", f"h{1 - i % 2}_{i % 12}", 2_000_000, i * 1e-5) for i in range(24)]
    return fixed(topology, *flows, **settings)


def test_flows_of_both_directions_are_the_same_to_the_nanosecond() -> None:
    topology = LeafSpine(
        leaves=2, spines=4, hosts_per_leaf=12, slow_link_frac=0.25, buffer_bytes=100_000,
        programs=conga(gap_ns=50_000),
    )  # fmt: skip
    done = run_alike(crossing(topology), "dctcp")
    network = topology.build()
    assert all(done.records.ports.tx_pkts[network.port(port)] > 0 for port in PORTS)


def test_a_slow_link_is_left_by_measures_and_not_by_chance() -> None:
    """The link from the last spine to the second leaf has a quarter of the rate: the first leaf only hears of it."""
    topology = LeafSpine(leaves=2, spines=4, hosts_per_leaf=12, slow_link_frac=0.25, buffer_bytes=100_000)
    flows = [flow(f"h0_{i}", f"h1_{i}", 4_000_000) for i in range(12)]

    def share_and_mean(*programs: Program) -> tuple[float, float]:
        done = run(PacketsimDatapath, fixed(topology.replace(programs=programs), *flows))
        return done.records.ports.tx_bytes[topology.build().port(PORTS[3])] / (12 * 4_000_000), done.fct_s.mean()

    share, mean_s = share_and_mean(*conga(gap_ns=100_000))
    by_chance, mean_by_chance_s = share_and_mean(Program(name="letflow", params=(("gap_ns", 100_000),)))
    assert share < 0.5 * by_chance
    assert mean_s < mean_by_chance_s


def test_tags_are_no_ranks() -> None:
    """Hosts that rank their packets send the same as others, because the field is CONGA's."""
    topology = LeafSpine(leaves=2, spines=4, hosts_per_leaf=12, buffer_bytes=100_000, programs=conga())
    scenario = crossing(topology)
    plain, ranked = (
        run(PacketsimDatapath, scenario, HostStack(transport="dctcp", tags=tags)) for tags in ("none", "remaining")
    )
    assert plain.fct_s.tolist() == ranked.fct_s.tolist()


@pytest.mark.parametrize(
    ("topology", "said"),
    [
        (FatTree(k=4, programs=conga()), "conga is for two layers of switches, .* set scenario.topology to leaf_spine"),
        (Dumbbell(pairs=1, programs=conga()), "nodes left and right are linked"),
        (LeafSpine(leaves=33, spines=2, hosts_per_leaf=1, programs=conga()), "tables for 32 leaves and 16 .* 33 and 2"),
        (LeafSpine(leaves=2, spines=17, hosts_per_leaf=1, programs=conga()), "the topology has 2 and 17"),
        (
            LeafSpine(leaves=2, spines=2, programs=(*conga(), Program(name="pfabric"))),
            "conga writes its tag into the field of packets in which pfabric reads a rank",
        ),
    ],
)  # fmt: skip
def test_other_networks_are_refused(topology: AnyTopology, said: str) -> None:
    hosts = [node.name for node in topology.build().nodes if node.name.startswith(("h", "s0", "r0"))]
    scenario = fixed(topology, flow(hosts[0], hosts[-1], 1000))
    with pytest.raises(ConfigError, match=said):
        PacketsimDatapath.check(scenario)
