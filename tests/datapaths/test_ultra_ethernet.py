# SPDX-License-Identifier: BSD-3-Clause
"""Ultra Ethernet's transport: its answers, its entropies, and the paths that these choose."""

from typing import Any

import numpy as np
import pytest

from ncc.core.scenario import Nic, Transport
from ncc.core.topologies import FatTree, LeafSpine, ManyToOne
from ncc.core.topology import Program, Red
from ncc.core.units import GBPS, US
from ncc.envs.ns3 import Ns3Datapath
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.datapath import HostStack
from tests.datapaths.runs import MSS, Simulator, drops, fixed, flow, run
from tests.datapaths.test_message_transports import lossy, with_program
from tests.datapaths.test_same_packets import random_flows, random_topology, run_alike

WIRE_S = 1538 * 8 / (10 * GBPS)
PORTS: dict[str, Any] = {
    "programs": (Program(name="trim", params=(("over_bytes", 30_000),)),),
    "control_first": True,
    "mark_threshold_bytes": 0,
    "mark_on_departure": True,
    "red": Red(min_bytes=6000, max_bytes=24_000, max_prob_frac=1.0),
}
SETTINGS: dict[str, Any] = {
    "routing": "entropy",
    "transport": Transport(handshake=False, recovery="classic"),
    "nic": Nic(small_queue_bytes=1500),
}
STAR = ManyToOne(senders=8, rate_bps=10 * GBPS, delay_s=5 * US, buffer_bytes=1_000_000, **PORTS)
FABRIC = LeafSpine(leaves=2, spines=4, hosts_per_leaf=4, delay_s=1 * US, buffer_bytes=1_000_000, **PORTS)
NSCC, RCCC = HostStack(transport="nscc"), HostStack(transport="rccc")


def with_params(**params: int) -> HostStack:
    return NSCC.replace(params=tuple(params.items()))


def test_an_ack_stands_for_as_many_packets_as_have_16_kb(simulator: Simulator) -> None:
    """11 packets of 1538 bytes are the first that have 16,384; but 5 are a quarter of the BDP of 28 KB at 5 us."""
    for delay_s, at_once in ((5 * US, 5), (20 * US, 11)):
        pkts = 1 + 9 * at_once + 1  # an ACK for the first, for the last, and 9 between
        scenario = fixed(STAR.replace(delay_s=delay_s), flow("s0", "receiver", pkts * MSS), **SETTINGS)
        done = run(simulator, scenario, NSCC)
        assert done.records.flows.control_bytes[0] == 46 * 11
        assert run(simulator, scenario, with_params(ack_bytes=0)).records.flows.control_bytes[0] == 46 * pkts
        assert done.fct_s[0] == pytest.approx((pkts + 1) * WIRE_S + 2 * delay_s, abs=2e-9)


def test_the_map_of_an_ack_tells_which_packet_was_lost(simulator: Simulator) -> None:
    """A port loses one packet with its header: after the silence that one goes again, and none that has come."""
    scenario = fixed(STAR, flow("s0", "receiver", 100 * MSS), **SETTINGS)
    done = run(simulator, scenario, NSCC, prepare=drops(scenario, tor__receiver=70))
    assert done.records.flows.retransmitted_pkts[0] == 1
    assert done.records.flows.timeouts[0] == 1


def test_an_incast_is_served_without_silence(simulator: Simulator) -> None:
    flows = [flow(f"s{i}", "receiver", 400 * MSS) for i in range(8)]
    done = run(simulator, fixed(STAR, *flows, **SETTINGS), NSCC)
    assert done.records.flows.timeouts.sum() == done.records.ports.dropped_pkts.sum() == 0
    assert 0 < done.records.ports.trimmed_pkts.sum() < 0.2 * 3200
    assert 1.0 < done.fct_s.max() / (3200 * WIRE_S) < 1.05


def test_the_median_of_delays_is_another_window(simulator: Simulator) -> None:
    flows = [flow(f"s{i}", "receiver", 400 * MSS) for i in range(8)]
    done = run(simulator, fixed(STAR, *flows, **SETTINGS), with_params(median=1))
    assert 1.0 < done.fct_s.max() / (3200 * WIRE_S) < 1.03
    assert not np.array_equal(done.fct_s, run(simulator, fixed(STAR, *flows, **SETTINGS), NSCC).fct_s)


def test_entropies_use_all_paths(simulator: Simulator) -> None:
    """Four flows between two leaves with four paths: with one entropy some share a path, with several none does."""
    flows = [flow(f"h0_{i}", f"h1_{i}", 1000 * MSS) for i in range(4)]
    last_s = {
        choice: run(simulator, fixed(FABRIC, *flows, **SETTINGS), with_params(choice=choice)).fct_s.max()
        for choice in range(4)
    }
    assert last_s[0] > 1.9 * 1000 * WIRE_S
    assert max(last_s[choice] for choice in (1, 2, 3)) < 1.5 * 1000 * WIRE_S


def test_reps_leaves_slow_links(simulator: Simulator) -> None:
    """A fat tree in which 2 of 16 links to cores have a quarter of the rate: entropies in turn wait for these."""
    topology = FatTree(k=4, slow_links=2, delay_s=1 * US, buffer_bytes=1_000_000, **PORTS)
    hosts = [node.name for node in topology.build().nodes if node.name.startswith("h")]
    flows = [flow(src, dst, 1000 * MSS) for src, dst in zip(hosts, np.roll(hosts, 4), strict=True)]
    scenario = fixed(topology, *flows, **SETTINGS)
    turn, reps = (run(simulator, scenario, with_params(choice=choice, ack_bytes=0)).fct_s.max() for choice in (1, 2))
    assert reps < 0.75 * turn


def test_a_dead_path_is_left_after_the_first_silence() -> None:
    """A spine loses all data. With its cache frozen REPS uses for 10 ms what has worked; in turn each round is lost."""

    def repeats(choice: int) -> int:
        scenario = fixed(FABRIC, flow("h0_0", "h1_0", 5000 * MSS), **SETTINGS)
        lost = drops(scenario, spine0__leaf1=range(1, 3000))
        done = run(PacketsimDatapath, scenario, with_params(choice=choice), prepare=lost)
        assert np.isfinite(done.fct_s).all()
        return int(done.records.flows.retransmitted_pkts[0])

    assert repeats(2) < 0.2 * repeats(1)


def test_idle_credit_keeps_a_lone_flow_s_line_full(simulator: Simulator) -> None:
    """A sender's target is a round trip old: without credit in advance its line pauses."""
    scenario = fixed(STAR.replace(delay_s=20 * US), flow("s0", "receiver", 100 * MSS), **SETTINGS)
    nscc, rccc = (run(simulator, scenario, each).fct_s[0] for each in (NSCC, RCCC))
    idle_off = run(simulator, scenario, RCCC.replace(params=(("idle", 0),))).fct_s[0]
    assert rccc < 1.006 * nscc
    assert idle_off > 1.4 * rccc


def test_idle_credit_does_not_begin_anew_with_each_silence(simulator: Simulator) -> None:
    """A port loses every third packet. Each silence of 4 ms would bring a window of idle credit: 1,200 words."""
    scenario = fixed(STAR.replace(delay_s=1000 * US), flow("s0", "receiver", 400 * MSS), **SETTINGS)
    flows = run(lossy(simulator, 3, "trim"), scenario, RCCC).records.flows
    assert flows.timeouts[0] > 2
    assert flows.credits[0] < 1300


def test_credits_are_spread_over_the_paths_as_data_is(simulator: Simulator) -> None:
    """A flow's ACKs and 1000 / 4 credits come back over four spines, or over one."""
    scenario = fixed(FABRIC, flow("h0_0", "h1_0", 1000 * MSS), **SETTINGS)
    back = [scenario.network().port(f"leaf1->spine{i}") for i in range(4)]

    def words(choice: int) -> np.ndarray:
        stack = RCCC.replace(params=(("choice", choice),))
        return np.array(run(simulator, scenario, stack).records.ports.tx_pkts[back])

    assert words(1).sum() > 500
    assert words(1).max() < 1.3 * words(1).mean()  # 1.7 with all credits on one path
    assert np.count_nonzero(words(0)) == 1


def test_credits_share_an_incast_s_line(simulator: Simulator) -> None:
    flows = [flow(f"s{i}", "receiver", 400 * MSS) for i in range(8)]
    done = run(simulator, fixed(STAR, *flows, **SETTINGS), RCCC)
    assert done.records.flows.timeouts.sum() == done.records.ports.dropped_pkts.sum() == 0
    assert 1.0 < done.fct_s.max() / (3200 * WIRE_S) < 1.03
    assert done.fct_s.min() > 0.9 * done.fct_s.max()


def test_a_crowded_sender_asks_for_its_share(simulator: Simulator) -> None:
    """A receiver shares its line between a host with one flow and a host with six: the one flow gets most of it."""
    flows = [flow("h0_0", "h1_0", 600 * MSS)] + [flow("h0_1", f"h1_{i % 4}", 600 * MSS) for i in range(6)]
    done = run(simulator, fixed(FABRIC, *flows, **SETTINGS), RCCC)
    assert done.fct_s[0] < 1.5 * 600 * WIRE_S


@pytest.mark.parametrize("name", ["nscc", "rccc"])
@pytest.mark.parametrize("seed", range(4))
def test_both_simulators_do_the_same(name: str, seed: int) -> None:
    """Random networks that mark, trim, and lose data and words."""
    random = np.random.default_rng(9500 + seed)
    topology, beside = with_program(random_topology(random), name)
    scenario = fixed(topology, *random_flows(random, topology.build()), **SETTINGS)
    limits = np.where(random.random(scenario.n_agents) < 0.5, 2e8, np.inf) if seed == 2 else None
    own = (("median", seed % 2),) if name == "nscc" else (("idle", seed % 2),)
    stack = HostStack(transport=name, params=(("choice", seed), ("ack_bytes", (0, 16384)[seed // 2]), *own))
    sides = [lossy(each, 61, *beside) for each in (PacketsimDatapath, Ns3Datapath)]
    done = run_alike(scenario, stack, max_epochs=3000, simulators=sides, limits=limits)
    assert np.isfinite(done.fct_s).all()
    assert done.records.flows.retransmitted_pkts.sum() > 0
