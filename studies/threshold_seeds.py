# SPDX-License-Identifier: BSD-3-Clause
"""Trainings of AuTO's thresholds that differ in their seeds alone: how they learn, and what their policies are worth.

``python -m studies.threshold_seeds FOLDER`` reads FOLDER/<seed>.ncc and FOLDER/<seed>.monitor.csv, as
``python examples/sb3_thresholds.py --seed <seed> --out FOLDER/<seed>.ncc --curve FOLDER/<seed>`` writes them. It prints
the rewards while they learn, and the mean completion time of flows up to 100 KB over that with PIAS' own thresholds, on
flows that no training had.
"""

import argparse
import csv
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray
from ncc.core.options import Parser, exit_status
from ncc.envs.scenarios import make_scenario
from ncc.run.controllers import load_controller
from studies.static_thresholds import HELD_OUT, small_mean_s, with_thresholds

NETWORKS = 8
"""Networks of a training, whose episodes end in turn."""
CELLS = (("websearch", 0.6, 1.0), ("websearch", 0.8, 1.0), ("hadoop", 0.6, 0.5), ("hadoop", 0.8, 0.5))
"""Sizes, load of the hosts' links, and seconds of a run: those of the experiment auto_thresholds."""
PERIOD_S = 0.1
EACH = 4
"""Episodes from one reward that is printed to the next."""


def curve(path: Path) -> FloatArray:
    """Read the rewards of a training, [n_episodes], each the mean over its networks.

    Raises:
        ConfigError: the file has no whole round of episodes.
    """
    with path.open() as file:
        rewards = [float(row["r"]) for row in csv.DictReader(line for line in file if not line.startswith("#"))]
    if len(rewards) < NETWORKS:
        raise ConfigError(f"{path} has {len(rewards)} episodes, and a round has {NETWORKS}: train for longer")
    whole = len(rewards) // NETWORKS * NETWORKS
    mean: FloatArray = np.reshape(rewards[:whole], (-1, NETWORKS)).mean(axis=1)
    return mean


def judged(policies: Sequence[Path], cell: tuple[str, float, float], runs: int) -> FloatArray:
    """Return the mean FCT of small flows under each policy, over that with PIAS' own thresholds, [n_policies]."""
    sizes, load, duration_s = cell
    flows = {"distribution": sizes, "load_frac": 16 * load}
    scenario = make_scenario(
        {"name": "priorities", "workload": {"flows": flows}}, duration_s=duration_s, period_s=PERIOD_S
    )
    seeds = range(HELD_OUT, HELD_OUT + runs)
    own_s = small_mean_s(scenario, with_thresholds(()), seeds)
    return np.array([small_mean_s(scenario, load_controller(str(path)), seeds) for path in policies]) / own_s


def spread(of: FloatArray) -> str:
    """Return the mean of numbers and their range as text."""
    return f"{of.mean():.3f} [{of.min():.3f}, {of.max():.3f}]"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print both; return the exit status (`ncc.core.options.exit_status`)."""
    parser = Parser(prog="threshold_seeds", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=3, help="runs that judge a policy on each sizes and load")
    return exit_status(lambda: compared(parser.parse_args(arguments)))


def compared(given: argparse.Namespace) -> int:
    """Print how the trainings learn, and what their policies are worth; return 0.

    Raises:
        ConfigError: the folder has no policy, or a training without rewards.
    """
    policies = sorted(given.folder.glob("*.ncc"))
    if not policies:
        raise ConfigError(f"{given.folder} has no policy: train with examples/sb3_thresholds.py --out")
    files = {path: path.parent / f"{path.stem}.monitor.csv" for path in policies}
    for policy, file in files.items():
        if not file.is_file():
            raise ConfigError(f"{policy} has no rewards beside it: train with --curve {policy.with_suffix('')}")
    curves = [curve(file) for file in files.values()]
    for episode in range(0, min(map(len, curves)), EACH):
        print(f"reward of episode {episode + 1}: {spread(np.array([rewards[episode] for rewards in curves]))}")
    for cell in CELLS:
        found = judged(policies, cell, given.runs)
        each = ", ".join(f"{path.stem}: {ratio:.3f}" for path, ratio in zip(policies, found, strict=True))
        print(f"{cell[0]} {cell[1]:g}: {spread(found)} of PIAS' own; {each}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
