# SPDX-License-Identifier: BSD-3-Clause
"""Whose turn it is: events at one instant, and the flows of a host."""

import numpy as np

from ncc.core.flows import FlowTable
from ncc.core.scenario import Transport
from ncc.core.topologies import Dumbbell
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.datapath import HostStack
from tests.datapaths.runs import engine, fixed, flow


def test_many_flows_time_out_at_once() -> None:
    """A search through the events of one instant would take minutes."""
    n = 20_000
    scenario = fixed(
        Dumbbell(pairs=1),
        flow("s0", "r0", 1),
        period_s=1e-4,
        transport=Transport(recovery="classic", min_rto_s=1e-5, initial_rto_s=1e-5),
    )
    nodes = {node.name: i for i, node in enumerate(scenario.network().nodes)}
    src, dst = (np.full(n, nodes[name]) for name in ("s0", "r0"))
    flows = FlowTable(np.zeros(n), src, dst, np.full(n, 1000), np.zeros(n, dtype=np.int64))
    datapath = PacketsimDatapath()
    datapath.start(scenario, flows, HostStack(), 1)
    measured = [datapath.step(np.array([np.inf])) for _ in range(4)]
    assert [each.flows_started for each in measured] == [n] * 4
    audit = engine(datapath).audit()
    assert audit["sent"] == audit["arrived"] + audit["dropped"] + audit["in_hosts"] + audit["on_links"]
