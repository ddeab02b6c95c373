# SPDX-License-Identifier: BSD-3-Clause
"""Properties of every controller in the table after any sequence of events. A new header is tested by being there."""

import re
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ncc.baselines
from ncc.baselines._baselines import CWND_MAX_BYTES, ECE, SIM_STATE_MAX, STATE_MAX, Connection
from ncc.baselines.registry import Ecn, Needs, connect, controller, controllers


def header(name: str) -> str:
    return (Path(ncc.baselines.__file__).parent / f"{name}.h").read_text()


NAMES = sorted(controllers())
BY_ECN = [name for name in NAMES if controller(name).ecn is not Ecn.NONE]
BY_RATE = [name for name in NAMES if re.search(rf"^NCC_CC_REGISTER_RATE\({name},", header(name), re.MULTILINE)]
"""Their windows follow a model of the path, up and down."""
PATH_WINDOW = [name for name in NAMES if re.search('#include "(path_window|powertcp).h"', header(name))]
BY_PATH = [*BY_RATE, *PATH_WINDOW, "swift"]
"""Theirs follow the path's load, too."""
RATE_ALONE = ["dcqcn", "timely"]
"""A rate is all that limits them, but after a timeout, until the repairs are done."""
WITH_ALPHA = [name for name in NAMES if name == "dctcp" or '#include "dctcp.h"' in header(name)]
"""DCTCP's state comes first in theirs."""
RENO_WINDOW = [name for name in NAMES if re.search('#include "(reno_window|dctcp).h"', header(name))]
RENO_GROWTH = ["dctcp", "newreno", "vegas"]
"""RFC 5681's bound is theirs; what the others may add, their own tests say."""
LARGE = 1 << 44  # more than a window may ever be
SEEDS = st.integers(0, 2**32 - 1)
"""Seeds of connections and stories: drawing each of their numbers apart would take most of the time."""
PACING_MAX = (2**64 - 1) // 8
"""NCC_CC_PACING_MAX of cc.h."""


ACK, LOSS, TIMEOUT, RESTART = range(4)
"""Kinds of events."""
EVENT = (
    *("now_ns", "rtt_ns", "min_rtt_ns", "srtt_ns", "delivered_bytes", "acked_bytes", "inflight_bytes", "una_bytes"),
    *("nxt_bytes", "flags", "total_delivered_bytes", "prior_delivered_bytes", "interval_ns", "lost_bytes", "idle_rtos"),
)
"""Columns of events."""


@dataclass(frozen=True)
class Story:
    """Events as `drive` takes them: una and nxt never fall, una never passes nxt."""

    kinds: npt.NDArray[np.uint8]
    events: npt.NDArray[np.uint64]


def story_of(random: np.random.Generator, largest: int = 1 << 34) -> Story:
    n = int(random.integers(1, 81))

    def amount(*most: int) -> npt.NDArray[np.int64]:
        """[n] numbers up to any of these, among them many a 0 and the largest."""
        drawn = [random.integers(0, top, n, endpoint=True) for top in most]
        return np.choose(random.integers(0, 4 * len(drawn) + 2, n) // 4, [*drawn, random.choice([0, max(most)], n)])

    columns = (
        random.choice([ACK] * 8 + [LOSS, TIMEOUT, RESTART], n),
        amount(200_000_000),  # ns since the last event
        amount(10**10),  # RTT sample, ns
        amount(20_000, largest),  # acknowledged cumulatively
        amount(20_000, largest),  # selectively
        amount(20_000, largest),  # newly sent
        random.integers(0, 16, n),  # flags of an ACK; RTOs of an idle time
        amount(10**6, 1 << 50),  # interval of the delivery rate, ns
        amount(20_000, largest),  # delivered since the acknowledged packet was sent
    )
    return _story(np.stack(columns, axis=1).tolist())


def _story(rows: list[list[int]]) -> Story:
    now = una = nxt = total = 0
    min_rtt = srtt = 0
    events = np.zeros((len(rows), 15), np.uint64)
    for i, (kind, gap, rtt, cumulative, selective, sent, flags, interval, since) in enumerate(rows):
        now, nxt = now + gap, nxt + sent
        acked = min(cumulative, nxt - una) if kind == ACK else 0
        una += acked
        if kind == ACK and rtt:
            min_rtt = min(min_rtt or rtt, rtt)
            srtt = (7 * srtt + rtt) // 8 if srtt else rtt
        delivered = acked + min(selective, nxt - una) if kind == ACK else 0
        total += delivered
        per_ack = (rtt, delivered, acked, flags) if kind == ACK else (0, 0, 0, 0)
        rate = (max(total - since, 0), interval, sent) if kind == ACK else (0, 0, 0)
        idle_rtos = flags * flags if kind == RESTART else 0
        events[i, :10] = now, per_ack[0], min_rtt, srtt, *per_ack[1:3], nxt - una, una, nxt, per_ack[3]
        events[i, 10:] = total, *rate, idle_rtos
    return Story(np.array([row[0] for row in rows], np.uint8), events)


def connection_of(name: str, random: np.random.Generator) -> tuple[int, int, dict[str, int]]:
    """Size of a packet, first window and parameters, often at the ends of their ranges."""

    def number(low: int, high: int, *others: int) -> int:
        drawn = int(random.integers(low, high, endpoint=True))
        return (drawn, low, high, *others)[random.integers(3 + len(others))]

    mss = number(1, 2**32 - 1, 1460, int(random.integers(1, 9001)))
    window = number(mss, min(2**32 - 1, 100 * mss))
    params = {
        param.name: number(param.min, param.max, param.default, param.default) for param in controller(name).params
    }
    return mss, window, params


def connected(name: str, random: np.random.Generator) -> Connection:
    """A connection of any size and parameters."""
    return connect(name, *connection_of(name, random))


def drive(cc: Connection, kinds: npt.NDArray[np.uint8], events: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """[n_events, 3] window, threshold and pacing rate after each event; the last columns of `EVENT` may be missing."""
    handlers = (cc.on_ack, cc.on_loss, cc.on_timeout, cc.on_restart)
    rows = zip(kinds.tolist(), events.tolist(), strict=True)
    return np.array([handlers[kind](**dict(zip(EVENT, event, strict=False))) for kind, event in rows], np.uint64)


def windows(cc: Connection, story: Story) -> npt.NDArray[np.int64]:
    """[1 + n_events] the window at first and after each event."""
    return np.concatenate(([cc.out[0]], drive(cc, story.kinds, story.events)[:, 0])).astype(np.int64)


def reductions(cc: Connection, story: Story) -> npt.NDArray[np.intp]:
    """Numbers of the ACKs that made the window smaller."""
    return np.flatnonzero((np.diff(windows(cc, story)) < 0) & (story.kinds == ACK))


@pytest.mark.parametrize("name", NAMES)
@given(seed=SEEDS)
def test_the_window_is_a_window(name: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    mss, window, params = connection_of(name, random)
    story = story_of(random, LARGE)
    cc = connect(name, mss, window, params)
    first = cc.out
    out = drive(cc, story.kinds, story.events)
    cwnd = np.concatenate(([first[0]], out[:, 0]))
    assert cwnd.min() >= mss
    assert cwnd.max() <= CWND_MAX_BYTES
    pacing = np.concatenate(([first[2]], out[:, 2]))
    assert pacing.max() <= PACING_MAX
    assert name not in BY_RATE or pacing.min() > 0, "it is always paced"
    assert len(cc.state) <= (SIM_STATE_MAX if controller(name).needs & ~Needs.RATE else STATE_MAX)


@pytest.mark.parametrize("name", NAMES)
@given(seed=SEEDS)
def test_a_loss_and_a_timeout_never_raise_the_window(name: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    cwnd = windows(connected(name, random), story := story_of(random))
    assert (np.diff(cwnd)[np.isin(story.kinds, (LOSS, TIMEOUT))] <= 0).all()


def calm(story: Story) -> Story:
    """The same with one RTT throughout: no queue ever, for those who look at delay."""
    events = story.events.copy()
    events[:, 1] = np.where(events[:, 1] > 0, 1_000_000, 0)
    events[:, 2:4] = 1_000_000
    return Story(story.kinds, events)


@pytest.mark.parametrize("name", BY_ECN)
@given(seed=SEEDS)
def test_congestion_reduces_once_per_window(name: str, seed: int) -> None:
    """Between two reductions on ACKs, una passes what had been sent at the first (RFC 3168 section 6.1.2)."""
    random = np.random.default_rng(seed)
    reduced = reductions(connected(name, random), story := story_of(random))
    una, nxt = story.events[:, 7], story.events[:, 8]
    assert (una[reduced[1:]] > nxt[reduced[:-1]]).all()


@pytest.mark.parametrize("name", [name for name in NAMES if name not in BY_PATH])
@given(seed=SEEDS)
def test_without_delay_only_marks_reduce(name: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    cc, story = connected(name, random), calm(story_of(random))
    if name not in BY_ECN:  # its packets are never marked
        story.events[:, 9] &= np.uint64(~ECE & 0xFF)
    cwnd = windows(cc, story)
    unmarked = (np.diff(cwnd) < 0) & (story.kinds == ACK) & (story.events[:, 9].astype(int) & ECE == 0)
    for i in np.flatnonzero(unmarked)[:1]:
        event = ", ".join(f"{key} {value}" for key, value in zip(EVENT, story.events[i].tolist(), strict=True))
        pytest.fail(
            f"{name}.h took its window from {cwnd[i]} to {cwnd[i + 1]} bytes at an ACK without ECE, though every RTT "
            f"of this connection is 1 ms (event {i}: {event}). A window may shrink only at an ACK with ECE, a loss or "
            "a timeout, or as RTTs grow: look for such a step in on_ack, a division that rounds down or a product that "
            "wraps among them. A window that follows delivery rates is registered by NCC_CC_REGISTER_RATE."
        )


@pytest.mark.parametrize("name", WITH_ALPHA)
@given(seed=SEEDS)
def test_alpha_stays_a_fraction(name: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    cc, story = connected(name, random), story_of(random, LARGE)
    for i in range(len(story.kinds)):
        drive(cc, story.kinds[i : i + 1], story.events[i : i + 1])
        assert struct.unpack_from("=I", cc.state, 72)[0] <= 1 << 20


@pytest.mark.parametrize("name", RENO_GROWTH)
@given(seed=SEEDS)
def test_growth_is_bounded_by_what_was_acknowledged(name: str, seed: int) -> None:
    """RFC 5681: no ACK adds more than what it acknowledged, or one packet."""
    story = story_of(np.random.default_rng(seed), 100_000)
    cwnd = windows(connect(name, 1460, 14_600), story)
    acked = story.events[:, 5].astype(np.int64)
    assert (np.diff(cwnd) <= np.maximum(acked, 1460)).all()


@pytest.mark.parametrize("corner", ["default", "min", "max"])
@pytest.mark.parametrize("name", NAMES)
def test_400_gbps_over_200_ms(name: str, corner: str) -> None:
    """10 GB in flight for 2 s: marks, losses and timeouts in windows this size wrap no counter."""
    bdp = 400 * 10**9 // 8 // 5
    n = 20_000
    rng = np.random.default_rng(1)
    kinds = rng.choice(np.array([ACK, LOSS, TIMEOUT], np.uint8), n, p=[0.998, 0.0015, 0.0005])
    acked = np.where(kinds == ACK, 5_000_000, 0).astype(np.uint64)
    una = np.cumsum(acked)
    marked = (kinds == ACK) & (rng.random(n) < 0.3)
    events = np.zeros((n, 14), np.uint64)
    events[:, 0] = np.arange(n) * 100_000
    events[:, 1:4] = np.array([200_000_000] * 3)
    events[kinds != ACK, 1] = 0
    events[:, 4] = events[:, 5] = acked
    events[:, 6] = bdp
    events[:, 7], events[:, 8] = una, una + np.uint64(bdp)
    events[:, 9] = marked * ECE
    # The delivery rate, for those that ask for it: 400 Gbit/s over the last 200 ms.
    events[:, 10] = una + np.uint64(bdp)
    events[kinds == ACK, 11], events[kinds == ACK, 12] = una[kinds == ACK], 200_000_000
    params = {param.name: getattr(param, corner) for param in controller(name).params}
    cc = connect(name, 9000, 2**32 - 1, params)
    first = cc.out[0]
    out = drive(cc, kinds, events)
    cwnd = np.concatenate(([first], out[:, 0])).astype(np.int64)
    assert cwnd[1:].min() >= 9000
    assert cwnd.max() <= CWND_MAX_BYTES
    assert out[:, 2].max() <= PACING_MAX
    grown = np.diff(cwnd)
    if name not in BY_PATH:  # a product that wrapped would take the window down, or up by more than any growth
        assert (grown[(kinds == ACK) & ~marked] >= 0).all()
        assert name in RATE_ALONE or grown.max() <= 10 * 5_000_000


@pytest.mark.parametrize("name", RENO_WINDOW)
@given(seed=SEEDS)
def test_an_idle_time_halves_the_window_down_to_the_initial_one(name: str, seed: int) -> None:
    """RFC 5681 section 4.1 as in Linux, with ssthresh at 3/4 of the window; within one RTO nothing changes."""
    random = np.random.default_rng(seed)
    mss, window, params = connection_of(name, random)
    story, idle_rtos = story_of(random), int(random.integers(0, 101))
    cc = connect(name, mss, window, params)
    drive(cc, story.kinds, story.events)
    cwnd, ssthresh, _ = cc.out
    after, ssthresh_after, _ = cc.on_restart(now_ns=1 << 50, idle_rtos=idle_rtos)
    assert after == max(cwnd >> idle_rtos, min(cwnd, window))
    assert ssthresh_after == (max(ssthresh, cwnd // 2 + cwnd // 4) if idle_rtos else ssthresh)


@pytest.mark.parametrize("name", BY_RATE)
@given(seed=SEEDS)
def test_a_model_of_the_path_outlasts_an_idle_time(name: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    cc, story, idle_rtos = connected(name, random), story_of(random), int(random.integers(0, 101))
    drive(cc, story.kinds, story.events)
    cwnd = cc.out[0]
    assert cc.on_restart(now_ns=1, idle_rtos=idle_rtos)[0] >= cwnd
