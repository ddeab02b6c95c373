# SPDX-License-Identifier: BSD-3-Clause
"""Golden curves: what the headers do today is what they did when the curves were last looked at."""

import pytest

from ncc.baselines.registry import controllers
from tests.baselines import golden
from tests.baselines.sender import MSS, Sender
from tests.baselines.stimuli import STIMULI


@pytest.mark.parametrize("name", sorted(controllers()))
def test_curves_are_the_golden_ones(name: str) -> None:
    assert golden.path(name).exists(), f"draw it: python -m tests.baselines.golden {name}"
    drawn = golden.draw(name)
    for title, rows in golden.load(name).items():
        assert drawn[title] == rows, (
            f"{name}, {title}: look at the change, then python -m tests.baselines.golden {name}"
        )


def test_every_golden_file_has_its_controller_and_all_stimuli() -> None:
    for file in golden.FOLDER.glob("*.json"):
        assert file.stem in controllers()
        assert set(golden.load(file.stem)) == set(STIMULI)


def test_a_changed_parameter_moves_the_curve() -> None:
    usual = Sender("dctcp", STIMULI["marks"]).run().curve
    assert Sender("dctcp", STIMULI["marks"], {"alpha_init": 0}).run().curve != usual
    assert Sender("dctcp", STIMULI["marks"]).run().curve == usual


@pytest.mark.parametrize("name", sorted(controllers()))
def test_every_controller_lives_through_the_six_stimuli(name: str) -> None:
    """What a header must do whatever its law: come through, with a window that recovers."""
    drawn = golden.draw(name)
    assert set(drawn) == set(STIMULI)
    assert len(STIMULI) == 6
    for title, rows in drawn.items():
        cwnd = rows["cwnd_pkts"]
        assert len(cwnd) == STIMULI[title].n_acks
        assert min(cwnd) >= 1
        assert title in ("slow_start", "timeout") or not rows["timeouts"], title
        assert max(cwnd[-20:]) >= 2, f"{title}: the window stays at one packet"
    assert len(drawn["single_loss"]["losses"]) == 1
    assert len(drawn["timeout"]["timeouts"]) >= 3  # a smaller window meets the dropped packets later, one by one


# RFC 5681's arithmetic: of the headers that keep NewReno's window in slow start and after a loss.
@pytest.mark.parametrize("name", ["dctcp", "newreno"])
def test_slow_start_doubles_then_grows_by_a_packet_a_round(name: str) -> None:
    rows = golden.draw(name)["slow_start"]
    cwnd = rows["cwnd_pkts"]
    timeout = rows["timeouts"][0]
    # 30 ACKs reach the sender before the vanished flight: 10 + 30 packets. RFC 5681 eq. 4: ssthresh = 40 / 2.
    assert cwnd[timeout - 1] == 40
    assert cwnd[timeout] == 1
    assert cwnd[timeout + 1 : timeout + 20] == list(range(2, 21))
    # RFC 3465: the 20 ACKs after the window reached 20 packets make it 21, the next 21 make it 22.
    assert [cwnd[timeout + 19 + n] for n in (19, 20, 40, 41)] == [20, 21, 21, 22]


@pytest.mark.parametrize("name", ["dctcp", "newreno"])
@pytest.mark.parametrize("title", ["single_loss", "burst_loss"])
def test_a_window_with_losses_is_halved_once(name: str, title: str) -> None:
    rows = golden.draw(name)[title]
    cwnd = rows["cwnd_pkts"]
    assert len(rows["losses"]) == 1
    assert not rows["timeouts"]
    at = rows["losses"][0]
    assert cwnd[at] == cwnd[at - 1] // 2
    assert min(cwnd[at:]) == cwnd[at]


@pytest.mark.parametrize("name", ["dctcp", "newreno"])
def test_the_threshold_survives_repeated_timeouts_of_one_packet(name: str) -> None:
    curve = Sender(name, STIMULI["timeout"]).run().curve
    timeouts = [(cwnd, ssthresh) for event, cwnd, ssthresh in curve if event == "timeout"]
    assert timeouts == [(MSS, 20 * MSS)] * 3


def test_dctcp_keeps_more_window_than_newreno_under_marks() -> None:
    # Every 20th packet marked: alpha settles near 1/20, so that DCTCP gives up 2.5 % where NewReno gives up half.
    late = slice(250, None)
    dctcp = golden.draw("dctcp")["marks"]["cwnd_pkts"][late]
    newreno = golden.draw("newreno")["marks"]["cwnd_pkts"][late]
    assert sum(dctcp) > sum(newreno)


def test_a_window_that_was_not_used_does_not_grow() -> None:
    for name in ("dctcp", "newreno"):
        cwnd = golden.draw(name)["delayed_acks"]["cwnd_pkts"]
        assert cwnd[:24] == [10] * 24  # six bursts of 8 packets, an ACK for every two
        assert cwnd[24:28] == [12, 14, 16, 18]  # then full: L = 2 of RFC 3465, so that delayed ACKs still double it
