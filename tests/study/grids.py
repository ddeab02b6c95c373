# SPDX-License-Identifier: BSD-3-Clause
"""Grids of experiments on disk, made once for all tests of a process."""

from functools import cache

from ncc.study.load import load_experiment
from ncc.study.points import Grid, grid_of


@cache
def grid(name: str, preset: str = "full") -> Grid:
    """An experiment's runs by a preset."""
    return grid_of(name, *load_experiment(name), preset)
