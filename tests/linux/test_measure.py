# SPDX-License-Identifier: BSD-3-Clause
"""Columns of a period from counters, against sums written out flow by flow. Needs no privileges."""

import math
from typing import Any

import numpy as np
import pytest

from ncc.core.flows import FlowTable
from ncc.core.measurement import Measurement
from ncc.core.requests import FanOut
from ncc.core.scenario import Nic, Scenario
from ncc.core.topologies import ManyToOne
from ncc.core.workload import Incast
from ncc.envs.linux.extension import extension, reports_of
from ncc.envs.linux.layout import FINISHED, FLOWS_MAX, LIVE, REPORT
from ncc.envs.linux.measure import PORT_COUNTERS, Meter, host_ports
from ncc.metrics.fct import base_rtt_s
from tests.support.measurements import check_measurement

PERIOD_S = 0.001


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    traffic = Incast(events_per_s=400, fan_in=6, bytes_per_server=9000, sources="senders", destinations="receiver")
    topology = ManyToOne(senders=3, rate_bps=2e8, buffer_bytes=100_000)
    return Scenario(name="test", topology=topology, workload=(("incast", traffic),), duration_s=0.05)


def ports_of(scenario: Scenario) -> np.ndarray:
    return np.zeros((2 * len(scenario.network().links), len(PORT_COUNTERS)), np.int64)


def measure(
    meter: Meter, epoch: int, finished: np.ndarray, ports: np.ndarray, interval_s: float = PERIOD_S
) -> Measurement:
    return meter.measure(
        epoch=epoch,
        time_s=epoch * PERIOD_S,
        interval_s=interval_s,
        limits_bps=np.full(3, np.inf),
        finished=finished,
        ports=ports,
    )


def written_out(flows: FlowTable, meter: Meter, finished: np.ndarray, left_at: np.ndarray, time_s: float) -> Any:
    """Columns by host of what is active and queued, from ncc/core/signals.py."""
    rows = {name: [0.0] * 3 for name in ("wait_s", "queued_bytes", "queued_flows", "active_flows", "active_left")}
    least = [math.inf] * 3
    for i in range(len(flows)):
        if flows.start_s[i] > time_s or finished[i]:
            continue
        host, size = int(meter.agent[i]), int(flows.size_bytes[i])
        rows["active_flows"][host] += 1
        rows["active_left"][host] += (size - int(meter.delivered_bytes[i])) / size
        if meter.left_bytes[i] < size:
            rows["queued_flows"][host] += 1
            rows["queued_bytes"][host] += size - int(meter.left_bytes[i])
            rows["wait_s"][host] += time_s - left_at[i]
            least[host] = min(least[host], size - int(meter.left_bytes[i]))
    return rows | {"next_bytes": [0.0 if math.isinf(each) else each for each in least]}


def test_every_column_is_there_with_its_shape(scenario: Scenario) -> None:
    flows = scenario.flows(1)
    first = measure(Meter(scenario, flows, ports_of(scenario)), 0, np.zeros(len(flows), bool), ports_of(scenario), 0.0)
    check_measurement(first, n_agents=3)
    topology = scenario.network()
    base = max(base_rtt_s(scenario, host, topology.group("receiver")[0]) for host in topology.agent_hosts)
    assert first.rtt_s == pytest.approx([base] * 3)


def test_sums_over_flows_are_those_that_are_written_out(scenario: Scenario) -> None:
    flows, rng = scenario.flows(1), np.random.default_rng(7)
    n = len(flows)
    meter = Meter(scenario, flows, ports_of(scenario))
    finished, left_at = np.zeros(n, bool), flows.start_s.copy()
    delivered, rtt_sum, samples = np.zeros(n, np.int64), np.zeros(n), np.zeros(n, np.int64)
    total = np.zeros(3)
    for epoch in range(1, 60):
        time_s = epoch * PERIOD_S
        moving = np.flatnonzero((flows.start_s <= time_s) & ~finished & (rng.random(n) < 0.5))
        before = meter.left_bytes.copy()
        delivered[moving] = np.minimum(delivered[moving] + rng.integers(0, 4000, len(moving)), flows.size_bytes[moving])
        rtt_sum[moving] += 0.002
        samples[moving] += 2
        left = delivered[moving] + 2920
        meter.flows.update(
            moving,
            known_bytes=left,
            delivered_bytes=delivered[moving],
            left_bytes=left,
            rtt_sum_s=rtt_sum[moving],
            rtt_samples=samples[moving],
        )
        left_at[(meter.left_bytes > before)] = time_s
        finished |= (delivered == flows.size_bytes) & (rng.random(n) < 0.5)
        got = measure(meter, epoch, finished, ports_of(scenario))
        for name, value in written_out(flows, meter, finished, left_at, time_s).items():
            assert getattr(got, name) == pytest.approx(value), (epoch, name)
        assert got.flows_started == (flows.start_s <= time_s).sum()
        assert got.flows_finished == finished.sum()
        assert (got.rtt_s[got.rtt_samples > 0] == pytest.approx(0.001)) or not got.rtt_samples.any()
        total += got.goodput_bps * PERIOD_S / 8
    assert finished.any()
    assert total.sum() == meter.delivered_bytes.sum()


def test_flows_of_requests_arrive_in_the_order_in_which_they_start() -> None:
    ask = FanOut(fan_in=3, answer_bytes=9000, requests=2, sources="senders", destinations="receiver")
    topology = ManyToOne(senders=3, rate_bps=2e8, buffer_bytes=100_000)
    scenario = Scenario(name="test", topology=topology, workload=(("ask", ask),), duration_s=0.05)
    flows = scenario.flows(1)
    meter, ports = Meter(scenario, flows, ports_of(scenario)), ports_of(scenario)
    assert flows.graph is not None
    answers = np.flatnonzero(flows.graph.answer)[:3]
    queries = np.flatnonzero(~flows.graph.answer)[:3]
    started, start_s, finished = np.array([*queries, answers[1]]), np.full(len(flows), 0.0015), np.zeros(12, bool)
    meter.begun(started, start_s)
    finished[queries] = True
    got = measure(meter, 2, finished, ports)
    assert (got.flows_started, got.flows_finished) == (4, 3)
    assert meter.live.tolist() == [answers[1]]
    host = meter.agent[answers[1]]
    assert got.active_flows.tolist() == [int(each == host) for each in range(3)]
    assert got.wait_s[host] == pytest.approx(0.002 - 0.0015)
    meter.begun(np.array([*started, answers[0], answers[2]]), start_s)
    finished[answers] = True
    got = measure(meter, 3, finished, ports)
    assert (got.flows_started, got.flows_finished) == (6, 6)
    assert np.isnan(meter.start_s[6:]).all()
    assert meter.start_s[answers].tolist() == [0.0015] * 3


def report(meter: Meter, delivered: int, left: int, samples: int) -> None:
    """Report on the first flow."""
    one = {"known_bytes": left, "delivered_bytes": delivered, "left_bytes": left, "rtt_samples": samples}
    meter.flows.update(
        np.array([0]), rtt_sum_s=np.array([0.1]), **{name: np.array([value]) for name, value in one.items()}
    )


def test_older_news_changes_nothing_and_nothing_exceeds_a_flow(scenario: Scenario) -> None:
    flows = scenario.flows(1)
    meter = Meter(scenario, flows, ports_of(scenario))
    for delivered, left in ((5000, 6000), (3000, 4000)):
        report(meter, delivered, left, delivered)
    assert (meter.delivered_bytes[0], meter.left_bytes[0], meter.rtt_samples[0]) == (5000, 6000, 5000)
    report(meter, 10**6, 0, 0)
    assert meter.delivered_bytes[0] == meter.left_bytes[0] == flows.size_bytes[0]


def test_ports_are_measured_over_the_time_that_passed(scenario: Scenario) -> None:
    flows, topology = scenario.flows(1), scenario.network()
    meter, ports = Meter(scenario, flows, ports_of(scenario)), ports_of(scenario)
    uplink, mine = topology.neighbourhoods[0].uplink_port, host_ports(topology)
    ports[uplink] = (4, 6000, 3, 1, 4500, 9_000_000_000, 8_000_000)
    ports[mine[1]] = (2, 3000, 0, 0, 0, 0, 0)
    got = measure(meter, 1, np.zeros(len(flows), bool), ports, interval_s=0.002)
    assert got.uplink_throughput_bps == pytest.approx([24e6])
    assert got.uplink_queue_bytes == [4500]
    assert got.uplink_queue_mean_bytes == pytest.approx([4500])
    assert got.uplink_queue_delay_s == pytest.approx([0.002])
    assert (got.uplink_marked_pkts[0], got.uplink_dropped_pkts[0]) == (3, 1)
    assert got.throughput_bps == pytest.approx([0, 12e6, 0])
    again = measure(meter, 2, np.zeros(len(flows), bool), ports)
    assert not again.uplink_throughput_bps.any()
    assert not again.uplink_queue_delay_s.any()


class Reports:
    """A map of reports as the kernel writes it, and what `collect` is given."""

    def __init__(self, scenario: Scenario) -> None:
        self.meter = Meter(scenario, scenario.flows(1), ports_of(scenario))
        self.rows = np.zeros(FLOWS_MAX, REPORT)
        self.slots, self.of = np.zeros(FLOWS_MAX, np.int64), np.zeros(FLOWS_MAX, np.int64)
        self.generations = np.zeros(FLOWS_MAX, np.uint32)

    def collect(self) -> Any:
        return extension().collect(
            reports=reports_of(self.rows),
            used=FLOWS_MAX,
            flows=self.meter.flows,
            slots=self.slots,
            generations=self.generations,
            rows=self.of,
        )


def test_reports_in_use_are_taken_in_and_ended_ones_named(scenario: Scenario) -> None:
    reports = Reports(scenario)
    for slot, flow, state in ((3, 1, LIVE), (7, 5, FINISHED), (9, 0, LIVE), (4095, 10**6, LIVE)):
        row = reports.rows[slot]
        row["state"], row["flow"], row["generation"] = state, flow, slot + 1
        row["delivered_bytes"], row["sent_bytes"], row["retrans_bytes"] = 1000 * flow, 3000 * flow, 500
        row["rtt_sum_ns"], row["rtt_samples"] = 2_000_000, 4
    assert reports.collect() == (4, [7], 0)
    assert reports.slots[:4].tolist() == [3, 7, 9, 4095]
    assert reports.generations[:4].tolist() == [4, 8, 10, 4096]
    assert reports.of[:4].tolist() == [0, 4, -1, -1]
    meter = reports.meter
    assert meter.delivered_bytes[[0, 4]].tolist() == [1000, 5000]
    assert meter.left_bytes[[0, 4]].tolist() == [2500, 9000]  # no more than the flow has
    assert meter.rtt_sum_s[0] == pytest.approx(0.002)
    assert meter.delivered_bytes[[1, 2, 3]].tolist() == [0, 0, 0]


def test_where_hosts_know_backlogs_sizes_come_from_reports(scenario: Scenario) -> None:
    reports = Reports(scenario.replace(nic=Nic(knows="backlog")))
    row, finished = reports.rows[3], np.zeros(len(reports.meter.size_bytes), bool)
    time_s = float(reports.meter.start_s[0]) + PERIOD_S
    epoch = int(np.ceil(time_s / PERIOD_S))
    before = measure(reports.meter, epoch, finished, ports_of(scenario))
    assert before.active_flows.sum() >= 1
    assert not before.queued_bytes.any(), "nothing is known before a report"
    row["state"], row["flow"] = LIVE, 1
    row["sent_bytes"], row["retrans_bytes"], row["unsent_bytes"] = 2500, 500, 1500
    for unsent, known in ((1500, 3500), (700, 3500), (10**6, 9000)):  # it never falls, nor exceeds the flow
        row["unsent_bytes"] = unsent
        reports.collect()
        assert reports.meter.known_bytes[0] == known
        epoch += 1
        after = measure(reports.meter, epoch, finished, ports_of(scenario))
        assert after.queued_bytes.sum() == after.next_bytes.sum() == known - 2000
        assert after.queued_flows.sum() == 1
