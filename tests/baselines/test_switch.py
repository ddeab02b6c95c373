# SPDX-License-Identifier: BSD-3-Clause
"""Decisions of a switch on a packet: step marking, RED and dynamic thresholds, by their formulas and their limits."""

from itertools import cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.baselines import ports
from tests.baselines.ports import DROP, DT_ALPHA_MAX, DT_ALPHA_ONE, DT_SHARED_MAX_BYTES, MARK, PASS, RED_ONE

MTU = 1500


def mark(queue_bytes: int, *, threshold_bytes: int = 30_000, ecn_capable: bool = True) -> int:
    """Step marking in a port of 100 KB."""
    return ports.step_mark(
        size_bytes=100_000,
        mark_threshold_bytes=threshold_bytes,
        queue_bytes=queue_bytes,
        packet_bytes=MTU,
        ecn_capable=ecn_capable,
    )


@pytest.mark.parametrize(
    ("queue_bytes", "ecn_capable", "verdict"),
    [(0, True, PASS), (30_000, True, PASS), (30_001, True, MARK), (30_001, False, PASS), (98_500, True, MARK),
     (98_501, True, DROP), (98_501, False, DROP)],
)  # fmt: skip
def test_step_marking(queue_bytes: int, ecn_capable: bool, verdict: int) -> None:
    assert mark(queue_bytes, ecn_capable=ecn_capable) == verdict


def test_red_lets_pass_what_cannot_be_marked() -> None:
    port = {"min_bytes": 10_000, "max_bytes": 30_000, "max_prob": RED_ONE // 10}
    for queue_bytes in (20_000, 10**9):
        assert ports.red(**port, queue_bytes=queue_bytes, ecn_capable=False, random=0) == PASS


@given(st.integers(0, 2**40), st.integers(1, 2**32 - 1), st.integers(0, RED_ONE), st.data())
def test_red_is_exact_over_its_whole_range(low: int, span: int, max_prob: int, data: st.DataObject) -> None:
    queue = data.draw(st.integers(low, low + span))
    random = data.draw(st.integers(0, 2**32 - 1))
    verdict = ports.red(
        min_bytes=low, max_bytes=low + span, max_prob=max_prob, queue_bytes=queue, ecn_capable=True, random=random
    )
    below = random * span < max_prob * (queue - low)  # in whole numbers of any size
    assert verdict == (MARK if queue == low + span or below else PASS)


def share(alpha: float, queue: int, used: int, *, shared: int = 100_000, private: int = 0, packet: int = MTU) -> int:
    return ports.dynamic_threshold(
        private_bytes=private,
        shared_bytes=shared,
        alpha=round(alpha * DT_ALPHA_ONE),
        queue_bytes=queue,
        used_bytes=used,
        packet_bytes=packet,
    )


@pytest.mark.parametrize(
    ("alpha", "queue", "used", "verdict"),
    [
        (1.0, 49_999, 49_999, PASS),  # T = 50,001
        (1.0, 50_000, 50_000, DROP),  # T = Q: dropped if Q >= T (bai2020 section IV-B)
        (0.5, 0, 99_000, DROP),  # no room, although T = 500
        (0.5, 20_000, 60_000, DROP),
        (0.5, 19_999, 60_000, PASS),  # T = 20,000
        (4.0, 79_999, 79_999, PASS),  # T = 80,004
        (4.0, 0, 98_500, PASS),  # the last packet that the pool holds
        (4.0, 0, 98_501, DROP),
    ],
)
def test_the_threshold_is_alpha_times_what_is_free(alpha: float, queue: int, used: int, verdict: int) -> None:
    assert share(alpha, queue, used) == verdict


def test_the_private_buffer_comes_first_and_counts_no_more() -> None:
    assert share(1.0, 128_000 - MTU, 100_000, private=128_000) == PASS  # it fits the private buffer, the pool is full
    assert share(1.0, 128_000 - MTU + 1, 100_000, private=128_000) == DROP  # a byte too long
    assert share(1.0, 128_000 - MTU + 1, 99_999, private=128_000) == PASS  # one byte of it goes into the pool
    assert share(1.0, 128_000 + 20_000, 60_000, private=128_000) == PASS  # 20,000 < 40,000: only what is in the pool
    assert share(1.0, 128_000 + 40_000, 60_000, private=128_000) == DROP


def fill(alpha: float, queues: int, shared: int, private: int, packet: int) -> list[int]:
    """Lengths of `queues` that take packets in turn until every one is refused."""
    length, refused = [0] * queues, 0
    for i in cycle(range(queues)):
        used = sum(max(q - private, 0) for q in length)
        if share(alpha, length[i], used, shared=shared, private=private, packet=packet) == PASS:
            length[i] += packet
            refused = 0
        elif (refused := refused + 1) == queues:
            break
    return length


@given(
    st.sampled_from([1 / 128, 1 / 8, 1 / 2, 1.0, 2.0, 8.0]),
    st.integers(1, 8),
    st.integers(200_000, 400_000),
    st.sampled_from([0, 20_000]),
)
def test_m_queues_get_their_shares(alpha: float, queues: int, shared: int, private: int) -> None:
    """alpha B/(1 + M alpha) each (Choudhury & Hahne 1998; bai2020 section IV-B), to within their last packets."""
    lengths = fill(alpha, queues, shared, private, MTU)
    expected = private + alpha * shared / (1 + queues * alpha)
    slack = MTU * (1 + queues * alpha)  # others' last packets lower the threshold by alpha each
    assert all(expected - slack <= length <= expected + MTU for length in lengths)
    assert sum(max(length - private, 0) for length in lengths) <= shared


def test_the_largest_pool_does_not_wrap_around() -> None:
    limits = {"shared_bytes": DT_SHARED_MAX_BYTES, "alpha": DT_ALPHA_MAX, "private_bytes": 0, "packet_bytes": MTU}
    assert ports.dynamic_threshold(**limits, queue_bytes=0, used_bytes=0) == PASS
    reach = DT_SHARED_MAX_BYTES * 1024 // 1025  # alpha/(1 + alpha)
    assert ports.dynamic_threshold(**limits, queue_bytes=reach, used_bytes=reach) == PASS
    assert ports.dynamic_threshold(**limits, queue_bytes=reach + 1, used_bytes=reach + 1) == DROP
    assert ports.dynamic_threshold(**limits, queue_bytes=0, used_bytes=DT_SHARED_MAX_BYTES) == DROP
