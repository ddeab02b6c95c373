# SPDX-License-Identifier: BSD-3-Clause
"""Trials of a sweep: Optuna chooses their settings, and `ncc train` trains each in a process.

Optuna's study, which records the trials, is kept in a file.
"""

import math
import os
import signal
import subprocess
import sys
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import optuna
from optuna.trial import TrialState

from ncc.core.errors import ConfigError, InvalidRunError
from ncc.harness.atomic import exclusive
from ncc.harness.manifest import is_sealed, read_manifest
from ncc.harness.progress import Bar
from ncc.harness.signals import noted
from ncc.run.folders import RECENT, read_learning
from ncc.run.plan import CONFIG
from ncc.study.sweep.space import written
from ncc.study.sweep.spec import RANKED, Sweep

TRAIN = "ncc.train"
"""Module that a process of a trial runs."""
STEP_S = 0.5
"""Seconds between two checks of the running trials."""
END_S = 60.0
"""Seconds that an interrupted training has to write its checkpoint before it is killed."""
ENDED = (TrialState.COMPLETE, TrialState.PRUNED)
"""States of trials that are not done again."""
FOLDER, REASON, SETTINGS = "folder", "said", "asked"
"""Names of attributes that Optuna stores: a trial's folder, why a trial failed, and what the study was asked to try."""


@dataclass
class _Running:
    """A trial, and the process that trains it."""

    trial: optuna.Trial
    folder: Path
    log: Path
    total_epochs: int
    process: "subprocess.Popen[bytes]"
    percent: int = 0
    """Percent of the periods that were done at the last report to the study."""

    def prunes(self) -> bool:
        """Report the mean of the last `RECENT` returns to the study, at most once for each percent of the periods.

        Returns:
            True if the pruner wants the trial to end.
        """
        recent: deque[float] = deque(maxlen=RECENT)
        for row in read_learning(self.folder):
            recent.extend(row["returns"])
            percent = min(100, int(100 * row["epochs"] / self.total_epochs))
            if recent and percent > self.percent:
                self.percent = percent
                self.trial.report(fmean(recent), percent)
                if self.trial.should_prune():
                    return True
        return False

    def end(self) -> None:
        """Wait `END_S` for the interrupted training to end, and then kill its process group."""
        try:
            self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def run_sweep(sweep: Sweep) -> optuna.Study:
    """Do the trials that the study in the sweep's folder does not have yet.

    Interrupted and failed trials are done again. A trial that fails does not end the sweep.

    Raises:
        ConfigError: the folder holds another sweep.
        ResultError: another sweep is writing to the folder.
        KeyboardInterrupt: the user interrupted the sweep. All trials have stopped, and the same sweep resumes them.
    """
    out = Path(sweep.spec.out).resolve()
    with exclusive(out, "sweep") as lock:
        study = _opened(sweep, out)
        kept = len(study.get_trials(deepcopy=False, states=ENDED))
        left = max(0, sweep.n_trials - kept)
        print(
            f"{kept + left} trials{f', {kept} of them kept from before' if kept else ''}; results in {sweep.spec.out}"
        )
        _enqueue(sweep, study)
        (out / "logs").mkdir(exist_ok=True)
        with noted(signal.SIGINT) as interrupt, Bar("sweep", sweep.n_trials, "trials") as bar:
            running: list[_Running] = []
            begun = 0
            while running or (begun < left and not interrupt.is_set()):
                while begun < left and len(running) < sweep.spec.concurrent and not interrupt.is_set():
                    begun += 1
                    running += _started(sweep, study, out, lock, bar)
                time.sleep(STEP_S)
                if interrupt.is_set():
                    for one in running:
                        one.process.send_signal(signal.SIGINT)
                    for one in running:
                        one.end()
                    raise KeyboardInterrupt
                running = [one for one in running if not _has_ended(sweep, study, one, bar)]
                done = kept + begun - len(running)
                bar.update(done + sum(one.percent for one in running) / 100, f"{done} of {sweep.n_trials} ended")
        return study


def require_no_failures(sweep: Sweep, study: optuna.Study) -> None:
    """Raise `InvalidRunError` with the failed trials and their reasons, if there are any."""
    failed = [
        f"{trial.user_attrs[FOLDER]} ({trial.user_attrs.get(REASON)})"
        for trial in latest(study)
        if trial.state == TrialState.FAIL
    ]
    if failed:
        logs = Path(sweep.spec.out) / "logs"
        raise InvalidRunError(f"{len(failed)} of {sweep.n_trials} trials failed, see {logs}: {'; '.join(failed)}")


def latest(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    """List the trials that have a folder. Of several attempts at a trial, the last one is listed."""
    return list({t.user_attrs[FOLDER]: t for t in study.get_trials(deepcopy=False) if FOLDER in t.user_attrs}.values())


def _opened(sweep: Sweep, out: Path) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    url = f"sqlite:///{out / 'study.db'}"
    study = optuna.create_study(
        storage=url, study_name="sweep", direction="maximize", load_if_exists=True, pruner=sweep.spec.made_pruner()
    )
    asked = {"space": {key: repr(entry) for key, entry in sweep.space.items()}, "train": list(sweep.spec.train)}
    if study.user_attrs.setdefault(SETTINGS, asked) != asked:
        raise ConfigError(f"out={sweep.spec.out} holds a sweep with another space or train: choose another out=")
    study.set_user_attr(SETTINGS, asked)
    study.sampler = sweep.spec.made_sampler(len(study.get_trials(deepcopy=False)))
    return study


def _enqueue(sweep: Sweep, study: optuna.Study) -> None:
    """Queue interrupted and failed trials again, each in its folder, then the points of the grid without a trial."""
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        study.tell(trial.number, state=TrialState.FAIL)
    waiting = {t.user_attrs.get(FOLDER) for t in study.get_trials(deepcopy=False, states=(TrialState.WAITING,))}
    for trial in latest(study):
        if trial.state == TrialState.FAIL and trial.user_attrs[FOLDER] not in waiting:
            study.enqueue_trial(trial.params, user_attrs={FOLDER: trial.user_attrs[FOLDER]})
    for point in sweep.grid():
        study.enqueue_trial(point, skip_if_exists=True)


def _started(sweep: Sweep, study: optuna.Study, out: Path, lock: int, bar: Bar) -> list[_Running]:
    """Start the next trial; return it in a list, which is empty if its settings are impossible."""
    trial = study.ask(sweep.space)
    name = trial.user_attrs.get(FOLDER, str(trial.number))
    trial.set_user_attr(FOLDER, name)
    folder, log = out / "trials" / name, out / "logs" / f"{name}.log"
    try:
        plan, total_epochs = sweep.plan(trial.params)
        if goes_on := (folder / CONFIG).exists():
            plan.require_same(folder)
    except ConfigError as error:
        _fail(study, trial, str(error), bar)
        return []
    place = written(str(folder))
    asked = [f"resume={place}"] if goes_on else [*sweep.overrides(trial.params), f"out={place}"]
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "ncc.harness.guarded", str(os.getpid()), TRAIN, *asked],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            pass_fds=(lock,),  # if the sweep is killed, its folder stays locked until its trainings have ended
        )
    return [_Running(trial, folder, log, total_epochs, process)]


def _has_ended(sweep: Sweep, study: optuna.Study, one: _Running, bar: Bar) -> bool:
    """Tell the study the outcome of a trial that has ended, and end one that the pruner does not want.

    Returns:
        True if the trial has ended.
    """
    status = one.process.poll()
    if status is None:
        if not one.prunes():
            return False
        one.process.send_signal(signal.SIGINT)
        one.end()
        study.tell(one.trial, state=TrialState.PRUNED)
    elif status == 0 and is_sealed(one.folder):
        facts = read_manifest(one.folder, "training").facts
        value = fmean(facts["held_out_returns"][sweep.datapath][RANKED])
        if facts["valid"] and math.isfinite(value):
            study.tell(one.trial, value)
        else:
            _fail(study, one.trial, f"its return is {value}, and runs of its evaluation may be invalid", bar)
    else:
        lines = [line for line in one.log.read_text(errors="replace").splitlines() if line.strip()]
        _fail(study, one.trial, f"status {status}: {lines[-1].strip() if lines else 'it wrote nothing'}", bar)
    return True


def _fail(study: optuna.Study, trial: Any, reason: str, bar: Bar) -> None:
    trial.set_user_attr(REASON, reason)
    study.tell(trial, state=TrialState.FAIL)
    bar.note(f"trial {trial.user_attrs[FOLDER]} failed: {reason}")
