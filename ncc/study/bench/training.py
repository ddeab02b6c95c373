# SPDX-License-Identifier: BSD-3-Clause
"""Benchmarks of learners on the default scenario: ours on packetsim and ns-3, and RLlib's on packetsim."""

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
from ncc.envs.spec import EnvSpec
from ncc.envs.worker_racks import RackFactory
from ncc.harness.learner import Learner, Progress
from ncc.study.bench.packetsim import ordinary
from ncc.study.bench.rows import SEED, Figures, Task, in_turn, over

NEVER = 10**9
"""Number of periods between checkpoints with which no checkpoint is written."""
PAIRED: Mapping[str, Any] = {"value_coef": 0.0, "max_advantage": 3.0, "passes": 4, "hidden": (24,)}
"""Settings of learners that train with pairs (`ncc.envs.pairs`)."""
IN_PAIRS = env_spec(
    action={"kind": "residual", "formula": "local_hold"}, observation={"neighbours": "ordered"}, pairs="mirror"
)
SHORT = {"env_runners": 0, "rollout": 8}
"""Settings of RLlib's PPO with which an update takes only a moment; for tests."""


def over_ns3(
    epochs: int, repeats: int, racks: int = 16, longer: int = 20, duration_s: float = DEFAULT_SCENARIO.duration_s
) -> Figures:
    """Measure agent-steps per CPU second of our learner: on packetsim over ns-3, and in thousands on packetsim.

    An agent-step is one decision of one host; the time includes learning. The synchronous learner runs in one process.
    Its settings are equal on both simulators except for the number of networks: ns-3 simulates one in a process,
    packetsim many. Work that is done once, such as building, is left out. Both run the default scenario with the TCP of
    an ordinary ns-3 program.

    Args:
        epochs: number of periods on ns-3.
        repeats: number of times that both are timed.
        racks: number of networks on packetsim.
        longer: number of periods on packetsim for each one on ns-3.
        duration_s: seconds in which flows arrive in an episode.
    """
    spec = env_spec(ordinary(DEFAULT_SCENARIO.replace(duration_s=duration_s)))

    def trained(datapath: str, racks: int, epochs: int) -> float:
        learner = A3cConfig(mode="sync", racks=racks, epochs=epochs, checkpoint_epochs=NEVER).build()
        return _speed(learner, RackFactory(spec, datapath_factory(datapath), SEED, racks), time.process_time)

    fast, slow = in_turn(
        repeats, lambda: trained("packetsim", racks, epochs * longer), lambda: trained("ns3", 1, epochs)
    )
    return {"datapath": over(fast, slow), "packetsim": tuple(value / 1e3 for value in fast)}


def each(epochs: int, repeats: int, *, small: bool = False) -> Figures:
    """Measure thousands of agent-steps per second of wall time for each learner, without its start-up.

    An agent-step is one decision of one host. A3C, A2C and PPO have their default settings. Those that train with pairs
    have the settings `PAIRED`, in one process.

    Args:
        epochs: number of periods of each learner.
        repeats: number of times that all are timed.
        small: train with one worker and short rollouts, and count the start-up; for tests.
    """
    few: Mapping[str, int] = SHORT if small else {}
    start_up = 0 if small else 1  # RLlib may do all of a short training within one report

    # Each checkpoint comes with a report; a small training ends before the first report that the clock causes.
    length: dict[str, Any] = {"epochs": epochs, "checkpoint_epochs": epochs // 8 if small else NEVER}

    def rllib(**settings: Any) -> RllibConfig:
        return from_dict(RllibConfig, {**length, **few, **settings}, "agent")

    a2c = A3cConfig(mode="sync", **length)
    ours: dict[str, tuple[A3cConfig | RllibConfig, EnvSpec | None]] = {
        "a3c": (A3cConfig(workers=1 if small else 2, **length), None),
        "a2c": (a2c, None),
        "ppo": (rllib(), None),
        "a3c_pairs": (a2c.replace(racks=16, **PAIRED), IN_PAIRS),
        "ppo_pairs": (rllib(**PAIRED, env_runners=0), IN_PAIRS),
    }
    tasks: dict[str, Task] = {name: partial(_ours, config, start_up, spec) for name, (config, spec) in ours.items()}
    speeds = dict(zip(tasks, in_turn(repeats, *tasks.values()), strict=True))
    return {name: tuple(value / 1e3 for value in values) for name, values in speeds.items()}


def _ours(config: A3cConfig | RllibConfig, start_up: int, spec: EnvSpec | None) -> float:
    learner = config.build(batching=True)
    factory = RackFactory.for_learner(spec or env_spec(), datapath_factory("packetsim"), SEED, learner)
    return _speed(learner, factory, time.perf_counter, start_up)


def _speed(learner: Learner, factory: RackFactory, clock: Callable[[], float], least_epochs: int = 0) -> float:
    """Train; return the agent-steps per second on the clock, from the first report after `least_epochs` periods on."""
    reports: list[tuple[int, float]] = []

    def report(progress: Progress) -> None:
        if progress.epochs >= least_epochs:
            reports.append((progress.epochs, clock()))

    with tempfile.TemporaryDirectory() as folder:
        learner.train(factory, Path(folder), SEED, resume=False, report=report, meta={})
    (first, began_s), (last, ended_s) = reports[0], reports[-1]
    return (last - first) * factory.spec.scenario.n_agents / (ended_s - began_s)
