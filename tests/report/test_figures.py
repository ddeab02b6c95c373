# SPDX-License-Identifier: BSD-3-Clause
"""Amounts have their unit; figures stay small, whoever sends how much."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from ncc.results.closeup import Drawing
from ncc.results.plot import learning_curve, slowdown_cdf
from ncc.results.report.figures import embedded
from ncc.results.report.words import amount


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (4e9, "bit/s", "4 Gbit/s"), (10e-6, "s", "10 µs"), (4.85e-3, "s", "4.85 ms"), (2.0, "s", "2 s"),
        (0, "s", "0 s"), (1500, "s", "1500 s"), (30_000, "B", "30 kB"), (1.17e-6, "s", "1.17 µs"),
    ],
)  # fmt: skip
def test_amounts(value: float, unit: str, text: str) -> None:
    assert amount(value, unit) == text


def flows(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.integers(100, 10**7, n), 1 + rng.pareto(1.5, n)


def test_a_curve_of_many_flows_is_thinned(tmp_path: Path) -> None:
    slowdown_cdf({"dctcp": flows(50_000)}, tmp_path / "many.svg")
    slowdown_cdf({"dctcp": flows(50_000)}, tmp_path / "again.svg")
    assert (tmp_path / "many.svg").stat().st_size < 150_000
    assert (tmp_path / "many.svg").read_bytes() == (tmp_path / "again.svg").read_bytes()


def _write(text: str, path: Path) -> None:
    path.write_text(text)


def test_only_coordinates_are_cut() -> None:
    """A tick of 0.001 is not 0.00 in the page."""
    svg = '<svg id="a"><path d="M 1.23456 7"/><title>h0: 0.1234 ms</title><text x="2.0049">0.001</text></svg>'
    page = embedded(Drawing("ticks", "", partial(_write, svg)), "run1")
    assert '<path d="M 1.23 7"/>' in page
    assert "h0: 0.1234 ms" in page
    assert '<text x="2.00">0.001</text>' in page


def test_a_controller_that_delivers_less_than_half_is_drawn(tmp_path: Path) -> None:
    size, slowdown = flows(100)
    slowdown[30:] = np.nan
    slowdown_cdf({"dctcp": (size, slowdown), "ncc": flows(100)}, tmp_path / "some.png")
    assert (tmp_path / "some.png").stat().st_size > 1000


def test_a_long_training_is_drawn_small(tmp_path: Path) -> None:
    rows = [{"epochs": 10 * i, "returns": [np.sin(i / 1000)] * 4} for i in range(1, 3000)]
    learning_curve(rows, tmp_path / "curve.svg", references={"dctcp": 0.5})
    assert (tmp_path / "curve.svg").stat().st_size < 400_000
