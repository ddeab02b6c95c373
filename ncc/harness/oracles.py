# SPDX-License-Identifier: BSD-3-Clause
"""Rate limits by formulas that use the current state of all hosts, which no host can know: bounds.

Each formula is applied per neighbourhood, for its uplink. A host with nothing queued is never limited, so that a new
small flow leaves at line rate.
"""

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ncc.core.flows import BoolArray, FloatArray, IntArray
from ncc.core.measurement import Measurement
from ncc.core.scenario import Scenario
from ncc.core.units import BITS_PER_BYTE

Real = TypeVar("Real", bound=np.floating[Any])

ALIKE = 1.5
SLACK_PERIODS = 2.0
"""Bounds within which next flows count as equally long, in `ShortestFirst` and in observations that rank them."""
HELD_FRAC = 0.8
GROWTH = 2.0
START_FRAC = 0.1
"""Constants of `claims`, which estimates the rate that a host with shorter flows takes."""


class MaxMin:
    """Limiter to max-min fair shares of the uplink (Bertsekas and Gallager, Data Networks, section 6.5.2), every epoch.

    A host's demand is its queued payload over the period, at most its link's rate. A host that demands less than the
    water level is not limited; the others share the rest equally.
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


class ShortestFirst:
    """Limiter that gives the uplink to the hosts whose next flow has least left: clairvoyant SRPT by rate limits.

    Host i compares its shortest queued flow, h_i bytes, with those of all others. Hosts with less than h_i / `alike`,
    by more than their link carries in `slack_periods`, go first with the rate that they can use (`claims`); host i
    shares the rest with hosts whose flows count as equal (`room_before`). Equal flows, such as the answers of an
    incast, must not all count as first. A flow that would end before a limit takes effect leaves nothing to wait for:
    without the slack the uplink would be idle part of the time. A host always has `floor_frac` > 0 of its fair share,
    so that none starves and no limit is 0, which datapaths refuse.
    """

    def __init__(self, headroom_frac: float, alike: float, floor_frac: float, slack_periods: float) -> None:
        self._use, self._alike, self._floor = 1 - headroom_frac, alike, floor_frac
        self._slack_periods = slack_periods

    def reset(self, scenario: Scenario, seed: int) -> None:
        self._areas, self._n = areas(scenario), scenario.n_agents
        self._slack_s = self._slack_periods * scenario.period_s

    def decide(self, measurement: Measurement) -> FloatArray:
        limits = np.full(self._n, np.inf)
        for hosts, link_bps, uplink_bps in self._areas:
            queued = measurement.queued_flows[hosts] > 0
            if not queued.any():
                continue
            next_bytes, slack_bytes = measurement.next_bytes[hosts], link_bps * self._slack_s / BITS_PER_BYTE
            capacity_bps = self._use * uplink_bps
            claimed_bps = claims(measurement.throughput_bps[hosts], measurement.rate_limit_bps[hosts], link_bps)
            room, peers = room_before(
                next_bytes, queued, claimed_bps, capacity_bps, alike=self._alike, slack_bytes=slack_bytes
            )
            fair = capacity_bps / int(queued.sum())
            share = np.maximum(room / peers, self._floor * fair)
            limits[hosts] = np.where(queued & (share < link_bps), share, np.inf)
        return limits


def water_level(demand: FloatArray, capacity: float) -> float:
    """The level at which demands [n_hosts] cut there add up to `capacity`; inf if all of them fit."""
    if demand.sum() <= capacity:
        return np.inf
    rising = np.sort(demand)
    below = np.concatenate([[0.0], np.cumsum(rising)[:-1]])
    levels = (capacity - below) / np.arange(len(rising), 0, -1)
    above = rising >= levels
    above[-1] = True  # true by definition; a sum in another order may differ by rounding
    return float(levels[int(np.argmax(above))])


def claims(sent: NDArray[Real], limit: NDArray[Real], link: NDArray[Real]) -> NDArray[Real]:
    """Rates that hosts with queued flows may need of the port, given their last sent rates, in any one unit.

    A host that used `HELD_FRAC` of its limit or link, apart from `START_FRAC` of the link, may need all that its link
    carries; with a low limit a short period has few packets and says little. A host that its transport holds back, such
    as one that waits for ACKs across a WAN, cannot use that: it gets `GROWTH` times its last rate, as a window may
    double in slow start, and `START_FRAC` of the link to begin with.
    """
    start = START_FRAC * link
    held = sent + start >= HELD_FRAC * np.minimum(limit, link)
    claimed: NDArray[Real] = np.where(held, link, np.minimum(GROWTH * sent + start, link))
    return claimed


def room_before(
    next_bytes: FloatArray,
    queued: BoolArray,
    claimed_bps: FloatArray,
    capacity_bps: float,
    *,
    alike: float,
    slack_bytes: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Rates in bits/s that hosts with shorter flows leave of a port, and numbers of hosts with equal flows."""
    mine = next_bytes[:, None]
    others = queued[None, :] & ~np.eye(len(queued), dtype=np.bool_)
    shorter = others & (next_bytes + slack_bytes < mine / alike)
    same = others & ~shorter & ~shorter.T  # neither goes before the other
    return np.maximum(capacity_bps - shorter @ claimed_bps, 0.0), 1.0 + same.sum(axis=1)


def areas(scenario: Scenario) -> list[tuple[IntArray, FloatArray, float]]:
    """Agents, rates of their links, and the total rate of the uplinks, by neighbourhood."""
    network = scenario.network()
    agents = np.asarray(network.agent_area)
    link_bps = np.array([network.host_link(host).rate_bps for host in network.agent_hosts])
    found = []
    for number, area in enumerate(network.neighbourhoods):
        hosts = np.flatnonzero(agents == number)
        found.append((hosts, link_bps[hosts], network.uplink_capacity_bps(area)))
    return found
