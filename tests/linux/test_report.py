# SPDX-License-Identifier: BSD-3-Clause
"""Figures of docs/linux: how they are counted."""

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from ncc.core.errors import DatapathError
from ncc.harness.run import Run
from ncc.run.limiters import LimiterFactory
from tests.linux.report.rack import controller_of, figures_of, lab, run_of, sent_over_allowed


def test_figures_of_a_run_are_in_their_units() -> None:
    scenario, dctcp = lab("lab_long", "scenario.topology.rate_bps=2e8"), controller_of("dctcp")
    found = figures_of(run_of("packetsim", scenario, dctcp, LimiterFactory(None)(dctcp, scenario), 1))
    assert found["goodput (Mbit/s)"] == pytest.approx(200 * 1460 / 1538, rel=0.01)
    assert found["mean queue (KB)"] == pytest.approx(30, rel=0.1)
    assert 20 < found["marked (%)"] < 60
    assert 0.5 <= found["ACKs per packet"] <= 1


def test_a_host_without_a_finite_limit_does_not_count() -> None:
    def run(limit_bps: list[list[float]]) -> Run:
        limit = np.array(limit_bps)
        sent = np.where(np.isfinite(limit), limit / 2, 1e9)
        columns = {"rate_limit_bps": limit, "throughput_bps": sent, "queued_bytes": np.ones_like(limit)}
        epochs = SimpleNamespace(time_s=np.arange(1.0, len(limit) + 1), columns=columns)
        return cast(Run, SimpleNamespace(valid=True, epochs=epochs))

    assert sent_over_allowed([run([[1e8, np.inf], [2e8, np.inf]])]).tolist() == [0.5]
    with pytest.raises(DatapathError, match="had a finite limit"):
        sent_over_allowed([run([[np.inf], [np.inf]])])
