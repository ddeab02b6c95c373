# SPDX-License-Identifier: BSD-3-Clause
"""Copies of a network: the same flows, noise with two signs, and rewards over each other."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from ncc.envs.action import ActionSpec
from ncc.envs.observation import ObservationSpec
from ncc.envs.packetsim.datapath import PacketsimDatapath
from ncc.envs.pairs import Paired, Pairs
from ncc.envs.rack import RackBatch
from ncc.envs.spec import EnvSpec, EnvView
from tests.envs.cases import rack

NOTHING: Any = np.zeros((8, 4), np.float32)
RESIDUAL = EnvView(
    action=ActionSpec(kind="residual", formula="local"), observation=ObservationSpec(neighbours="ordered")
)


def spec(pairs: Pairs | None, view: EnvView = RESIDUAL) -> EnvSpec:
    return EnvSpec(scenario=rack(periods=60), view=view.replace(pairs=pairs))


def paired(pairs: Pairs, n_racks: int, seed: int = 1) -> Paired:
    made = spec(pairs)
    racks = RackBatch(made, PacketsimDatapath, seed, n_racks=n_racks, copies=made.copies(n_racks))
    return Paired(racks, pairs, seed)


@pytest.fixture
def mirrored() -> Iterator[Paired]:
    with closing(paired(Pairs(copies=4, noise_periods=3), 8)) as env:
        yield env


def test_a_reward_is_less_that_of_the_mirror_image() -> None:
    own = np.array([[1, 2], [3, 5], [0, 1], [7, 7]], np.float32)  # two pairs
    np.testing.assert_array_equal(Pairs().reward(own), [[-2, -3], [2, 3], [-7, -6], [7, 6]])
    np.testing.assert_array_equal(Pairs(copies=4).reward(own), [[1, 1], [-4, -2], [-1, -1], [4, 2]])


def test_a_reward_is_less_the_mean_of_the_others() -> None:
    own = np.array([[1.0], [2.0], [6.0]], np.float32)
    np.testing.assert_allclose(Pairs(paid="mean", copies=3).reward(own), [[-3.0], [-1.5], [4.5]])


def test_noise_lasts_and_has_the_other_sign_in_the_mirror_image(mirrored: Paired) -> None:
    drawn = np.array([mirrored.reset(), *(mirrored.step(NOTHING[:8]).obs for _ in range(8))])[..., -1]
    np.testing.assert_array_equal(drawn[:, [2, 3, 6, 7]], -drawn[:, [0, 1, 4, 5]])
    for first in (0, 3, 6):
        np.testing.assert_array_equal(drawn[first : first + 3], drawn[first][None].repeat(3, axis=0))
    assert len(np.unique(drawn[::3, [0, 1, 4, 5]])) == 3 * 4 * 4
    assert 0.5 < drawn.std() < 1.5


def test_copies_that_do_the_same_earn_the_same_and_are_paid_nothing(mirrored: Paired) -> None:
    mirrored.reset()
    earned = []
    for _ in range(59):
        moved = mirrored.step(NOTHING[:8])
        np.testing.assert_array_equal(moved.reward, 0)
        np.testing.assert_array_equal(moved.obs[:4, :, :-1], moved.obs[:1, :, :-1].repeat(4, axis=0))
        earned.append(moved.earned)
    of = np.array(earned)
    assert of[:, 0].any()
    assert (of[:, 0] != of[:, 4]).any()  # other flows


def test_who_holds_back_is_paid_what_it_costs() -> None:
    with closing(paired(Pairs(), 2)) as env:
        env.reset()
        held = NOTHING[:2].copy()
        held[0] = -1  # a twentieth of the formula's limits, in the first copy alone
        paid = sum(env.step(held).reward for _ in range(40))
        assert isinstance(paid, np.ndarray)
        assert paid[0].sum() < 0
        np.testing.assert_allclose(paid[1], -paid[0])


def test_equal_seeds_and_episodes_give_equal_noise() -> None:
    with (
        closing(paired(Pairs(), 2)) as one,
        closing(paired(Pairs(), 2)) as other,
        closing(paired(Pairs(), 2, 2)) as third,
    ):
        first = one.reset(5)
        one.step(NOTHING[:2])
        np.testing.assert_array_equal(one.reset(5), first)
        np.testing.assert_array_equal(other.reset(5), first)
        assert (third.reset(5)[..., -1] != first[..., -1]).all()
        assert (other.reset(6)[..., -1] != first[..., -1]).all()


def test_numbers_beyond_the_range_are_cut_and_without_mirror_images_nothing_is_shown() -> None:
    pairs = Pairs(paid="mean", copies=2)
    with closing(paired(pairs, 2)) as env, closing(paired(pairs, 2)) as other:
        assert env.reset().shape == (2, 4, env.obs_dim)
        other.reset()
        assert env.n_noise == 0
        far = env.step(NOTHING[:2] + 7)
        one = other.step(NOTHING[:2] + 1)
        np.testing.assert_array_equal(far.obs, one.obs)
