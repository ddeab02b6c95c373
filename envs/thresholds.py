# SPDX-License-Identifier: BSD-3-Clause
"""Thresholds of PIAS that change during a run, by the flows that were delivered (AuTO: Chen et al., SIGCOMM 2018).

A central system gets reports of the flows that hosts have delivered, and sets the thresholds of all hosts, after which
a flow moves one class down. This is the paper's half for short flows (its sRLA, section 4.2, from memory): states,
actions and the reward `throughput`. Its half for long flows (priority, rate and path of each) is left out.
"""

import math
from typing import Any

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray
from ncc.core.measurement import Delivered, Measurement
from ncc.core.scenario import Scenario
from ncc.core.units import BITS_PER_BYTE
from ncc.harness.batch import ObsArray
from ncc.harness.receivers import turn_s

TAGS = "pias"
N_THRESHOLDS = 7
MOST_PKTS = np.array([1000.0] + [10.0] * (N_THRESHOLDS - 1))
"""Largest first threshold in packets of 1460 bytes, then the largest ratio of each further one to that before it."""
SIZES_BYTES = (1_460, 10_000, 100_000, 1_000_000, 10_000_000)
"""Bounds of the six classes of sizes that are observed."""
OBS_DIM = 2 * (len(SIZES_BYTES) + 1) + 1
MEMORY_S = 0.1
"""Time after which a delivered flow counts 1/e in an observation."""


def thresholds(action: Any) -> tuple[int, ...]:
    """Return the thresholds of an action in packets: the k-th is the product of the first k `MOST_PKTS`^u.

    u = (1 + action) / 2, so action 0 means 32, 100, 316, ... packets.

    Raises:
        ConfigError: the action is not seven finite numbers.
    """
    given = np.asarray(action, np.float64)
    if given.shape != (N_THRESHOLDS,) or not np.isfinite(given).all():
        raise ConfigError(f"an action must be {N_THRESHOLDS} numbers in [-1, 1], one per threshold, got {action}")
    share = (np.clip(given, -1, 1) + 1) / 2
    return tuple(np.rint(np.exp(np.cumsum(share * np.log(MOST_PKTS)))).astype(np.int64).tolist())


class DeliveredView:
    """Observation of the flows that were delivered, as moving averages.

    An observation has `OBS_DIM` numbers: for each class of sizes its share of the flows, then for each class the mean
    of log(slowdown) / 3, then the delivered payload over what the hosts' links carry. The slowdown of a flow is its
    completion time over that alone at its host's line rate, an RTT and its payload's time.

    Raises:
        ConfigError: no port of the scenario has classes.
    """

    def __init__(self, scenario: Scenario) -> None:
        network = scenario.network()
        buffers = [buffer for link in network.links for buffer in (link.a_buffer, link.b_buffer) if buffer is not None]
        if all(buffer.classes == 1 for buffer in buffers):
            raise ConfigError(
                f"thresholds move flows between classes, and ports of scenario {scenario.name!r} have one class: set "
                "scenario.topology.classes to 8"
            )
        rates_bps = [network.host_link(host).rate_bps for host in network.agent_hosts]
        self._line_bps, self._total_bps = min(rates_bps), sum(rates_bps)
        self._rtt_s, self._period_s = turn_s(scenario, network.hosts[0]), scenario.period_s
        self._keep = math.exp(-self._period_s / MEMORY_S)
        self.restart()

    def restart(self) -> ObsArray:
        """Forget all flows; return the first observation [OBS_DIM]."""
        self._flows, self._logs = np.zeros((2, len(SIZES_BYTES) + 1))
        self._bytes = self._time_s = 0.0
        return np.zeros(OBS_DIM, np.float32)

    def log_slowdown(self, flows: Delivered) -> FloatArray:
        """Return log(slowdown) [n] of flows; flows of less than a packet may be below 0, as the RTT is a full one's."""
        alone_s = self._rtt_s + BITS_PER_BYTE * flows.size_bytes / self._line_bps
        logs: FloatArray = np.log(flows.took_s / alone_s)
        return logs

    def observe(self, measurement: Measurement) -> ObsArray:
        """Return the observation [OBS_DIM] at the end of a period."""
        flows = measurement.delivered
        which = np.searchsorted(SIZES_BYTES, flows.size_bytes)
        n = len(self._flows)
        self._flows = self._keep * self._flows + np.bincount(which, minlength=n)
        self._logs = self._keep * self._logs + np.bincount(which, self.log_slowdown(flows), minlength=n)
        self._bytes = self._keep * self._bytes + float(flows.size_bytes.sum())
        self._time_s = self._keep * self._time_s + self._period_s
        load = BITS_PER_BYTE * self._bytes / (self._time_s * self._total_bps)
        share, slow = self._flows / max(self._flows.sum(), 1.0), self._logs / np.maximum(self._flows, 1.0) / 3
        seen: ObsArray = np.clip(np.r_[share, slow, load], -1, 3).astype(np.float32)
        return seen
