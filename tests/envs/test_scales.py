# SPDX-License-Identifier: BSD-3-Clause

import numpy as np

from ncc.core.scenario import Scenario
from ncc.core.topologies import LeafSpine, ManyToOne
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
