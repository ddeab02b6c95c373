# SPDX-License-Identifier: BSD-3-Clause
"""Speed of learners on the default scenario: ours on both simulators, RLlib's, and Stable-Baselines3's A2C."""

import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ncc.agents.a3c.config import A3cConfig
from ncc.agents.rllib.config import RllibConfig
from ncc.core.value import from_dict
from ncc.envs.make import DEFAULT_SCENARIO, datapath_factory, env_spec
from ncc.envs.ns3.plain import run_plain
from ncc.envs.spec import EnvSpec
from ncc.envs.worker_racks import RackFactory
from ncc.harness.learner import Learner, Progress
from ncc.harness.workers import usable_cpus
from ncc.study.bench.packetsim import NS3_DCTCP, ordinary
from ncc.study.bench.rows import SEED, Figures, Task, in_turn, over

NEVER = 10**9
PAIRED: Mapping[str, Any] = {"value_coef": 0.0, "max_advantage": 3.0, "passes": 4, "hidden": (24,)}
"""Settings of learners in pairs."""
IN_PAIRS = env_spec(
    action={"kind": "residual", "formula": "local_hold"}, observation={"neighbours": "ordered"}, pairs="mirror"
)
SHORT = {"env_runners": 0, "rollout": 8}
"""Settings of RLlib's learners with which an update takes a moment."""


def over_ns3(
    epochs: int, repeats: int, racks: int = 16, longer: int = 20, duration_s: float = DEFAULT_SCENARIO.duration_s
) -> Figures:
    """Agent-steps (decisions of one host) per CPU second, learning included, on packetsim over ns-3.

    The synchronous learner runs in one process, with equal settings on both except the racks: ns-3 runs one simulation
    in a process, packetsim as many as the learner likes. Work that is done once (building, the first policy) is left
    out. All run the default scenario over the TCP of an ordinary ns-3 program.

    Args:
        epochs: periods on ns-3.
        repeats: how often all are timed.
        racks: racks on packetsim.
        longer: periods on packetsim for each on ns-3.
        duration_s: seconds of arrivals in an episode.
    """
    spec = env_spec(ordinary(DEFAULT_SCENARIO.replace(duration_s=duration_s)))

    def trained(datapath: str, racks: int, epochs: int) -> float:
        learner = A3cConfig(mode="sync", racks=racks, epochs=epochs, checkpoint_epochs=NEVER).build()
        return _speed(learner, RackFactory(spec, datapath_factory(datapath), SEED, racks), time.process_time)

    fast, slow, stock = in_turn(
        repeats,
        lambda: trained("packetsim", racks, epochs * longer),
        lambda: trained("ns3", 1, epochs),
        lambda: _stock_program(spec),
    )
    return {
        "datapath": over(fast, slow),
        "plain": over(fast, stock),
        "packetsim": tuple(value / 1e3 for value in fast),
    }


def each(epochs: int, repeats: int, *, small: bool = False) -> Figures:
    """Agent-steps per second of wall time of each learner, start-up left out.

    Every learner has the network, horizon and rates of its defaults, and as many processes as it uses by itself.

    Args:
        epochs: periods of each learner.
        repeats: how often all are timed.
        small: for tests: one worker, short rollouts, and start-up counted.
    """
    few: Mapping[str, int] = SHORT if small else {}
    start_up = 0 if small else 1  # RLlib may do all of a short training within one report

    # A checkpoint brings a report, and `small` cannot wait for those of the clock.
    length: dict[str, Any] = {"epochs": epochs, "checkpoint_epochs": epochs // 8 if small else NEVER}

    def rllib(**settings: Any) -> RllibConfig:
        return from_dict(RllibConfig, {**length, **few, **settings}, "agent")

    a2c = A3cConfig(mode="sync", **length)
    ours: dict[str, tuple[A3cConfig | RllibConfig, EnvSpec | None]] = {
        "a3c": (A3cConfig(workers=1 if small else 2, **length), None),
        "a2c": (a2c, None),
        "ppo": (rllib(algorithm="ppo"), None),
        "appo": (rllib(algorithm="appo"), None),
        "impala": (rllib(algorithm="impala"), None),
        "a3c_pairs": (a2c.replace(racks=16, **PAIRED), IN_PAIRS),
        "ppo_pairs": (rllib(**PAIRED, env_runners=0), IN_PAIRS),
    }
    tasks: dict[str, Task] = {name: partial(_ours, config, start_up, spec) for name, (config, spec) in ours.items()}
    tasks["sb3_a2c"] = partial(_stable, a2c)
    speeds = dict(zip(tasks, in_turn(repeats, *tasks.values()), strict=True))
    return {name: tuple(value / 1e3 for value in values) for name, values in speeds.items()}


def _ours(config: A3cConfig | RllibConfig, start_up: int, spec: EnvSpec | None) -> float:
    learner = config.build(batching=True)
    factory = RackFactory.for_learner(spec or env_spec(), datapath_factory("packetsim"), SEED, learner)
    return _speed(learner, factory, time.perf_counter, start_up)


def _speed(learner: Learner, factory: RackFactory, clock: Callable[[], float], least_epochs: int = 0) -> float:
    """Agent-steps per second, from the first report of at least so many periods to the last."""
    reports: list[tuple[int, float]] = []

    def report(progress: Progress) -> None:
        if progress.epochs >= least_epochs:
            reports.append((progress.epochs, clock()))

    with tempfile.TemporaryDirectory() as folder:
        learner.train(factory, Path(folder), SEED, resume=False, report=report, meta={})
    (first, began_s), (last, ended_s) = reports[0], reports[-1]
    return (last - first) * factory.spec.scenario.n_agents / (ended_s - began_s)


def _stock_program(spec: EnvSpec) -> float:
    """Decisions per CPU second that an ordinary ns-3 program would make, with stock parts and nothing decided."""
    scenario = spec.scenario
    done = run_plain(scenario, scenario.flows(SEED), NS3_DCTCP, SEED, stop_s=scenario.duration_s)
    return scenario.duration_s / scenario.period_s * scenario.n_agents / done.cpu_s


def _stable(config: A3cConfig) -> float:
    """Speed of Stable-Baselines3's A2C with the settings of ours: an independent learner for comparison."""
    import torch
    from stable_baselines3 import A2C

    from ncc.envs.sb3 import HostVecEnv

    built = config.build(batching=True)
    racks, config = built.racks_per_env, built.config
    hosts = HostVecEnv(num_racks=racks, seed=SEED, threads=usable_cpus())
    learner: Any = A2C(
        "MlpPolicy",
        hosts,
        learning_rate=config.learning_rate,
        n_steps=config.steps,
        gamma=config.gamma,
        gae_lambda=config.gae_lambda,
        ent_coef=config.entropy_coef,
        vf_coef=config.value_coef,
        max_grad_norm=config.max_grad_norm,
        use_rms_prop=False,
        normalize_advantage=True,
        policy_kwargs={"net_arch": {"pi": list(config.hidden), "vf": list(config.hidden)}},
        seed=SEED,
        device="cpu",
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        learner.learn(config.steps * hosts.num_envs)  # the first update allocates
        began_s, steps = time.perf_counter(), config.epochs * hosts.num_envs // racks
        learner.learn(steps, reset_num_timesteps=False)
        rate: float = steps / (time.perf_counter() - began_s)
        return rate
    finally:
        torch.set_num_threads(threads)
        hosts.close()
