# SPDX-License-Identifier: BSD-3-Clause
"""Bounds in the metrics of a run: what comes from completion times, by worked arithmetic, and nothing else."""

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.scenario import Scenario
from ncc.core.topologies import ManyToOne, Rack
from ncc.core.workload import Fixed, Flow, Long
from ncc.metrics.bounds import BOUNDS, LOWEST, bound_slowdowns, bound_summary, bounds_for
from ncc.metrics.catalogue import CATALOGUE, OF_REQUESTS
from ncc.metrics.fct import ideal_fct_s

FROM_FCTS = {key for key in CATALOGUE if key.startswith(("slowdown_", "fct_"))}


def two_equal() -> Scenario:
    flows = tuple(Flow(start_s=0.0, src=f"s{i}", dst="receiver", size_bytes=1_000_000) for i in range(2))
    return Scenario(
        name="two",
        topology=ManyToOne(senders=2, rate_bps=1e9),
        workload=(("fixed", Fixed(flows=flows)),),
        duration_s=0.01,
    )


def test_two_equal_flows_by_hand() -> None:
    made = two_equal()
    alone_s = ideal_fct_s(made, made.flows(0))[0]
    line_s = (1_000_000 + 685 * (40 + made.transport.frame_overhead_bytes)) * 8 / 1e9
    fair, srpt = (bound_summary(made, 0, name) for name in bounds_for(made))
    assert fair["fct_mean_s"] == pytest.approx(alone_s + line_s)
    assert srpt["fct_mean_s"] == pytest.approx(alone_s + line_s / 2)
    assert srpt["slowdown_medium_p50"] == pytest.approx(1 + line_s / 2 / alone_s)
    assert np.isnan(srpt["slowdown_small_mean"]), "no such flows"
    assert sorted(bound_slowdowns(made, 0, LOWEST)) == pytest.approx([1.0, 1 + line_s / alone_s])


def test_what_does_not_come_from_completion_times_is_undefined() -> None:
    for name in BOUNDS:
        found = bound_summary(two_equal(), 0, name)
        assert set(found) == set(CATALOGUE) - OF_REQUESTS
        assert all(np.isnan(found[key]) for key in set(found) - FROM_FCTS)


def test_endless_flows_have_none() -> None:
    long = Long(sources="hosts", destinations="remotes", flows=1)
    made = Scenario(name="long", topology=Rack(hosts=2), workload=(("long", long),), duration_s=0.05, drain_s=1.0)
    assert bounds_for(two_equal())
    assert not bounds_for(made)
    with pytest.raises(ConfigError, match="endless flows"):
        bound_summary(made, 0, LOWEST)
