# SPDX-License-Identifier: BSD-3-Clause
"""The order of hosts' next flows, which all hosts see alike."""

import numpy as np
import pytest

from ncc.envs.observation import LOW, ObservationSpec, names_of
from ncc.envs.observation.spec import COLUMN_LOW
from tests.envs.cases import measured, observer, rack, shown

SPEC = ObservationSpec(neighbours="ordered")
FOUR = rack()
NAMES = names_of(SPEC, 0)
PERIOD_BYTES = 250e3
"""Carried by the uplink of 2 Gbit/s in a period of 1 ms."""


def named(obs: np.ndarray) -> dict[str, np.ndarray]:
    return dict(zip(NAMES, obs.T, strict=True))


def test_the_order_by_hand() -> None:
    state = measured(FOUR, queued_flows=[1, 2, 1, 0], next_bytes=[500e3, 100e3, 3e6, 0])
    obs = shown(SPEC, state, state)
    np.testing.assert_allclose(obs["hosts before"] * 4, [1, 0, 2, 0])
    ahead = np.array([100e3, 0, 600e3, 0]) / PERIOD_BYTES
    np.testing.assert_allclose(obs["bytes ahead"] * 4, ahead, rtol=1e-5)
    np.testing.assert_allclose(obs["bytes just ahead"] * 2, np.minimum(ahead, 3), rtol=1e-5)


def test_a_share_is_seen_over_the_fair_one() -> None:
    """ln(share among alike / fair share) / 2, of flows of 0.1, 0.3 and 3 MB and a host without one."""
    state = measured(FOUR, throughput_bps=1e9, queued_flows=[1, 2, 1, 0], next_bytes=[100e3, 300e3, 3e6, 0])
    obs = shown(SPEC, state, state)
    # The first two are alike and share 2 links; the third waits, and a share of 0 is taken for a twentieth; the last
    # would be one of three. Fair are 2 links over all that are busy, the host itself among them.
    shares, fair = np.array([2 / 2, 2 / 2, 0, 2 / 3]), np.array([2 / 3, 2 / 3, 2 / 3, 2 / 4])
    expected = np.log(np.maximum(shares / fair, 0.05)) / 2
    np.testing.assert_allclose(obs["share over fair"], expected, rtol=1e-5)
    assert LOW <= obs["share over fair"].min() < COLUMN_LOW  # the space holds it, and a column would not


def test_far_ahead_is_seen_by_the_coarse_number_only() -> None:
    state = measured(FOUR, queued_flows=1, next_bytes=[1e6, 2e6, 3e6, 4e6])
    obs = shown(SPEC, state, state)
    np.testing.assert_allclose(obs["bytes just ahead"], [0, 1.5, 1.5, 1.5])
    np.testing.assert_allclose(obs["bytes ahead"], [0, 1, 3, 3], rtol=1e-5)  # 4, 12 and 24 periods over 4, at most 3


def test_all_hosts_count_on_what_they_have_told_each_other() -> None:
    before = measured(FOUR, queued_flows=[1, 1, 0, 0], next_bytes=[400e3, 500e3, 0, 0])
    now = measured(FOUR, 1, queued_flows=[1, 1, 1, 0], next_bytes=[400e3, 300e3, 450e3, 0])
    obs = shown(SPEC, before, now)
    # h1 has overtaken h0 since, which nobody knows yet: the order is still the old one. h2 has just begun: it takes its
    # own flow as it is, and nobody else knows of it.
    np.testing.assert_allclose(obs["hosts before"] * 4, [0, 1, 1, 0])


@pytest.mark.parametrize("seed", range(10))
def test_of_two_busy_hosts_one_goes_first(seed: int) -> None:
    rng = np.random.default_rng(seed)
    queued = rng.integers(0, 2, 4)
    state = measured(FOUR, queued_flows=queued, next_bytes=queued * rng.choice([1e3, 2e5, 5e6], 4))
    obs, busy = shown(SPEC, *[state] * (37 * seed + 1)), queued > 0
    assert sorted((obs["hosts before"] * 4)[busy]) == list(range(busy.sum()))


def test_equals_go_first_by_turns() -> None:
    state = measured(FOUR, queued_flows=1, next_bytes=32e3)
    seen = observer(SPEC)
    first = [np.argmin(named(seen.observe(state))["hosts before"]) for _ in range(400)]
    assert first == [0] * 100 + [3] * 100 + [2] * 100 + [1] * 100


def test_it_sees_all_that_ranked_sees() -> None:
    state = measured(FOUR, throughput_bps=1e9, queued_flows=[1, 2, 1, 0], next_bytes=[100e3, 300e3, 3e6, 0])
    views = [observer(ObservationSpec(neighbours=each)) for each in ("ranked", "ordered")]
    for view in views:
        view.observe(state)
    ranked, ordered = (view.observe(state) for view in views)
    np.testing.assert_array_equal(ordered[:, : ranked.shape[1]], ranked)
