# SPDX-License-Identifier: BSD-3-Clause
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from ncc.core.errors import ConfigError, DatapathError, ResultError, UnknownNameError, WorkerDiedError
from ncc.core.scenario import Scenario
from ncc.harness.controller import Controller
from ncc.harness.executor import Processes
from ncc.harness.jobs import Job, JobEvent, jobs_for
from ncc.harness.limiter import RateLimiter
from ncc.harness.pool import evaluate
from ncc.harness.results import Evaluation, load_evaluation
from tests.support.experiments import controller, make_limiter, small_rack
from tests.support.fluid import FluidDatapath

PAIR = (controller("free"), controller("share", share=True))


def run(folder: Path, jobs: list[Job], workers: int = 1, **more: object) -> Evaluation:
    return evaluate(jobs, folder, FluidDatapath, make_limiter, executor=Processes(workers), **more)  # type: ignore[arg-type]


def limiter_without_torch(controller: Controller, scenario: Scenario, allowed: tuple[str, ...]) -> RateLimiter:
    heavy = {"torch", "ray", "hydra", "gymnasium", "matplotlib"} - set(allowed)
    if loaded := heavy & set(sys.modules):
        raise ConfigError(f"a worker loaded {loaded}")
    return make_limiter(controller, scenario)


def test_results_do_not_depend_on_the_number_of_workers_and_flows_are_paired(tmp_path: Path) -> None:
    jobs = jobs_for(small_rack(), PAIR, [3, 1])
    one, two = run(tmp_path / "one", jobs), run(tmp_path / "two", jobs, workers=2)
    asked = [("free", 3), ("share", 3), ("free", 1), ("share", 1)]
    for evaluation in (one, two, load_evaluation(tmp_path / "two")):
        assert [(r.controller, r.seed) for r in evaluation.runs] == asked
    for a, b in zip(one.runs, two.runs, strict=True):
        for name in ("flows", "epochs", "ports"):
            assert a.table(name).equals(b.table(name))
    free, share = (two.of(name)[0].load() for name in ("free", "share"))
    assert np.array_equal(free.flows.start_s, share.flows.start_s)
    assert np.array_equal(free.flows.dst, share.flows.dst)
    assert not np.array_equal(free.records.flows.finish_s, share.records.flows.finish_s)
    assert not np.array_equal(two.of("free")[0].load().flows.start_s, two.of("free")[1].load().flows.start_s)


def test_workers_load_no_learning_framework(tmp_path: Path) -> None:
    evaluate(jobs_for(small_rack(), PAIR, [1]), tmp_path, FluidDatapath, partial(limiter_without_torch, allowed=()))


def test_progress_counts_every_job_once(tmp_path: Path) -> None:
    said: list[JobEvent] = []
    run(tmp_path, jobs_for(small_rack(), PAIR, [1, 2]), workers=2, on_progress=said.append)
    assert [e.kind for e in said if e.kind != "running"].count("started") == 4
    assert [e.done for e in said if e.kind == "finished"] == [1, 2, 3, 4]
    assert said[-1].overall_frac == 1.0
    assert all(e.total == 4 for e in said)


def test_done_jobs_are_skipped_and_more_seeds_can_be_added(tmp_path: Path) -> None:
    run(tmp_path, jobs_for(small_rack(), PAIR, [1]))
    before = (tmp_path / "free" / "1" / "manifest.json").stat().st_mtime_ns
    said: list[JobEvent] = []
    evaluation = run(tmp_path, jobs_for(small_rack(), PAIR, [1, 2]), on_progress=said.append)
    assert [(e.job.controller.name, e.job.seed) for e in said if e.kind == "skipped"] == [("free", 1), ("share", 1)]
    assert [(e.job.controller.name, e.job.seed) for e in said if e.kind == "finished"] == [("free", 2), ("share", 2)]
    assert (tmp_path / "free" / "1" / "manifest.json").stat().st_mtime_ns == before
    assert len(evaluation.runs) == 4


def test_a_damaged_result_is_done_again(tmp_path: Path) -> None:
    jobs = jobs_for(small_rack(), PAIR, [1])
    whole = run(tmp_path, jobs).runs[0].table("flows")
    (tmp_path / "free" / "1" / "flows.parquet").write_bytes(b"rubbish")
    (tmp_path / "free" / "1" / ".flows.parquet.1.partial").write_bytes(b"left by a killed worker")
    said: list[JobEvent] = []
    again = run(tmp_path, jobs, on_progress=said.append)
    assert [e.job.controller.name for e in said if e.kind == "skipped"] == ["share"]
    assert again.runs[0].table("flows").equals(whole)
    assert not list(tmp_path.rglob(".*.partial"))


@pytest.mark.parametrize("what", ["scenario", "controller", "inputs"])
def test_results_of_another_experiment_are_not_reused(tmp_path: Path, what: str) -> None:
    job = Job(small_rack(), controller("c"), 1, {"policy": "a"})
    run(tmp_path, [job])
    other = {
        "scenario": Job(small_rack(duration_s=0.2), job.controller, 1, job.inputs),
        "controller": Job(job.scenario, controller("c", share=True), 1, job.inputs),
        "inputs": Job(job.scenario, job.controller, 1, {"policy": "b"}),
    }[what]
    with pytest.raises(ResultError, match=rf"another experiment \(.*{what}.* differ\)"):
        run(tmp_path, [other])


@pytest.mark.parametrize(("transport", "how"), [("killed", "SIGKILL"), ("aborts", "SIGABRT")])
def test_a_dead_worker_ends_the_evaluation_and_keeps_what_is_done(tmp_path: Path, transport: str, how: str) -> None:
    jobs = jobs_for(small_rack(), [controller("good"), controller("bad", transport)], [7])
    with pytest.raises(WorkerDiedError, match=rf"controller 'bad', seed 7: the worker process \d+ was killed by {how}"):
        run(tmp_path, jobs)
    with pytest.raises(ResultError, match="not a finished result"):
        load_evaluation(tmp_path)
    said: list[JobEvent] = []
    run(tmp_path, jobs_for(small_rack(), [controller("good")], [7]), on_progress=said.append)
    assert [e.kind for e in said] == ["skipped"]


def test_an_error_in_a_worker_keeps_its_class_and_names_the_job(tmp_path: Path) -> None:
    with pytest.raises(DatapathError, match="controller 'bad', seed 2: the broken transport broke"):
        run(tmp_path / "a", [Job(small_rack(), controller("bad", "broken"), 2)])
    with pytest.raises(UnknownNameError, match="controller 'typo', seed 2: Unknown transport 'fluit'"):
        run(tmp_path / "b", [Job(small_rack(), controller("typo", "fluit"), 2)])


def test_invalid_runs_are_kept_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    jobs = jobs_for(small_rack(drain_s=0.1), [controller("good"), controller("bad", "sticky")], [1])
    evaluation = run(tmp_path, jobs)
    assert [bool(r.problems) for r in evaluation.runs] == [False, True]
    assert evaluation.manifest.facts["valid"] is False
    assert "1 of" in evaluation.manifest.facts["invalid_runs"]["controller 'bad', seed 1"][0]
    assert "INVALID run of controller 'bad', seed 1" in caplog.text


def test_nonsense_is_refused_before_anything_starts(tmp_path: Path) -> None:
    job = Job(small_rack(), controller("c"), 1)
    for jobs, workers, says in (([], 1, "nothing to evaluate"), ([job], 0, "workers"), ([job, job], 1, "twice")):
        with pytest.raises(ConfigError, match=says):
            run(tmp_path, jobs, workers=workers)
    for config in ({"x": float("inf")}, {"x": object()}):
        with pytest.raises(ConfigError, match="config must be plain data"):
            run(tmp_path, [job], config=config)
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultError, match="cannot use"):
        run(tmp_path / "file", [job])


SLOW = """
import pathlib, sys
from ncc.harness.executor import Processes
from ncc.harness.jobs import jobs_for
from ncc.harness.pool import evaluate
from tests.support.experiments import controller, make_limiter, small_rack
from tests.support.fluid import FluidDatapath
if __name__ == "__main__":
    jobs = jobs_for(small_rack(duration_s=30), [controller("slow", "slow")], [1, 2])
    say = lambda event: print(event.kind, flush=True)
    evaluate(jobs, pathlib.Path(sys.argv[1]), FluidDatapath, make_limiter, executor=Processes(2), on_progress=say)
"""


@pytest.mark.parametrize("how", ["interrupt", "kill"])
def test_when_the_parent_goes_so_do_the_workers(tmp_path: Path, how: str) -> None:
    script = tmp_path / "slow.py"
    script.write_text(SLOW)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, str(script), str(tmp_path / "out")]
    parent = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, env=environment
    )
    assert parent.stdout is not None
    while "running" not in (line := parent.stdout.readline()):
        assert line, "the evaluation ended before it ran"
    with pytest.raises(ResultError, match="another evaluation is writing"):
        run(tmp_path / "out", [Job(small_rack(), controller("c"), 1)])
    if how == "interrupt":
        os.killpg(parent.pid, signal.SIGINT)  # as a terminal does
    else:
        parent.kill()
    _, errors = parent.communicate(timeout=60)  # returns when the last worker has closed its end of the pipes, too
    assert parent.returncode == (-signal.SIGINT if how == "interrupt" else -signal.SIGKILL)
    if how == "interrupt":
        assert errors.count("Traceback") == 1, "workers die without a word"
    assert _group_is_empty(parent.pid)
    with pytest.raises(ResultError, match="not a finished result"):
        load_evaluation(tmp_path / "out")


def _group_is_empty(group: int) -> bool:
    for _ in range(600):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False
