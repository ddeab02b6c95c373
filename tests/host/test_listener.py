# SPDX-License-Identifier: BSD-3-Clause
"""Messages that are accepted: the newest authentic one that is in time, and nothing else, whatever comes."""

import numpy as np
import pytest

from ncc.core.units import NS_PER_S
from ncc.host.message import SIZE, UPLINK
from ncc.host.peers import parse_agent
from tests.host.hosts import ME, MS, NEAR, ROUTER, WALL_NS, listener, sender_of, sent, states, take


def test_the_newest_is_kept_with_the_time_to_which_it_belongs() -> None:
    inbox, by = listener(), sender_of()
    assert inbox.states_ns.tolist() == [0, 0]
    assert np.isinf(inbox.states["rate_limit_bps"]).all()
    first = sent(by, states(queued_bytes=1, wait_s=[0.5, 0.25]), 1 * MS)
    assert take(inbox, first, 5 * MS) == {"received": 2}
    assert inbox.states_ns.tolist() == [5 * MS] * 2  # nothing is known of how long the first took
    assert take(inbox, sent(by, states(queued_bytes=2, queued_flows=3), 2 * MS, 3 * MS)[1:], 7 * MS) == {"received": 1}
    assert inbox.states_ns.tolist() == [5 * MS, 6 * MS]
    assert inbox.states["queued_bytes"].tolist() == [1, 2]
    assert inbox.states["wait_s"].tolist() == [0.5, 0]
    assert inbox.states["queued_flows"].tolist() == [0, 3]


def test_the_uplink_port() -> None:
    inbox, by = listener(), sender_of(ROUTER)
    assert inbox.uplink_ns[0] == 0
    row = np.array([(5e9, 3000.0)], dtype=UPLINK)
    assert take(inbox, sent(by, row, 1 * MS), 2 * MS) == {"received": 1}
    assert (inbox.uplink.tolist(), inbox.uplink_ns[0]) == ([(5e9, 3000.0)], 2 * MS)
    assert take(inbox, sent(sender_of(NEAR[0]), row, 1 * MS), 2 * MS) == {"unknown_sender": 1}
    assert take(listener(uplink=None), sent(by, row, 1 * MS), 2 * MS) == {"unknown_sender": 1}


def test_a_message_counts_once_and_in_order() -> None:
    inbox, by = listener(), sender_of()
    first, second, third = (sent(by, states(queued_bytes=i), i)[:1] for i in (1, 2, 3))
    assert take(inbox, second, 2) == {"received": 1}
    assert take(inbox, second + first, 3) == {"replayed": 2}
    assert take(inbox, third + third, 3) == {"received": 1, "replayed": 1}
    assert inbox.states["queued_bytes"].tolist() == [3, 0]


def test_a_restart_begins_a_session_and_ends_the_one_before() -> None:
    inbox, before, after = listener(), sender_of(), sender_of(later_ns=1)
    assert take(inbox, [m for i in range(5) for m in sent(before, states(), i)], 5) == {"received": 10}
    assert take(inbox, sent(after, states(queued_bytes=1), 0), 6) == {"received": 2}
    assert take(inbox, sent(before, states(queued_bytes=2), 6), 7) == {"replayed": 2}
    assert inbox.states["queued_bytes"].tolist() == [1, 1]


def test_who_begins_anew_after_its_clock_was_set_back_is_heard_when_nothing_recorded_can_be() -> None:
    """Twice what clocks may differ by after the last of the session before, which is not believed then either."""
    passed_s = 0
    inbox = listener(wall_ns=lambda: WALL_NS + passed_s * NS_PER_S)
    before, after = sender_of(), sender_of(later_ns=-10 * NS_PER_S)
    after._wall_ns = lambda: WALL_NS + (passed_s - 10) * NS_PER_S
    assert take(inbox, sent(before, states(), 1), 1) == {"received": 2}
    recorded = [sent(sender_of(later_ns=later_s * NS_PER_S), states(), 2) for later_s in (-20, 0, 1)]
    passed_s, now_ns = 120, 120 * NS_PER_S
    assert take(inbox, sent(after, states(), now_ns), now_ns) == {"replayed": 2}
    passed_s, now_ns = 121, 121 * NS_PER_S
    assert take(inbox, recorded[0] + recorded[2], now_ns) == {"clock": 4}
    assert take(inbox, sent(after, states(), now_ns), now_ns) == {"received": 2}
    assert take(inbox, recorded[0], now_ns) == {"replayed": 2}
    assert take(inbox, recorded[1] + recorded[2], now_ns) == {"clock": 4}


@pytest.mark.parametrize("later_s", [-61, 61])
def test_a_first_message_was_sent_by_a_clock_near_ours(later_s: int) -> None:
    """Or else what was recorded long ago would be believed by an agent that has just started."""
    inbox = listener()
    assert take(inbox, sent(sender_of(later_ns=later_s * NS_PER_S), states(), 1), 1) == {"clock": 2}
    assert not inbox.states_ns.any()
    within = sender_of(later_ns=later_s // 61 * 59 * NS_PER_S)
    assert take(inbox, sent(within, states(), 1), 1) == {"received": 2}


def test_a_clock_that_is_set_within_a_session_does_not_end_it() -> None:
    inbox, by = listener(), sender_of()
    assert take(inbox, sent(by, states(), 1), 1) == {"received": 2}
    by._wall_ns = lambda: WALL_NS - 3600 * NS_PER_S
    assert take(inbox, sent(by, states(), 2), 2) == {"received": 2}


def test_what_is_stated_to_be_old_is_late() -> None:
    inbox, by = listener(), sender_of()
    assert take(inbox, sent(by, states(), 0, 10 * MS), 20 * MS) == {"received": 2}
    assert take(inbox, sent(by, states(), 0, 10 * MS + 1), 20 * MS + 1) == {"late": 2}
    assert inbox.states_ns.tolist() == [10 * MS] * 2


def test_what_was_held_back_is_late() -> None:
    inbox, by = listener(), sender_of()
    assert take(inbox, sent(by, states(), 1 * MS), 101 * MS) == {"received": 2}
    assert take(inbox, sent(by, states(), 2 * MS), 103 * MS) == {"received": 2}  # 1 ms more than the fastest
    assert (inbox.states_ns <= 102 * MS + 1000).all()
    held = sent(by, states(queued_bytes=9), 3 * MS)
    assert take(inbox, held, 114 * MS) == {"late": 2}
    assert not inbox.states["queued_bytes"].any()
    assert take(inbox, held, 114 * MS) == {"replayed": 2}


def test_clocks_that_run_apart_do_not_make_messages_late() -> None:
    """100 parts in a million are 360 ms in an hour, and the limit is 10 ms."""
    inbox, by = listener(), sender_of()
    for second in range(3600):
        sent_ns = second * NS_PER_S
        assert take(inbox, sent(by, states(), sent_ns), sent_ns + sent_ns // 10_000) == {"received": 2}


def test_a_sender_whose_clock_stood_still_is_heard_again() -> None:
    """A machine was paused for a second: all it says then seems to take that much longer."""
    inbox, by = listener(), sender_of()
    became = []
    for tick in range(700):
        sent_ns = tick * NS_PER_S // 100
        paused_ns = NS_PER_S if tick >= 100 else 0
        (what, *_) = take(inbox, sent(by, states(), sent_ns)[:1], sent_ns + paused_ns)
        became.append(what)
    assert became[:100] == ["received"] * 100
    assert set(became[100:600]) == {"late"}
    assert became[603:] == ["received"] * 97
    assert inbox.counters["resynced"] == 1


def test_what_is_old_by_its_sender_stays_late() -> None:
    inbox, by = listener(), sender_of()
    for tick in range(1000):
        now_ns = tick * NS_PER_S // 100 + 20 * MS
        assert "late" in take(inbox, sent(by, states(), now_ns - 11 * MS, now_ns), now_ns)
    assert inbox.states_ns.tolist() == [0, 0]


def test_strangers_and_oneself() -> None:
    assert take(listener(), sent(sender_of(*parse_agent("10.0.0.3")), states(1), 1), 1) == {"unknown_sender": 1}
    assert take(listener(), sent(sender_of(*ME), states(1), 1), 1) == {"own": 1}


def test_other_sizes_kinds_and_versions() -> None:
    message = sent(sender_of(), states(), 1)[0]
    other = {
        "undersized": [b"", message[:4], message[:-1]],
        "oversized": [message + b"x", message * 9],
        "foreign": [b"NCCX" + message[4:], bytes(SIZE), bytes(7)],
        "version": [message[:4] + b"\2" + message[5:], message[:4] + b"\2", message[:4] + b"\0" + message * 2],
        "kind": [message[:5] + bytes([kind]) + message[6:] for kind in (0, 3, 255)],
    }
    inbox = listener()
    for why, messages in other.items():
        assert take(inbox, messages, 1) == {why: len(messages)}
    assert take(inbox, [message], 1) == {"received": 1}
