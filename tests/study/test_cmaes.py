# SPDX-License-Identifier: BSD-3-Clause
"""CMA-ES on functions whose least point is known."""

from collections.abc import Callable

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray
from ncc.study.cmaes import CmaEs


def stretched(x: FloatArray) -> FloatArray:
    """A quadratic, a thousand times as steep in the last coordinate as in the first; least at 1, 2, 3, ..."""
    n = x.shape[1]
    found: FloatArray = (1000.0 ** (np.arange(n) / (n - 1)) * (x - np.arange(1, n + 1)) ** 2).sum(1)
    return found


def rosenbrock(x: FloatArray) -> FloatArray:
    """Rosenbrock's valley (The Computer Journal 3, 1960); least at 1, 1, ..."""
    found: FloatArray = (100 * (x[:, 1:] - x[:, :-1] ** 2) ** 2 + (1 - x[:, :-1]) ** 2).sum(1)
    return found


def least(f: Callable[[FloatArray], FloatArray], n: int, generations: int, seed: int) -> FloatArray:
    search = CmaEs(np.zeros(n), 0.5, np.random.default_rng(seed))
    for _ in range(generations):
        points = search.ask()
        search.tell(points, f(points))
    return search.mean


@pytest.mark.parametrize("seed", range(3))
def test_a_stretched_quadratic(seed: int) -> None:
    assert least(stretched, 6, 400, seed) == pytest.approx(np.arange(1, 7), abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_rosenbrock_s_valley(seed: int) -> None:
    assert least(rosenbrock, 4, 500, seed) == pytest.approx(np.ones(4), abs=1e-6)


def test_only_the_order_of_values_counts_and_equal_seeds_search_alike() -> None:
    one = least(rosenbrock, 4, 30, 7)
    assert one.tolist() == least(lambda x: np.exp(rosenbrock(x) / 1e3), 4, 30, 7).tolist()
    assert one.tolist() != least(rosenbrock, 4, 30, 8).tolist()


@pytest.mark.parametrize(
    ("n", "step", "population"), [(1, 0.5, None), (2, 0.0, None), (2, float("nan"), None), (2, 0.5, 3)]
)
def test_bad_settings_are_refused(n: int, step: float, population: int | None) -> None:
    with pytest.raises(ConfigError, match="at least 2 coordinates, a step above 0 and 4 points"):
        CmaEs(np.zeros(n), step, np.random.default_rng(0), population=population)


def test_a_value_that_is_no_number_is_refused() -> None:
    search = CmaEs(np.zeros(3), 0.5, np.random.default_rng(0))
    points = search.ask()
    with pytest.raises(ConfigError, match="a number for each"):
        search.tell(points, np.full(search.population, np.nan))
    with pytest.raises(ConfigError, match="with 3 coordinates"):
        search.tell(points[:2], np.zeros(2))
