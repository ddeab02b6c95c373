# SPDX-License-Identifier: BSD-3-Clause
"""The best thresholds of PIAS that do not change during a run, by evolution: a bound for those that are learned.

``python -m studies.static_thresholds --sizes hadoop --load 0.8`` searches on the scenario `priorities` by CMA-ES, over
the actions of ncc/Thresholds-v0. It minimises the mean completion time of flows up to 100 KB, and prints the thresholds
in packets, and their mean over that of PIAS' defaults on flows that the search did not have.
"""

import argparse
import logging
import sys
from collections.abc import Sequence

import cma
import numpy as np

from ncc.core.options import Parser, exit_status
from ncc.core.scenario import Scenario
from ncc.envs.packetsim.datapath import PacketsimDatapath
from ncc.envs.scenarios import make_scenario
from ncc.envs.thresholds import N_THRESHOLDS, thresholds
from ncc.harness.controller import Controller
from ncc.harness.datapath import HostStack
from ncc.harness.run import run_once
from ncc.metrics.fct import fct_s
from ncc.metrics.summary import buckets
from ncc.study.points import PACKAGED

STEP = 0.4
"""First standard deviation of the search."""
HELD_OUT = 10_000
"""First seed of the flows that the search does not have."""


def small_mean_s(scenario: Scenario, controller: Controller, seeds: Sequence[int]) -> float:
    """Return the mean FCT in seconds of flows up to 100 KB, over runs of these seeds."""
    controller = PACKAGED.resolved(controller, scenario)
    means, limiter = [], PACKAGED(controller, scenario)
    for seed in seeds:
        run = run_once(PacketsimDatapath(), scenario, controller, limiter, 1, flow_seed=seed)
        took_s = fct_s(run.flows, run.records.flows, float(run.epochs.time_s[-1]))
        means.append(float(took_s[buckets(run.flows)["small"]].mean()))
    return float(np.mean(means))


def with_thresholds(pkts: Sequence[int]) -> Controller:
    """Return DCTCP with PIAS and these thresholds [7] in packets; none: PIAS' own."""
    named = tuple((f"after_{number}_pkts", int(value)) for number, value in enumerate(pkts, 1))
    return Controller(name="static", stack=HostStack(transport="dctcp", tags="pias", tag_params=named))


def main(arguments: Sequence[str] | None = None) -> int:
    """Search, and print the best thresholds; return the exit status (`ncc.core.options.exit_status`)."""
    parser = Parser(prog="static_thresholds", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sizes", default="websearch")
    parser.add_argument("--load", type=float, default=0.6, help="load of the hosts' links")
    parser.add_argument("--duration", type=float, default=0.5, help="seconds of a run")
    parser.add_argument("--runs", type=int, default=3, help="runs that judge one choice")
    parser.add_argument("--steps", type=int, default=15, help="steps of the search, 9 choices each")
    return exit_status(lambda: searched(parser.parse_args(arguments)))


def searched(given: argparse.Namespace) -> int:
    """Search, and print the best thresholds and what they gain on other flows; return 0."""
    logging.disable(logging.WARNING)
    flows = {"distribution": given.sizes, "load_frac": 16 * given.load}
    scenario = make_scenario({"name": "priorities", "workload": {"flows": flows}}, duration_s=given.duration)
    search = cma.CMAEvolutionStrategy(np.zeros(N_THRESHOLDS), STEP, {"bounds": [-1, 1], "seed": 1, "verbose": -9})
    for step in range(given.steps):
        seeds = range(step * given.runs, (step + 1) * given.runs)
        asked = search.ask()
        search.tell(asked, [small_mean_s(scenario, with_thresholds(thresholds(each)), seeds) for each in asked])
    best = thresholds(np.asarray(search.result.xfavorite))
    held_out = range(HELD_OUT, HELD_OUT + 5 * given.runs)
    means = [
        small_mean_s(scenario, controller, held_out)
        for controller in (with_thresholds(best), with_thresholds(()), Controller(name="dctcp"))
    ]
    print(f"{given.sizes} {given.load:g}: {list(best)}", end=" ")
    print(f"small flows {means[0] * 1e3:.4f} ms, {means[0] / means[1]:.3f} of PIAS, {means[0] / means[2]:.3f} of DCTCP")
    return 0


if __name__ == "__main__":
    sys.exit(main())
