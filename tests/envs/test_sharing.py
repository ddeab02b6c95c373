# SPDX-License-Identifier: BSD-3-Clause
"""Messages that get lost, neighbours that are silent or lie, and how old their last messages are."""

from math import log1p
from typing import Any

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.measurement import Measurement, Measurements
from ncc.core.scenario import Scenario
from ncc.envs.observation import ObservationSpec, SharedObserver, names_of, obs_dim
from ncc.envs.observation.columns import tables_of
from ncc.envs.observation.observer import extension
from tests.envs.cases import FLOWS, measured, observer, rack, spec
from tests.envs.test_racks import assert_equal_alone

FOUR = rack()
SPECS = [
    ObservationSpec(neighbours=neighbours, ages=ages)
    for neighbours in ("each", "pooled", "ranked", "ordered", "none")
    for ages in (False, True)
]
IDS = [f"{each.neighbours}{'-ages' if each.ages else ''}" for each in SPECS]


def random_epochs(scenario: Scenario, n: int) -> list[Measurement]:
    rng = np.random.default_rng(3)
    return [
        measured(
            scenario,
            throughput_bps=rng.random(4) * 1e9,
            queued_flows=rng.integers(0, 4, 4),
            wait_s=rng.random(4) * 1e-2,
            queued_bytes=rng.integers(0, 10**6, 4).astype(float),
            uplink_queue_bytes=float(rng.integers(0, 10**5)),
        )
        for _ in range(n)
    ]


@pytest.mark.parametrize("made", SPECS, ids=IDS)
@pytest.mark.parametrize("delay", [1, 3])
def test_without_loss_the_mailbox_holds_what_the_ring_does(made: ObservationSpec, delay: int) -> None:
    scenario = FOUR.replace(sharing_delay_periods=delay)
    plain = observer(made.replace(ages=False), scenario)
    # So small a loss that nothing is lost, yet the mailbox is used.
    posted = observer(made, scenario.replace(sharing_loss_frac=1e-12))
    for m in random_epochs(scenario, 8):
        expected, got = plain.observe(m), posted.observe(m)
        assert got.shape[1] == posted.obs_dim == obs_dim(made, scenario)
        np.testing.assert_array_equal(got[:, : expected.shape[1]], expected)
        assert not got[:, expected.shape[1] :].any(), "nothing is old"


def test_what_was_heard_last_stays_and_ages() -> None:
    scenario = FOUR.replace(sharing_loss_frac=0.5)
    seen = observer(ObservationSpec(ages=True), scenario, seed=5)
    rates = np.arange(40) * 1e7
    obs = np.stack([seen.observe(measured(scenario, throughput_bps=rate)) for rate in rates])
    shared = obs[:, :, 6:15:3] * 100  # of each of three neighbours, in epochs
    age = np.expm1(obs[:, :, -4:-1] * log1p(100))
    epoch = np.arange(40)[:, None, None]
    # An epoch's state is due one epoch later: what arrives is that of epoch t - 1 - age.
    np.testing.assert_allclose(shared[1:], np.maximum(epoch - 1 - age, 0)[1:], atol=1e-3)
    lost = np.diff(shared[2:], axis=0) == 0
    assert 0.4 < lost.mean() < 0.6
    assert age.max() >= 3


@pytest.mark.parametrize("seed", [1, 2])
def test_a_seed_decides_what_is_lost(seed: int) -> None:
    scenario = FOUR.replace(sharing_loss_frac=0.3)
    epochs = random_epochs(scenario, 12)
    runs = [
        np.stack([each.observe(m) for m in epochs])
        for each in (observer(ObservationSpec(), scenario, s) for s in (seed, seed, 9))
    ]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


def test_nothing_is_heard_of_the_silent() -> None:
    scenario = FOUR.replace(sharing_silent=("h2",))
    seen = observer(ObservationSpec(ages=True), scenario)
    obs = [seen.observe(measured(scenario, throughput_bps=5e8)) for _ in range(5)][-1]
    near = obs[:, 6:15:3]
    # Around the rack from h0: h1, h2, h3; all sent 0.5 from the first measurement on, which everybody knows.
    np.testing.assert_allclose(near, 0.5)
    obs = [seen.observe(measured(scenario, throughput_bps=9e8)) for _ in range(3)][-1]
    near, age = obs[:, 6:15:3], np.expm1(obs[:, -4:-1] * log1p(100))
    np.testing.assert_allclose(near[0], [0.9, 0.5, 0.9], rtol=1e-6)
    np.testing.assert_allclose(near[2], 0.9, rtol=1e-6)  # its own neighbours are seen
    np.testing.assert_allclose(age[0], [0, 7, 0], atol=1e-4)


def test_liars_look_idle() -> None:
    scenario = FOUR.replace(sharing_lying=("h1",))
    seen = observer(ObservationSpec(neighbours="pooled"), scenario)
    loud = measured(scenario, throughput_bps=8e8, queued_flows=1)
    seen.observe(measured(scenario))
    seen.observe(loud)
    pooled = dict(zip(names_of(seen.spec, 0), seen.observe(loud).T, strict=True))
    np.testing.assert_allclose(pooled["busy share"], [2 / 3, 1, 2 / 3, 2 / 3], rtol=1e-6)
    np.testing.assert_allclose(pooled["throughput mean"][[0, 1]], [0.8 * 2 / 3, 0.8], rtol=1e-5)


def test_pooled_ages() -> None:
    scenario = FOUR.replace(sharing_silent=("h3",))
    seen = observer(ObservationSpec(neighbours="pooled", ages=True), scenario)
    obs = [seen.observe(measured(scenario)) for _ in range(4)][-1]
    old = log1p(3) / log1p(100)
    np.testing.assert_allclose(obs[:3, -3:], [[old / 3, old, 0]] * 3, rtol=1e-5)
    np.testing.assert_allclose(obs[3, -3:], 0)


@pytest.mark.parametrize("made", SPECS, ids=IDS)
@pytest.mark.parametrize("lossy", [{}, {"sharing_loss_frac": 0.4, "sharing_silent": ("h0",)}], ids=["all", "lossy"])
def test_racks_side_by_side_see_what_each_would_alone(made: ObservationSpec, lossy: dict[str, Any]) -> None:
    scenario = FOUR.replace(sharing_delay_periods=2, **lossy)
    together = SharedObserver(made)
    together.reset(scenario, range(3))
    alone = [observer(made, scenario, seed) for seed in (7, 8, 9)]
    start = measured(scenario)
    for row, each in enumerate(alone):
        np.testing.assert_array_equal(together.restart(row, start, seed=7 + row), each.observe(start))
    epochs = random_epochs(scenario, 18)
    for i in range(0, 18, 3):
        mine = epochs[i : i + 3]
        obs = together.observe(Measurements.of(mine))
        np.testing.assert_array_equal(obs, [each.observe(m) for each, m in zip(alone, mine, strict=True)])


def test_a_rack_that_begins_anew_forgets_what_it_heard() -> None:
    scenario, made = FOUR.replace(sharing_loss_frac=0.7), ObservationSpec(neighbours="ordered", ages=True)
    together, alone = SharedObserver(made), observer(made, scenario, seed=9)
    together.reset(scenario, range(2))
    first, *epochs = random_epochs(scenario, 9)
    for row in range(2):
        together.restart(row, first, seed=row)
    for m in epochs:
        together.observe(Measurements.of([m, m]))
    np.testing.assert_array_equal(together.restart(1, first, seed=9), alone.observe(first))
    for m in epochs:
        np.testing.assert_array_equal(together.observe(Measurements.of([m, m]))[1], alone.observe(m))


def test_neighbours_out_of_order_are_refused() -> None:
    tables = tables_of(ObservationSpec(), FOUR)
    with pytest.raises(ValueError, match="neighbours must have consecutive numbers and follow their host"):
        extension().Observer(tables | {"near": tables["near"][:, ::-1].copy()}, 1)


def test_environments_draw_losses_from_their_seed() -> None:
    lossy = spec(rack(sharing_loss_frac=0.3, periods=8))
    assert_equal_alone(lossy, FLOWS, 3, epochs=30)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sharing_silent": ("h9",)}, "host in Scenario.sharing_silent 'h9'"),
        ({"sharing_lying": ("r0",)}, "host in Scenario.sharing_lying 'r0'"),
        (
            {"sharing_silent": ("h0", "h1"), "sharing_lying": ("h1", "h2")},
            "host 'h1' is in sharing_silent and in sharing_lying",
        ),
    ],
)
def test_hosts_must_exist_and_be_silent_or_lie(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        FOUR.replace(**changes)
