# SPDX-License-Identifier: BSD-3-Clause
"""One training on a foreign simulation: measure its scales, learn, play before and after, and seal the folder."""

import json
import math
from pathlib import Path

from ncc.agents.policy import POLICY_FILE, UNTRAINED_FILE, load_policy
from ncc.core.errors import ConfigError, ResultError
from ncc.core.seeding import generator
from ncc.core.value import from_json
from ncc.envs.ns3gym.batch import Scales, SimulationBatch, SimulationFactory, measure_scales
from ncc.envs.ns3gym.schema import need_packages
from ncc.harness.atomic import write_text
from ncc.harness.manifest import provenance, seal
from ncc.harness.progress import Bar
from ncc.metrics.stats import Interval, interval
from ncc.results.training import CURVE, draw_learning
from ncc.run.compose import agent_name
from ncc.run.folders import begun, files_of, finished, training_in
from ncc.run.learning import learn, load_wandb
from ncc.run.simulation_plan import SimulationPlan

SCALES = "scales.json"
KIND = "simulation_training"


def train(plan: SimulationPlan, folder: Path, *, resume: bool, wandb: str = "") -> None:
    """Train by the plan into `folder`, play before and after, print both and seal the folder.

    Args:
        wandb: as in `ncc.results.training.train`.

    Raises:
        ConfigError: a setting cannot be used; a folder that this call made is removed again.
        ResultError: another training writes to the folder.
        WorkerDiedError, KeyboardInterrupt: the folder holds a checkpoint and can be resumed; the message says how.
        DatapathError: a simulation did not connect, ended, or sent an invalid message.
    """
    with training_in(folder, resume=resume):
        if resume and finished(folder, f"its policy is {folder / POLICY_FILE}"):
            return
        need_packages()
        learner = plan.build()
        if wandb:
            load_wandb()
        plan.save(folder)
        made = provenance()
        scales = _scales(plan, folder)
        simulation = plan.env.command or f"the simulation on port {plan.env.port}"
        print(f"Training {agent_name(plan.plain['agent'])} on {simulation}; results in {folder}", flush=True)
        trained_s = learn(
            learner,
            SimulationFactory(plan.env, scales, plan.seed, racks=learner.racks_per_env),
            folder,
            plan.seed,
            config=plan.plain,
            meta={"simulation": plan.env.to_dict(), "scales": scales.to_dict()},
            resume=resume and begun(folder),
            wandb=wandb,
            unit="steps",
            scale=scales.reward_std,
        )
        returns = {
            name: judge(plan, folder / file) for name, file in (("untrained", UNTRAINED_FILE), ("trained", POLICY_FILE))
        }
        spans = {name: interval(values) for name, values in returns.items()}
        title = "Mean reward per step while learning; horizontal lines: policy before and after"
        drawn = draw_learning(folder, {name: span.estimate for name, span in spans.items()}, title)
        facts = {"seed": plan.seed, "trained_s": trained_s, "returns": returns}
        seal(folder, KIND, facts, files_of(folder), made)
    episodes = plan.env.judged_episodes
    others = "" if plan.env.command is None else " of other seeds"
    print(
        f"Mean reward per step over {episodes} episode{'s' * (episodes > 1)}{others}: "
        + ", ".join(f"{name} {_span_text(span)}" for name, span in spans.items())
    )
    print(f"\nRun folder: {folder}" + (f"\nPicture: {folder / CURVE}" if drawn else "; no episode ended in training"))


def judge(plan: SimulationPlan, policy: Path) -> list[float]:
    """Mean reward per step of each of the plan's `judged_episodes`, with actions drawn from the policy.

    Equal policies give equal results: seeds of simulations and actions derive from the plan's seed, for judging only.

    Raises:
        ResultError: the policy's file is missing, damaged, or lacks its scales.
    """
    found, meta = load_policy(policy)
    if not isinstance(scales := meta.get("scales"), dict):
        raise ResultError(f"{policy} does not say its scales; train again")
    env = SimulationBatch(
        plan.env,
        from_json(Scales, json.dumps(scales), str(policy)),
        plan.seed,
        "judge",
        episodes=plan.env.judged_episodes,
    )
    rng = generator(plan.seed, "ns3gym", "judge")
    means: list[float] = []
    try:
        if (env.obs_dim, env.n_actions) != (found.obs_dim, found.n_actions):
            raise ConfigError(
                f"{policy} reads {found.obs_dim} numbers and chooses among {found.n_actions} actions, and the "
                f"simulation has {env.obs_dim} and {env.n_actions}; it is another simulation than that of the training"
            )
        with Bar(f"playing {policy.stem}", plan.env.judged_episodes, "episodes") as bar:
            obs, total, steps = env.reset(), 0.0, 0
            while True:
                moved = env.step(found.act(obs, rng))
                obs, total, steps = moved.obs, total + float(moved.reward[0, 0]), steps + 1
                if moved.terminated[0] or moved.truncated[0]:
                    means.append(total * env.reward_std / steps)
                    total, steps = 0.0, 0
                    bar.update(len(means))
                    if len(means) == plan.env.judged_episodes:
                        return means
    finally:
        env.close()


def _scales(plan: SimulationPlan, folder: Path) -> Scales:
    """Read the scales from the folder, or measure them now."""
    path = folder / SCALES
    if path.exists():
        return from_json(Scales, path.read_bytes(), str(path))
    print(f"Measuring the scales of observations and rewards over {plan.env.probe_steps} steps", flush=True)
    scales = measure_scales(plan.env, plan.seed)
    write_text(path, scales.to_json() + "\n")
    return scales


def _span_text(span: Interval) -> str:
    bounds = "" if math.isnan(span.low) else f" [{span.low:+.4g}, {span.high:+.4g}]"
    return f"{span.estimate:+.4g}{bounds}"
