# SPDX-License-Identifier: BSD-3-Clause
"""Modern recovery: worked examples of RFC 8985 (RACK-TLP), RFC 6937 (PRR), RFC 5682 (F-RTO) and RFC 2883 (DSACK).

A path of 40 ms without a bottleneck: packets of a round arrive together, so that a round of sending has one time.
"""

from itertools import groupby

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.scenario import Nic, Scenario, Transport
from tests.datapaths.runs import MSS, fixed, flow, long_path, sent_packets

RTT_MS = 40
MIN_RTO_MS = 200
Rounds = list[tuple[int, list[int]]]
"""Times in ms, and numbers of the packets that were sent then."""


def scenario(size_bytes: int, **transport: object) -> Scenario:
    settings = {"recovery": "modern", "delayed_ack_pkts": 1, "min_rto_s": MIN_RTO_MS * 1e-3, "timer_slack_s": 0.002}
    return fixed(
        long_path(RTT_MS * 1e-3 / 2),
        flow("s0", "r0", size_bytes),
        transport=Transport(**settings | transport),  # type: ignore[arg-type]
        nic=Nic(small_queue_bytes=10_000_000),
    )


def sent(
    packets: int,
    *,
    drop: tuple[int, ...] = (),
    mark: tuple[int, ...] = (),
    delay_ms: dict[int, int] | None = None,
    control: str = "newreno",
    short_bytes: int = 0,
    **transport: object,
) -> Rounds:
    """Send a flow of which the nth data packets, counted from 1, are dropped, marked or delayed."""
    rows = sent_packets(
        scenario(packets * MSS - short_bytes, **transport),
        control,
        drop=drop,
        mark=mark,
        delay_s={nth: ms * 1e-3 for nth, ms in (delay_ms or {}).items()},
    )
    in_ms = ((round(time_s * 1e3), number) for time_s, number in rows)
    return [(ms, [number for _, number in group]) for ms, group in groupby(in_ms, lambda row: row[0])]


def test_without_loss_slow_start_doubles() -> None:
    assert [len(numbers) for _, numbers in sent(70)] == [10, 20, 40]


def test_a_lost_pair_at_the_tail_is_probed_and_then_found_lost_by_rack() -> None:
    # The probe is the last packet; its SACK shows the one before it lost at once (three round trips in all).
    rounds = sent(30, drop=(29, 30))
    probed_ms = 2 * RTT_MS + 2 * RTT_MS + 2  # counted from the last ACK
    assert rounds[2:] == [(probed_ms, [29]), (probed_ms + RTT_MS, [28])]


def test_one_packet_alone_waits_for_the_timeout() -> None:
    # RFC 8985 section 7.2: its ACK may be delayed, so the probe would come later than the timeout.
    assert sent(1, drop=(1,)) == [(0, [0]), (RTT_MS + MIN_RTO_MS, [0])]


def test_a_short_last_packet_counts_as_one() -> None:
    # Three packets beyond the first are sacked, however long: the first is lost at once, without a reordering window.
    for short_bytes in (0, 100):
        assert sent(4, drop=(1,), short_bytes=short_bytes)[-1] == (RTT_MS, [0])


def test_marks_at_the_smallest_window_do_not_stop_a_flow() -> None:
    # The window cannot shrink any more, yet CWR must be sent: otherwise the receiver echoes for ever.
    for control in ("newreno", "cubic"):
        *_, (last_ms, _) = sent(300, mark=tuple(range(1, 41)), control=control)
        assert last_ms < 60 * RTT_MS


def test_marks_forbid_to_undo() -> None:
    # A packet comes late, so a repair was needless; but marks came as well, and the window stays reduced.
    late, marked = {31: 20}, tuple(range(60, 71))
    free, held = (sent(400, delay_ms=late, mark=mark)[-1][0] for mark in ((), marked))
    assert held > free + 2 * RTT_MS


def test_a_mark_on_the_ack_that_begins_a_recovery_forbids_to_undo_it() -> None:
    # The third packet beyond the late one begins the recovery; a mark on it counts as one on the next does.
    first, later = (sent(400, delay_ms={31: 20}, mark=(nth,), control="dctcp") for nth in (34, 35))
    assert first == later


def test_a_hole_is_repaired_in_the_next_round_trip() -> None:
    rounds = sent(100, drop=(15,))
    assert 14 in dict(rounds)[2 * RTT_MS]
    assert sum(numbers.count(14) for _, numbers in rounds) == 2


def test_a_lost_retransmission_is_found_lost_by_later_ones() -> None:
    # RFC 8985 section 6.2: a packet sent again is lost if one sent after it has arrived. RFC 6675 needs a timeout.
    times = [ms for ms, numbers in sent(100, drop=(15, 41)) for number in numbers if number == 14]
    assert times == [RTT_MS, 2 * RTT_MS, 3 * RTT_MS]


def test_reordering_within_a_quarter_of_the_round_trip_costs_nothing() -> None:
    # Two packets overtake it: the reordering window (min RTT / 4) has not passed when it arrives.
    rounds = sent(30, delay_ms={28: 8})
    assert sum(len(numbers) for _, numbers in rounds) == 30


def test_reordering_beyond_the_window_is_repaired_once_it_has_passed() -> None:
    rounds = sent(30, delay_ms={28: 30})
    assert rounds[-1] == (2 * RTT_MS + RTT_MS // 4 + 2, [27])


def test_the_window_shrinks_by_a_packet_for_every_other_delivered() -> None:
    # RFC 6937 section 4: 100 in flight, target 50 %: each two packets delivered let one go.
    rounds = dict(sent(150, mark=(60,)))
    # 29 ACKs before the mark let 58 go (slow start); the 11 from it on let ceil(11 / 2) = 6 go.
    assert len(rounds[3 * RTT_MS]) == 2 * 29 + 6


def test_a_needless_reduction_is_undone_when_the_original_arrives() -> None:
    # RFC 2883: the copy that was not needed is reported, and the window is as if nothing had happened.
    rounds = sent(400, delay_ms={31: 20})
    before, after = (len(dict(rounds)[ms]) for ms in (2 * RTT_MS, 5 * RTT_MS))
    assert after > before  # without the undo it would be half


def test_a_spurious_timeout_is_undone() -> None:
    # RFC 5682 section 3.1: all of a round, and the probe, are late by more than the RTO. The ACK of the retransmission
    # lets new data go, and the next ACK covers packets that were sent once: nothing else is sent again.
    rounds = sent(200, delay_ms=dict.fromkeys(range(31, 72), 300))
    again = [number for _, numbers in rounds for number in numbers]
    assert [number for number in range(70) if again.count(number) > 1] == [30]


def test_a_real_timeout_slow_starts() -> None:
    rounds = sent(30, drop=tuple(range(11, 32)))
    after = [numbers for ms, numbers in rounds if ms > 3 * RTT_MS + 2]
    assert after[0] == [10]
    assert after[1] == [11, 12]


@pytest.mark.parametrize("control", ["newreno", "dctcp", "cubic", "vegas", "bbr", "gemini"])
def test_every_loss_of_a_long_flow_is_repaired_without_a_timeout(control: str) -> None:
    random = np.random.default_rng(1)
    rounds = sent(600, drop=tuple(int(n) for n in random.choice(np.arange(20, 580), 6, replace=False)), control=control)
    assert {number for _, numbers in rounds for number in numbers} == set(range(600))
    assert max(np.diff([ms for ms, _ in rounds])) < MIN_RTO_MS


def test_modern_recovery_needs_sack() -> None:
    with pytest.raises(ConfigError, match="recovery=modern finds losses by selective acknowledgements"):
        Transport(recovery="modern", sack=False)
