# SPDX-License-Identifier: BSD-3-Clause
"""Functions for notebooks: the user's runs or quick runs of the notebook, and figures and tables for display.

With the environment variable NCC_QUICK=1 notebooks run in seconds, as tests do. Their own runs are kept in
`runs/notebooks` below the current folder, or below NCC_RUNS, and are reused by the same cell.
"""

from ncc.results.notebook.folders import (
    comparison_in,
    evaluate_here,
    evaluation_in,
    run_of,
    train_here,
    trained_in,
    training_curve,
    windows_of,
)
from ncc.results.notebook.hosts import replayed, watched_run
from ncc.results.notebook.show import QUICK, RUNS, Page, Picture, choose, own_folder, scenario_of, shown
from ncc.results.notebook.stretch import Stretch, busiest

__all__ = [
    "QUICK",
    "RUNS",
    "Page",
    "Picture",
    "Stretch",
    "busiest",
    "choose",
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
