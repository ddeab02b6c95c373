# SPDX-License-Identifier: BSD-3-Clause
"""Functions for notebooks: they do runs, read the user's runs, and display figures and tables.

With the environment variable NCC_QUICK=1, notebooks take seconds only; tests use that. A notebook's own runs are kept
in `runs/notebooks` of the current folder, or in `notebooks` of the folder NCC_RUNS. The same cell reuses them.
"""

from ncc.results.closeup import TimeWindow, busiest, closeup, run_of, windows_of
from ncc.results.notebook.folders import (
    comparison_in,
    evaluate_here,
    evaluation_in,
    train_here,
    trained_in,
    training_curve,
)
from ncc.results.notebook.hosts import replayed, watched_run
from ncc.results.notebook.show import QUICK, RUNS, Page, Picture, choose, own_folder, scenario_of, shown

__all__ = [
    "QUICK",
    "RUNS",
    "Page",
    "Picture",
    "TimeWindow",
    "busiest",
    "choose",
    "closeup",
    "comparison_in",
    "evaluate_here",
    "evaluation_in",
    "own_folder",
    "replayed",
    "run_of",
    "scenario_of",
    "shown",
    "train_here",
    "trained_in",
    "training_curve",
    "watched_run",
    "windows_of",
]
