# SPDX-License-Identifier: BSD-3-Clause
"""Groups of numbers by what they are worth: the same flows with and without them."""

import numpy as np
import pytest

from ncc.results.notebook import scenario_of
from ncc.study.importance import ALL, importance, main


def test_without_the_order_flows_of_an_incast_take_longer() -> None:
    size = ("scenario.topology.senders=8", "scenario.workload.queries.fan_in=8", "scenario.duration_s=0.05")
    found = importance("ncc", [scenario_of("incast", "scenario.period_s=1e-4", *size)] * 2)
    middle = dict(zip(found.names, found.without[:, 0], strict=True))
    assert middle["order: bytes and hosts before"] > 1.05
    assert middle["ages of messages"] == pytest.approx(1, abs=0.02), "none is lost here"
    assert ALL in found.names
    assert (np.diff(found.without[found.ranked, 0]) <= 0).all()


def test_it_prints_the_most_important_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ncc", "--networks", "1", "--seed", "3"]) == 0
    within, head, *rows = capsys.readouterr().out.splitlines()
    assert within == "1 of 1 networks are inside its ranges"
    assert "mean FCT without it" in head
    assert len(rows) == 15
    assert main(["dctcp", "--networks", "1"]) == 2
