# SPDX-License-Identifier: BSD-3-Clause
"""The order among a host's flows below the rate limit, on every simulator."""

import math

import numpy as np

from ncc.core.flows import FloatArray
from ncc.core.scenario import Scenario
from ncc.core.topologies import Dumbbell
from ncc.harness.datapath import HostStack
from tests.datapaths.runs import Simulator, fixed, flow, run

KB, MB = 1_000, 1_000_000
ONE_HOST = Dumbbell(pairs=2)
"""Flows of one sender meet in its own NIC, and nowhere else."""


def finish_s(simulator: Simulator, scenario: Scenario, stack: HostStack, limit_bps: float = math.inf) -> FloatArray:
    """When each flow was delivered; the limit holds for every host."""
    limits = np.full(scenario.n_agents, limit_bps)
    return run(simulator, scenario, stack, limits=limits).records.flows.finish_s


def stack(order: str, **params: int) -> HostStack:
    return HostStack(transport="dctcp", order=order, order_params=tuple(params.items()))


def test_the_smaller_flow_overtakes_where_sizes_count(simulator: Simulator) -> None:
    # 4 MB are under way when 100 KB come: alone they take 0.8 ms at 1 Gbit/s, in turns about twice that.
    scenario = fixed(ONE_HOST, flow("s0", "r0", 4 * MB), flow("s0", "r0", 100 * KB, start_s=0.01))
    fct_s = {
        name: finish_s(simulator, scenario, stack(name), 1e9)[1] - 0.01 for name in ("fifo", "fair", "srpt", "sjf")
    }
    fct_s["upsilon"] = finish_s(simulator, scenario, stack("upsilon", omega_milli=500), 1e9)[1] - 0.01
    for name in ("srpt", "sjf", "upsilon"):
        assert fct_s[name] < 0.7 * fct_s["fifo"], fct_s
        assert fct_s[name] < 0.7 * fct_s["fair"], fct_s


def test_only_kappa_flows_are_put_in_order(simulator: Simulator) -> None:
    # Two long flows stand before the short one: with kappa = 2 it has to wait until one of them has no packet there.
    flows = (flow("s0", "r0", 2 * MB), flow("s0", "r0", 2 * MB), flow("s0", "r0", 50 * KB, start_s=0.01))
    scenario = fixed(ONE_HOST, *flows)
    all_of_them, two, one = (finish_s(simulator, scenario, stack("srpt", kappa=k), 1e9)[2] for k in (0, 2, 1))
    assert all_of_them < two
    assert all_of_them < one


def test_no_flow_starves_by_upsilon(simulator: Simulator) -> None:
    # Short flows take nearly all of the limit; the long one gets what they leave, or more where waiting counts.
    short = [flow("s0", "r0", 100 * KB, start_s=0.00087 * i) for i in range(120)]
    scenario = fixed(ONE_HOST, flow("s0", "r0", 400 * KB), *short)
    starving = finish_s(simulator, scenario, stack("srpt"), 1e9)[0]
    waiting = finish_s(simulator, scenario, stack("upsilon", omega_milli=3000), 1e9)[0]
    assert waiting < 0.8 * starving
