# SPDX-License-Identifier: BSD-3-Clause
"""Query completion times by hand, and their lower bound."""

from dataclasses import replace

import numpy as np
import pytest

from ncc.core.flows import FlowTable, Graph
from ncc.metrics.fct import ideal_fct_s
from ncc.metrics.requests import ideal_qct_s, qct_s, timeout_frac
from ncc.metrics.summary import summarise
from tests.metrics.examples import HOST, epochs, flow_records, flow_table, port_records, rack


def requests(flows: FlowTable, request: list[int], after: list[int], think_s: float = 1e-9) -> FlowTable:
    """The flows as requests; each flow is a group of its own, by its row."""
    n = len(flows)
    graph = Graph(
        request=np.array(request),
        answer=np.zeros(n, np.bool_),
        group=np.arange(n),
        after=np.array(after),
        think_s=np.where(np.array(after) >= 0, think_s, 0.0),
    )
    return replace(flows, graph=graph)


def test_a_qct_runs_from_the_first_start_to_the_last_end_of_a_request() -> None:
    flows = requests(flow_table([0.1, 0.2, 0.3, 0.5, 0.6], [10] * 5), [0, 0, 1, 1, -1], [-1] * 5)
    records = flow_records([0.4, 0.3, 0.9, 0.8, 5.0], timeouts=[0, 0, 1, 2, 1])
    assert qct_s(flows, records) == pytest.approx([0.3, 0.6])
    assert timeout_frac(flows, records) == 0.5


def test_an_unfinished_request_counts_with_its_time_so_far() -> None:
    flows = requests(flow_table([0.1, 0.2], [10] * 2), [0, 1], [-1] * 2)
    records = flow_records([0.4, float("nan")])
    assert np.isnan(qct_s(flows, records)[1])
    assert qct_s(flows, records, until_s=1.0) == pytest.approx([0.3, 0.8])


def test_what_never_started_counts_nowhere_but_as_unfinished() -> None:
    """Four requests: one is complete, one misses a flow that never started, one hangs, one never began."""
    nan, scenario = float("nan"), rack()
    flows = requests(flow_table([0.0, 0.1, nan, 0.2, nan], [10] * 5), [0, 1, 1, 2, 3], [-1, -1, 1, -1, -1])
    records = flow_records([0.05, 0.3, nan, nan, nan], timeouts=[0, 0, 0, 1, 0])
    assert qct_s(flows, records, until_s=1.0) == pytest.approx([0.05, 0.9, 0.8, nan], nan_ok=True)
    assert qct_s(flows, records) == pytest.approx([0.05, nan, nan, nan], nan_ok=True)
    assert timeout_frac(flows, records) == pytest.approx(1 / 3)
    found = summarise(scenario, flows, records, port_records(scenario), epochs(scenario, 1000))
    assert found["qct_mean_s"] == pytest.approx((0.05 + 0.9 + 0.8) / 3)
    assert found["qct_p50_s"] == pytest.approx(0.8)
    assert found["fct_mean_s"] == pytest.approx((0.05 + 0.2 + 0.8) / 3)
    assert found["unfinished"] == 3


def test_goodput_of_requests_counts_to_the_last_end() -> None:
    """A run of 100 periods of 1 ms, of which the scenario's duration is 10; the second request ends in the 60th."""
    scenario = rack(duration_s=0.01)
    flows = requests(flow_table([0.0, 0.03], [10] * 2), [0, 1], [-1, 0])
    goodput = np.zeros((100, 2))
    goodput[:60] = 0.1e9
    found = summarise(
        scenario,
        flows,
        flow_records([0.02, 0.0595]),
        port_records(scenario),
        epochs(scenario, 100, goodput_bps=goodput),
    )
    assert found["goodput_bps"] == pytest.approx(0.2e9)


def test_the_ideal_qct_of_a_chain_is_the_sum_of_ideal_fcts_and_think_times() -> None:
    flows = requests(flow_table([0.0] * 3, [1000, 5000, 100]), [0, 0, 1], [-1, 0, 1], think_s=1e-3)
    ideal = ideal_fct_s(rack(), flows)
    assert ideal_qct_s(rack(), flows) == pytest.approx([ideal[0] + 1e-3 + ideal[1], ideal[2]])


def test_the_ideal_qct_of_many_flows_to_a_host_is_what_its_line_needs() -> None:
    n, scenario = 400, rack()
    flows = requests(flow_table([0.0] * n, [1460] * n), [0] * n, [-1] * n)
    line_bps = scenario.network().host_link(HOST).rate_bps
    assert ideal_qct_s(scenario, flows) == pytest.approx([n * 1538 * 8 / line_bps])


def test_the_ideal_qct_of_drawn_graphs_is_that_of_a_walk_through_their_rows() -> None:
    """Rows wait for earlier ones only, so one walk in their order finds each start; some chains are long."""
    for seed in range(20):
        rng, n = np.random.default_rng(seed), 300
        after = np.array([int(rng.integers(max(-1, row - rng.choice([2, 50])), row)) for row in range(n)])
        flows = requests(flow_table([0.0] * n, rng.integers(1, 1000, n).tolist()), [0] * n, after.tolist(), 1e-4)
        took_s = ideal_fct_s(rack(), flows)
        ends_s = np.zeros(n)
        for row, before in enumerate(after.tolist()):
            ends_s[row] = took_s[row] + (ends_s[before] + 1e-4 if before >= 0 else 0.0)
        assert ideal_qct_s(rack(), flows) == pytest.approx([ends_s.max()], rel=1e-12)


def test_the_ideal_qct_of_a_long_chain_takes_a_step_for_each_row() -> None:
    """A step looks at the rows that have become ready, not at all of them."""
    n = 20_000
    flows = requests(flow_table([0.0] * n, [100] * n), [0] * n, list(range(-1, n - 1)), think_s=1e-6)
    took_s = ideal_fct_s(rack(), flows)[0]
    assert ideal_qct_s(rack(), flows) == pytest.approx([n * took_s + (n - 1) * 1e-6])
