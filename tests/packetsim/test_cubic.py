# SPDX-License-Identifier: BSD-3-Clause
"""CUBIC over a path that loses one packet in n: its window against the closed forms of RFC 9438."""

from dataclasses import dataclass

import numpy as np
import pytest

from ncc.core.flows import FloatArray
from ncc.core.scenario import Transport
from ncc.core.topologies import Dumbbell
from ncc.core.units import GBPS, MS
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.datapath import HostStack
from tests.datapaths.runs import MSS, engine, fixed, flow

C, BETA = 0.4, 0.7


@dataclass(frozen=True)
class Sawtooth:
    """The window in packets at the end of every millisecond, and the milliseconds in which a packet was dropped."""

    cwnd_pkts: FloatArray
    drops: list[int]

    def stage(self, drop: int, rtt_s: float) -> tuple[float, FloatArray]:
        """The window before reduction `drop`, and all from the reduction to the next drop."""
        begin, end = self.drops[drop], self.drops[drop + 1]
        cwnd = self.cwnd_pkts[begin:end]
        cut = int(np.argmax(np.diff(cwnd) < -0.2 * cwnd[:-1]))
        assert cut < 2.5 * rtt_s / MS
        return float(cwnd[cut]), cwnd[cut + 1 :]


def sawtooth(every_pkts: int, rtt_s: float, losses: int, **params: int) -> Sawtooth:
    """One flow on a path without queues that loses a packet after every `every_pkts`; nothing else limits it."""
    topology = Dumbbell(
        pairs=1,
        host_rate_bps=10 * GBPS,
        bottleneck_rate_bps=10 * GBPS,
        delay_s=rtt_s / 6,
        mark_threshold_bytes=0,
        buffer_bytes=4_000_000,
    )
    transport = Transport(
        min_rto_s=5 * rtt_s, initial_rto_s=1.0, send_buffer_bytes=64_000_000, receive_buffer_bytes=64_000_000
    )
    size_bytes = (losses + 1) * every_pkts * MSS
    scenario = fixed(topology, flow("s0", "r0", size_bytes), transport=transport, drain_s=None)
    port = scenario.network().port("left->right")
    datapath = PacketsimDatapath()
    cwnd: list[float] = []
    drops: list[int] = []
    try:
        stack = HostStack(transport="cubic", params=tuple(({"fast_convergence": 0} | params).items()))
        datapath.start(scenario, scenario.flows(1), stack, 1)
        engine(datapath).drop_packet(port, every_pkts)
        while len(drops) < losses:
            assert len(cwnd) < 200_000, "the flow stopped"
            dropped = datapath.step(np.array([np.inf])).upper_dropped_pkts.sum()
            cwnd.append(engine(datapath).sender_window(0)[0] / MSS)
            if dropped:
                drops.append(len(cwnd) - 1)
                engine(datapath).drop_packet(port, every_pkts)
        assert datapath.finish().flows.timeouts.sum() == 0
    finally:
        datapath.close()
    return Sawtooth(np.array(cwnd), drops)


def check_curve(cwnd: FloatArray, w_max: float, cwnd_epoch: float, rtt_s: float) -> None:
    """The window from its reduction to the next loss is W_cubic(t) = C (t - K)^3 + W_max (figures 1 and 2).

    ACKs come in bursts once per RTT, in a number that the window had an RTT ago: it is never more than two behind and
    one ahead.
    """
    k_s = np.cbrt((w_max - cwnd_epoch) / C)
    start = int(np.argmax(np.diff(cwnd) > 0))  # the first ACK of the stage: t = 0
    assert 0.5 * rtt_s < start * MS < 2.5 * rtt_s  # the window rests for a round
    t_s = np.arange(len(cwnd) - start) * MS
    before, now, after = (C * (t_s + shift - k_s) ** 3 + w_max for shift in (-2 * rtt_s, 0.0, rtt_s))
    assert (cwnd[start:] >= before - 0.5).all()
    assert (cwnd[start:] <= after + 0.5).all()
    assert (cwnd[start:] / now).mean() == pytest.approx(1, abs=0.003)
    assert (cwnd[start:] / now).std() < 0.005


def test_after_each_loss_the_window_is_the_cubic_of_the_rfc() -> None:
    """W_cubic(t) = C (t - K)^3 + W_max of figure 1, without a fit."""
    rtt_s = 0.1
    path = sawtooth(30_000, rtt_s, losses=6)
    for drop in range(1, 5):
        w_max, cwnd = path.stage(drop, rtt_s)
        assert cwnd[0] == pytest.approx(BETA * w_max, rel=1e-3)
        check_curve(cwnd, w_max, BETA * w_max, rtt_s)


def test_fast_convergence_plateaus_lower() -> None:
    """Section 4.7: a window below W_max at a loss leaves W_max = cwnd (1 + beta) / 2."""
    rtt_s = 0.1
    path = sawtooth(5_000, rtt_s, losses=4, fast_convergence=1)
    w_max, cwnd = path.stage(2, rtt_s)
    assert w_max < path.stage(1, rtt_s)[0]
    plateau = w_max * (1 + BETA) / 2
    check_curve(cwnd, plateau, BETA * w_max, rtt_s)


def test_the_mean_window_is_the_rfc_s_in_the_cubic_region() -> None:
    """Section 5, figure 5: (C (3 + beta) / (4 (1 - beta)))^(1/4) (RTT/p)^(3/4), 1054 packets at 100 ms and 1e-5."""
    path = sawtooth(100_000, 0.1, losses=4)
    formula = (C * (3 + BETA) / (4 * (1 - BETA))) ** 0.25 * (0.1 * 100_000) ** 0.75
    assert formula == pytest.approx(1054, abs=1)  # the RFC's table 1
    mean = path.cwnd_pkts[path.drops[1] : path.drops[3]].mean()
    assert mean == pytest.approx(formula, rel=0.05)  # below it: a round at rest after each loss


@pytest.mark.parametrize(("every_pkts", "losses", "reno_pkts"), [(1000, 40, 38), (10_000, 12, 120)])
def test_the_mean_window_is_reno_s_where_reno_is_faster(every_pkts: int, losses: int, reno_pkts: int) -> None:
    """Section 4.3 and table 2 (10 ms): sqrt(3 / (2 p)), where the cubic alone would give 6 and 33 packets."""
    path = sawtooth(every_pkts, 0.01, losses)
    mean = path.cwnd_pkts[path.drops[losses // 2] : path.drops[-1]].mean()
    assert np.sqrt(1.5 * every_pkts) == pytest.approx(reno_pkts, rel=0.03)
    assert mean == pytest.approx(np.sqrt(1.5 * every_pkts), rel=0.07)
