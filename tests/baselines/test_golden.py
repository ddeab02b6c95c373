# SPDX-License-Identifier: BSD-3-Clause
"""Golden curves: the headers do today as they did when the curves were last looked at."""

import pytest

from ncc.baselines.registry import controllers
from tests.baselines import golden
from tests.baselines.stimuli import STIMULI


@pytest.mark.parametrize("name", golden.names())
def test_curves_are_the_golden_ones(name: str) -> None:
    assert golden.path(name).exists(), f"draw it: python -m tests.baselines.golden {name}"
    drawn = golden.draw(name)
    for title, rows in golden.load(name).items():
        assert drawn[title] == rows, (
            f"{name}, {title}: look at the change, then python -m tests.baselines.golden {name}"
        )


@pytest.mark.parametrize("name", sorted(controllers()))
def test_every_controller_lives_through_the_six_stimuli(name: str) -> None:
    """A header of any law keeps a window of a packet or more, which recovers."""
    drawn = golden.load(name)
    assert set(drawn) == set(STIMULI)
    for title, rows in drawn.items():
        cwnd = rows["cwnd_pkts"]
        assert len(cwnd) == STIMULI[title].n_acks
        assert min(cwnd) >= 1
        assert title in ("slow_start", "timeout") or not rows["timeouts"], title
        assert max(cwnd[-20:]) >= 2, f"{title}: the window stays at one packet"
    assert len(drawn["single_loss"]["losses"]) == 1
    # A smaller window meets the dropped packets later, one by one; a rate without a window repairs them by SACK.
    by_rate_alone = min(drawn["timeout"]["cwnd_pkts"]) > 1000
    assert by_rate_alone or len(drawn["timeout"]["timeouts"]) >= 3
