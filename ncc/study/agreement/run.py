# SPDX-License-Identifier: BSD-3-Clause
"""Execution of the comparison of two datapaths: small cases, then cases under load; the outcome is plain data."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ncc.core.errors import UnknownNameError
from ncc.harness.controller import Controller
from ncc.harness.manifest import provenance
from ncc.harness.pool import Executor
from ncc.harness.results import StoredRun
from ncc.results.evaluation import run_controllers
from ncc.run.compose import load_datapath
from ncc.run.limiters import LimiterFactory
from ncc.study.agreement.cases import Preset, load_cases
from ncc.study.agreement.compare import Row, compare_runs
from ncc.study.agreement.small import SMALL_CASES, compare_small
from ncc.study.result import commits_of

FORMAT = 2
Summary = dict[str, Any]
"""Plain data: the contents of results.json."""


def run_agreement(
    *,
    ours: str,
    reference: str,
    preset: Preset,
    called: str,
    controllers: Sequence[Controller],
    cases: Sequence[str],
    folder: Path,
    executor: Executor,
) -> Summary:
    """Do the runs that `folder` does not hold yet, and compare the two datapaths.

    Args:
        ours: name of our datapath.
        reference: name of the datapath that it is compared with.
        preset: size of the comparison under load.
        called: name of the preset.
        cases: names of cases under load; empty: all.
        executor: place of the runs, and number of runs at a time.

    Raises:
        ConfigError: a datapath or case is unknown.
        NccError: see `ncc.harness.pool.evaluate`.
    """
    began_s, origin = time.perf_counter(), provenance()
    sides = (load_datapath(ours), load_datapath(reference))
    known = {case.name: case for case in load_cases(preset)}
    if unknown := set(cases) - set(known):
        raise UnknownNameError("case", min(unknown), known)
    names, seeds = [controller.name for controller in controllers], range(preset.seeds)
    small = [*compare_small(sides[0].load()(), sides[1].load()(), names)]
    load: list[Row] = []
    runs: dict[str, list[StoredRun]] = {side.name: [] for side in sides}
    with executor.opened():
        for case in (known[name] for name in cases or known):
            done = [
                run_controllers(
                    case.scenario,
                    controllers,
                    seeds,
                    side,
                    LimiterFactory(None),
                    called=case.name,
                    folder=folder / case.name / side.name,
                    executor=executor,
                    config={"agreement": side.name},
                )
                for side in sides
            ]
            for side, evaluation in zip(sides, done, strict=True):
                runs[side.name] += evaluation.runs
            load += [compare_runs(case, name, *(evaluation.of(name) for evaluation in done)) for name in names]
    about = {
        "ours": ours,
        "reference": reference,
        "preset": called,
        "controllers": names,
        "seeds": list(seeds),
        "git": origin["git"],
        "written_at": origin["written_at"],
        "machine": f"{origin['processor']}, {origin['cpus_usable']} cores",
        "runs_made_at": {side: commits_of(run.manifest.provenance for run in of) for side, of in runs.items()},
        "wall_s": round(time.perf_counter() - began_s, 1),
        "cpu_s": {side: round(sum(run.manifest.facts["cpu_s"] for run in of), 1) for side, of in runs.items()},
    }
    return summarised(about, small, load)


def summarised(about: Row, small: Sequence[Row], load: Sequence[Row]) -> Summary:
    """Make the summary from facts about the comparison, rows of small cases and rows of cases under load."""
    agree = [not row["problems"] and row["flows_same"] == row["n_flows"] and not differing(row) for row in load]
    return {
        "format": FORMAT,
        "agrees": all(agree) and all(row["same"] for row in small),
        **about,
        "small_cases": {case.name: case.what for case in SMALL_CASES},
        "small": list(small),
        "load": list(load),
    }


def differing(row: Row) -> list[str]:
    """Names of the figures of a case under load that are not equal on both datapaths."""
    return [key for key, (ours, reference) in row["figures"].items() if ours != reference]
