# SPDX-License-Identifier: BSD-3-Clause
"""Trainings of AuTO's thresholds that differ in their seeds alone: how they learn, and what their policies are worth.

``python -m studies.threshold_seeds FOLDER`` reads FOLDER/<seed>.ncc and FOLDER/<seed>/evaluations.npz, as
``python examples/sb3_thresholds.py --seed <seed> --out FOLDER/<seed>.ncc --curve FOLDER/<seed>`` writes them. It draws
FOLDER/curves.png, the reward on held-out flows while each policy learns, prints the mean of these rewards, and the mean
completion time of flows up to 100 KB over that with PIAS' own thresholds, also without any learning (action 0).
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray, IntArray
from ncc.core.options import Parser, exit_status
from ncc.envs.scenarios import make_scenario
from ncc.envs.thresholds import N_THRESHOLDS, thresholds
from ncc.results.plot.canvas import INK, entries_of, finish, new_figure, thousands
from ncc.run.controllers import load_controller
from studies.static_thresholds import HELD_OUT, small_mean_s, with_thresholds

CELLS = (("websearch", 0.6, 1.0), ("websearch", 0.8, 1.0), ("hadoop", 0.6, 0.5), ("hadoop", 0.8, 0.5))
"""Sizes, load of the hosts' links, and seconds of a run: those of the experiment auto_thresholds."""
PERIOD_S = 0.1
CURVES = "curves.png"


def curve(folder: Path) -> tuple[IntArray, FloatArray]:
    """Read the evaluations of a training.

    Returns:
        Decisions learned from so far [n], and the reward of an episode [n], each the mean over the networks.

    Raises:
        ConfigError: the file cannot be read.
    """
    path = folder / "evaluations.npz"  # as EvalCallback of Stable-Baselines3 writes it
    try:
        with np.load(path) as file:
            return file["timesteps"], file["results"].mean(axis=1)
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise ConfigError(f"{path} cannot be read ({error}): train with --curve {folder}") from None


def draw(curves: Mapping[str, tuple[IntArray, FloatArray]], path: Path) -> None:
    """Draw the reward of each training against decisions, and the mean of all.

    Args:
        curves: those of `curve` by seed, at the same decisions.
    """
    figure, (axes,) = new_figure(1, width=9.0, height=4.6)
    for place, (at, rewards) in enumerate(curves.values()):
        axes.plot(at, rewards, color=INK, lw=1, alpha=0.4, label="" if place else "a training")
    at = next(iter(curves.values()))[0]
    axes.plot(at, np.mean([rewards for _, rewards in curves.values()], axis=0), "o-", color=INK, lw=2.4, label="mean")
    axes.set_xlabel("decisions learned from, of all networks together")
    axes.set_ylabel("reward of an episode\non held-out flows")
    axes.xaxis.set_major_formatter(thousands)
    finish(figure, path, f"{len(curves)} trainings of AuTO's thresholds", entries_of([axes]))


def judged(policies: Sequence[Path], cell: tuple[str, float, float], runs: int) -> tuple[float, FloatArray]:
    """Compare the mean FCT of small flows with that under PIAS' own thresholds.

    Returns:
        Ratio under the thresholds of action 0, where all trainings begin, and those under each policy [n_policies].
    """
    sizes, load, duration_s = cell
    flows = {"distribution": sizes, "load_frac": 16 * load}
    scenario = make_scenario(
        {"name": "priorities", "workload": {"flows": flows}}, duration_s=duration_s, period_s=PERIOD_S
    )
    seeds = range(HELD_OUT, HELD_OUT + runs)
    own_s = small_mean_s(scenario, with_thresholds(()), seeds)
    untrained_s = small_mean_s(scenario, with_thresholds(thresholds(np.zeros(N_THRESHOLDS))), seeds)
    trained_s = np.array([small_mean_s(scenario, load_controller(str(path)), seeds) for path in policies])
    return untrained_s / own_s, trained_s / own_s


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
    """Print and draw how the trainings learn, and print what their policies are worth; return 0.

    Raises:
        ConfigError: the folder has no policy, or a training without rewards, or trainings of different lengths.
    """
    policies = sorted(given.folder.glob("*.ncc"))
    if not policies:
        raise ConfigError(f"{given.folder} has no policy: train with examples/sb3_thresholds.py --out")
    curves = {path.stem: curve(path.with_suffix("")) for path in policies}
    first, *others = (at.tolist() for at, _ in curves.values())
    if any(at != first for at in others):
        raise ConfigError(f"trainings in {given.folder} were judged at different decisions: train all with the same")
    for i, decisions in enumerate(first):
        print(f"reward after {decisions} decisions: {spread(np.array([rewards[i] for _, rewards in curves.values()]))}")
    draw(curves, given.folder / CURVES)
    for cell in CELLS:
        untrained, found = judged(policies, cell, given.runs)
        each = ", ".join(f"{path.stem}: {ratio:.3f}" for path, ratio in zip(policies, found, strict=True))
        print(f"{cell[0]} {cell[1]:g}: {spread(found)} of PIAS' own, action 0 {untrained:.3f}; {each}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
