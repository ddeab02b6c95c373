# SPDX-License-Identifier: BSD-3-Clause
"""Flow orders as weights, and the names and parameters of headers. Needs no privileges."""

import numpy as np
import pytest

from ncc.baselines import _baselines, registry
from ncc.core.scenario import Scenario
from ncc.core.topologies import ManyToOne
from ncc.core.workload import Fixed, Flow
from ncc.envs.linux.extension import extension
from ncc.envs.linux.measure import PORT_COUNTERS, Meter
from ncc.envs.linux.order import FIRST, LEAST, STEP, Weights, by_rank

ORDERS = [name for name, _ in _baselines.orders()]


def test_the_headers_are_those_of_the_table() -> None:
    kernel = {name: info for name, info in registry.controllers().items() if not info.needs.simulated}
    assert tuple(extension().transports()) == tuple(kernel)
    for name, info in kernel.items():
        assert extension().ecn(name) == info.ecn
        assert [row[:4] for row in extension().params(name)] == [(p.name, p.default, p.min, p.max) for p in info.params]
    assert extension().orders() == ["fifo", *ORDERS]
    with pytest.raises(ValueError, match="no controller called nothing"):
        extension().params("nothing")


@pytest.mark.parametrize("order", ORDERS)
def test_keys_of_many_flows_are_those_of_each(order: str) -> None:
    rng = np.random.default_rng(3)
    age_ns = rng.integers(1, 10**9, 200)
    waited_ns = (age_ns * rng.random(200)).astype(np.int64)
    size_bytes = rng.integers(1, 10**8, 200)
    left_bytes = (size_bytes * rng.random(200)).astype(np.int64)
    delivered_bytes = (left_bytes * rng.random(200)).astype(np.int64)
    columns = {
        "age_ns": age_ns, "waited_ns": waited_ns, "size_bytes": size_bytes, "left_bytes": left_bytes,
        "delivered_bytes": delivered_bytes,
    }  # fmt: skip
    keys = np.zeros(200, np.uint64)
    extension().order_keys(order, [], keys=keys, **columns)
    defaults = [row[1] for row in extension().order_params(order)]
    for i, key in enumerate(keys.tolist()):
        assert key == _baselines.order_key(order, defaults, **{name: int(c[i]) for name, c in columns.items()})


def test_ranks_become_weights_host_by_host() -> None:
    agent = np.array([0, 1, 0, 0, 1, 0])
    keys = np.array([5, 1, 9, 5, 2, 0], np.uint64)
    rows = np.arange(6)
    second, third, fourth = FIRST // STEP, FIRST // STEP**2, LEAST
    assert by_rank(agent, keys, rows, 0).tolist() == [second, second, FIRST, third, FIRST, fourth]
    # Two of a host are put in order, those that came first.
    assert by_rank(agent, keys, rows, 2).tolist() == [second, second, FIRST, LEAST, FIRST, LEAST]
    assert by_rank(agent[:0], keys[:0], rows[:0], 0).tolist() == []


def test_the_shortest_remaining_flow_gets_most() -> None:
    sizes = {"s0": (50_000, 20_000, 90_000), "s1": (10_000,)}
    flows = tuple(
        Flow(start_s=0.0, src=src, dst="receiver", size_bytes=size) for src, of in sizes.items() for size in of
    )
    scenario = Scenario(
        name="test", topology=ManyToOne(senders=2), workload=(("fixed", Fixed(flows=flows)),), duration_s=1.0
    )
    table = scenario.flows(1)
    ports = np.zeros((2 * len(scenario.network().links), len(PORT_COUNTERS)), np.int64)
    meter = Meter(scenario, table, ports)
    meter.measure(
        epoch=1, time_s=0.001, interval_s=0.001, limits_bps=np.full(2, np.inf), finished=np.zeros(4, bool), ports=ports
    )
    weights = Weights("srpt", ())
    found = dict(zip(*(column.tolist() for column in weights.of(meter, 0.001)), strict=True))
    by_size = {(int(meter.agent[row]), int(table.size_bytes[row])): weight for row, weight in found.items()}
    assert by_size == {
        (0, 20_000): FIRST,
        (0, 50_000): FIRST // STEP,
        (0, 90_000): FIRST // STEP**2,
        (1, 10_000): FIRST,
    }
    rows = np.flatnonzero(table.size_bytes == 90_000)
    counts = {"known_bytes": 90_000, "delivered_bytes": 80_000, "left_bytes": 89_000, "rtt_samples": 0}
    meter.update(rows, rtt_sum_s=np.array([0.0]), **{name: np.array([value]) for name, value in counts.items()})
    found = dict(zip(*(column.tolist() for column in weights.of(meter, 0.002)), strict=True))
    assert found[int(rows[0])] == FIRST
