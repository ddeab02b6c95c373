# SPDX-License-Identifier: BSD-3-Clause
"""A sweep from plan to summary: finished trials are kept, the rest is trained."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ncc.core.errors import ConfigError, ResultError
from ncc.harness.atomic import remove
from ncc.harness.manifest import read_manifest
from ncc.harness.progress import Bar
from ncc.harness.trials import FAILED, FINISHED, RUNNING, STOPPED, UNFINISHED, Report
from ncc.study.sweep.page import Outcome, Summary, read_states
from ncc.study.sweep.spec import ASHA, RANKED, Sweep, Trial
from ncc.study.sweep.trial import END_S, TrialJob, end_all, own_variables, processes_of
from ncc.study.trainings import Training


def run_sweep(sweep: Sweep, command: str) -> Summary:
    """Train what `out` does not hold yet; sweep.json is written after every trial.

    Raises:
        ConfigError: the folder holds a trial of another configuration, or trials that run; or Ray does not start.
        KeyboardInterrupt: all trials have ended, and can be resumed.
    """
    out, summary = Path(sweep.spec.out), Summary(sweep, command)
    summary.outcomes |= _kept(sweep, read_states(summary.path))
    waiting = [trial for trial in sweep.trials if trial.name not in summary.outcomes]
    kept = len(sweep.trials) - len(waiting)
    print(f"{len(sweep.trials)} trials{f', {kept} of them kept from before' if kept else ''}; results in {out}")
    if waiting:
        _claim(out)
        summary.write()
        _run(sweep, summary, waiting)
    summary.write()
    return summary


def _run(sweep: Sweep, summary: Summary, waiting: list[Trial]) -> None:
    from ncc.agents.rllib.sweep import TuneSettings, run_jobs

    spec, out = sweep.spec, Path(sweep.spec.out).resolve()
    stop_file = out / "stop"
    remove(stop_file)
    again = [trial for trial in sweep.trials if trial not in waiting] if spec.scheduler == ASHA else []
    jobs = [
        TrialJob(
            name=trial.name,
            overrides=trial.overrides,
            folder=str(out / "trials" / trial.name),
            log=str(out / "logs" / f"{trial.name}.log"),
            cwd=str(Path.cwd()),
            stop_file=str(stop_file),
            variables=own_variables(),
            total_epochs=trial.total_epochs,
            replay=None if trial in waiting else summary.outcome(trial).state,
        )
        for trial in (*again, *waiting)
    ]
    settings = TuneSettings(
        concurrent=min(spec.concurrent, len(jobs)),
        cpus=spec.cpus,
        asha=(spec.asha.first_percent, spec.asha.reduction) if spec.scheduler == ASHA else None,
        address=spec.address,
        wheel=spec.wheel,
        storage=out / ".tune",
    )
    with Bar("sweep", len(waiting), "trials") as bar:
        listener = _Listener(sweep, summary, {trial.name: trial for trial in waiting}, bar)
        try:
            run_jobs(jobs, settings, listener, stop_file.touch)
        finally:
            end_all(str(out / "trials"), END_S)
            remove(stop_file)
            summary.write()


@dataclass
class _Listener:
    """Takes the reports of trials: moves the bar, and keeps what they come to."""

    sweep: Sweep
    summary: Summary
    waiting: Mapping[str, Trial]
    bar: Bar

    def __post_init__(self) -> None:
        self._percent = dict.fromkeys(self.waiting, 0.0)
        self._ended = 0

    def __call__(self, name: str, report: Report) -> None:
        if name not in self.waiting:  # it repeats its reports for the scheduler
            return
        if report.state == RUNNING:
            self._percent[name] = report.percent
        elif report.state != UNFINISHED:
            self._end(name, report)
        best = self.summary.best
        text = f"{self._ended} of {len(self.waiting)} ended" + ("" if best is None else f", best return {best:+.3f}")
        self.bar.update(sum(self._percent.values()) / 100, text)

    def _end(self, name: str, report: Report) -> None:
        outcome = Outcome(report.state, said=report.said)
        if report.state == FINISHED:
            outcome = _result(self.sweep, self.waiting[name])
        if outcome.state == FAILED:
            self.bar.note(f"trial {name} failed: {outcome.said}")
        self._percent[name] = 100.0
        self._ended += 1
        self.summary.outcomes[name] = outcome
        self.summary.write()


def _kept(sweep: Sweep, states: Mapping[str, str]) -> dict[str, Outcome]:
    """Outcomes of trials that need not run (again)."""
    kept = {}
    for trial in sweep.trials:
        training = Training(trial.plan, sweep.folder(trial))
        if training.finished:
            kept[trial.name] = _result(sweep, trial)
        elif training.begun and states.get(trial.name) == STOPPED and sweep.spec.scheduler == ASHA:
            kept[trial.name] = Outcome(STOPPED)
    return kept


def _result(sweep: Sweep, trial: Trial) -> Outcome:
    """The return that a finished trial earned."""
    folder = sweep.folder(trial)
    facts = read_manifest(folder, "training").facts
    if not facts["valid"]:
        return Outcome(FAILED, said="runs of its evaluation must not be used; its log names them")
    value = float(np.mean(facts["held_out_returns"][sweep.datapath][RANKED]))
    if not math.isfinite(value):
        raise ResultError(f"{folder} earned {value} on the held-out flows; delete it and run the sweep again")
    return Outcome(FINISHED, value)


def _claim(out: Path) -> None:
    """Make the folders; no trial may be running there."""
    if running := processes_of(str(out.resolve() / "trials")):
        raise ConfigError(
            f"trials of out={out} run already (process {running[0]}): wait for that command, or choose another out="
        )
    for folder in (out / "trials", out / "logs"):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"out={out} cannot be used ({error.strerror}); choose a folder that can be written"
            ) from None
