# SPDX-License-Identifier: BSD-3-Clause
"""Evaluations on Ray: the files of evaluations in processes, and the same errors."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ncc.core.errors import ConfigError, DatapathError, WorkerDiedError
from ncc.harness.pool import Executor, Job, Processes, evaluate, jobs_for
from ncc.harness.results import TABLES, Evaluation, load_evaluation
from ncc.run.compose import ExecutorSpec
from tests.support.experiments import controller, make_limiter, small_rack
from tests.support.fluid import FluidDatapath

pytest.importorskip("ray", reason="rllib: ray is not installed (the extra rllib)")
pytestmark = [pytest.mark.rllib, pytest.mark.usefixtures("ray_here")]

TIMES = {"started_at", "finished_at", "wall_s", "cpu_s"}
ON_RAY = ExecutorSpec(executor="ray").load_executor()


def run(folder: Path, jobs: list[Job], executor: Executor, **more: object) -> Evaluation:
    return evaluate(jobs, folder, FluidDatapath, make_limiter, executor=executor, **more)  # type: ignore[arg-type]


def test_files_are_those_of_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    jobs = jobs_for(small_rack(), [controller("free"), controller("share", share=True)], [3])
    said: list[tuple[float, str]] = []
    run(Path("processes"), jobs, Processes(1))
    run(Path("ray"), jobs, ON_RAY, show=lambda *now: said.append(now))
    assert said == [(0, "0 of 2 runs"), (0.5, "1 of 2 runs"), (1, "2 of 2 runs")]
    here, there = ({p.relative_to(top) for p in top.rglob("*")} for top in (Path("processes"), Path("ray")))
    assert here == there
    for one, other in zip(load_evaluation(Path("processes")).runs, load_evaluation(Path("ray")).runs, strict=True):
        assert one.label == other.label
        for name in TABLES:
            assert pq.read_table(one.folder / f"{name}.parquet").equals(pq.read_table(other.folder / f"{name}.parquet"))
        assert {k: v for k, v in one.manifest.facts.items() if k not in TIMES} == {
            k: v for k, v in other.manifest.facts.items() if k not in TIMES
        }
        assert one.manifest.provenance["command"] == other.manifest.provenance["command"]


def test_a_dead_run_and_an_error_are_named_and_what_is_done_is_kept(tmp_path: Path) -> None:
    one_by_one = ExecutorSpec(executor="ray", workers=1).load_executor()
    jobs = jobs_for(small_rack(), [controller("good"), controller("bad", "aborts")], [7])
    with pytest.raises(
        WorkerDiedError, match=r"controller 'bad', seed 7: the worker process \d+ was killed by SIGABRT"
    ):
        run(tmp_path, jobs, one_by_one)
    with pytest.raises(DatapathError, match="controller 'worse', seed 7: the broken transport broke"):
        run(tmp_path, [jobs[0], Job(small_rack(), controller("worse", "broken"), 7)], one_by_one)
    said: list[tuple[float, str]] = []
    run(tmp_path, jobs[:1], one_by_one, show=lambda *now: said.append(now))
    assert said == [(1, "1 of 1 runs (1 kept from before)")]


def test_a_cluster_is_for_ray_only() -> None:
    with pytest.raises(ConfigError, match="address is for a Ray cluster: set executor=ray, or leave address out"):
        ExecutorSpec(address="auto")
