# SPDX-License-Identifier: BSD-3-Clause
"""What holds of every epoch on every datapath."""

from dataclasses import fields

import numpy as np

from ncc.core.measurement import Measurement


def check_measurement(measurement: Measurement, *, n_agents: int) -> None:
    """Of a network with one neighbourhood: columns have their shapes, and numbers that can be."""
    for field in fields(Measurement):
        value = getattr(measurement, field.name)
        if field.name.startswith("upper_"):
            assert value.shape == (1,), field.name
        elif field.name not in ("time_s", "epoch", "flows_started", "flows_finished"):
            assert value.shape == (n_agents,), field.name
        assert np.all(np.isfinite(value)) or field.name == "rate_limit_bps"
        assert np.all(np.asarray(value) >= 0), field.name
