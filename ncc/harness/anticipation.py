# SPDX-License-Identifier: BSD-3-Clause
"""Hosts that learn which of their flows to hold: those that will meet many others at their receiver.

A word from a receiver takes a period to come. A flow of a burst should wait for it, and others should not. No host
sees a burst coming, but it knows what its earlier flows of the same kind have met. `HostStack.anticipates` has it go by
that.
"""

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import groupby

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.flows import BoolArray, FloatArray, FlowTable, IntArray
from ncc.core.scenario import Scenario
from ncc.core.seeding import generator
from ncc.core.units import BITS_PER_BYTE
from ncc.harness.datapath import Anticipates

LEAST_PERIODS = 2.0
"""Flows of a kind wait that met so much on average. A burst that takes less time is half over when a word comes."""
GAIN = 1 / 8
"""Weight of the newest flow in the average, once there are as many; before, all count alike."""
KINDS_PER_OCTAVE = 2
"""Kinds of flows by size, for each factor of two."""


class History:
    """Memory of a host: for each kind of its flows the average of what they met, in periods."""

    def __init__(self) -> None:
        self._met: dict[int, float] = {}
        self._flows: dict[int, int] = {}

    def learn(self, kind: int, met_periods: float) -> None:
        """Take in what a receiver has said of one flow."""
        n = self._flows[kind] = self._flows.get(kind, 0) + 1
        before = self._met.get(kind, 0.0)
        self._met[kind] = before + max(GAIN, 1 / n) * (met_periods - before)

    def holds(self, kind: int) -> bool:
        """True if a flow of this kind should wait for its receiver; one of an unknown kind should not."""
        return self._met.get(kind, 0.0) >= LEAST_PERIODS


def anticipated(scenario: Scenario, flows: FlowTable, anticipates: Anticipates, seed: int) -> BoolArray:
    """Flows, [n_flows], that their hosts hold by what each has learned until then.

    The first word on a flow tells its sender what the flow has met (`met_periods`). It leaves at the end of the period
    in which the receiver has heard of the flow, and is known a period later, or as many as the scenario's messages are
    late. Words are lost as `sharing_loss_frac` says, and agents that have died (`sharing_silent`) say nothing.

    What a flow meets depends on when flows begin, far more than on how they go on. So this is worked out before the
    run, as if each receiver's port served the shortest of the flows to it first, at its full rate.

    Raises:
        ConfigError: hosts do not know sizes.
    """
    if scenario.nic.knows != "sizes":
        raise ConfigError(
            f"stack.anticipates {anticipates} needs Scenario.nic.knows sizes, as receivers count what is to come, got "
            f"{scenario.nic.knows}"
        )
    kinds = (flows.traffic if anticipates == "services" else size_kinds(flows.size_bytes)).tolist()
    heard, met = periods_heard(scenario, flows), met_periods(scenario, flows)
    late_periods = scenario.sharing_delay_periods + scenario.sharing_unsynchronised
    known_s = (heard + late_periods) * scenario.period_s
    comes = generator(seed, "anticipation").random(len(flows)) >= scenario.sharing_loss_frac
    names = np.array([node.name for node in scenario.network().nodes])
    dead = heard * scenario.period_s >= scenario.sharing_silent_from_s
    known_s[~comes | (np.isin(names[flows.dst], scenario.sharing_silent) & dead)] = np.inf
    histories = {host: History() for host in np.unique(flows.src).tolist()}
    held, words, next_word = np.zeros(len(flows), np.bool_), np.argsort(known_s, kind="stable"), 0
    for flow in np.argsort(flows.start_s, kind="stable"):
        while next_word < len(words) and known_s[word := words[next_word]] <= flows.start_s[flow]:
            histories[flows.src[word]].learn(kinds[word], met[word])
            next_word += 1
        held[flow] = histories[flows.src[flow]].holds(kinds[flow])
    return held


def size_kinds(size_bytes: IntArray) -> IntArray:
    """Kinds of flows by size, `KINDS_PER_OCTAVE` for each factor of two."""
    kinds: IntArray = np.floor(KINDS_PER_OCTAVE * np.log2(size_bytes)).astype(np.int64)
    return kinds


def periods_heard(scenario: Scenario, flows: FlowTable) -> IntArray:
    """Number of periods that are over when a receiver first speaks of each flow."""
    periods: IntArray = np.floor(flows.start_s / scenario.period_s).astype(np.int64) + 1
    return periods


def met_periods(scenario: Scenario, flows: FlowTable) -> FloatArray:
    """Load that each flow meets at its receiver, [n_flows]: time that the port takes for others' payload, in periods.

    It is what the receiver knows of and has not got at the end of the period in which it hears of the flow, and of each
    other flow at most as much as this one has: what is longer goes after it.
    """
    network, heard, met = scenario.network(), periods_heard(scenario, flows), np.zeros(len(flows))
    for dst, group in groupby(np.lexsort((flows.start_s, flows.dst)).tolist(), key=lambda flow: flows.dst[flow]):
        rate_bps = network.port_rate_bps(network.down_port(int(dst)))
        period_bytes = rate_bps * scenario.period_s / BITS_PER_BYTE
        for flow, others_bytes in _meetings(flows.size_bytes, heard, list(group), period_bytes):
            met[flow] = others_bytes / period_bytes
    return met


def _meetings(
    size_bytes: IntArray, heard: IntArray, flows: list[int], period_bytes: float
) -> Iterator[tuple[int, float]]:
    """Flows of one receiver in turn, and the bytes of others that each meets there."""
    waiting: list[tuple[float, int]] = []
    served = 0
    for period, group in groupby(flows, key=lambda flow: int(heard[flow])):
        room_bytes = (period - 1 - served) * period_bytes
        while waiting and room_bytes > 0:
            left_bytes, flow = heappop(waiting)
            if left_bytes > room_bytes:
                heappush(waiting, (left_bytes - room_bytes, flow))
            room_bytes -= left_bytes
        served, new = period - 1, list(group)
        for flow in new:
            heappush(waiting, (float(size_bytes[flow]), flow))
        lefts_bytes = np.array([left for left, _ in waiting])
        for flow in new:
            size = float(size_bytes[flow])
            yield flow, float(np.minimum(lefts_bytes, size).sum()) - size
