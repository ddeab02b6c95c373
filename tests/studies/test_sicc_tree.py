# SPDX-License-Identifier: BSD-3-Clause
"""The plans that are timed."""

import numpy as np
import pytest

from ncc.core.placement import depths
from studies.sicc_tree import drawn, main, planned


def test_a_plan_has_a_hub_for_each_rack_and_as_many_at_the_top_as_the_buffer_takes() -> None:
    at, rack_of = drawn(3000, 1)
    hubs, parent = planned(at, rack_of, 12_500)
    assert rack_of[hubs].tolist() == list(range(50))
    assert (parent < 0).sum() == 24
    assert depths(parent).max() >= 1
    counts = np.bincount(at, minlength=3000)
    assert (counts[hubs] == counts.reshape(50, 60).max(axis=1)).all()


def test_all_sizes_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--requests", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 10
    assert "834 hubs, of which 24 send to the front end" in lines[-1]
