# SPDX-License-Identifier: BSD-3-Clause
"""Schedulers that do not know sizes, as fluids: ranks by hand, and what they cost."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncc.core.distributions import SizeDistribution
from ncc.core.scenario import Scenario
from ncc.core.topologies import ManyToOne
from ncc.core.workload import Fixed, Flow
from ncc.metrics.bounds import bounds_for
from ncc.metrics.fct import ideal_fct_s
from ncc.metrics.fluid import Sharing, fluid_fct_s
from ncc.metrics.ranks import LEVELS_PER_OCTAVE, WRITTEN_BYTES, gittins_ranks, levels

MB = 1_000_000
LINE_BPS = 1e9


def scenario(**services: tuple[tuple[float, int], ...]) -> Scenario:
    """Flows (start, size) of services, each service from a sender of its own to one receiver."""
    workload = tuple(
        (name, Fixed(flows=tuple(Flow(start_s=at, src=f"s{i}", dst="receiver", size_bytes=size) for at, size in flows)))
        for i, (name, flows) in enumerate(services.items())
    )
    topology = ManyToOne(senders=4, rate_bps=LINE_BPS)
    return Scenario(name="blind", topology=topology, workload=workload, duration_s=1.0)


def waits(made: Scenario, sharing: Sharing) -> np.ndarray:
    """Payload that others send before each flow is complete."""
    flows = made.flows(0)
    wire = (MB + np.ceil(MB / 1460) * (40 + made.transport.frame_overhead_bytes)) / MB
    return np.asarray((fluid_fct_s(made, flows, sharing) - ideal_fct_s(made, flows)) * LINE_BPS / 8 / wire)


def test_ranks_of_two_sizes_by_hand() -> None:
    """Half 100 KB, half 10 MB: serve until 100 KB; who is longer than that has 10 MB."""
    known = np.array([65536.0, 131072.0])
    found = gittins_ranks(known, SizeDistribution.of(np.array([100_000, 10 * MB])))
    assert found == pytest.approx(WRITTEN_BYTES + np.array([(100_000 - 65536) / 0.5, 10 * MB - 131072]))
    one = gittins_ranks(known, SizeDistribution.of(np.array([MB])))
    assert one == pytest.approx(WRITTEN_BYTES + MB - known)
    assert np.isinf(gittins_ranks(known, SizeDistribution.of(np.array([1000])))).all(), "no flow is that long"


def test_levels_are_eight_to_a_doubling() -> None:
    found = levels(3.9 * WRITTEN_BYTES)
    np.testing.assert_allclose(found, WRITTEN_BYTES * 2 ** (np.arange(17) / 8))
    assert levels(WRITTEN_BYTES / 2).tolist() == [WRITTEN_BYTES]


def test_of_sizes_each_has_its_share() -> None:
    found = SizeDistribution.of(np.array([4, 1, 4, 10]))
    assert found.points == ((1.0, 0.0), (1.0, 0.25), (4.0, 0.25), (4.0, 0.75), (10.0, 0.75), (10.0, 1.0))
    assert found.mean_bytes == pytest.approx(19 / 4)
    assert set(found.sample(100, np.random.default_rng(1)).tolist()) == {1, 4, 10}


def test_least_attained_goes_first_where_nothing_is_known() -> None:
    """2 MB, of which 1 MB is sent when 5 MB come: they overtake it, then both take turns until its end is written."""
    half_s = (MB + 685 * 78) * 8 / LINE_BPS
    made = scenario(short=((0.0, 2 * MB),), long=((half_s, 5 * MB),))
    assert waits(made, "srpt")[0] == pytest.approx(0, abs=1)
    assert waits(made, "services")[0] == pytest.approx(0, abs=1), "a service of 2 MB is known to be shorter"
    level = 2 ** (1 / LEVELS_PER_OCTAVE)
    assert 2 * MB / level < waits(made, "attained")[0] + WRITTEN_BYTES < 2 * MB * level


def test_an_end_that_is_written_is_known() -> None:
    made = scenario(a=((0.0, WRITTEN_BYTES), (0.0, 1000), (0.0, 30_000)), b=((0.0, WRITTEN_BYTES),))
    for sharing in ("attained", "services"):
        assert waits(made, sharing) == pytest.approx(waits(made, "srpt"), abs=1e-3)


@given(st.lists(st.tuples(st.integers(1, 3 * MB), st.floats(0, 0.05)), min_size=1, max_size=12))
def test_nobody_is_better_than_with_sizes(drawn: list[tuple[int, float]]) -> None:
    made = scenario(one=tuple((at, size) for size, at in drawn))
    srpt = waits(made, "srpt").mean()
    for sharing in ("attained", "services"):
        found = waits(made, sharing)
        assert found.min() >= -1e-3
        assert found.mean() >= srpt - 1


def test_bounds_without_sizes_are_for_hosts_without_sizes() -> None:
    made = scenario(one=((0.0, MB),))
    blind = made.replace(nic=made.nic.replace(knows="backlog"))
    assert set(bounds_for(blind)) - set(bounds_for(made)) == {"attained_bound", "services_bound"}
