# SPDX-License-Identifier: BSD-3-Clause
"""The NIC: token bucket, back-pressure, order of flows, and what is measured of it."""

import numpy as np
import pytest

from ncc.core.flows import FloatArray
from ncc.core.scenario import Nic
from ncc.core.topologies import Dumbbell, Rack
from ncc.core.units import BITS_PER_BYTE
from ncc.harness.datapath import HostStack
from tests.datapaths.runs import MSS, Run, Simulator, fixed, flow, run

FAST = Dumbbell(pairs=1, bottleneck_rate_bps=2e9)  # the host's own link and limit decide
BULK = flow("s0", "r0", 100_000_000)


def left_bits(done: Run, period_s: float) -> FloatArray:
    """[n_epochs] bits of IP packets that left agent 0."""
    return np.rint(done.column("throughput_bps")[:, 0] * period_s)


@pytest.mark.parametrize("bucket_bytes", [1500, 3000, 20_000])
def test_no_window_ever_carries_more_than_rate_times_time_plus_bucket(simulator: Simulator, bucket_bytes: int) -> None:
    period_s = 1e-4
    scenario = fixed(FAST, BULK, period_s=period_s, nic=Nic(bucket_bytes=bucket_bytes))
    rates = np.random.default_rng(3).choice([3e6, 47.3e6, 123.4567e6, 400e6, 999e6], 600)
    done = run(simulator, scenario, limits=lambda epoch: rates[epoch : epoch + 1], max_epochs=600)
    assert np.array_equal(done.column("rate_limit_bps")[:, 0], rates)
    # bits(i..j) <= sum(rate) T + bucket for all i <= j, by the largest rise of the running excess
    excess = np.concatenate([[0.0], np.cumsum(left_bits(done, period_s) - rates * period_s)])
    rise = np.max(excess - np.minimum.accumulate(excess))
    assert rise <= bucket_bytes * BITS_PER_BYTE + 1e-3
    assert rise >= bucket_bytes * BITS_PER_BYTE * 0.4  # and the bucket is there to be used


@pytest.mark.parametrize("rate_bps", [10e6, 333e6, 900e6])
def test_a_backlogged_host_gets_its_whole_limit(simulator: Simulator, rate_bps: float) -> None:
    done = run(simulator, fixed(FAST, BULK), limits=np.array([rate_bps]), max_epochs=60)
    assert done.column("throughput_bps")[20:, 0].mean() == pytest.approx(rate_bps, rel=0.01)
    assert done.column("goodput_bps")[20:, 0].mean() == pytest.approx(rate_bps * MSS / 1500, rel=0.02)


def test_a_new_limit_frees_a_packet_that_waits_for_tokens(simulator: Simulator) -> None:
    # At 1 kbit/s the bucket's 3000 bytes go at once and the next packet would wait for seconds.
    done = run(
        simulator, fixed(FAST, flow("s0", "r0", 50_000)), limits=lambda epoch: np.array([1e3 if epoch < 5 else np.inf])
    )
    assert 5e-3 < done.fct_s[0] < 6e-3


def test_limits_take_hold_after_the_decision_latency(simulator: Simulator) -> None:
    scenario = fixed(FAST, BULK, decision_latency_s=4e-4)
    done = run(simulator, scenario, limits=lambda epoch: np.array([100e6 if epoch < 40 else 700e6]), max_epochs=60)
    rate = done.column("throughput_bps")[:, 0]
    assert rate[30:40].mean() == pytest.approx(100e6, rel=0.02)
    assert rate[40] == pytest.approx(0.4 * 100e6 + 0.6 * 700e6, abs=2 * 3000 * 8 / 1e-3)
    assert done.column("rate_limit_bps")[40, 0] == 700e6  # in force at the end of the epoch


@pytest.mark.parametrize("small_queue_bytes", [1500, 6000, 40_000])
def test_back_pressure_bounds_the_host_queue_and_nothing_is_dropped(
    simulator: Simulator, small_queue_bytes: int
) -> None:
    flows = [flow("s0", "r0", 300_000, i * 1e-4) for i in range(8)]
    scenario = fixed(FAST, *flows, nic=Nic(small_queue_bytes=small_queue_bytes))
    done = run(simulator, scenario, limits=np.array([100e6]))
    port = scenario.network().port("s0->left")
    assert done.records.ports.queue_max_bytes[port] <= 8 * small_queue_bytes + 8 * 100
    assert done.records.ports.dropped_pkts[port] == 0
    assert done.records.flows.retransmitted_pkts.sum() == 0
    assert done.records.flows.timeouts.sum() == 0


def test_a_limit_that_falls_is_not_taken_for_a_loss(simulator: Simulator) -> None:
    # 6 flows of 4 packets each: 36 ms in the host's queues at 8 Mbit/s, seven times the smallest retransmission timer.
    flows = [flow("s0", "r0", 100_000_000) for _ in range(6)]
    done = run(
        simulator, fixed(FAST, *flows), limits=lambda epoch: np.array([np.inf if epoch < 20 else 8e6]), max_epochs=300
    )
    assert done.records.flows.timeouts.sum() == 0
    assert done.records.flows.retransmitted_pkts.sum() == 0


def test_what_waits_in_the_host_is_measured(simulator: Simulator) -> None:
    scenario = fixed(FAST, flow("s0", "r0", 1_000_000, 0.0005))
    done = run(simulator, scenario, limits=np.array([8e6]), max_epochs=20)
    queued, left = done.column("queued_bytes")[:, 0], done.column("throughput_bps")[:, 0]
    assert done.column("queued_flows")[:, 0].tolist() == [1] * 20
    assert done.column("active_flows")[:, 0].tolist() == [1] * 20
    assert queued[-1] == pytest.approx(1_000_000 - (left.sum() * 1e-3 / 8) * MSS / 1500, rel=1e-3)
    assert np.all(np.diff(queued) <= 0)
    # Between packets 1.5 ms apart, the flow has waited since its last one.
    wait_s = done.column("wait_s")[10:, 0]
    assert wait_s.min() >= 0
    assert 5e-4 < wait_s.max() <= 1.5e-3


def test_the_shortest_queued_flow_and_what_is_left_of_all_are_measured(simulator: Simulator) -> None:
    sizes = np.array([1_000_000, 30_000, 8_000])
    flows = [flow("s0", "r0", size, start) for size, start in zip(sizes.tolist(), (0.0, 0.0105, 0.0205), strict=True)]
    done = run(simulator, fixed(FAST, *flows), limits=np.array([8e6]))
    columns = ("next_bytes", "queued_bytes", "queued_flows", "active_flows", "active_per_byte", "active_left")
    shortest, queued, n_queued, active, per_byte, left = (done.column(name)[:, 0] for name in columns)
    alone = n_queued == 1
    np.testing.assert_array_equal(shortest[alone], queued[alone])
    assert (shortest[n_queued > 1] < queued[n_queued > 1] / 2).all()
    assert not shortest[n_queued == 0].any()
    # Flow by flow: who is there counts 1/size, and of its payload what is not acknowledged.
    ends_s = np.array([m.time_s for m in done.epochs[1:]])[:, None]
    there = (ends_s > np.array([0.0, 0.0105, 0.0205])) & ~(ends_s >= done.records.flows.finish_s)
    np.testing.assert_allclose(per_byte, there @ (1 / sizes), rtol=1e-9)
    np.testing.assert_array_equal(active, there.sum(axis=1))
    assert ((left > 0) == (active > 0)).all()
    assert (left <= active).all()
    assert (np.diff(left)[np.diff(active) == 0] <= 0).all(), "it only falls, unless flows come"


def test_idle_hosts_report_nothing(simulator: Simulator) -> None:
    done = run(simulator, fixed(Dumbbell(pairs=2), flow("s0", "r0", 10_000)), max_epochs=3, until_done=False)
    for name in (
        "throughput_bps",
        "goodput_bps",
        "wait_s",
        "queued_bytes",
        "next_bytes",
        "queued_flows",
        "active_flows",
        "active_per_byte",
        "active_left",
        "rtt_samples",
    ):
        assert not done.column(name)[:, 1].any(), name


RACK = Rack(hosts=3, host_rate_bps=1e9, uplink_rate_bps=1e9, remotes=2)
"""h0 to h2 are neighbours, and everything to r0 and r1 crosses their uplink."""


def first_host(done: Run, name: str) -> FloatArray:
    return done.column(name)[:, 0]


@pytest.mark.parametrize("order", ["fifo", "fair", "srpt"])
def test_a_limit_is_of_what_leaves_the_neighbourhood(simulator: Simulator, order: str) -> None:
    """Under 10 Mbit/s 1 MB takes 0.8 s; beside it, 1 MB to a neighbour goes at line rate and is not measured."""
    scenario = fixed(RACK, flow("h0", "r0", 1_000_000), flow("h0", "h1", 1_000_000, 2e-3))
    limits = np.array([10e6, np.inf, np.inf])
    done = run(simulator, scenario, HostStack(order=order), limits=limits, max_epochs=500)
    assert np.isnan(done.records.flows.finish_s[0])
    assert done.fct_s[1] == pytest.approx(1_000_000 * 8 * 1538 / MSS / 1e9, rel=0.1)
    assert first_host(done, "throughput_bps")[10:].mean() == pytest.approx(10e6, rel=0.02)
    assert first_host(done, "goodput_bps")[2:12].mean() > 700e6, "all that the host sends is acknowledged"
    assert first_host(done, "queued_flows").max() == 1
    assert first_host(done, "queued_bytes").max() <= 1_000_000
    assert first_host(done, "active_flows").max() == 2


def test_acks_are_limited_where_they_go_beyond(simulator: Simulator) -> None:
    """At 1 Mbit/s the ACKs of 3 MB to r0 take hundreds of milliseconds; those to h1 do not wait behind them."""
    flows = (flow("r0", "h0", 3_000_000), flow("h1", "h0", 3_000_000))
    done = run(simulator, fixed(RACK, *flows), limits=np.array([1e6, np.inf, np.inf]), max_epochs=400)
    alone = run(simulator, fixed(RACK, *flows), limits=np.full(3, np.inf), max_epochs=400)
    assert done.fct_s[0] > 2 * alone.fct_s[0]
    assert done.fct_s[1] < alone.fct_s[1] * 1.05
    both = first_host(done, "throughput_bps")[10:20]
    assert both.mean() == pytest.approx(1e6, rel=0.1), "of the ACKs of both, those that are limited"
    # Half of the packets that arrive are acknowledged: some 80 ACKs of 40 bytes in a millisecond are beyond the limit.
    sent_bits = done.records.ports.tx_bytes[RACK.build().port("h0->tor")] * 8
    assert sent_bits > 2 * first_host(done, "throughput_bps").sum() * 1e-3


@pytest.mark.parametrize(("order", "kappa", "first"), [("srpt", 0, 2), ("srpt", 1, 1), ("fifo", None, None)])
def test_what_is_not_limited_goes_in_order_too(
    simulator: Simulator, order: str, kappa: int | None, first: int | None
) -> None:
    """While one flow waits for tokens, a short one to a neighbour overtakes a long one, or not, as the order says."""
    params = () if kappa is None else (("kappa", kappa),)
    flows = (flow("h0", "r0", 5_000_000), flow("h0", "h1", 600_000), flow("h0", "h2", 300_000, 1e-6))
    stack = HostStack(order=order, order_params=params)
    done = run(simulator, fixed(RACK, *flows), stack, limits=np.array([1e6, np.inf, np.inf]), max_epochs=50)
    long_s, short_s = done.fct_s[1], done.fct_s[2]
    if first == 2:
        assert short_s == pytest.approx(300_000 * 8 * 1538 / MSS / 1e9, rel=0.1), "the link's rate"
    elif first == 1:
        assert long_s == pytest.approx(600_000 * 8 * 1538 / MSS / 1e9, rel=0.1), "only who has waited longest is seen"
    else:
        assert short_s == pytest.approx(600_000 * 8 * 1538 / MSS / 1e9, rel=0.1), "turns: twice its own time"
