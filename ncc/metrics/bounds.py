# SPDX-License-Identifier: BSD-3-Clause
"""What ideal sharing makes of an evaluation's flows (`ncc.metrics.fluid`), in the metrics that come from FCTs.

Every flow of a bound completes. A run that ends with unfinished flows counts those with the time they had had by then
(`ncc.metrics.summary`), so that such a run looks nearer to the bounds than it is; it is marked invalid.
"""

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from ncc.core.flows import FloatArray
from ncc.core.scenario import Scenario
from ncc.metrics.catalogue import CATALOGUE
from ncc.metrics.fct import ideal_fct_s
from ncc.metrics.fluid import Sharing, fluid_fct_s
from ncc.metrics.summary import NAN, fct_summary

BOUNDS: Mapping[str, Sharing] = {"ideal_fair": "fair", "srpt_bound": "srpt"}
"""Names of the bounds in tables, and how the fluids share."""
LOWEST = "srpt_bound"
"""The one that gaps are measured to."""


def has_bounds(scenario: Scenario) -> bool:
    """Whether all flows complete some time: endless ones have no completion time to be bounded."""
    return not any(traffic.endless for _, traffic in scenario.workload)


@lru_cache(maxsize=256)
def bound_fct_s(scenario: Scenario, flow_seed: int, sharing: Sharing) -> FloatArray:
    """`fluid_fct_s` of the flows that `flow_seed` draws, [n_flows], read-only; kept, for every controller meets them.

    Raises:
        ConfigError: endless flows, which never complete.
    """
    found = fluid_fct_s(scenario, scenario.flows(flow_seed), sharing)
    found.flags.writeable = False
    return found


def bound_summary(scenario: Scenario, flow_seed: int, bound: str) -> dict[str, float]:
    """A bound on one flow list with the keys of `ncc.metrics.catalogue`; NaN where it does not come from FCTs."""
    flows, took_s = scenario.flows(flow_seed), bound_fct_s(scenario, flow_seed, BOUNDS[bound])
    slowdown = took_s / ideal_fct_s(scenario, flows)
    return dict.fromkeys(CATALOGUE, NAN) | fct_summary(flows, took_s, slowdown)


def bound_slowdowns(scenario: Scenario, flow_seed: int, bound: str) -> FloatArray:
    """FCT over ideal FCT of every flow, [n_flows], >= 1."""
    flows = scenario.flows(flow_seed)
    return np.asarray(bound_fct_s(scenario, flow_seed, BOUNDS[bound]) / ideal_fct_s(scenario, flows))
