# SPDX-License-Identifier: BSD-3-Clause
"""Telemetry that ports write into data (`int`): what senders read, worked by hand and alike on both simulators."""

import numpy as np
import pytest

from ncc.core.scenario import Scenario, Transport
from ncc.core.topologies import Dumbbell, LeafSpine, ManyToOne
from ncc.core.topology import Program
from ncc.envs.ns3 import Ns3Datapath
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.datapath import HostStack
from tests.datapaths.runs import MSS, Simulator, engine, fixed, flow, run, windowed
from tests.datapaths.test_same_packets import (
    random_case,
    random_topology,
    run_alike,
)

INT = (Program(name="int"),)
PORTS, QUEUE, DIGEST = 3, 4, 5
EACH_ACK = Transport(recovery="classic", delayed_ack_pkts=1)


def read(simulator: Simulator, scenario: Scenario, show: int, epochs: int, cwnd_pkts: int = 10) -> np.ndarray:
    """Return what the tests' own controller shows of telemetry, [epochs, flows]; 0 for flows that have none."""

    datapath, flows = windowed(simulator, cwnd_bytes=cwnd_pkts * MSS, show=show)(), scenario.flows(1)
    datapath.start(scenario, flows, HostStack(transport="newreno"), 1)
    shown = []
    for _ in range(epochs):
        datapath.step(np.full(scenario.n_agents, np.inf))
        shown.append([engine(datapath).sender_window(i)[1] for i in range(len(flows))])
    datapath.close()
    return np.array(shown) * (np.array(shown) < 2**32 - 1)  # packetsim's before the handshake is done


def test_each_port_of_the_way_writes_once(simulator: Simulator) -> None:
    for topology, ports in ((Dumbbell(pairs=1, programs=INT), 2), (LeafSpine(leaves=2, spines=2, programs=INT), 3)):
        src, dst = ("s0", "r0") if ports == 2 else ("h0_0", "h1_0")
        shown = read(simulator, fixed(topology, flow(src, dst, 10**7), period_s=1e-3), PORTS, 3)
        assert shown[-1, 0] == ports
    silent = fixed(Dumbbell(pairs=1), flow("s0", "r0", 10**7), period_s=1e-3)
    assert read(simulator, silent, PORTS, 3)[-1, 0] == 0


def test_the_queue_is_what_the_windows_have_beyond_the_path(simulator: Simulator) -> None:
    """Two senders have 25 packets each out. What the path does not hold waits at the port, and both read it."""
    topology = ManyToOne(senders=2, delay_s=20e-6, buffer_bytes=10**6, mark_threshold_bytes=0, programs=INT)
    scenario = fixed(
        topology, flow("s0", "receiver", 10**8), flow("s1", "receiver", 10**8), period_s=1e-3, transport=EACH_ACK
    )  # fmt: skip
    queue_pkts = read(simulator, scenario, QUEUE, 20, cwnd_pkts=25)[5:] / 1500
    path_pkts = (4 * 20e-6 + 2 * 1538 * 8e-9 + 2 * 78 * 8e-9) / (1538 * 8e-9)  # a round trip without a queue
    np.testing.assert_allclose(queue_pkts, 50 - path_pkts, atol=1)


@pytest.mark.parametrize("seed", range(6))
def test_both_simulators_write_alike(seed: int) -> None:
    """A digest of all that each sender has read, in random networks with losses."""
    random = np.random.default_rng(5000 + seed)
    cut = (Program(name="trim"),) if seed % 2 else ()
    scenario, _ = random_case(random, random_topology(random).replace(programs=(*INT, *cut)))
    ours, theirs = (read(each, scenario, DIGEST, 60) for each in (PacketsimDatapath, Ns3Datapath))
    assert (ours > 0).any()
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("transport", ["hpcc", "powertcp"])
@pytest.mark.parametrize("base_ns", [0, 20_000])
def test_senders_that_read_telemetry_do_the_same_on_both_simulators(transport: str, base_ns: int) -> None:
    """An incast, and flows across two spines that share an uplink."""
    stack = HostStack(transport=transport, params=(("base_rtt_ns", base_ns),) if base_ns else ())
    incast = ManyToOne(senders=4, delay_s=2e-6, buffer_bytes=10**5, mark_threshold_bytes=0, programs=INT)
    fabric = LeafSpine(leaves=2, spines=2, programs=INT)
    for topology, ends in (
        (incast, [(f"s{i}", "receiver") for i in range(4)]),
        (fabric, [(f"h0_{i}", f"h1_{i % 2}") for i in range(4)]),
    ):
        scenario = fixed(topology, *(flow(*each, 500_000) for each in ends), period_s=1e-4, transport=EACH_ACK)
        done = run_alike(scenario, stack)
        assert np.isfinite(done.fct_s).all()
        blind = run(PacketsimDatapath, scenario.replace(topology=topology.replace(programs=())), stack)
        assert (blind.fct_s != done.fct_s).any(), "it has read nothing"
