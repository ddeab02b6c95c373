# SPDX-License-Identifier: BSD-3-Clause
"""CUBIC over a path that loses one packet in n: its window against the closed forms of RFC 9438.

The first loss comes early, so that slow start ends near the window that the losses allow.
"""

import numpy as np
import pytest

from ncc.core.flows import FloatArray
from ncc.core.scenario import Transport
from ncc.core.topologies import Dumbbell
from ncc.core.units import GBPS
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.datapath import HostStack
from tests.datapaths.runs import MSS, engine, fixed, flow

C, BETA = 0.4, 0.7


def sawtooth(every_pkts: int, first_pkts: int, rtt_s: float, losses: int) -> tuple[FloatArray, list[int]]:
    """One flow on a path without queues that loses a packet after `first_pkts`, then after every `every_pkts`.

    Returns the window in packets at the end of every millisecond, and the milliseconds in which a packet was dropped.
    """
    topology = Dumbbell(
        pairs=1,
        host_rate_bps=10 * GBPS,
        bottleneck_rate_bps=10 * GBPS,
        delay_s=rtt_s / 6,
        mark_threshold_bytes=0,
        buffer_bytes=4_000_000,
    )
    transport = Transport(
        recovery="classic",
        min_rto_s=5 * rtt_s,
        initial_rto_s=1.0,
        send_buffer_bytes=64_000_000,
        receive_buffer_bytes=64_000_000,
    )
    size_bytes = (losses + 1) * every_pkts * MSS
    scenario = fixed(topology, flow("s0", "r0", size_bytes), transport=transport, drain_s=None)
    port = scenario.network().port("left->right")
    datapath = PacketsimDatapath()
    cwnd: list[float] = []
    drops: list[int] = []
    try:
        stack = HostStack(transport="cubic", params=(("fast_convergence", 0),))
        datapath.start(scenario, scenario.flows(1), stack, 1)
        engine(datapath).plan_fault(port, first_pkts, drop=True)
        while len(drops) < losses:
            assert len(cwnd) < 200_000, "the flow stopped"
            dropped = datapath.step(np.array([np.inf])).uplink_dropped_pkts.sum()
            cwnd.append(engine(datapath).sender_window(0)[0] / MSS)
            if dropped:
                drops.append(len(cwnd) - 1)
                engine(datapath).plan_fault(port, every_pkts, drop=True)
        assert datapath.finish().flows.timeouts.sum() == 0
    finally:
        datapath.close()
    return np.array(cwnd), drops


def test_the_mean_window_is_the_rfc_s_in_the_cubic_region() -> None:
    """Section 5, figure 5: (C (3 + beta) / (4 (1 - beta)))^(1/4) (RTT/p)^(3/4), 1054 packets at 100 ms and 1e-5."""
    cwnd_pkts, drops = sawtooth(100_000, 1054, 0.1, losses=6)
    formula = (C * (3 + BETA) / (4 * (1 - BETA))) ** 0.25 * (0.1 * 100_000) ** 0.75
    assert formula == pytest.approx(1054, abs=1)  # the RFC's table 1
    mean = cwnd_pkts[drops[3] : drops[5]].mean()
    assert mean == pytest.approx(formula, rel=0.07)  # below it: a round at rest after each loss


@pytest.mark.parametrize(("every_pkts", "losses", "reno_pkts"), [(1000, 40, 38), (10_000, 12, 120)])
def test_the_mean_window_is_reno_s_where_reno_is_faster(every_pkts: int, losses: int, reno_pkts: int) -> None:
    """Section 4.3 and table 2 (10 ms): sqrt(3 / (2 p)), where the cubic alone would give 6 and 33 packets."""
    cwnd_pkts, drops = sawtooth(every_pkts, reno_pkts, 0.01, losses)
    mean = cwnd_pkts[drops[losses // 2] : drops[-1]].mean()
    assert np.sqrt(1.5 * every_pkts) == pytest.approx(reno_pkts, rel=0.03)
    assert mean == pytest.approx(np.sqrt(1.5 * every_pkts), rel=0.07)
