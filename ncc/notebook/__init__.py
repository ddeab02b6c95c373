# SPDX-License-Identifier: BSD-3-Clause
"""Functions for notebooks: runs of the user's or quick ones of their own, and figures and tables for display.

With the environment variable NCC_QUICK=1 notebooks run in seconds, as tests do. Their own runs are kept in
`runs/notebooks` below the current folder, or below NCC_RUNS, and are reused by the same cell.
"""

from ncc.notebook.experiments import experiment_here, experiment_in, verdict_of
from ncc.notebook.folders import (
    comparison_in,
    evaluate_here,
    evaluation_in,
    opened,
    run_of,
    train_here,
    trained_in,
    training_curve,
    windows_of,
)
from ncc.notebook.hosts import host_says, network_options, replayed, watched_run
from ncc.notebook.show import QUICK, RUNS, Page, Picture, choose, own_folder, quick, scenario_of, shown
from ncc.notebook.stretch import Stretch, busiest

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
    "experiment_here",
    "experiment_in",
    "host_says",
    "network_options",
    "opened",
    "own_folder",
    "quick",
    "replayed",
    "run_of",
    "scenario_of",
    "shown",
    "train_here",
    "trained_in",
    "training_curve",
    "verdict_of",
    "watched_run",
    "windows_of",
]
