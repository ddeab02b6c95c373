# SPDX-License-Identifier: BSD-3-Clause
"""Learners on the default scenario, by their speed: ours on both simulators, RLlib's forms, Stable-Baselines3's A2C."""

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ncc.agents.a3c.config import A3cConfig
from ncc.agents.rllib.config import PPO_EPOCHS, RllibConfig
from ncc.core.value import from_dict
from ncc.envs.make import datapath_factory, env_spec
from ncc.envs.ns3.plain import PPP_BYTES, run_plain
from ncc.envs.spec import EnvSpec
from ncc.harness.learner import Learner, Progress
from ncc.harness.processes import usable_cpus
from ncc.run.racks import RackFactory
from ncc.study.bench.packetsim import NS3_DCTCP
from ncc.study.bench.rows import SEED, Row, in_turn, over

NEVER = 10**9
SLOWER = 20
"""Factor by which the form multi_agent needs fewer epochs."""
LEAST = 6 * PPO_EPOCHS
"""Three updates of PPO with two env runners: the first is start-up."""


def over_ns3(epochs: int, repeats: int, racks: int = 16, longer: int = 20, spec: EnvSpec | None = None) -> list[Row]:
    """Agent-steps (decisions of one host) per CPU second, learning included, on packetsim over ns-3.

    The synchronous learner in one process, the same settings on both but for the racks: ns-3 runs one simulation in a
    process, packetsim as many as the learner likes. What training does once (building, the first policy) is left out.

    Args:
        epochs: on ns-3.
        repeats: how often all are timed.
        racks: on packetsim.
        longer: epochs on packetsim for each on ns-3.
        spec: the environment; None: the default one.
    """
    made = spec or env_spec()

    def trained(datapath: str, racks: int, epochs: int) -> float:
        learner = A3cConfig(mode="sync", racks=racks, epochs=epochs, checkpoint_epochs=NEVER).build()
        return _speed(learner, RackFactory(made, datapath_factory(datapath), SEED, racks), time.process_time)

    fast, slow, stock = in_turn(
        repeats,
        lambda: trained("packetsim", racks, epochs * longer),
        lambda: trained("ns3", 1, epochs),
        lambda: _stock_program(made),
    )
    return [
        Row("training, agent-steps per CPU second, packetsim over ns-3", over(fast, slow), "x", at_least=30),
        Row("the same over an ordinary ns-3 program that learns nothing", over(fast, stock), "x"),
        Row("training on packetsim, agent-steps per CPU second", tuple(v / 1e3 for v in fast), "k/s"),
    ]


def each(epochs: int, repeats: int) -> list[Row]:
    """Agent-steps per second of wall time of each learner, start-up left out, and the ratio of RLlib's forms.

    Every learner has the network, horizon and rates of its defaults, and as many processes as it uses by itself.
    """
    a2c = A3cConfig(mode="sync", epochs=epochs, checkpoint_epochs=NEVER)
    configs = {
        "A3C (ours), 2 workers": A3cConfig(epochs=epochs, checkpoint_epochs=NEVER),
        "A2C (ours), 1 process": a2c,
        "A2C of Stable-Baselines3, 1 process": None,
        "RLlib PPO, batched": _rllib("ppo", "batched", epochs),
        "RLlib APPO, batched": _rllib("appo", "batched", epochs),
        "RLlib IMPALA, batched": _rllib("impala", "batched", epochs),
        "RLlib PPO, multi_agent": _rllib("ppo", "multi_agent", max(LEAST, epochs // SLOWER)),
    }
    tasks = [partial(_stable, a2c) if config is None else partial(_ours, config) for config in configs.values()]
    speeds = dict(zip(configs, in_turn(repeats, *tasks), strict=True))
    rows = [Row(what, tuple(value / 1e3 for value in values), "k/s") for what, values in speeds.items()]
    ratio = over(speeds["RLlib PPO, batched"], speeds["RLlib PPO, multi_agent"])
    return [*rows, Row("RLlib PPO, batched over multi_agent", ratio, "x", at_least=3)]


def _rllib(algorithm: str, form: str, epochs: int) -> RllibConfig:
    plain = {"algorithm": algorithm, "form": form, "epochs": epochs, "checkpoint_epochs": NEVER}
    return from_dict(RllibConfig, plain, "agent")


def _ours(config: A3cConfig | RllibConfig) -> float:
    learner = config.build(batching=True)
    factory = RackFactory.for_learner(env_spec(), datapath_factory("packetsim"), SEED, learner)
    return _speed(learner, factory, time.perf_counter, least_epochs=1)


def _speed(learner: Learner, factory: RackFactory, clock: Callable[[], float], least_epochs: int = 0) -> float:
    """Agent-steps per second, from the first report of at least so many epochs to the last."""
    reports: list[tuple[int, float]] = []

    def report(progress: Progress) -> None:
        if progress.epochs >= least_epochs:
            reports.append((progress.epochs, clock()))

    with tempfile.TemporaryDirectory() as folder:
        learner.train(factory, Path(folder), SEED, resume=False, report=report, meta={})
    (first, began_s), (last, ended_s) = reports[0], reports[-1]
    return (last - first) * factory.spec.scenario.n_agents / (ended_s - began_s)


def _stock_program(spec: EnvSpec) -> float:
    """Decisions per CPU second that an ordinary ns-3 program would make: stock parts, nothing decided."""
    scenario = spec.scenario
    scenario = scenario.replace(transport=scenario.transport.replace(frame_overhead_bytes=PPP_BYTES))
    done = run_plain(scenario, scenario.flows(SEED), NS3_DCTCP, SEED, stop_s=scenario.duration_s)
    return scenario.duration_s / scenario.period_s * scenario.n_agents / done.cpu_s


def _stable(config: A3cConfig) -> float:
    """Stable-Baselines3's A2C with the settings of ours: an independent learner to hold our own against."""
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
        normalize_advantage=config.normalize_advantage,
        policy_kwargs={"net_arch": {"pi": list(config.hidden), "vf": list(config.hidden)}},
        seed=SEED,
        device="cpu",
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        learner.learn(config.steps * hosts.num_envs)  # what is made at the first update
        began_s, steps = time.perf_counter(), config.epochs * hosts.num_envs // racks
        learner.learn(steps, reset_num_timesteps=False)
        rate: float = steps / (time.perf_counter() - began_s)
        return rate
    finally:
        torch.set_num_threads(threads)
        hosts.close()
