# SPDX-License-Identifier: BSD-3-Clause
"""Switches seen from outside: shared buffers, RED, and control packets that go first."""

from dataclasses import fields

import numpy as np
import pytest

from ncc.core.scenario import Scenario, Transport
from ncc.core.topologies import Dumbbell, SingleSwitch
from ncc.core.topology import Red
from ncc.core.topology_spec import TopologySpec
from ncc.metrics.fct import base_rtt_s
from tests.datapaths.runs import Run, Simulator, fixed, flow, run

MTU = 1500
FAST = Dumbbell(pairs=4, host_rate_bps=1e9, bottleneck_rate_bps=10e9, mark_threshold_bytes=0)
"""If several hosts send to one, the queue is in the port towards it."""


def port(run_: Run, scenario: Scenario, name: str) -> dict[str, float]:
    """The record of a port."""
    records, index = run_.records.ports, scenario.network().port(name)
    return {field: getattr(records, field)[index] for field in ("tx_pkts", "dropped_pkts", "marked_pkts",
            "queue_max_bytes")}  # fmt: skip


def converging(topology: TopologySpec, *receivers: str, size_bytes: int = 3_000_000) -> Scenario:
    """All four senders send to each of the receivers."""
    flows = [flow(f"s{i}", receiver, size_bytes) for receiver in receivers for i in range(4)]
    return fixed(topology, *flows, period_s=1e-3)  # type: ignore[arg-type]


class TestSharedBuffer:
    SHARED = FAST.replace(buffer_bytes=20_000, shared_buffer_bytes=200_000, dt_alpha=1.0)

    def test_a_lone_queue_takes_more_than_its_own_buffer_up_to_its_share(self, simulator: Simulator) -> None:
        own, shared = converging(FAST.replace(buffer_bytes=20_000), "r0"), converging(self.SHARED, "r0")
        narrow, wide = (
            port(run(simulator, own, "newreno"), own, "right->r0"),
            port(run(simulator, shared, "newreno"), shared, "right->r0"),
        )
        assert 20_000 - MTU <= narrow["queue_max_bytes"] <= 20_000
        reach = 20_000 + 100_000  # alpha/(1 + alpha) of the pool
        assert reach - MTU <= wide["queue_max_bytes"] <= reach + MTU
        assert wide["dropped_pkts"] > 0

    def test_queues_that_grow_together_get_less(self, simulator: Simulator) -> None:
        """M of them alpha/(1 + M alpha) each; a window each is sent at once, so both ports fill together."""
        flows = [flow(f"s{i}", receiver, 60 * 1460) for receiver in ("r0", "r1") for i in range(4)]
        scenario = fixed(self.SHARED, *flows, transport=Transport(recovery="classic", initial_window_pkts=60))
        done = run(simulator, scenario, "newreno")
        lengths = [port(done, scenario, f"right->r{i}")["queue_max_bytes"] for i in (0, 1)]
        assert all(20_000 + 66_000 - 2 * MTU <= length < 20_000 + 100_000 - MTU for length in lengths)

    def test_pools_of_one_switch_are_apart(self, simulator: Simulator) -> None:
        """With a pool for each port, the neighbour's queue costs nothing."""
        scenario = converging(self.SHARED.replace(ports_per_pool=1), "r0", "r1")
        done = run(simulator, scenario, "newreno")
        for name in ("right->r0", "right->r1"):
            assert port(done, scenario, name)["queue_max_bytes"] == pytest.approx(120_000, abs=MTU)


class TestRed:
    def test_it_marks_as_often_as_the_queue_says(self, simulator: Simulator) -> None:
        """From 0 bytes on, the chance is proportional to the queue: the mean queue gives the number of marks."""
        topology = Dumbbell(pairs=4, host_rate_bps=1e9, mark_threshold_bytes=0,
                            red=Red(min_bytes=0, max_bytes=400_000, max_prob_frac=0.4))  # fmt: skip
        scenario = fixed(topology, *(flow(f"s{i}", f"r{i}", 8_000_000) for i in range(4)))
        done = run(simulator, scenario, "dctcp")
        found = port(done, scenario, "left->right")
        packets = done.column("uplink_throughput_bps")[:, 0] * scenario.period_s / 8 / MTU
        expected = float((packets * 0.4 * done.column("uplink_queue_mean_bytes")[:, 0] / 400_000).sum())
        assert found["dropped_pkts"] == 0
        assert expected > 300
        assert found["marked_pkts"] == pytest.approx(expected, rel=0.1)

    def test_what_cannot_be_marked_passes(self, simulator: Simulator) -> None:
        """Every data packet that waits is marked; of the ACKs that wait with data none is, and none is dropped."""
        topology = Dumbbell(pairs=4, mark_threshold_bytes=0, red=Red(min_bytes=0, max_bytes=1))
        ends = [("s0", "r0"), ("s1", "r1"), ("r2", "s2"), ("r3", "s3")]
        scenario = fixed(topology, *(flow(src, dst, 500_000) for src, dst in ends))
        done = run(simulator, scenario, "dctcp")
        there, back = port(done, scenario, "left->right"), port(done, scenario, "right->left")
        assert there["marked_pkts"] > 100
        assert back["marked_pkts"] > 100
        assert done.records.flows.ce_pkts.sum() == done.records.ports.marked_pkts.sum()  # all of them carried data
        assert there["dropped_pkts"] == back["dropped_pkts"] == 0

    def test_ports_draw_apart(self, simulator: Simulator) -> None:
        """Two receivers of the same traffic: from one draw their flows would end at the same times."""
        red = Red(min_bytes=5000, max_bytes=100_000)
        topology = SingleSwitch(senders=4, receivers=2, mark_threshold_bytes=0, red=red)
        done = run(simulator, fixed(topology, *(flow(f"s{i}", f"r{i % 2}", 2_000_000) for i in range(4))))
        assert (done.fct_s[::2] != done.fct_s[1::2]).any()

    @pytest.mark.parametrize(("threshold", "red"), [(20_000, (300_000, 400_000)), (300_000, (0, 40_000))])
    def test_a_packet_is_marked_if_either_marker_says_so(
        self, simulator: Simulator, threshold: int, red: tuple[int, int]
    ) -> None:
        early = Red(min_bytes=red[0], max_bytes=red[1], max_prob_frac=1.0)
        topology = Dumbbell(pairs=2, host_rate_bps=2e9, mark_threshold_bytes=threshold, red=early)
        scenario = fixed(topology, *(flow(f"s{i}", f"r{i}", 8_000_000) for i in range(2)))
        done = run(simulator, scenario, "dctcp")
        assert done.records.ports.marked_pkts.sum() > 100
        assert done.column("uplink_queue_mean_bytes")[20:].max() < 60_000, "nothing but the markers holds it back"

    def test_a_pool_marks_by_how_full_it_is_whichever_port_asks(self, simulator: Simulator) -> None:
        """BCC: flows that come to an empty port later are held shorter where another port fills their pool."""
        flows = [flow(f"s{i}", "r0", 1_000_000) for i in range(6)]
        flows += [flow(f"s{i}", "r1", 1_000_000, 5e-3) for i in (6, 7)]
        longest = []
        for ports in (1, 2):
            topology = SingleSwitch(
                senders=8, receivers=2, buffer_bytes=10_000, shared_buffer_bytes=400_000, ports_per_pool=ports,
                mark_threshold_bytes=0, shared_red=Red(min_bytes=20_000, max_bytes=40_000),
            )  # fmt: skip
            scenario = fixed(topology, *flows)
            longest.append(port(run(simulator, scenario), scenario, "switch->r1")["queue_max_bytes"])
        assert longest[1] < 0.6 * longest[0]


class TestControlFirst:
    def test_acks_overtake_the_data_of_others(self, simulator: Simulator) -> None:
        """Two flows fill the port that the ACKs of a short one the other way must pass."""

        def there_and_back(*, control_first: bool) -> Run:
            topology = Dumbbell(pairs=3, mark_threshold_bytes=0, control_first=control_first)
            flows = [flow("s0", "r0", 5_000_000), flow("s1", "r1", 5_000_000), flow("r2", "s2", 200_000, 0.02)]
            return run(simulator, fixed(topology, *flows), "newreno")

        behind, ahead = there_and_back(control_first=False), there_and_back(control_first=True)
        rtt_s = [done.records.flows.rtt_mean_s[2] for done in (behind, ahead)]
        assert rtt_s[0] > 2e-3  # 300 KB of queue at 1 Gbit/s
        # The data it meets has no queue; its ACKs wait for at most the packet in transmission (12.3 us) at one port.
        base_s = base_rtt_s(fixed(Dumbbell(pairs=3), flow("s0", "r0", 1)), 2, 3)
        assert rtt_s[1] < base_s + 0.2e-3
        assert ahead.fct_s[2] < 0.2 * behind.fct_s[2]
        np.testing.assert_allclose(ahead.fct_s[:2], behind.fct_s[:2], rtol=0.01)  # what an ACK takes is little

    def test_alone_a_flow_sees_no_difference(self, simulator: Simulator) -> None:
        """One class on every port: to the nanosecond what a plain FIFO gives."""
        plain, strict = (
            run(simulator, fixed(topology, flow("s0", "r0", 3_000_000)), "dctcp")
            for topology in (Dumbbell(pairs=1, host_rate_bps=3e9, control_first=first) for first in (False, True))
        )
        assert plain.records.flows.ce_pkts[0] == plain.records.ports.marked_pkts.sum() > 100
        for field in fields(plain.records.flows):
            np.testing.assert_array_equal(
                getattr(plain.records.flows, field.name), getattr(strict.records.flows, field.name), err_msg=field.name
            )
        for name in ("tx_pkts", "tx_bytes", "queue_max_bytes", "marked_pkts"):
            np.testing.assert_array_equal(
                getattr(plain.records.ports, name), getattr(strict.records.ports, name), err_msg=name
            )


def test_data_and_acks_that_are_dropped_are_counted_apart(simulator: Simulator) -> None:
    """A short buffer shared by the data of one way and the ACKs of the other."""
    topology = Dumbbell(pairs=4, bottleneck_rate_bps=1e9, buffer_bytes=15_000, mark_threshold_bytes=0)
    there = [flow(f"s{i}", f"r{i}", 1_000_000) for i in range(4)]
    back = [flow(f"r{i}", f"s{i}", 1_000_000) for i in range(4)]
    done = run(simulator, fixed(topology, *there, *back), "newreno")
    ports, flows = done.records.ports, done.records.flows
    assert 0 < ports.dropped_data_pkts.sum() < ports.dropped_pkts.sum()
    assert (ports.dropped_data_pkts <= ports.dropped_pkts).all()
    assert ports.dropped_data_pkts.sum() <= flows.retransmitted_pkts.sum(), "all is delivered in the end"
