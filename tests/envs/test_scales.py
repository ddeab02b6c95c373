# SPDX-License-Identifier: BSD-3-Clause
from dataclasses import dataclass
from typing import Any, cast

import msgspec
import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.scenario import Scenario
from ncc.core.topologies import LeafSpine, ManyToOne
from ncc.core.topology import Neighbourhood, Topology
from ncc.core.workload import Permutation
from ncc.envs.scales import scales_of
from tests.envs.cases import rack


def test_rates_and_base_rtt_by_hand() -> None:
    scales = scales_of(rack())
    assert scales.names == ("h0", "h1", "h2", "h3")
    np.testing.assert_array_equal(scales.link_rate_bps, 1e9)
    np.testing.assert_array_equal(scales.uplink_rate_bps, 2e9)
    np.testing.assert_array_equal(scales.uplink_buffer_bytes, 512_000)
    # Three hops (1, 2, 4 Gbit/s) of 10 us each way; 1538 bytes of frame out, 40 + 38 back.
    bits = (1538 + 78) * 8
    np.testing.assert_allclose(scales.base_rtt_s, 60e-6 + bits / 1e9 + bits / 2e9 + bits / 4e9, atol=1e-8)


def test_a_shared_buffer_counts_with_what_one_queue_may_take_of_it() -> None:
    scenario = rack()
    shared = scenario.topology.replace(buffer_bytes=0, shared_buffer_bytes=90_000, dt_alpha=2.0)
    np.testing.assert_array_equal(scales_of(scenario.replace(topology=shared)).uplink_buffer_bytes, 60_000)


def test_neighbours_run_around_their_own_neighbourhood() -> None:
    np.testing.assert_array_equal(scales_of(rack()).neighbours, [[1, 2, 3], [2, 3, 0], [3, 0, 1], [0, 1, 2]])
    topology = LeafSpine(leaves=2, spines=1, hosts_per_leaf=3)
    scenario = Scenario(
        name="two", topology=topology, workload=(("p", Permutation(hosts="hosts", size_bytes=1)),), duration_s=0.01
    )
    scales = scales_of(scenario)
    np.testing.assert_array_equal(scales.neighbours, [[1, 2], [2, 0], [0, 1], [4, 5], [5, 3], [3, 4]])
    np.testing.assert_array_equal(scales.area, [0, 0, 0, 1, 1, 1])


def test_a_neighbourhood_that_sends_to_its_own_switch_has_a_base_rtt() -> None:
    topology = ManyToOne(senders=3)
    scenario = Scenario(
        name="incast", topology=topology, workload=(("p", Permutation(hosts="senders", size_bytes=1)),), duration_s=0.01
    )
    bits = (1538 + 78) * 8
    np.testing.assert_allclose(scales_of(scenario).base_rtt_s, 40e-6 + 2 * bits / 1e9, atol=1e-8)


@dataclass(frozen=True)
class Uneven:
    """A scenario of a topology that no spec builds."""

    name: str = "uneven"

    def network(self) -> Topology:
        network = rack().network()
        h = network.agent_hosts
        areas = (Neighbourhood(hosts=h[:3], uplink_port=0), Neighbourhood(hosts=h[3:], uplink_port=0))
        return msgspec.structs.replace(network, neighbourhoods=areas)


def test_neighbourhoods_of_different_sizes_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"'uneven' has neighbourhoods of 1, 3 hosts.*all of one size"):
        scales_of(cast(Any, Uneven()))
