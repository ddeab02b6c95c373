# SPDX-License-Identifier: BSD-3-Clause
"""Properties of every epoch on every datapath."""

import numpy as np

from ncc.core.measurement import COLUMNS, PROGRESS, Measurement
from ncc.core.signals import SIGNALS


def check_measurement(measurement: Measurement, *, n_agents: int) -> None:
    """Check a measurement of a network with one neighbourhood: shapes of columns, and possible numbers."""
    shapes = {"host": (n_agents,), "uplink": (1,), "network": ()}
    for name in (*COLUMNS, *PROGRESS):
        value = getattr(measurement, name)
        assert np.shape(value) == shapes[SIGNALS[name].scope], name
        assert np.all(np.isfinite(value)) or name == "rate_limit_bps"
        least = -1 if name == "held_flows" else 0  # -1: unknown, on Linux
        assert np.all(np.asarray(value) >= least), name
