# SPDX-License-Identifier: BSD-3-Clause
"""Benchmarks of learners on the default scenario: ours on packetsim and ns-3, and RLlib's on packetsim."""

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from ncc.agents.a3c.config import A3cConfig
from ncc.agents.rllib.config import RllibConfig
from ncc.core.value import from_dict
from ncc.envs.make import DEFAULT_SCENARIO, datapath_factory, env_spec
from ncc.envs.spec import EnvSpec
from ncc.envs.worker_racks import RackFactory
from ncc.harness.batch import ActionArray, BatchedEnv, EnvFactory, Transition
from ncc.harness.learner import Progress
from ncc.study.bench import SEED, Figures, in_turn, over
from ncc.study.bench.packetsim import ordinary

NEVER = 10**9
"""Number of periods between checkpoints with which no checkpoint is written."""
PAIRED: Mapping[str, Any] = {"value_coef": 0.0, "max_advantage": 3.0, "passes": 4, "hidden": (24,)}
"""Settings of learners that train with pairs (`ncc.envs.pairs`)."""
IN_PAIRS = env_spec(
    action={"kind": "residual", "formula": "local_hold"}, observation={"neighbours": "ordered"}, pairs="mirror"
)


def over_ns3(
    epochs: int, repeats: int, racks: int = 16, longer: int = 20, duration_s: float = DEFAULT_SCENARIO.duration_s
) -> Figures:
    """Measure the speed of our learner in agent-steps per CPU second, on packetsim and on ns-3.

    The figure `datapath` is the speed on packetsim divided by that on ns-3; `packetsim` is the former in thousands. An
    agent-step is one decision of one host; the time includes learning, but not work that is done once, such as
    building. The synchronous learner runs in one process, with `racks` networks on packetsim and one on ns-3, and
    otherwise equal settings. Both run the default scenario, with arrivals for `duration_s`, and the TCP of an ordinary
    ns-3 program; packetsim runs `longer` periods for each one of ns-3.
    """
    spec = env_spec(ordinary(DEFAULT_SCENARIO.replace(duration_s=duration_s)))

    def trained(datapath: str, racks: int, epochs: int) -> float:
        config = A3cConfig(mode="sync", racks=racks, epochs=epochs, checkpoint_epochs=NEVER)
        return _speed(config, spec, time.process_time, datapath=datapath)

    fast, slow = in_turn(
        repeats, lambda: trained("packetsim", racks, epochs * longer), lambda: trained("ns3", 1, epochs)
    )
    return {"datapath": over(fast, slow), "packetsim": fast}


def learners_own(epochs: int, repeats: int, racks: int = 16) -> Figures:
    """Measure the percentage of a training's CPU time that the learner takes: all but the steps of its environment.

    A2C, and A3C in pairs (`PAIRED`), train in one process on packetsim. They take `epochs` periods of `racks` networks.
    """

    def own_percent(spec: EnvSpec, **settings: Any) -> float:
        config = A3cConfig(mode="sync", racks=racks, epochs=epochs, checkpoint_epochs=NEVER).replace(**settings)
        made: list[_Timed] = []

        def timed(make_env: EnvFactory) -> EnvFactory:
            def make(index: int) -> BatchedEnv:
                made.append(_Timed(make_env(index)))
                return cast(BatchedEnv, made[-1])

            return make

        _, spent_s = _trained(config, spec, time.process_time, around=timed)
        return 100 * (1 - made[0].spent_s / spent_s)

    tasks = partial(own_percent, env_spec()), partial(own_percent, IN_PAIRS, **PAIRED)
    return dict(zip(("a2c", "a3c_pairs"), in_turn(repeats, *tasks), strict=True))


def each(epochs: int, repeats: int, *, small: bool = False) -> Figures:
    """Measure the speed of each learner in thousands of agent-steps per second of wall time, without its start-up.

    An agent-step is one decision of one host. A3C, A2C and PPO have their default settings. Those that train with pairs
    have the settings `PAIRED`, in one process. With `small`, for tests, rollouts are short and start-up counts.
    """
    # Each checkpoint comes with a report; a small training ends before the first report that the clock causes.
    length: dict[str, Any] = {"epochs": epochs, "checkpoint_epochs": epochs // 8 if small else NEVER}
    few: dict[str, int] = {"env_runners": 0, "rollout": 8} if small else {}

    def rllib(**settings: Any) -> RllibConfig:
        return from_dict(RllibConfig, {**length, **few, **settings}, "agent")

    a2c = A3cConfig(mode="sync", **length)
    learners: dict[str, tuple[A3cConfig | RllibConfig, EnvSpec]] = {
        "a3c": (A3cConfig(workers=1 if small else 2, **length), env_spec()),
        "a2c": (a2c, env_spec()),
        "ppo": (rllib(), env_spec()),
        "a3c_pairs": (a2c.replace(racks=16, **PAIRED), IN_PAIRS),
        "ppo_pairs": (rllib(**PAIRED, env_runners=0), IN_PAIRS),
    }
    # RLlib may do all of a short training within one report
    tasks = [partial(_speed, *of, time.perf_counter, least_epochs=0 if small else 1) for of in learners.values()]
    return dict(zip(learners, in_turn(repeats, *tasks), strict=True))


class _Timed:
    """An environment that adds up the CPU seconds of its steps, `spent_s`."""

    def __init__(self, env: BatchedEnv) -> None:
        self._env, self.spent_s = env, 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def step(self, actions: ActionArray) -> Transition:
        began_s = time.process_time()
        moved = self._env.step(actions)
        self.spent_s += time.process_time() - began_s
        return moved


def _speed(*args: Any, **kwargs: Any) -> float:
    """Train as by `_trained`; return thousands of agent-steps per second."""
    steps, spent_s = _trained(*args, **kwargs)
    return steps / spent_s / 1e3


def _trained(
    config: A3cConfig | RllibConfig,
    spec: EnvSpec,
    clock: Callable[[], float],
    *,
    datapath: str = "packetsim",
    least_epochs: int = 0,
    around: Callable[[EnvFactory], EnvFactory] = lambda make_env: make_env,
) -> tuple[int, float]:
    """Train; return agent-steps, and seconds on the clock, from the first report after `least_epochs` on."""
    learner = config.build(batching=datapath == "packetsim")
    factory = RackFactory.for_learner(spec, datapath_factory(datapath), SEED, learner)
    if clock is time.process_time:
        factory = replace(factory, threads=1)
    reports: list[tuple[int, float]] = []

    def report(progress: Progress) -> None:
        if progress.epochs >= least_epochs:
            reports.append((progress.epochs, clock()))

    with tempfile.TemporaryDirectory() as folder:
        learner.train(around(factory), Path(folder), SEED, resume=False, report=report, meta={})
    (first, began_s), (last, ended_s) = reports[0], reports[-1]
    return (last - first) * factory.spec.scenario.n_agents, ended_s - began_s
