# SPDX-License-Identifier: BSD-3-Clause
"""Speed of learners on the default scenario: ours on both simulators, and RLlib's."""

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
PAIRED: Mapping[str, Any] = {"value_coef": 0.0, "max_advantage": 3.0, "passes": 4, "hidden": (24,)}
"""Settings of learners in pairs."""
IN_PAIRS = env_spec(
    action={"kind": "residual", "formula": "local_hold"}, observation={"neighbours": "ordered"}, pairs="mirror"
)
SHORT = {"env_runners": 0, "rollout": 8}
"""Settings of RLlib's PPO with which an update takes a moment."""


def over_ns3(
    epochs: int, repeats: int, racks: int = 16, longer: int = 20, duration_s: float = DEFAULT_SCENARIO.duration_s
) -> Figures:
    """Agent-steps (decisions of one host) per CPU second, learning included, on packetsim over ns-3.

    The synchronous learner runs in one process, with equal settings on both except the racks: ns-3 runs one simulation
    in a process, packetsim as many as the learner likes. Work that is done once (building, the first policy) is left
    out. Both run the default scenario over the TCP of an ordinary ns-3 program.

    Args:
        epochs: periods on ns-3.
        repeats: how often both are timed.
        racks: racks on packetsim.
        longer: periods on packetsim for each on ns-3.
        duration_s: seconds of arrivals in an episode.
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
    """Agent-steps per second, from the first report of at least so many periods to the last."""
    reports: list[tuple[int, float]] = []

    def report(progress: Progress) -> None:
        if progress.epochs >= least_epochs:
            reports.append((progress.epochs, clock()))

    with tempfile.TemporaryDirectory() as folder:
        learner.train(factory, Path(folder), SEED, resume=False, report=report, meta={})
    (first, began_s), (last, ended_s) = reports[0], reports[-1]
    return (last - first) * factory.spec.scenario.n_agents / (ended_s - began_s)
