# SPDX-License-Identifier: BSD-3-Clause
"""Trials run by Ray Tune, a limited number at a time, on this machine or on a cluster; a `Job` defines a trial."""

import logging
import shutil
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import ray
from ray import tune
from ray.tune.schedulers import AsyncHyperBandScheduler

from ncc.agents.rllib.cluster import connected, environment
from ncc.core.errors import ConfigError
from ncc.harness.signals import noted
from ncc.harness.trials import FAILED, RUNNING, STOPPED, Report

TRIES = 3
"""Largest number of starts of a trial, which is repeated if its machine dies."""
_TUNE = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # its own logs of results; ours are in the run folders
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # we handle Ctrl-C
    "RAY_AIR_NEW_OUTPUT": "0",  # the newer output prints even when it is turned off
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_TRAIN_ENABLE_V2_MIGRATION_WARNINGS": "0",
}


class Job(Protocol):
    """A trial, sent by pickle to the place where it runs and called only there."""

    name: str

    def step(self) -> Report:
        """Start if necessary, continue for a moment, and return a report; not called again once the trial has ended."""

    def end(self) -> None:
        """End all processes of the trial; called last, however the trial ended."""


OnReport = Callable[[str, Report], None]
"""Callback with a job's name and its report."""


@dataclass(frozen=True)
class TuneSettings:
    """Settings of how trials are run."""

    concurrent: int
    cpus: int
    """CPUs of each trial."""
    asha: tuple[float, float] | None
    """Percent at the first rung, and reduction from rung to rung; None: no trial is ended early."""
    address: str | None
    wheel: str | None
    storage: Path
    """A folder for Tune's own state; removed at the end."""


def run_jobs(jobs: Sequence[Job], settings: TuneSettings, on_report: OnReport, interrupted: Callable[[], None]) -> None:
    """Run all jobs.

    Args:
        jobs: in the order in which they start.
        settings: how to run them.
        on_report: called with every report, and with ends that jobs do not know of: `STOPPED`, and `FAILED` by Ray.
        interrupted: called once when Ctrl-C is pressed; from then on every job's `step` must end it.

    Raises:
        ConfigError: Ray does not start, the cluster cannot be reached, or no node has `cpus`.
        KeyboardInterrupt: Ctrl-C was pressed, and all jobs have ended since.
    """
    with environment(_TUNE), noted(signal.SIGINT, then=interrupted) as interrupt, _ray(settings):
        try:
            _run(jobs, settings, _Watch([job.name for job in jobs], on_report, interrupt))
        finally:
            shutil.rmtree(settings.storage, ignore_errors=True)
    if interrupt.is_set():
        raise KeyboardInterrupt


def _run(jobs: Sequence[Job], settings: TuneSettings, watch: "_Watch") -> None:
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # `on_report` gets it
    scheduler = None
    if settings.asha is not None:
        first_percent, reduction = settings.asha
        scheduler = AsyncHyperBandScheduler(
            time_attr="percent",
            metric="value",
            mode="max",
            grace_period=first_percent,
            max_t=100,
            reduction_factor=reduction,
            stop_last_trials=False,  # a trial is still judged after its last epoch
        )
    # `tune.Tuner` would require a checkpoint of every trial at its end.
    tune.run(
        tune.with_resources(tune.with_parameters(_Trainable, jobs=list(jobs)), {"CPU": settings.cpus}),
        config={"job": tune.grid_search(list(range(len(jobs))))},
        max_concurrent_trials=settings.concurrent,
        scheduler=scheduler,
        name="state",
        storage_path=str(settings.storage),
        callbacks=[watch],
        stop=_Stopper(watch),
        reuse_actors=True,
        max_failures=TRIES - 1,
        raise_on_failed_trial=False,
        verbose=0,
    )


class _Trainable(tune.Trainable):
    """Jobs in a Ray actor, one after the other, because an actor takes seconds to start."""

    def setup(self, config: dict[str, Any], jobs: Sequence[Job]) -> None:
        self._jobs = jobs
        self._job = jobs[config["job"]]

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self._job.end()
        self._job = self._jobs[new_config["job"]]
        return True

    def step(self) -> dict[str, Any]:
        report = self._job.step()
        return {**asdict(report), "done": report.state != RUNNING}

    def cleanup(self) -> None:
        self._job.end()


class _Watch(tune.Callback):
    """A callback that passes on reports of trials and knows which of them run."""

    def __init__(self, names: Sequence[str], on_report: OnReport, interrupt: threading.Event) -> None:
        self._names, self._on_report = names, on_report
        self._running: set[str] = set()
        self._awaited: set[str] | None = None
        self.interrupt = interrupt

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self._running.add(trial.trial_id)

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        self._on_report(self._name(trial), _report(result))

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self._gone(trial)
        last = _report(trial.last_result)
        if last.state == RUNNING:
            self._on_report(self._name(trial), Report(STOPPED, last.percent, last.value))

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self._gone(trial)
        said = str(trial.get_error() or "").strip().splitlines()
        self._on_report(
            self._name(trial), Report(FAILED, said=f"Ray lost it {TRIES} times: {said[0] if said else '?'}")
        )

    def all_ended(self) -> bool:
        """True if Ctrl-C was pressed and the trials that ran then have ended; later trials end by themselves."""
        if not self.interrupt.is_set():
            return False
        if self._awaited is None:
            self._awaited = set(self._running)
        return not self._awaited & self._running

    def _gone(self, trial: Any) -> None:
        self._running.discard(trial.trial_id)

    def _name(self, trial: Any) -> str:
        job: int = trial.config["job"]
        return self._names[job]


class _Stopper(tune.Stopper):
    """A stopper that ends the whole run after an interrupt."""

    def __init__(self, watch: _Watch) -> None:
        self._watch = watch

    def __getstate__(self) -> dict[str, Any]:
        return {}  # for Tune's snapshots, which are never read: the run folders are kept

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        return self._watch.all_ended()


def _report(result: dict[str, Any]) -> Report:
    return Report(result["state"], result["percent"], result["value"], result["said"])


@contextmanager
def _ray(settings: TuneSettings) -> Iterator[None]:
    with connected(settings.address, settings.wheel, cpus=settings.concurrent * settings.cpus):
        most = max(int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"])
        if most < settings.cpus:
            raise ConfigError(f"cpus={settings.cpus} of a trial are more than any node has, {most}: lower cpus")
        yield
