# SPDX-License-Identifier: BSD-3-Clause
"""Bounds: the completion-time metrics of an evaluation's flows under ideal sharing (`ncc.metrics.fluid`).

Under ideal sharing every flow completes. A run that ends with unfinished flows counts these with their time so far
(`ncc.metrics.summary`), so it looks closer to the bounds than it is; such a run is marked invalid.
"""

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from ncc.core.flows import FloatArray
from ncc.core.scenario import Scenario
from ncc.metrics.catalogue import CATALOGUE, OF_REQUESTS
from ncc.metrics.fct import ideal_fct_s
from ncc.metrics.fluid import Sharing, fluid_fct_s, unbounded
from ncc.metrics.summary import NAN, fct_summary

BOUNDS: Mapping[str, Sharing] = {
    "ideal_fair": "fair",
    "attained_bound": "attained",
    "services_bound": "services",
    "srpt_bound": "srpt",
}
"""Sharing of each bound, by the bound's name in tables."""
BLIND = ("attained_bound", "services_bound")
"""Bounds of schedulers that do not know flow sizes; used where hosts do not know them either."""
LOWEST = "srpt_bound"
"""Bound from which the distance of controllers is measured."""


def bounds_for(scenario: Scenario) -> tuple[str, ...]:
    """Names of a scenario's bounds; none if its flows have none (`ncc.metrics.fluid.unbounded`)."""
    if unbounded(scenario):
        return ()
    return tuple(name for name in BOUNDS if name not in BLIND or scenario.nic.knows != "sizes")


@lru_cache(maxsize=256)
def bound_fct_s(scenario: Scenario, flow_seed: int, sharing: Sharing) -> FloatArray:
    """Completion times in seconds [n_flows] of the flows that `flow_seed` draws, under ideal sharing (`fluid_fct_s`).

    The array is read-only. It is cached, because the comparisons of all controllers use it.

    Raises:
        ConfigError: the scenario has no bounds (`ncc.metrics.fluid.unbounded`).
    """
    found = fluid_fct_s(scenario, scenario.flows(flow_seed), sharing)
    found.flags.writeable = False
    return found


def bound_summary(scenario: Scenario, flow_seed: int, bound: str) -> dict[str, float]:
    """Compute the metrics of `ncc.metrics.catalogue` for a bound; those that do not come from FCTs are NaN."""
    took_s, slowdown = bound_fct_s(scenario, flow_seed, BOUNDS[bound]), bound_slowdowns(scenario, flow_seed, bound)
    others = dict.fromkeys((key for key in CATALOGUE if key not in OF_REQUESTS), NAN)
    return others | fct_summary(scenario.flows(flow_seed), took_s, slowdown)


def bound_slowdowns(scenario: Scenario, flow_seed: int, bound: str) -> FloatArray:
    """FCT under a bound divided by ideal FCT, for every flow that `flow_seed` draws, [n_flows], >= 1."""
    flows = scenario.flows(flow_seed)
    return np.asarray(bound_fct_s(scenario, flow_seed, BOUNDS[bound]) / ideal_fct_s(scenario, flows))
