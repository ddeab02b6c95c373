# SPDX-License-Identifier: BSD-3-Clause
"""Neighbours seen together: numbers of equal meaning whatever the size of the rack."""

from math import log1p

import numpy as np

from ncc.core.scenario import Scenario
from ncc.core.topologies import LeafSpine
from ncc.core.workload import Permutation
from ncc.envs.observation import ObservationSpec, SharedObserver, names_of
from tests.envs.cases import measured, rack

SPEC = ObservationSpec(neighbours="pooled")
FOUR = rack()
NAMES = names_of(SPEC, 0)


def observer(scenario: Scenario = FOUR) -> SharedObserver:
    made = SharedObserver(SPEC)
    made.reset(scenario)
    return made


def test_pooled_state_by_hand() -> None:
    seen = observer()
    seen.observe(measured(FOUR))
    loud = measured(
        FOUR,
        throughput_bps=[1e8, 2e8, 3e8, 7e8],
        queued_flows=[0, 2, 0, 1],
        wait_s=[0, 4e-3, 0, 0],
        queued_bytes=[0, 125_000, 0, 0],
        uplink_queue_bytes=512_000,
    )
    before = seen.observe(loud)
    assert not before[:, 8:15].any(), "what others do now is not known yet"
    obs = seen.observe(measured(FOUR))
    pooled = dict(zip(NAMES, obs.T, strict=True))
    np.testing.assert_allclose(pooled["throughput mean"], [0.4, 1.1 / 3, 1 / 3, 0.2], rtol=1e-5)
    np.testing.assert_allclose(pooled["throughput max"], [0.7, 0.7, 0.7, 0.3], rtol=1e-6)
    wait = log1p(2) / log1p(100)  # 4 ms over 2 flows, in periods
    np.testing.assert_allclose(pooled["mean_wait mean"], [wait / 3, 0, wait / 3, wait / 3], rtol=1e-5)
    np.testing.assert_allclose(pooled["mean_wait max"], [wait, 0, wait, wait], rtol=1e-5)
    np.testing.assert_allclose(pooled["queued_bytes max"], np.array([1, 0, 1, 1]) * log1p(1) / log1p(100), rtol=1e-5)
    np.testing.assert_allclose(pooled["busy share"], [2 / 3, 1 / 3, 2 / 3, 1 / 3], rtol=1e-6)
    # The uplink has 2 Gbit/s, a host 1: two busy neighbours leave 2/3, one leaves 1.
    np.testing.assert_allclose(pooled["fair share"], [2 / 3, 1, 2 / 3, 1], rtol=1e-6)
    np.testing.assert_allclose(obs[:, NAMES.index("uplink queue")], 1.0)


def test_a_host_of_its_own_has_no_neighbours() -> None:
    scenario = FOUR.replace(
        topology=LeafSpine(leaves=2, spines=1, hosts_per_leaf=1),
        workload=(("p", Permutation(hosts="hosts", size_bytes=1)),),
    )
    pooled = dict(zip(NAMES, observer(scenario).observe(measured(scenario)).T, strict=True))
    assert pooled.pop("fair share").tolist() == [1, 1], "the way up is its own"
    assert not np.stack(list(pooled.values())[8:]).any()
