# SPDX-License-Identifier: BSD-3-Clause
"""BBR on the simulators: the same on both to the nanosecond, and close to ns-3's own model of it."""

import numpy as np
import pytest

from ncc.core.scenario import Scenario, Transport
from ncc.core.topologies import Dumbbell
from ncc.envs.ns3 import Ns3Datapath
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.datapath import HostStack
from tests.datapaths.runs import MSS, Run, Simulator, Window, engine, fixed, flow, run

LARGE = Transport(recovery="classic", send_buffer_bytes=8_000_000, receive_buffer_bytes=8_000_000)
LINE = 1500 / 1538  # of the link's rate, without framing


def dumbbell(pairs: int, delay_s: float, buffer_bytes: int, size_bytes: int, transport: Transport = LARGE) -> Scenario:
    """1 Gbps between hosts of 2 Gbps; a flow starts every ms."""
    topology = Dumbbell(
        pairs=pairs, delay_s=delay_s, host_rate_bps=2e9, buffer_bytes=buffer_bytes, mark_threshold_bytes=0
    )
    flows = (flow(f"s{i}", f"r{i}", size_bytes, 0.001 * i) for i in range(pairs))
    return fixed(topology, *flows, transport=transport)


def long_run(simulator: Simulator, scenario: Scenario, transport: str) -> tuple[Run, np.ndarray, np.ndarray]:
    """With throughput over that of the link, and mean queue in bytes, in each ms."""
    done = run(simulator, scenario, transport, max_epochs=300, until_done=False)
    throughput = done.column("uplink_throughput_bps")[:, 0] / 1e9 / LINE
    return done, throughput, done.column("uplink_queue_mean_bytes")[:, 0]


def test_a_long_path_as_ns3s_own_model_has_it() -> None:
    """RTT 6 ms: a pipe of 750 kB. STARTUP, DRAIN, then the gain cycle, in means of 25 ms."""
    scenario = dumbbell(1, 1e-3, 4_000_000, 300_000_000)
    _, ours, our_queue = long_run(PacketsimDatapath, scenario, "bbr")
    _, theirs, their_queue = long_run(Ns3Datapath, scenario, "ns3::TcpBbr")
    ours, theirs, our_queue, their_queue = (
        each.reshape(-1, 25).mean(axis=1) for each in (ours, theirs, our_queue, their_queue)
    )
    np.testing.assert_allclose(ours, theirs, atol=0.01)
    np.testing.assert_allclose(our_queue, their_queue, atol=0.06 * 750_000)
    assert (ours[5:] > 0.985).all()
    assert our_queue[2:4].min() > 750_000  # STARTUP overshoots: nearly two pipes of queue ...
    assert our_queue[5:].max() < 0.1 * 750_000  # ... which DRAIN removes


def test_the_model_finds_the_path(simulator: Simulator) -> None:
    """The window is 2 x rate x RTT and 3 packets, even, 2 more while probing: rate and RTT as arithmetic has them."""
    scenario = dumbbell(1, 1e-4, 4_000_000, 100_000_000)
    datapath = simulator()
    try:
        datapath.start(scenario, scenario.flows(1), HostStack(transport="bbr"), 1)
        windows = set()
        for epoch in range(120):
            datapath.step(np.array([np.inf]))
            if epoch >= 60:
                windows.add(int(engine(datapath).sender_window(0)[0]) // MSS)
    finally:
        datapath.close()
    rtt_ns = 6 * 100_000 + 2 * (1538 + 78) * 8  # 2, 1 and 2 Gbps are as two hops of 1 Gbps
    bdp_pkts = rtt_ns / (1538 * 8)
    least = 2 * -(-(2 * bdp_pkts + 3) // 2)
    assert windows == {least, least + 2}


@pytest.mark.parametrize("pacing_bytes_per_s", [12_800_000, 1_495_040])
def test_pacing_rounds_alike(pacing_bytes_per_s: int) -> None:
    """1460 bytes take 114,062.5 and 976,562.5 ns. Between 41 packets, a half rounded otherwise would show as 40 ns.

    ns-3 rounds the second half up, since 1460 / 1,495,040 is 1 / 1024 and ends after ten binary digits.
    """
    scenario = fixed(Dumbbell(pairs=1), flow("s0", "r0", 41 * MSS))
    finished = []
    for each in (PacketsimDatapath, Ns3Datapath):
        with Window(each, scenario, cwnd_bytes=100_000, pacing_bytes_per_s=pacing_bytes_per_s) as window:
            window.run(100)
            finished.append(window.datapath.finish().flows.finish_s[0])
    assert finished[0] == pytest.approx(finished[1], abs=5e-10)
