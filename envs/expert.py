# SPDX-License-Identifier: BSD-3-Clause
"""Experts that a learner may imitate before it learns by itself (wang2021 section 5.3.2.3: supervised warm start)."""

import numpy as np

from ncc.core.flows import FloatArray
from ncc.core.measurement import Measurement
from ncc.core.scenario import Scenario
from ncc.harness.controller import Formula, MaxMinLimit, ShareLimit, ShortestFirstLimit
from ncc.harness.limiter import RateLimiter


class TransportExpert(Formula, frozen=True, tag="transport"):
    """The sending rates that the transport finds by itself: BBR in the thesis, the transport of `stack` here."""

    def build(self) -> RateLimiter:
        return _Follow()


class _Follow:
    """Limiter that limits each host to its throughput of the last epoch, and not at all if it sent nothing."""

    def reset(self, scenario: Scenario, seed: int) -> None:
        pass

    def decide(self, measurement: Measurement) -> FloatArray:
        sent = measurement.throughput_bps
        return np.where((sent > 0) & (measurement.queued_flows > 0), sent, np.inf)


AnyExpert = TransportExpert | ShareLimit | MaxMinLimit | ShortestFirstLimit
"""Any expert; `ncc.harness.oracles` describes the last two."""
