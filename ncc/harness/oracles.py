# SPDX-License-Identifier: BSD-3-Clause
"""Rate limits from perfect knowledge: max-min fair shares, computed from the current state of all hosts.

No real host has this knowledge, so the result is an upper bound for comparisons. Each neighbourhood shares its own
uplink. A host with nothing queued is never limited, so that a new small flow leaves at line rate.
"""

import numpy as np

from ncc.core.extras import load_extension
from ncc.core.flows import FloatArray, IntArray
from ncc.core.measurement import Measurement
from ncc.core.scenario import Scenario
from ncc.core.units import BITS_PER_BYTE

LOCAL_MODULE = "ncc.harness.native._local"
ALIKE = 1.5
SLACK_PERIODS = 2.0
"""Factor, and slack in periods of a link's capacity, within which the next flows of two hosts count as equally long.

A host's next flow is the queued flow with the least payload left. `ShortestFirst` and observations that rank hosts use
these bounds.
"""


class MaxMin:
    """A limiter to max-min fair shares of the uplink (Bertsekas and Gallager, Data Networks, section 6.5.2).

    A host's demand is the rate that sends its queued payload in one period, at most its link's rate. Hosts that demand
    no more than the water level are not limited; the others are limited to this level (`water_level`).
    """

    def __init__(self, headroom_frac: float) -> None:
        self._use = 1 - headroom_frac

    def reset(self, scenario: Scenario, seed: int) -> None:
        self._areas, self._period_s = areas(scenario), scenario.period_s
        self._n = scenario.n_agents

    def decide(self, measurement: Measurement) -> FloatArray:
        limits = np.full(self._n, np.inf)
        for hosts, link_bps, uplink_bps in self._areas:
            demand = np.minimum(measurement.queued_bytes[hosts] * BITS_PER_BYTE / self._period_s, link_bps)
            level = water_level(demand, self._use * uplink_bps)
            limits[hosts] = np.where(demand > level, level, np.inf)
        return limits


def water_level(demand: FloatArray, capacity: float) -> float:
    """Return the level at which demands [n_hosts] add up to `capacity` if larger ones are cut to it; inf if all fit."""
    if demand.sum() <= capacity:
        return np.inf
    rising = np.sort(demand)
    below = np.concatenate([[0.0], np.cumsum(rising)[:-1]])
    levels = (capacity - below) / np.arange(len(rising), 0, -1)
    above = rising >= levels
    above[-1] = True  # true by definition; a sum in another order may differ by rounding
    return float(levels[int(np.argmax(above))])


def claims(sent: FloatArray, limit: FloatArray, link: FloatArray) -> FloatArray:
    """Estimate the rates [n] at which hosts with queued flows will send to a port (`Claim` in native/local.h).

    A host that used most of its limit or link counts with its link's rate, any other with about twice its last rate.

    Args:
        sent: [n] last sending rates.
        limit: [n] limits; inf: no limit.
        link: [n] rates of the hosts' links. All rates have the same unit.
    """
    rates = np.empty(link.shape)
    load_extension(LOCAL_MODULE).claims(*map(np.ascontiguousarray, (sent, limit, link)), rates)
    return rates


def areas(scenario: Scenario) -> list[tuple[IntArray, FloatArray, float]]:
    """Return for each neighbourhood: indices of its agents, rates of their links, and total rate of its uplinks.

    Rates are in bits/s.
    """
    network = scenario.network()
    agents = np.asarray(network.agent_area)
    link_bps = np.array([network.host_link(host).rate_bps for host in network.agent_hosts])
    rows = []
    for number, area in enumerate(network.neighbourhoods):
        hosts = np.flatnonzero(agents == number)
        rows.append((hosts, link_bps[hosts], network.uplink_capacity_bps(area)))
    return rows
