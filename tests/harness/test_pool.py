# SPDX-License-Identifier: BSD-3-Clause
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from ncc.core.errors import ConfigError, ResultError, UnknownNameError, WorkerDiedError
from ncc.core.scenario import Scenario
from ncc.harness.controller import Controller
from ncc.harness.limiter import RateLimiter
from ncc.harness.pool import Executor, Job, Processes, evaluate, jobs_for
from ncc.harness.results import Evaluation, load_evaluation
from tests.support.experiments import controller, make_limiter, small_rack
from tests.support.fluid import FluidDatapath
from tests.support.here import Here

PAIR = (controller("free"), controller("share", share=True))
JOBS = jobs_for(small_rack(), PAIR, [3, 1])


def run(folder: Path, jobs: Sequence[Job], executor: Executor | None = None, **more: Any) -> Evaluation:
    return evaluate(jobs, folder, FluidDatapath, make_limiter, executor=executor or Here(), **more)


class Said:
    """A display that keeps the shares that it shows, and each text once."""

    def __init__(self) -> None:
        self.fracs: list[float] = []
        self.texts: list[str] = []

    def __call__(self, frac: float, text: str) -> None:
        self.fracs.append(frac)
        if text not in self.texts:
            self.texts.append(text)


class Before(Here):
    """An executor that begins no run."""

    def run(self, *_: Any) -> NoReturn:
        raise InterruptedError


def limiter_of_a_light_worker(controller: Controller, scenario: Scenario) -> RateLimiter:
    if loaded := {"torch", "ray", "hydra", "gymnasium", "matplotlib"} & set(sys.modules):
        raise ConfigError(f"a worker loaded {loaded}")
    return make_limiter(controller, scenario)


def test_results_do_not_depend_on_processes_and_flows_are_paired(tmp_path: Path) -> None:
    """A learning framework in one of the processes would end it."""
    here, said = run(tmp_path / "here", JOBS), Said()
    limiter = limiter_of_a_light_worker
    apart = evaluate(JOBS, tmp_path / "apart", FluidDatapath, limiter, executor=Processes(2), show=said)
    assert said.texts == [f"{n} of 4 runs" for n in range(5)]
    assert said.fracs == sorted(said.fracs)
    assert said.fracs[-1] == 1.0
    asked = [("free", 3), ("share", 3), ("free", 1), ("share", 1)]
    for evaluation in (here, apart, load_evaluation(apart.folder)):
        assert [(r.controller, r.seed) for r in evaluation.runs] == asked
    for a, b in zip(here.runs, apart.runs, strict=True):
        for name in ("flows", "epochs", "ports"):
            assert a.table(name).equals(b.table(name))
    free, share = (apart.of(name)[0].load() for name in ("free", "share"))
    assert np.array_equal(free.flows.start_s, share.flows.start_s)
    assert np.array_equal(free.flows.dst, share.flows.dst)
    assert not np.array_equal(free.records.flows.finish_s, share.records.flows.finish_s)
    assert not np.array_equal(apart.of("free")[0].load().flows.start_s, apart.of("free")[1].load().flows.start_s)


def test_done_jobs_are_skipped_and_more_seeds_can_be_added(tmp_path: Path) -> None:
    run(tmp_path, jobs_for(small_rack(), PAIR, [1]))
    before = (tmp_path / "free" / "1" / "manifest.json").stat().st_mtime_ns
    said = Said()
    evaluation = run(tmp_path, jobs_for(small_rack(), PAIR, [1, 2]), show=said)
    assert said.texts == [f"{n} of 4 runs (2 kept from before)" for n in (2, 3, 4)]
    assert (tmp_path / "free" / "1" / "manifest.json").stat().st_mtime_ns == before
    assert len(evaluation.runs) == 4


def test_a_damaged_result_is_done_again(tmp_path: Path) -> None:
    jobs = jobs_for(small_rack(), PAIR, [1])
    whole = run(tmp_path, jobs).runs[0].table("flows")
    (tmp_path / "free" / "1" / "flows.parquet").write_bytes(b"rubbish")
    (tmp_path / "free" / "1" / ".flows.parquet.1.partial").write_bytes(b"left by a killed worker")
    said = Said()
    again = run(tmp_path, jobs, show=said)
    assert said.texts[0] == "1 of 2 runs (1 kept from before)"
    assert again.runs[0].table("flows").equals(whole)
    assert not list(tmp_path.rglob(".*.partial"))


def test_results_of_another_experiment_are_not_reused(tmp_path: Path) -> None:
    job = Job(small_rack(), controller("c"), 1, {"policy": "a"})
    run(tmp_path, [job])
    for what, other in (
        ("scenario", Job(small_rack(duration_s=0.2), job.controller, 1, job.inputs)),
        ("controller", Job(job.scenario, controller("c", share=True), 1, job.inputs)),
        ("inputs", Job(job.scenario, job.controller, 1, {"policy": "b"})),
    ):
        with pytest.raises(ResultError, match=rf"another experiment \(.*{what}.* differ\)"):
            run(tmp_path, [other])


def test_a_dead_worker_ends_the_evaluation_and_keeps_what_is_done(tmp_path: Path) -> None:
    jobs = jobs_for(small_rack(), [controller("good"), controller("bad", "killed")], [7])
    with pytest.raises(
        WorkerDiedError, match=r"controller 'bad', seed 7: the worker process \d+ was killed by SIGKILL"
    ):
        run(tmp_path, jobs, Processes())
    with pytest.raises(ResultError, match="not a finished result"):
        load_evaluation(tmp_path)
    said = Said()
    run(tmp_path, jobs[:1], show=said)
    assert said.texts == ["1 of 1 runs (1 kept from before)"]


def test_an_error_in_a_worker_keeps_its_class_and_names_the_job(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="controller 'typo', seed 2: Unknown transport 'fluit'"):
        run(tmp_path, [Job(small_rack(), controller("typo", "fluit"), 2)], Processes())


def test_invalid_runs_are_kept_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    jobs = jobs_for(small_rack(drain_s=0.1), [controller("good"), controller("bad", "sticky")], [1])
    evaluation = run(tmp_path, jobs)
    assert [bool(r.problems) for r in evaluation.runs] == [False, True]
    assert evaluation.manifest.facts["valid"] is False
    assert "1 of" in evaluation.manifest.facts["invalid_runs"]["controller 'bad', seed 1"][0]
    assert "INVALID run of controller 'bad', seed 1" in caplog.text


def test_requests_are_drawn_where_they_are_run_and_not_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing them takes seconds, and there is always one."""
    asked = {"kind": "fan_out", "fan_in": 2, "answer_bytes": 1000, "sources": "hosts", "destinations": "remotes"}
    begun: list[int] = []
    monkeypatch.setattr("ncc.harness.pool.drawn", lambda *_: begun.append(1))
    for workload, times in ((small_rack().workload, 2), ({"web": asked}, 0)):
        begun.clear()
        jobs = jobs_for(small_rack(workload=dict(workload)), PAIR, [1, 2])
        with pytest.raises(InterruptedError):
            run(tmp_path / str(times), jobs, Before())
        assert len(begun) == times


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultError, match="cannot use"):
        run(tmp_path / "file", [Job(small_rack(), controller("c"), 1)])


SLOW = """
import pathlib, sys
from ncc.harness.pool import Processes
from ncc.harness.pool import jobs_for
from ncc.harness.pool import evaluate
from tests.support.experiments import controller, make_limiter, small_rack
from tests.support.fluid import FluidDatapath
if __name__ == "__main__":
    jobs = jobs_for(small_rack(duration_s=30), [controller("slow", "slow")], [1, 2])
    say = lambda frac, text: print("running" if frac else "starting", flush=True)
    evaluate(jobs, pathlib.Path(sys.argv[1]), FluidDatapath, make_limiter, executor=Processes(2), show=say)
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
    _, errors = parent.communicate()  # returns when the last worker has closed its end of the pipes, too
    assert parent.returncode == (-signal.SIGINT if how == "interrupt" else -signal.SIGKILL)
    if how == "interrupt":
        assert errors.count("Traceback") == 1, "workers die without a word"
    await_end(parent.pid)
    with pytest.raises(ResultError, match="not a finished result"):
        load_evaluation(tmp_path / "out")


def await_end(group: int) -> None:
    """Return when no process of the group is left."""
    with suppress(ProcessLookupError):
        while True:
            os.killpg(group, 0)
            time.sleep(0.05)
