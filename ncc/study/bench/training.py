# SPDX-License-Identifier: BSD-3-Clause
"""Benchmarks of our learners on the default scenario, on packetsim and on ns-3."""

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from ncc.agents.a3c.config import A3cConfig
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
        steps, spent_s = _trained(config, spec, datapath=datapath)
        return steps / spent_s / 1e3

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

        _, spent_s = _trained(config, spec, around=timed)
        return 100 * (1 - made[0].spent_s / spent_s)

    tasks = partial(own_percent, env_spec()), partial(own_percent, IN_PAIRS, **PAIRED)
    return dict(zip(("a2c", "a3c_pairs"), in_turn(repeats, *tasks), strict=True))


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


def _trained(
    config: A3cConfig,
    spec: EnvSpec,
    *,
    datapath: str = "packetsim",
    around: Callable[[EnvFactory], EnvFactory] = lambda make_env: make_env,
) -> tuple[int, float]:
    """Train in one thread; return agent-steps, and CPU seconds, from the first report on."""
    learner = config.build(batching=datapath == "packetsim")
    factory = replace(RackFactory.for_learner(spec, datapath_factory(datapath), SEED, learner), threads=1)
    reports: list[tuple[int, float]] = []

    def report(progress: Progress) -> None:
        reports.append((progress.epochs, time.process_time()))

    with tempfile.TemporaryDirectory() as folder:
        learner.train(around(factory), Path(folder), SEED, resume=False, report=report, meta={})
    (first, began_s), (last, ended_s) = reports[0], reports[-1]
    return (last - first) * factory.spec.scenario.n_agents, ended_s - began_s
