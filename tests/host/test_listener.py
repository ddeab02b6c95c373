# SPDX-License-Identifier: BSD-3-Clause
"""A listener accepts only the newest authentic message that is in time, from any input."""

import numpy as np
import pytest

from ncc.core.units import NS_PER_S
from ncc.host.keys import Key, Keys
from ncc.host.listener import JUMP
from ncc.host.message import HEAD, MAC_AT, SIZE, UPLINK, Kind
from ncc.host.peers import parse_agent
from tests.host.hosts import (
    KEY,
    ME,
    MS,
    NEAR,
    ROUTER,
    WALL_NS,
    flows_to,
    grant_to,
    listener,
    sender_of,
    sent,
    states,
    take,
)


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


def test_bytes_after_the_values_are_left_to_later_versions() -> None:
    """A later version can send agents of this one messages in which these bytes say more."""
    inbox, by = listener(), sender_of(ROUTER)
    row = np.array([(5e9, 3000.0)], dtype=UPLINK).tobytes()
    ((message,),) = by.messages(Kind.UPLINK, [row.ljust(48, b"\3")], 0, 0)
    assert take(inbox, [message], 1 * MS) == {"received": 1}
    assert inbox.uplink.tolist() == [(5e9, 3000.0)]
    altered = message[: MAC_AT - 1] + b"\4" + message[MAC_AT:]
    ((other,),) = by.messages(Kind.UPLINK, [row], 1, 1)
    assert take(inbox, [altered], 2 * MS) == {"replayed": 1}
    assert take(inbox, [other[: MAC_AT - 1] + b"\4" + other[MAC_AT:]], 2 * MS) == {"forged": 1}


@pytest.mark.parametrize(("at_once", "fate"), [(0, "received"), (1, "received"), (2, "values"), (2**32 - 1, "values")])
def test_a_state_says_whether_new_flows_may_begin_at_once(at_once: int, fate: str) -> None:
    inbox = listener()
    assert take(inbox, sent(sender_of(), states(at_once=at_once), 0)[:1], 1 * MS) == {fate: 1}
    assert inbox.states["at_once"].tolist() == [at_once if fate == "received" else 0, 0]


def test_flows_wait_for_an_agent_that_does_not_say_it() -> None:
    """Earlier agents had zeros in its place."""
    inbox, by = listener(), sender_of()
    row = states(1, queued_bytes=7)[0].tobytes()[:44].ljust(48, b"\0")
    ((message, _),) = by.messages(Kind.STATE, [row] * 2, 0, 0)
    assert take(inbox, [message], 1 * MS) == {"received": 1}
    assert inbox.states["at_once"][0] == 0


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


def test_who_begins_anew_after_its_clock_was_set_back_is_heard_when_it_is_where_it_was() -> None:
    passed_s = 0
    inbox, before = listener(wall_ns=lambda: WALL_NS + passed_s * NS_PER_S), sender_of()
    recorded = sent(before, states(), 1)
    assert take(inbox, recorded, 1) == {"received": 2}
    after = sender_of(later_ns=-10 * NS_PER_S)
    for passed_s, fate in ((0, "replayed"), (10, "replayed"), (11, "received")):
        after._wall_ns = lambda: WALL_NS + (passed_s - 10) * NS_PER_S  # noqa: B023 - called before the next
        assert take(inbox, sent(after, states(), passed_s * NS_PER_S), passed_s * NS_PER_S) == {fate: 2}
    assert take(inbox, recorded + sent(sender_of(), states(), 2), 12 * NS_PER_S) == {"replayed": 4}


def forged(like: bytes, *, session_ns: int, sequence: int, clock_ns: int, sent_ns: int = 0) -> bytes:
    """A changed copy of a message, signed by a holder of the key, with any numbers."""
    magic, version, kind, number, sender, *_ = HEAD.unpack_from(like)
    head = HEAD.pack(magic, version, kind, number, sender, session_ns, sequence, sent_ns, clock_ns, 0)
    return head + like[HEAD.size : MAC_AT] + KEY.sign(head + like[HEAD.size : MAC_AT])


@pytest.mark.parametrize("ahead_s", [0, 59])
@pytest.mark.parametrize("session_ns", [WALL_NS, WALL_NS + 59 * NS_PER_S, 2**64 - 1])
@pytest.mark.parametrize(("sequence", "sent_ns"), [(2, 2**63), (2**63, 0), (2**64 - 1, 2**64 - 1)])
@pytest.mark.attack("6")
def test_a_message_with_any_numbers_keeps_nobody_out_for_longer_than_its_clock_is_ahead(
    sequence: int, sent_ns: int, session_ns: int, ahead_s: int
) -> None:
    """A session from the future, or the largest number, once silenced a host for good with one key for all."""
    passed_s = 0
    inbox, by = listener(wall_ns=lambda: WALL_NS + passed_s * NS_PER_S), sender_of()
    by._wall_ns = lambda: WALL_NS + passed_s * NS_PER_S
    first = sent(by, states(queued_bytes=1), 1)[:1]
    assert take(inbox, first, 1) == {"received": 1}
    clock_ns = WALL_NS + 1 + ahead_s * NS_PER_S
    other = forged(first[0], session_ns=session_ns, sequence=sequence, clock_ns=clock_ns, sent_ns=sent_ns)
    take(inbox, [other], 2)
    passed_s, now_ns = ahead_s + 1, (ahead_s + 1) * NS_PER_S
    assert take(inbox, sent(by, states(queued_bytes=7), now_ns)[:1], now_ns) == {"received": 1}
    assert inbox.states["queued_bytes"][0] == 7
    assert take(inbox, [other, *first], now_ns) == {"replayed": 2}
    for tick in range(2, 5):
        passed_s, now_ns = ahead_s + tick, (ahead_s + tick) * NS_PER_S
        assert take(inbox, sent(by, states(), now_ns)[:1], now_ns) == {"received": 1}


@pytest.mark.attack("n8")
@pytest.mark.parametrize("ahead_s", [61, 7200])
def test_our_own_clock_that_was_ahead_keeps_nobody_out(ahead_s: int) -> None:
    """A holder of the key sends one message with our wrong time, then our clock is set right."""
    ours_s = ahead_s
    inbox, by = listener(wall_ns=lambda: WALL_NS + ours_s * NS_PER_S), sender_of()
    other = sender_of(later_ns=ahead_s * NS_PER_S)
    assert take(inbox, sent(other, states(), 1)[:1], 1) == {"received": 1}
    ours_s = 0
    recorded = sent(by, states(queued_bytes=7), 2)[:1]
    assert take(inbox, recorded, 2) == {"received": 1}
    assert take(inbox, recorded, 3) == {"replayed": 1}


def test_a_session_may_lose_a_million_messages_and_no_number_goes_further() -> None:
    inbox, by = listener(), sender_of()
    assert take(inbox, sent(by, states(), 1), 1) == {"received": 2}
    by._wall_ns = lambda: WALL_NS - 1
    by._sequence[Kind.STATE] += JUMP - 1
    assert take(inbox, sent(by, states(), 2), 2) == {"received": 2}
    by._sequence[Kind.STATE] += JUMP
    assert take(inbox, sent(by, states(), 3), 3) == {"replayed": 2}


def test_a_clock_that_is_centuries_ahead_within_a_session_counts_as_a_minute() -> None:
    passed_s = 0
    inbox, by = listener(wall_ns=lambda: WALL_NS + passed_s * NS_PER_S), sender_of()
    first = sent(by, states(), 1)[:1]
    assert take(inbox, first, 1) == {"received": 1}
    ahead = forged(first[0], session_ns=WALL_NS, sequence=2, clock_ns=2**64 - 1)
    assert take(inbox, [ahead], 2) == {"received": 1}
    passed_s = 61
    by._wall_ns = lambda: WALL_NS + 61 * NS_PER_S
    assert take(inbox, sent(by, states(), 61 * NS_PER_S)[:1], 61 * NS_PER_S) == {"received": 1}


def test_a_key_counts_for_its_own_sender_only() -> None:
    """A host with its own key can sign for itself only."""
    near, router, me = NEAR[0].address.host, ROUTER.address.host, ME[0].address.host
    own, others = Key(b"n" * 16, 1), Key(b"r" * 16, 1)
    inbox = listener(keys=Keys({(near, me): [own], (router, me): [others], ("*", "*"): [KEY]}))
    row = np.array([(5e9, 3000.0)], dtype=UPLINK)
    assert take(inbox, sent(sender_of(keys=Keys.shared(own)), states(), 1), 1) == {"received": 2}
    for by in (own, KEY):  # nor does a key for all count for who has one of its own
        assert take(inbox, sent(sender_of(ROUTER, keys=Keys.shared(by)), row, 1), 1) == {"forged": 1}
    assert take(inbox, sent(sender_of(ROUTER, keys=Keys.shared(others)), row, 1), 1) == {"received": 1}
    unknown = Keys.shared(Key(b"n" * 16, 2))
    assert take(inbox, sent(sender_of(keys=unknown, later_ns=9), states(), 2), 2) == {"unknown_key": 2}


def test_two_ids_count_while_keys_change() -> None:
    old, new = Key(b"o" * 16, 1), Key(b"n" * 16, 2)
    inbox = listener(keys=Keys.shared(old, new))
    for later, keys in enumerate((Keys.shared(old), Keys.shared(new), Keys.shared(old, new))):
        assert take(inbox, sent(sender_of(keys=keys, later_ns=later), states(), 1), 1) == {"received": 2}


@pytest.mark.parametrize("later_s", [-61, 61])
def test_a_first_message_was_sent_by_a_clock_near_ours(later_s: int) -> None:
    """Otherwise an agent that has just started would accept old recordings."""
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
    """After a pause of a second, all messages of a machine seem to take that much longer."""
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
    for sender in (parse_agent("10.0.0.3"), ME):
        assert take(listener(), sent(sender_of(*sender), states(1), 1), 1) == {"unknown_sender": 1}


def test_other_sizes_kinds_and_versions() -> None:
    message = sent(sender_of(), states(), 1)[0]
    other = {
        "undersized": [b"", message[:4], message[:-1]],
        "oversized": [message + b"x", message * 9],
        "foreign": [b"NCCX" + message[4:], bytes(SIZE), bytes(7)],
        "version": [message[:4] + b"\1" + message[5:], message[:4] + b"\1", message[:4] + b"\0" + message * 2],
        "kind": [message[:5] + bytes([kind]) + message[6:] for kind in (0, 3, 255)],
    }
    inbox = listener()
    for why, messages in other.items():
        assert take(inbox, messages, 1) == {why: len(messages)}
    assert take(inbox, [message], 1) == {"received": 1}


def test_what_one_peer_tells_this_host_alone() -> None:
    inbox, by = listener(buffer_bytes=5000), sender_of()
    flows = flows_to(ME[0], flows=2, begun=9, waiting_bytes=100, next_bytes=40)
    assert take(inbox, [by.message_to(Kind.FLOWS, 0, flows, 3 * MS)], 4 * MS) == {"received": 1}
    assert inbox.flows["waiting_bytes"].tolist() == [100, 0]
    assert inbox.flows_ns.tolist() == [4 * MS, 0]
    grant = grant_to(ME[0], senders=3, begun=9, start_s=-0.5, window_bytes=5000)
    assert take(inbox, [by.message_to(Kind.GRANT, 0, grant, 5 * MS)], 6 * MS) == {"received": 1}
    assert inbox.grants[0].tolist() == (ME[0].id, 3, 9, 0, -0.5, 5000, np.inf)
    assert inbox.grants_ns.tolist() == [6 * MS, 0]
    again = [by.message_to(Kind.GRANT, 0, grant, 7 * MS)]
    assert take(inbox, [*again, *again], 8 * MS) == {"received": 1, "replayed": 1}
    assert take(inbox, [by.message_to(Kind.GRANT, 0, grant, 9 * MS)], 30 * MS) == {"late": 1}


def test_what_is_for_another_host_is_a_replay() -> None:
    """With one key for all, the values must name the host that they are for."""
    inbox, by = listener(buffer_bytes=5000), sender_of()
    words = [
        by.message_to(Kind.FLOWS, 0, flows_to(NEAR[1]), 1 * MS),
        by.message_to(Kind.GRANT, 0, grant_to(NEAR[1]), 1 * MS),
    ]
    assert take(inbox, words, 2 * MS) == {"replayed": 2}
    assert inbox.flows_ns.tolist() == inbox.grants_ns.tolist() == [0, 0]


def test_without_receivers_their_words_are_no_messages() -> None:
    inbox, by = listener(), sender_of()
    words = [by.message_to(Kind.FLOWS, 0, flows_to(ME[0]), 1), by.message_to(Kind.GRANT, 0, grant_to(ME[0]), 1)]
    assert take(inbox, words, 2 * MS) == {"kind": 2}


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (Kind.GRANT, {"window_bytes": 5001.0}),  # above the buffer
        (Kind.GRANT, {"window_bytes": -1.0}),
        (Kind.GRANT, {"window_bytes": np.nan}),
        (Kind.GRANT, {"start_s": 10.1}),
        (Kind.GRANT, {"start_s": -10.1}),
        (Kind.GRANT, {"start_s": np.nan}),
        (Kind.GRANT, {"rate_bps": 0.0}),
        (Kind.GRANT, {"rate_bps": np.nan}),
        (Kind.GRANT, {"senders": 2**20 + 1}),
        (Kind.GRANT, {"waiting_bytes": 2.0**61}),
        (Kind.FLOWS, {"flows": 2**20 + 1}),
        (Kind.FLOWS, {"waiting_bytes": -1.0}),
        (Kind.FLOWS, {"waiting_bytes": np.inf}),
        (Kind.FLOWS, {"next_bytes": 1.0}),  # more than all
        (Kind.FLOWS, {"received_bytes": np.nan}),
    ],
)
def test_what_no_host_can_say_is_refused(kind: Kind, values: dict[str, float]) -> None:
    inbox, by = listener(buffer_bytes=5000), sender_of()
    row = grant_to(ME[0], **values) if kind == Kind.GRANT else flows_to(ME[0], **values)
    assert take(inbox, [by.message_to(kind, 0, row, 1)], 2 * MS) == {"values": 1}
    assert inbox.grants_ns.tolist() == inbox.flows_ns.tolist() == [0, 0]
