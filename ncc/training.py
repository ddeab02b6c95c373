# SPDX-License-Identifier: BSD-3-Clause
"""One training run from plan to report: learn, judge on held-out flows, leave a folder that says everything."""

import math
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from ncc.cli import usable_cpus
from ncc.core.errors import ConfigError, WorkerDiedError
from ncc.envs.rack import RackBatch
from ncc.envs.spec import EnvSpec
from ncc.envs.workers import WorkerRacks
from ncc.evaluation import judge, require_valid
from ncc.harness.batch import BatchedEnv
from ncc.harness.datapath import Datapath
from ncc.harness.learner import Learner, Progress
from ncc.harness.manifest import is_sealed, provenance, seal, unseal
from ncc.harness.processes import quiet_start
from ncc.harness.progress import Bar
from ncc.harness.results import load_evaluation
from ncc.learning import LearningLog, read_learning
from ncc.metrics.stats import Interval, interval
from ncc.palette import label
from ncc.plan import TrainPlan
from ncc.plot import learning_curve
from ncc.returns import evaluation_returns

CURVE = "learning_curve.png"
PROBE_S = 3.0
"""Longest wall time of the probe that the forecast rests on."""
LEARNING_SHARE = 0.25
"""Work of the learner as a share of the simulator's, roughly; for the forecast only."""
DRAIN_FRAC = 0.4
"""Simulated time an evaluation spends beyond its arrivals, roughly, as a share of them; for the forecast only."""


@dataclass(frozen=True)
class RackFactory:
    """The racks of worker `index`, numbered so that no two workers ever meet the same flows."""

    spec: EnvSpec
    datapath: Callable[[], Datapath]
    seed: int
    racks: int = 1

    def __call__(self, index: int) -> BatchedEnv:
        first = index * self.racks
        if self.racks == 1:
            return RackBatch(self.spec, self.datapath, self.seed, first)
        return WorkerRacks(self.spec, self.datapath, self.seed, self.racks, first_rack=first)


def train(plan: TrainPlan, folder: Path, *, resume: bool) -> None:
    """Train by the plan into `folder`, evaluate, print the comparison and seal the folder.

    Raises:
        WorkerDiedError, KeyboardInterrupt: the folder holds a checkpoint and can be resumed; the message says how.
    """
    if not resume:
        _claim(folder)
    if resume and is_sealed(folder):
        print(f"{folder} is finished; evaluate it with: python -m ncc.evaluate run={folder}")
        return
    learner: Learner = plan.learner.build()
    least = math.ceil(plan.scenario.duration_s / plan.scenario.period_s - 1e-9) * learner.processes
    if learner.total_epochs < least:
        raise ConfigError(
            f"agent.epochs must be at least {least}, an episode of every rack, got {learner.total_epochs}; raise it or "
            "lower scenario.duration_s"
        )
    spec = EnvSpec(scenario=plan.scenario, stack=plan.stack, view=plan.env)
    factory = RackFactory(spec, plan.datapath.load(), plan.seed, learner.racks_per_env)
    made = provenance()

    processes = min(learner.processes, usable_cpus())
    rate = _epochs_per_s(RackFactory(spec, factory.datapath, plan.seed), processes)
    agent = plan.plain["agent"]["learner"]
    print(f"Training {agent} on {plan.scenario.name} ({plan.scenario.n_agents} hosts); results in {folder}")
    _forecast(plan, learner, rate)
    unseal(folder)
    plan.save(folder)
    try:
        started = time.perf_counter()
        _learn(plan, learner, factory, folder, resume=resume)
        trained_s = time.perf_counter() - started
        judged = folder / "evaluation"
        comparison = judge(
            plan.evaluation_scenario, plan.evaluation, plan.datapath, policies=folder, folder=judged, config=plan.plain
        )
    except WorkerDiedError as error:
        raise WorkerDiedError(f"{error}. Continue with: python -m ncc.train resume={folder}") from None
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"Interrupted. Continue with: python -m ncc.train resume={folder}") from None

    returns = _report(plan, folder, judged)
    files = [str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and not p.name.startswith(".")]
    facts = {
        "seed": plan.seed,
        "scenario": plan.scenario.digest(),
        "trained_s": trained_s,
        "held_out_returns": returns,
        "valid": comparison.valid,
    }
    seal(folder, "training", facts, files, made)
    print(f"\nRun folder: {folder}\nPictures: {folder / CURVE}, {judged / 'slowdown_cdf.png'}")
    require_valid(comparison)


def _claim(folder: Path) -> None:
    """Make the run folder; it must be new or empty."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        taken = any(folder.iterdir())
    except OSError as error:
        raise ConfigError(
            f"out={folder} cannot be used ({error.strerror}); choose a folder that can be written"
        ) from None
    if taken:
        raise ConfigError(f"out={folder} is not empty; choose another folder, or continue it with resume={folder}")
    if not os.access(folder, os.W_OK):
        raise ConfigError(f"out={folder} cannot be written; choose another folder")


def _report(plan: TrainPlan, folder: Path, judged: Path) -> dict[str, list[float]]:
    """Draw the learning curve beside what each controller earns on the held-out flows; returns that, seed by seed."""
    returns = evaluation_returns(load_evaluation(judged), plan.env.reward, plan.scenario.duration_s)
    levels = {name: interval(values) for name, values in returns.items()}
    told = "; ".join(f"{label(name)} {_span(level)}" for name, level in levels.items())
    print(f"Return on the held-out flows (mean reward per host and epoch): {told}")
    references = {name: level.estimate for name, level in levels.items()}
    title = "Return while learning; horizontal lines: mean return on the held-out flows"
    learning_curve(read_learning(folder), folder / CURVE, references=references, title=title)
    return {name: values.tolist() for name, values in returns.items()}


def _span(level: Interval) -> str:
    bounds = "" if math.isnan(level.low) else f" [{level.low:+.3f}, {level.high:+.3f}]"
    return f"{level.estimate:+.3f}{bounds}"


def _learn(plan: TrainPlan, learner: Learner, factory: RackFactory, folder: Path, *, resume: bool) -> None:
    meta = {
        "observation": plan.env.observation.to_dict(),
        "action": plan.env.action.to_dict(),
        "scenario": plan.scenario.to_dict(),
        "stack": plan.stack.to_dict(),
    }
    with LearningLog(folder, resume=resume) as log, Bar("training", learner.total_epochs, "epochs") as bar:

        def report(progress: Progress) -> None:
            log.report(progress)
            recent = log.recent_return
            bar.update(progress.epochs, "" if recent is None else f"return {recent:+.3f}")

        learner.train(factory, folder, plan.seed, resume=resume, report=report, meta=meta)


def _forecast(plan: TrainPlan, learner: Learner, epochs_per_s: float) -> None:
    """Say how long it will take, from a probe of this machine."""
    cpus = usable_cpus()
    training_s = learner.total_epochs * (1 + LEARNING_SHARE) / (epochs_per_s * min(learner.processes, cpus))
    e = plan.evaluation
    epochs = len(e.controllers) * e.seeds * e.duration_s * (1 + DRAIN_FRAC) / plan.scenario.period_s
    evaluation_s = epochs / (epochs_per_s * min(e.workers, cpus))
    print(
        f"Expected: about {_minutes(training_s)} of training ({learner.total_epochs} epochs of "
        f"{plan.scenario.period_s * 1e3:g} ms) and {_minutes(evaluation_s)} of evaluation "
        f"({len(e.controllers)} controllers x {e.seeds} seeds), at {epochs_per_s:.0f} epochs/s per core"
    )


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f} min" if seconds >= 60 else f"{max(seconds, 1):.0f} s"


def _epochs_per_s(factory: RackFactory, processes: int) -> float:
    """Epochs per second of one rack while `processes` of them run side by side, on this machine as it is now.

    In processes of their own, because a simulator may abort its interpreter.
    """
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        try:
            with quiet_start():
                probes = [pool.submit(_probe, factory, index) for index in range(processes)]
            rates = [probe.result() for probe in probes]
        except BrokenProcessPool:
            raise WorkerDiedError("the datapath ended its process when tried out; its own message is above") from None
    return sum(rates) / len(rates)


def _probe(factory: RackFactory, index: int) -> float:
    """Epochs per second over an episode (a whole one, for a network that has just started is nearly idle)."""
    env = factory(index)
    env.reset()
    actions = np.full((env.n_racks, env.n_agents), env.n_actions - 1, dtype=np.int64)
    started, epochs = time.perf_counter(), 0
    while time.perf_counter() - started < PROBE_S:
        moved = env.step(actions)
        epochs += 1
        if moved.truncated.any() or moved.terminated.any():
            break
    rate = epochs / (time.perf_counter() - started)
    env.close()
    return rate
