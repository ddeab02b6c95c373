# SPDX-License-Identifier: BSD-3-Clause
"""Front ends: worked arithmetic of their windows, and what they do on a modelled port."""

from itertools import pairwise
from pathlib import Path

import pytest

import ncc.baselines
from ncc.baselines.registry import named
from tests.baselines.asking import RATE_BYTES_PER_S, STIMULI, run
from tests.baselines.ports import Front

NAMES = [name for name in named("front end") if name != "one_all"]
PORT = {"rate_bytes_per_s": RATE_BYTES_PER_S, "buffer_bytes": 100_000, "base_rtt_ns": 100_000, "packet_bytes": 1538}
MS = 1_000_000


def test_every_header_is_in_the_table() -> None:
    headers = (Path(ncc.baselines.__file__).parent / "fronts").glob("*.h")
    assert sorted(path.stem for path in headers) == sorted(NAMES)


def test_fixed_stays() -> None:
    front = Front("fixed", [7], **PORT)
    assert front.window() == 7
    assert front.answered(now_ns=20 * MS, took_ns=15 * MS, wire_bytes=1000, late=1) == 7


def test_sw_grows_per_answer_and_halves_once_per_window() -> None:
    front = Front("sw", [2, 0], **PORT)
    assert [front.answered(now_ns=now, took_ns=1, wire_bytes=600) for now in range(1, 9)] == list(range(3, 11))
    # Ten queries are outstanding. The first late answer halves them. The second was asked before that, so it does not;
    # the third was asked after it.
    assert front.answered(now_ns=20 * MS, took_ns=12 * MS, wire_bytes=600, late=1) == 5
    assert front.answered(now_ns=20 * MS + 1, took_ns=12 * MS, wire_bytes=600, late=1) == 5
    assert front.answered(now_ns=31 * MS, took_ns=10 * MS, wire_bytes=600, late=1) == 2
    for now in range(32, 40):
        front.answered(now_ns=now * 20 * MS, took_ns=10 * MS, wire_bytes=600, late=1)
    assert front.window() == 1


def test_sw_grows_by_one_per_window() -> None:
    """From 2: half a query for each of the first answers, then a part that falls with the window."""
    front = Front("sw", [2, 1], **PORT)
    windows = [front.answered(now_ns=now, took_ns=1, wire_bytes=600) for now in range(1, 200)]
    assert windows[:3] == [2, 2, 3]
    reached = [windows.index(w) for w in range(3, 20)]
    assert [later - sooner for sooner, later in pairwise(reached)][:4] == pytest.approx([3.5, 4.5, 5.5, 6.5], abs=1)


def test_ictcp_asks_grows_by_its_quota_in_the_second_half() -> None:
    """A half of 200 us carries 25,000 bytes; of 0.9 of them 2,500 are used by answers of 500: a quota of 40."""
    front = Front("ictcp_asks", [2, 900, 2], **PORT)
    assert front.tick_ns() == 200_001
    busy = {"outstanding": 2, "waiting": 100}
    for _ in range(5):
        assert front.answered(now_ns=1, took_ns=1, wire_bytes=500, **busy) == 2, "the first half measures"
    front.tick(now_ns=200_001, **busy)
    assert [front.answered(now_ns=2, took_ns=1, wire_bytes=500, **busy) for _ in range(50)][38:42] == [41, 42, 42, 42]


def test_ictcp_asks_shrinks_after_three_slots_of_less_than_half_of_what_the_window_allows() -> None:
    """Sixteen queries of 500 bytes in 100 us allow 16,000 bytes in a half of 200 us; 500 come."""
    front = Front("ictcp_asks", [2, 900, 2], **PORT)
    seen = {"now_ns": 1, "outstanding": 2, "waiting": 100}
    front.tick(**seen)
    grown = [front.answered(took_ns=100_000, wire_bytes=500, **seen) for _ in range(20)]
    assert grown[-1] == front.tick(**seen) == 2 + 22_500 // 1538, "without answers a quota is in full packets"
    windows = []
    for _ in range(4):
        front.answered(took_ns=100_000, wire_bytes=22_500, **seen)  # leaves no quota
        front.tick(**seen)
        front.answered(took_ns=100_000, wire_bytes=500, **seen)
        windows.append(front.tick(**seen))
    assert windows == [16, 16, 15, 15]


def test_fits_is_what_the_line_and_a_share_of_the_buffer_hold() -> None:
    """12,500 bytes of a base RTT and 60,000 of the buffer; a full packet with 156 for its query is 1,694 bytes."""
    front = Front("fits", [600, 156], **PORT)
    assert front.window() == 72_500 // 1694
    assert front.pace_ns() == 1694 * 8
    for now in range(200):
        front.answered(now_ns=now, took_ns=1, wire_bytes=588)
    assert front.window() == pytest.approx(72_500 / 744, abs=2)
    assert front.pace_ns() == pytest.approx(744 * 8, rel=0.03)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("title", STIMULI)
def test_windows_are_in_range_and_all_is_answered(name: str, title: str) -> None:
    windows, _, _ = run(name, STIMULI[title])
    assert len(windows) == STIMULI[title].answers
    assert 1 <= min(windows) <= max(windows) <= 1 << 24


def test_a_front_end_that_fits_the_port_has_no_late_answer_where_the_sliding_window_has() -> None:
    asked = STIMULI["one packet"]
    fits, sliding = run("fits", asked), run("sw", asked)
    assert fits[1] == []
    assert sliding[1] != []
    assert fits[2] < sliding[2]
