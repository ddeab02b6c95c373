# SPDX-License-Identifier: BSD-3-Clause
"""One training from plan to report: learn, evaluate on held-out flows, and seal the complete run folder."""

import math
import os
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray
from ncc.core.measurement import Epochs, Measurement
from ncc.core.memory import require_shared_memory
from ncc.envs.families import ranges_of_training
from ncc.envs.reward import AnyReward, Reward
from ncc.envs.worker_racks import RackFactory
from ncc.harness.learner import Learner
from ncc.harness.manifest import provenance, seal
from ncc.harness.networks import Batching, WorkerNetworks
from ncc.harness.results import Evaluation, load_evaluation
from ncc.harness.run import Run, eval_flow_seed
from ncc.policies.header import Origin, header_of_training
from ncc.results.evaluation import CURVE, held_out_figure, judge, judge_checkpoints, require_valid
from ncc.results.plot import learning_curve
from ncc.results.table import print_verdict
from ncc.run.compose import agent_name
from ncc.run.folders import begun, files_of, finished, learn, read_learning, training_in
from ncc.run.plan import TrainPlan

PLOT = "learning_curve.png"
SHARED_BYTES = 16 * 2**20
"""Bytes of shared memory that a training needs, for the weights of A3C's workers and for locks."""


def train(plan: TrainPlan, folder: Path, *, resume: bool) -> None:
    """Train by a plan, evaluate the policy, print the comparison and seal `folder`, which gets all the files.

    Args:
        resume: continue from the folder's checkpoint, if there is one; a finished training is left as it is.

    Raises:
        ConfigError: a setting cannot be used; a folder that this call made is removed again.
        ResultError: another training writes to the folder.
        WorkerDiedError, KeyboardInterrupt: the folder holds a checkpoint, from which the training can be resumed; the
            message says how.
    """
    judged = folder / "evaluation"
    with training_in(folder, resume=resume):
        if resume and finished(folder, f"evaluate it with: ncc evaluate run={folder}"):
            return
        learner, factory = check_training(plan)
        _try_out(plan)
        plan.save(folder)
        origin = provenance()
        print(f"Training {agent_name(plan.plain['agent'])} on {_where(plan)}; results in {folder}", flush=True)
        cpu_s = -sum(os.times()[:4])
        trained_s = learn(learner, factory, folder, plan.seed, meta=_header(plan), resume=resume and begun(folder))
        cpu_s += sum(os.times()[:4])  # includes processes that have ended
        results = {
            name: judge(
                scenario,
                plan.evaluation,
                plan.judged_on,
                policies=folder,
                folder=folder / f"{judged.name}_{name}" if name else judged,
                config=plan.plain,
                close=False,
            )
            for name, scenario in plan.evaluation_scenarios.items()
        }
        report = _report(plan, folder, judged)
        facts = {
            "seed": plan.seed,
            "scenario": plan.scenario.digest(),
            "trained_s": trained_s,
            "trained_cpu_s": cpu_s,
            **report,
            "valid": all(result.valid for result in results.values()),
        }
        if plan.families.of:
            facts["families"] = plan.families.digest()
        seal(folder, "training", facts, files_of(folder), origin)
    print(f"Run folder: {folder}; the same as a page: ncc report run={folder}")
    for result in results.values():
        print_verdict(result, named=len(results) > 1)
    print(f"Picture: {judged / results[''].judged_by / 'slowdown_cdf.png'}")
    for result in results.values():
        require_valid(result)


def check_training(plan: TrainPlan) -> tuple[Learner, RackFactory]:
    """Check all that can be checked about a plan before anything is written.

    Returns:
        The learner, and the factory of the environments that it trains on.

    Raises:
        ConfigError: the plan cannot be trained; the message names the setting and what is allowed.
    """
    learner: Learner = plan.learner.build(batching=isinstance(plan.datapath.load(), Batching))
    length, remedy = math.ceil(plan.scenario.duration_s / plan.scenario.period_s - 1e-9), "scenario.duration_s"
    if plan.families.of:
        length, remedy = plan.families.epochs, "families.epochs"
    if learner.total_epochs < (least := length * learner.processes):
        raise ConfigError(
            f"agent.epochs must be at least {least}, an episode of every rack, got {learner.total_epochs}; raise it "
            f"or lower {remedy}"
        )
    require_shared_memory("training", SHARED_BYTES)
    factory = RackFactory.for_learner(plan.spec, plan.datapath.load(), plan.seed, learner, plan.families)
    plan.check_transports()
    plan.evaluation.load_executor()  # refused before hours of training
    return learner, factory


def _try_out(plan: TrainPlan) -> None:
    """Start one network on each datapath, in a process of its own: only a datapath can check all its settings."""
    scenario, seed = plan.evaluation_scenario, plan.evaluation.first_seed
    judged = plan.controllers()[0].stack.replace(hold=False, answer_frac=None)  # no receiver sends grants here
    others = [(datapath, judged) for datapath in plan.judged_on if datapath.name != plan.datapath.name]
    for datapath, stack in ((plan.datapath, plan.stack), *others):
        with closing(WorkerNetworks(datapath.load(), 1)) as network:
            network.start(0, scenario, scenario.flows(eval_flow_seed(seed)), stack, seed)


def _where(plan: TrainPlan) -> str:
    """Text that describes the networks on which the policy is trained."""
    if not plan.families.of:
        return f"{plan.scenario.name} ({plan.scenario.n_agents} hosts, {plan.datapath.name})"
    names = ", ".join(plan.families.of)
    hosts = f"{plan.families.hosts_per_slot} hosts to a slot, {plan.datapath.name}"
    judged = " and ".join(scenario.name for scenario in plan.evaluation_scenarios.values())
    return f"{names} ({hosts}), judged on {judged}"


def _report(plan: TrainPlan, folder: Path, judged: Path) -> dict[str, Any]:
    """Draw the learning curve: of checkpoints on held-out flows if it was asked for, else of returns while learning.

    Returns:
        Facts for the manifest. `held_out_returns`: by datapath and controller, a list with one return per seed.
    """
    evaluations = {datapath.name: load_evaluation(judged / datapath.name) for datapath in plan.judged_on}
    returns = {
        name: _returns(evaluation, plan.env.reward, plan.scenario.duration_s)
        for name, evaluation in evaluations.items()
    }
    # Prefer the datapath of the training, so that the curve and the lines come from the same simulator.
    shown = plan.datapath.name if plan.datapath.name in returns else plan.judged_on[-1].name
    references = {name: float(values.mean()) for name, values in returns[shown].items()}
    learned, judged_on = plan.datapath.name, shown
    if plan.families.of:  # the curve and the lines are of different networks, and the title must say so
        learned, judged_on = f"families on {learned}", f"{plan.scenario.name} on {shown}"
    title = f"Return while learning on {learned}; horizontal lines: mean on the held-out flows on {judged_on}"
    rows, curve = read_learning(folder), judge_checkpoints(plan, folder, evaluations[shown])
    if curve:
        held_out_figure(curve, f"{plan.scenario.name} on {shown}").draw(folder / PLOT)
    elif any(row["returns"] for row in rows):
        learning_curve(rows, folder / PLOT, references=references, title=title)
    earned = {on: {name: values.tolist() for name, values in by.items()} for on, by in returns.items()}
    return {"held_out_returns": earned} | ({CURVE: curve} if curve else {})


def _returns(evaluation: Evaluation, reward: AnyReward, episode_s: float) -> dict[str, FloatArray]:
    """Compute the return of each run, [n_seeds] by controller: the mean reward per host and period.

    Only the first `episode_s` seconds count. If they are as long as an episode of the training, the numbers can be
    compared with its learning curve, because both begin with an empty network.
    """
    return {
        name: np.array([_return(run.load(), reward, episode_s) for run in evaluation.of(name)])
        for name in evaluation.controllers
    }


def _return(run: Run, spec: AnyReward, episode_s: float) -> float:
    scenario, epochs, reward = run.scenario, run.epochs, Reward(spec)
    reward.reset(scenario)
    shown = np.flatnonzero(epochs.time_s <= episode_s + scenario.period_s / 2)
    return float(np.mean([reward.reward(_measurement(epochs, int(i))).mean() for i in shown]))


def _measurement(epochs: Epochs, i: int) -> Measurement:
    """Take the measurement of period `i` out of the columns of all periods."""
    columns = {name: column[i] for name, column in epochs.columns.items() if name != "time_s"}
    return Measurement(time_s=float(epochs.time_s[i]), **columns)


def _header(plan: TrainPlan) -> dict[str, Any]:
    """Make the header of the policy files, which says how the policy was trained."""
    return header_of_training(
        observation=plan.env.observation,
        action=plan.env.action,
        stack=plan.stack,
        trained=ranges_of_training(plan.scenario, plan.families),
        period_s=plan.scenario.period_s,
        origin=Origin(seed=plan.seed, recipe=plan.plain),
        scenario=plan.scenario.to_dict(),
        families=plan.families.to_dict() if plan.families.of else {},
        reward=plan.env.reward.to_dict(),
    )
