# SPDX-License-Identifier: BSD-3-Clause
"""Sums over sampled periods of networks' metrics during training, for the log."""

import numpy as np

from ncc.core.flows import FloatArray
from ncc.core.measurement import Measurement, Measurements
from ncc.core.scenario import Scenario
from ncc.envs.scales import scales_of

EVERY = 10
"""Number of periods between two samples, large enough to cost almost nothing."""


class Tally:
    """Sums of flows, goodput, queueing delays and limits over all racks of one scenario."""

    def __init__(self, scenario: Scenario, n_racks: int) -> None:
        self._stride_s = EVERY * scenario.period_s
        self._per_bps = 1 / scales_of(scenario).link_rate_bps
        self._finite = not any(traffic.endless for _, traffic in scenario.workload)
        self._finished = np.zeros(n_racks, np.int64)
        self._calls = 0
        self.sums = np.zeros(6)
        """Number of sampled racks; seconds that flows were under way, and number of finished flows; goodput, queueing
        delay and limits, each summed over the sampled racks."""

    def begin(self, row: int) -> None:
        """Begin an episode of a rack."""
        self._finished[row] = 0

    def add(self, m: Measurement | Measurements, limits_bps: FloatArray) -> None:
        """Take a period of every rack under limits [n_racks, n_agents] in bits/s; one call in `EVERY` is counted."""
        self._calls += 1
        if self._calls % EVERY:
            return
        finished = np.asarray(m.flows_finished)
        under_way = np.sum(m.flows_started) - np.sum(finished)
        self.sums += np.array(
            [
                len(limits_bps),
                self._stride_s * under_way if self._finite else 0.0,
                np.sum(finished - self._finished) if self._finite else 0.0,
                m.goodput_bps.sum(),
                m.uplink_queue_delay_s.mean(axis=-1).sum(),
                np.minimum(limits_bps * self._per_bps, 1.0).mean(axis=-1).sum(),
            ]
        )
        self._finished[:] = finished


def means(sums: FloatArray) -> dict[str, float]:
    """Return the means of `Tally.sums` by name with SI unit; a mean of nothing is left out.

    Keys:
        network/fct_s: mean flow completion time by Little's law: flows under way, divided by flows finished per second.
        network/goodput_bps: payload acknowledged to all hosts of a rack per second.
        network/queue_delay_s: mean wait at the uplink.
        network/limit_frac: mean rate limit as a fraction of the host's link rate; 1: no host is limited.
    """
    racks, under_way_s, finished, goodput, delay, limits = sums.tolist()
    if not racks:
        return {}
    mean = {"fct_s": under_way_s / finished} if finished else {}
    mean |= {"goodput_bps": goodput / racks, "queue_delay_s": delay / racks, "limit_frac": limits / racks}
    return {f"network/{name}": value for name, value in mean.items()}


class Episodes:
    """Episodes of several racks or slots: the current one of each, and the returns of those that ended."""

    copies, n_noise = 1, 0

    def __init__(self, n: int) -> None:
        self._episodes = [0] * n
        self._returns: list[list[float]] = [[] for _ in range(n)]

    @property
    def episode(self) -> int:
        """Number of the episode that the slowest rack or slot is in."""
        return min(self._episodes)

    def take_returns(self) -> tuple[float, ...]:
        """Return the mean reward per host and period of each episode that ended since the last call, one by one."""
        taken = tuple(value for returns in self._returns for value in returns)
        self._returns = [[] for _ in self._returns]
        return taken
