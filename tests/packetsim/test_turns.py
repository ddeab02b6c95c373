# SPDX-License-Identifier: BSD-3-Clause
"""Whose turn it is: events at one instant, and the flows of a host."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from ncc.core.flows import FlowTable
from ncc.core.measurement import Measurement
from ncc.core.scenario import Scenario, Transport
from ncc.core.topologies import Dumbbell
from ncc.envs.native.extension import Spec
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.datapath import HostStack, Records
from tests.datapaths.runs import engine, fixed, flow
from tests.envs.cases import poisson, rack


def test_many_flows_time_out_at_once() -> None:
    """A search through the events of one instant would take minutes."""
    n = 20_000
    scenario = fixed(
        Dumbbell(pairs=1), flow("s0", "r0", 1), period_s=1e-4, transport=Transport(min_rto_s=1e-5, initial_rto_s=1e-5)
    )
    nodes = {node.name: i for i, node in enumerate(scenario.network().nodes)}
    flows = FlowTable(
        np.zeros(n),
        np.full(n, nodes["s0"]),
        np.full(n, nodes["r0"]),
        np.full(n, 1000),
        np.zeros(n, dtype=np.int64),
    )
    datapath = PacketsimDatapath()
    datapath.start(scenario, flows, HostStack(), 1)
    measured = [datapath.step(np.array([np.inf])) for _ in range(4)]
    assert [each.flows_started for each in measured] == [n] * 4
    audit = engine(datapath).audit()
    assert audit["sent"] == audit["arrived"] + audit["dropped"] + audit["in_hosts"] + audit["on_links"]


def played(scenario: Scenario, stack: HostStack, order: str) -> tuple[list[Measurement], Records]:
    """Under limits that change, by an order of flows that settings may not name."""
    spec: Spec = PacketsimDatapath.spec_of(scenario, scenario.flows(1), stack, 1)
    spec.order = order
    datapath = PacketsimDatapath()
    datapath._network, datapath._topology = PacketsimDatapath.network_of(scenario, spec), scenario.network()
    rng = np.random.default_rng(2)
    epochs = [
        datapath.step(rng.choice([5e7, 4e8, np.inf], scenario.n_agents))
        for _ in range(round(scenario.duration_s * 1e3))
    ]
    records = datapath.finish()
    datapath.close()
    return epochs, records


@pytest.mark.parametrize("transport", ["dctcp", "newreno", "bbr"])
def test_first_in_first_out_by_an_order_is_bit_for_bit_the_nics_own(transport: str) -> None:
    scenario = rack(poisson(0.9), periods=40)
    (ours, own), (theirs, other) = (
        played(scenario, HostStack(transport=transport), each) for each in ("fifo", "test_fifo")
    )
    assert np.isfinite(own.flows.finish_s).sum() > 20
    assert max(each.queued_flows.max() for each in ours) > 1, "flows wait for one another"
    pairs: list[tuple[Any, Any]] = [(own.flows, other.flows), (own.ports, other.ports), *zip(ours, theirs, strict=True)]
    for a, b in pairs:
        for field in fields(a):
            np.testing.assert_array_equal(getattr(a, field.name), getattr(b, field.name), err_msg=field.name)
    assert "test_fifo" not in PacketsimDatapath.extension().orders()
