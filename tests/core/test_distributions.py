# SPDX-License-Identifier: BSD-3-Clause
"""Flow-size tables: means and shapes as their papers and digitisations give them, and sampling true to the table."""

import numpy as np
import pytest

from ncc.core.distributions import DISTRIBUTIONS, distribution

MEANS_BYTES = {
    "websearch": 1_711_250,
    "datamining": 12_658_199,
    "hadoop": 120_421,
    "cachefollower": 609_883,
    "webserver": 91_343,
}
POINTS = {"websearch": 12, "datamining": 13, "hadoop": 20, "cachefollower": 40, "webserver": 35}


def test_the_five_tables() -> None:
    assert set(DISTRIBUTIONS) == set(MEANS_BYTES)


@pytest.mark.parametrize("name", sorted(MEANS_BYTES))
class TestTable:
    def test_mean_and_length(self, name: str) -> None:
        table = distribution(name)
        # The digitised tables give six digits of probability: on segments of up to 28 MB that is worth a few bytes.
        assert table.mean_bytes == pytest.approx(MEANS_BYTES[name], rel=1e-5)
        assert len(table.points) == POINTS[name]
        assert table.source

    def test_samples_follow_it(self, name: str) -> None:
        from scipy import stats

        size, cumulative = np.array(distribution(name).points).T
        n = 20_000
        drawn = distribution(name).sample(n, np.random.default_rng(7))
        assert drawn.dtype == np.int64
        assert drawn.min() >= 1
        assert drawn.max() <= size[-1]
        # Undo the rounding to whole bytes by spreading each size over its byte, then compare with the table.
        spread = drawn + np.random.default_rng(8).uniform(-0.5, 0.5, n)
        assert stats.kstest(spread, lambda x: np.interp(x, size, cumulative)).pvalue > 0.001
