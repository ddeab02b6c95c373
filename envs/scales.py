# SPDX-License-Identifier: BSD-3-Clause
"""Constants of environments from the scenario alone: link rates, unloaded delays and neighbours of every agent."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ncc.core.flows import FloatArray, IntArray
from ncc.core.scenario import Scenario
from ncc.core.topology import Topology
from ncc.metrics.fct import base_rtt_s


@dataclass(frozen=True)
class Scales:
    """Constants of a scenario. Columns have shape [n_agents] unless their text says [n_neighbourhoods]."""

    names: tuple[str, ...]
    """Host names, in the order of `Topology.agent_hosts`."""
    link_rate_bps: FloatArray
    """Rate of the agent's own link."""
    base_rtt_s: FloatArray
    """Longest unloaded RTT from the agent's neighbourhood to a host outside it (to one inside if there is no other), by
    `ncc.metrics.fct.base_rtt_s`."""
    area: IntArray
    """Neighbourhood of the agent."""
    neighbours: IntArray
    """Neighbours [n_agents, size of a neighbourhood - 1] of agent i: i+1, i+2, ... to the end of the neighbourhood,
    then from its beginning to i-1."""
    uplink_rate_bps: FloatArray
    """Rate of the uplink [n_neighbourhoods]."""
    uplink_capacity_bps: FloatArray
    """Total rate of a neighbourhood's uplinks [n_neighbourhoods], of which there may be several by equal paths."""
    uplink_buffer_bytes: FloatArray
    """Longest queue of the uplink [n_neighbourhoods]."""

    @property
    def n_agents(self) -> int:
        """Number of hosts that are agents."""
        return len(self.names)

    @property
    def fair_share_bps(self) -> FloatArray:
        """Rate [n_agents] in bits/s if all hosts of a neighbourhood share its uplinks equally."""
        share_bps: FloatArray = self.uplink_capacity_bps[self.area] / (self.neighbours.shape[1] + 1)
        return share_bps


@lru_cache(maxsize=32)
def scales_of(scenario: Scenario) -> Scales:
    """Return the constants of a scenario, computed once per process. All neighbourhoods of a topology have one size."""
    network = scenario.network()
    areas = network.neighbourhoods
    size = len(areas[0].hosts)
    position = np.arange(size)
    around = (position[:, None] + 1 + position[None, : size - 1]) % size
    first = size * np.arange(len(areas))
    base = [_base_rtt_s(scenario, network, i) for i in range(len(areas))]
    return Scales(
        names=tuple(network.nodes[host].name for host in network.agent_hosts),
        link_rate_bps=np.array([network.host_link(host).rate_bps for host in network.agent_hosts]),
        base_rtt_s=np.repeat(base, size),
        area=np.asarray(network.agent_area, dtype=np.int64),
        neighbours=(first[:, None, None] + around).reshape(len(areas) * size, size - 1),
        uplink_rate_bps=np.array([network.port_rate_bps(area.uplink_port) for area in areas]),
        uplink_capacity_bps=np.array([network.uplink_capacity_bps(area) for area in areas]),
        uplink_buffer_bytes=np.array([network.reach_bytes(area.uplink_port) for area in areas], dtype=np.float64),
    )


def _base_rtt_s(scenario: Scenario, network: Topology, area: int) -> float:
    inside = network.neighbourhoods[area].hosts
    outside = [host for host in network.hosts if host not in inside] or [host for host in inside if host != inside[0]]
    return max(base_rtt_s(scenario, inside[0], host) for host in outside)
