# SPDX-License-Identifier: BSD-3-Clause
"""The trained policy on real traffic: do hosts send what it decides, and what is it worth beside other controllers?"""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np

from ncc.comparison import Comparison, bounds_of, comparison
from ncc.compose import load_datapath
from ncc.core.errors import DatapathError
from ncc.core.scenario import Scenario
from ncc.harness.controller import Controller
from ncc.harness.datapath import Datapath
from ncc.harness.limiter import RateLimiter
from ncc.harness.run import Run, eval_flow_seed, run_once
from ncc.host.deadlines import PART, Swinging
from ncc.host.runs import Preset, contender, lab, linux, patiently, run_of, spread, watched
from ncc.judgement import Judgement
from ncc.limiters import LimiterFactory
from ncc.metrics.summary import summarise
from ncc.table import markdown

WARM_S = 0.3
WINDOW = 50
"""Periods."""
GOAL = 0.05
NO_ORDER = "ncc_fifo"
ON_LINUX = ("ncc", NO_ORDER, "dctcp", "cubic", "gemini", "linux_cubic", "linux_bbr")
SHOWN = (
    *("slowdown_all_mean", "slowdown_all_p50", "slowdown_all_p99", "fct_mean_s", "fct_p99_s", "goodput_bps"),
    *("queue_delay_mean_s", "queue_delay_p99_s", "timeouts_per_flow", "loss_frac", "jain"),
)
"""All flows are small, so that one row speaks for the sizes."""
SIMULATED = ("ncc", NO_ORDER, "dctcp", "cubic", "gemini")


def named(name: str) -> Controller:
    """By name; `NO_ORDER` is the trained policy without its order among flows."""
    if name != NO_ORDER:
        return contender(name)
    found = contender("ncc")
    return found.replace(name=NO_ORDER, stack=found.stack.replace(order="fifo", order_params=()))


def rates(preset: Preset) -> dict[str, Any]:
    """What hosts sent over what they were allowed, for long flows and for the incast, by who decides."""
    cases = [
        ("4 hosts, a long flow each", lab("lab_long")),
        ("4 hosts, 4 long flows each", lab("lab_long", "scenario.workload.long.flows=16")),
        ("lab_incast", lab("lab_incast")),
    ]
    rows = []
    with watched() as load:
        for case, scenario in cases:
            for decides, controller, limiter in _deciders(scenario):
                for datapath in ("linux", "packetsim"):
                    runs = [
                        _run(_datapath(datapath), scenario, controller, limiter(), seed)
                        for seed in range(1, preset.seeds + 1)
                    ]
                    rows.append({"case": case, "decides": decides, "datapath": datapath, **_followed(runs)})
    return {"warm_s": WARM_S, "window_periods": WINDOW, "goal": GOAL, "rows": rows, "load": load}


def _datapath(name: str) -> Datapath:
    return linux() if name == "linux" else load_datapath(name).load()()


def _deciders(scenario: Scenario) -> list[tuple[str, Controller, Callable[[], RateLimiter]]]:
    found: list[tuple[str, Controller, Callable[[], RateLimiter]]] = [
        (f"rule: {PART:.0%} of the fair share, swinging", contender("dctcp"), Swinging)
    ]
    for name, says in ((NO_ORDER, "policy, no order among flows"), ("ncc", "policy, with its order")):
        controller = named(name)
        found.append((says, controller, lambda c=controller: LimiterFactory(None)(c, scenario)))  # type: ignore[misc]
    return found


def _run(datapath: Datapath, scenario: Scenario, controller: Controller, limiter: RateLimiter, seed: int) -> Run:
    with closing(datapath):
        return patiently(
            lambda: run_once(datapath, scenario, controller, limiter, seed, flow_seed=eval_flow_seed(seed))
        )


def _followed(runs: list[Run]) -> dict[str, Any]:
    """Of the periods in which a host has a finite limit and payload waiting: sent over allowed.

    Both are in IP packets with data, summed over all such periods of a host (`hosts`, one number for each host and
    seed) and over windows of `WINDOW` periods that are all like that. Hosts without any such period are left out.
    Invalid runs are left out, and named.

    Raises:
        DatapathError: there is no other run, or no host with such a period.
    """
    valid = [run for run in runs if run.valid]
    if not valid:
        raise DatapathError(f"None of these runs is valid: {'; '.join(runs[0].problems)}.")
    hosts, windows = [], []
    for run in valid:
        after = run.epochs.time_s > WARM_S
        passed_s = np.diff(run.epochs.time_s, prepend=0.0)[after, None]
        limit, sent, waits = (
            np.asarray(run.epochs.columns[name])[after] for name in ("rate_limit_bps", "throughput_bps", "queued_bytes")
        )
        counts = (waits > 0) & np.isfinite(limit)
        allowed, sent = np.where(counts, limit, 0.0) * passed_s, np.where(counts, sent, 0.0) * passed_s
        limited = allowed.sum(axis=0) > 0
        hosts += (sent.sum(axis=0)[limited] / allowed.sum(axis=0)[limited]).tolist()
        n, n_hosts = len(counts) // WINDOW, counts.shape[1]
        whole = counts[: n * WINDOW].reshape(n, WINDOW, n_hosts).all(axis=1)
        part = [x[: n * WINDOW].reshape(n, WINDOW, n_hosts).sum(axis=1)[whole] for x in (sent, allowed)]
        windows += (part[0] / part[1]).tolist()
    if not hosts:
        raise DatapathError(f"No host had a finite limit and payload waiting after {WARM_S} s; choose longer runs.")
    ratio = np.array(hosts)
    return {
        "hosts": spread(hosts),
        "lowest": float(ratio.min()),
        "highest": float(ratio.max()),
        "hosts_within_goal_frac": float(np.mean(np.abs(ratio - 1) <= GOAL)),
        "windows": len(windows),
        "windows_within_goal_frac": float(np.mean(np.abs(np.array(windows) - 1) <= GOAL)) if windows else None,
        "missed_frac": float(np.mean([_missed(run) for run in valid])),
        "problems": [f"seed {run.seed}: {problem}" for run in runs for problem in run.problems],
    }


def _missed(run: Run) -> float:
    facts = run.datapath_facts
    return facts["missed_periods"] / facts["periods"] if facts else 0.0


def table(preset: Preset) -> dict[str, Any]:
    """Every controller on the incast of lab_incast, on the kernel and on packetsim."""
    scenario, seeds = lab("lab_incast"), range(1, preset.seeds + 1)
    found: dict[str, Any] = {}
    with watched() as load:
        for datapath, names in (("linux", ON_LINUX), ("packetsim", SIMULATED)):
            runs = {name: [run_of(_datapath(datapath), scenario, named(name), s) for s in seeds] for name in names}
            compared = _compared(scenario, runs, list(seeds))
            found[datapath] = {
                "comparison": compared.to_dict(),
                "markdown": markdown(Judgement({datapath: compared}), SHOWN),
                "missed_frac": {name: float(np.mean([_missed(run) for run in of])) for name, of in runs.items()},
            }
    return {"scenario": scenario.name, "datapaths": found, "load": load}


def _compared(scenario: Scenario, runs: dict[str, list[Run]], seeds: list[int]) -> Comparison:
    summaries = {
        name: [summarise(scenario, r.flows, r.records.flows, r.records.ports, r.epochs) for r in of]
        for name, of in runs.items()
    }
    return comparison(
        summaries,
        seeds,
        scenario=scenario.name,
        duration_s=scenario.duration_s,
        n_flows=sum(len(run.flows) for run in next(iter(runs.values()))),
        invalid={name: {run.seed: run.problems for run in of if run.problems} for name, of in runs.items()},
        bounds=bounds_of(scenario, seeds),
    )
