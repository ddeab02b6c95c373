# SPDX-License-Identifier: BSD-3-Clause
"""Checks of rate limits before a period on any datapath."""

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray
from ncc.core.scenario import Neighbourhoods
from ncc.core.topology import Topology


def checked_limits(limits_bps: FloatArray, topology: Topology, neighbourhoods: Neighbourhoods) -> FloatArray:
    """Return limits [n_agents] as a contiguous array; raise `ConfigError` for a wrong shape or value."""
    limits = np.ascontiguousarray(limits_bps, dtype=np.float64)
    if limits.shape != (len(topology.agent_hosts),):
        raise ConfigError(
            f"rate_limits_bps must have shape ({len(topology.agent_hosts)},), one per agent host, got {limits.shape}"
        )
    check_values(limits, topology)
    if neighbourhoods == "receivers" and np.isfinite(limits).any():
        raise ConfigError("rate_limits_bps must be inf: with Scenario.neighbourhoods=receivers hosts have no limits")
    return limits


def check_values(limits_bps: FloatArray, topology: Topology) -> None:
    """Raise `ConfigError` for a limit [..., n_agents] that is not above 0, naming its host."""
    if limits_bps.min(initial=np.inf) > 0:  # NaN fails too
        return
    bad = int(np.flatnonzero(~(limits_bps > 0))[0])
    index = bad % len(topology.agent_hosts)
    raise ConfigError(
        f"rate_limits_bps of host {topology.nodes[topology.agent_hosts[index]].name} (index {index}) must be above 0 "
        f"bits/s, or inf for no limit, got {limits_bps.flat[bad]}"
    )
