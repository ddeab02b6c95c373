# SPDX-License-Identifier: BSD-3-Clause
"""A network that falls apart is refused before it runs, on every simulator."""

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.topologies import Dumbbell
from ncc.harness.datapath import HostStack
from tests.datapaths.runs import Simulator, fixed, flow


def test_flows_without_a_path_are_refused_by_their_ends(simulator: Simulator) -> None:
    """No topology spec builds such a network, so its bottleneck is taken out of the numbers."""
    scenario = fixed(Dumbbell(pairs=1), flow("s0", "r0", 1000))
    network = scenario.network()
    spec = simulator.spec_of(scenario, scenario.flows(1), HostStack(), 1)
    kept = network.links[1:]
    host_end, switch_end = (-1, 0, 0, 0, -1, 0, 0), (512_000, 0, 0, 0, -1, 0, 0)
    spec.agents, spec.uplinks = [], []
    spec.set_links(
        np.array([(link.a, link.b) for link in kept]),
        np.array([link.rate_bps for link in kept]),
        np.full(len(kept), 10_000),
        np.array([[host_end, switch_end] for _ in kept]),
        np.zeros((len(kept), 2)),
    )
    ends = network.nodes[2].name, network.nodes[3].name
    assert ends == ("s0", "r0")
    with pytest.raises(ConfigError, match=r"^Scenario 'test' cannot run on .*: no path between node 2 and node 3\.$"):
        simulator.network_of(scenario, spec)
