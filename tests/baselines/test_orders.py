# SPDX-License-Identifier: BSD-3-Clause
"""The orders among a host's flows: keys by worked arithmetic, and what they rise and fall with."""

import math
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ncc.baselines
from ncc.baselines.registry import named
from tests.baselines.ports import log2_q16, order_key

NAMES = [name for name in named("flow order") if name != "fifo"]
MS, MB = 1_000_000, 1_000_000
ONE = 65536
"""A factor of two in `upsilon`'s key."""
PARAMS = {"upsilon": (0, 1000), "known": (0, 2_000, 8_000, 20_000, 40_000, 100_000, 300_000, MB)}
PARAMS["picc"] = (10, 3000)
PARAMS["attained"] = (0, 909, 1329, 1648, 1960, 2143, 2337, 2484)
"""Parameters of orders that have more than one."""


def key(name: str, *params: int, age: int = MS, waited: int = 0, size: int = MB, left: int = 0, got: int = 0) -> int:
    given = params or PARAMS.get(name, (0,))
    return order_key(
        name, list(given), age_ns=age, waited_ns=waited, size_bytes=size, left_bytes=left, delivered_bytes=got
    )


def test_every_header_is_in_the_table() -> None:
    headers = (Path(ncc.baselines.__file__).parent / "orders").glob("*.h")
    assert sorted(path.stem for path in headers) == sorted(NAMES)


@given(st.integers(1, 2**64 - 1))
def test_the_logarithm_is_near_and_never_falls(x: int) -> None:
    assert abs(log2_q16(x) / ONE - math.log2(x)) < 0.008
    assert log2_q16(min(x + 1, 2**64 - 1)) >= log2_q16(x)


@pytest.mark.parametrize("exponent", range(64))
def test_the_logarithm_of_a_power_of_two_is_exact(exponent: int) -> None:
    assert log2_q16(1 << exponent) == exponent * ONE


def test_srpt_looks_at_what_is_left_and_sjf_at_the_size() -> None:
    assert key("srpt", size=MB, left=999_000) > key("srpt", size=2_000)
    assert key("sjf", size=MB, left=999_000) < key("sjf", size=2_000)
    assert key("srpt", size=MB, left=MB) == 2**64 - 1  # only a repair is left of it


def test_known_puts_sizes_into_classes_and_never_promotes() -> None:
    keys = [key("known", size=size) for size in range(1, 2 * MB, 997)]
    assert keys == sorted(keys, reverse=True)
    assert len(set(keys)) == 8
    assert key("known", size=2_000) == key("known", size=1) > key("known", size=2_001)
    assert key("known", size=MB, left=2) > key("known", size=MB, left=1) > key("known", size=MB + 1, left=2)
    assert key("known", size=2 * MB, waited=2) > key("known", size=2 * MB, waited=1), "long ones take turns"
    assert key("known", 0, *[0] * 7, size=1) == 0, "thresholds are parameters"


def test_attained_has_the_classes_of_pias_by_what_has_left() -> None:
    keys = [key("attained", size=9 * MB, left=left) for left in range(0, 4 * MB, 1460)]
    assert keys == sorted(keys, reverse=True)
    assert len(set(keys)) == 8
    edge = 909 * 1460
    assert (
        key("attained", size=9 * MB, left=edge - 1) == key("attained", size=1) > key("attained", size=9 * MB, left=edge)
    )
    assert key("attained", left=5, waited=2) > key("attained", left=1, waited=1), "they take turns"
    low, lower = ((0, 1, *[pkts] * 6) for pkts in (0, 1))
    assert key("attained", *low, left=1460) == 6 << 61, "a threshold of 0 ends them"
    assert key("attained", *lower, left=1460) == 0


def test_fair_gives_the_turn_to_who_has_waited_longest() -> None:
    assert key("fair", waited=12_000, size=MB) > key("fair", waited=11_999, size=1)


def test_upsilon_is_equation_5_22() -> None:
    # tau^omega / (s R), R = remaining / throughput, throughput = delivered / age. Worked in powers of two, where the
    # logarithm is exact: the guards are 1 ns, 1500 bytes, 1000 ns and 1 byte.
    params = (0, 2000)
    tau, size, age, remaining = 2**10, 2**20, 2**21, 2**19
    got = key("upsilon", *params, age=age - 1000, waited=tau - 1, size=size, left=size, got=size - (remaining - 1))
    throughput = log2_q16(size - remaining + 1 + 1500) / ONE
    expected = 2 * 10 + throughput - 21 - 20 - 19
    assert (got - 2**40) / ONE == pytest.approx(expected, abs=1e-4)


def test_picc_is_equation_4_2() -> None:
    """tau^3 / B in powers of two, where the logarithm is exact; the guard is 1 ns."""
    assert (key("picc", 10, 3000, age=2**12 - 1, size=2**10) - 2**40) / ONE == 3 * 12 - 10
    assert key("picc", age=2 * MS, size=1000) == key("picc", age=MS, size=1000) + 3 * ONE
    assert key("picc", age=MS, size=1000) == key("picc", age=2 * MS, size=8000)


def test_picc_orders_the_queue_of_figure_4_3() -> None:
    """Objects of 400, 2, 2 and 200 kb that wait equally long, sent in units of 400 kb at q."""

    def mean_kb(order: list[int]) -> float:
        """Latency as the thesis counts it, times q: the ends of the units, over the number of objects."""
        units = [0]
        for kb in order:
            if units[-1] + kb > 400:
                units.append(0)
            units[-1] += kb
        return sum(accumulate(units)) / len(order)

    queue = [400, 2, 2, 200]
    ordered = sorted(queue, key=lambda kb: -key("picc", age=MS, size=125 * kb))
    assert ordered == [2, 2, 200, 400]
    assert (mean_kb(queue), mean_kb(ordered)) == (251, 202)


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_keys_of_extremes_do_not_wrap(name: str, data: st.DataObject) -> None:
    # A flow that waits longer, all else equal, never has the smaller key: wrapping around would show.
    size = data.draw(st.integers(1, 2**43))
    left = data.draw(st.integers(0, size))
    got = data.draw(st.integers(0, left))
    age = data.draw(st.integers(1, 2**62))
    waited = data.draw(st.integers(0, age - 1))
    params = (0, 10_000) if name == "upsilon" else PARAMS.get(name, (0,))
    flow = {"age": age, "size": size, "left": left, "got": got}
    assert key(name, *params, waited=waited + 1, **flow) >= key(name, *params, waited=waited, **flow)
