# SPDX-License-Identifier: BSD-3-Clause
"""Learners on the default scenario, by what they get through: ours, RLlib's two forms, and Stable-Baselines3's A2C."""

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ncc.agents.a3c.config import A3cConfig
from ncc.agents.rllib.config import PPO_EPOCHS, RllibConfig
from ncc.bench.rows import Row, in_turn, over
from ncc.cli import usable_cpus
from ncc.core.value import from_dict
from ncc.envs.make import datapath_factory, env_spec
from ncc.harness.learner import Progress
from ncc.racks import RackFactory

SEED = 1
NEVER = 10**9
SLOWER = 20
"""How many times fewer epochs are enough for the form multi_agent."""
LEAST = 6 * PPO_EPOCHS
"""Three updates of PPO with two env runners: the first is start-up."""


@dataclass(frozen=True)
class Learners:
    """Agent-steps (decisions of one host) per second of wall time, learning included, start-up left out.

    Every learner has the network, horizon and rates of its defaults, and as many processes as it uses by itself.
    """

    epochs: int
    repeats: int

    def rows(self) -> list[Row]:
        """One for each learner, and the ratio of RLlib's forms."""
        tasks: dict[str, Callable[[], float]] = {
            "A3C (ours), 2 workers": lambda: _learner(A3cConfig(epochs=self.epochs, checkpoint_epochs=NEVER)),
            "A2C (ours), 1 process": lambda: _learner(self._a2c()),
            "A2C of Stable-Baselines3, 1 process": self._stable,
            "RLlib PPO, batched": lambda: _learner(self._rllib("ppo", "batched")),
            "RLlib APPO, batched": lambda: _learner(self._rllib("appo", "batched")),
            "RLlib IMPALA, batched": lambda: _learner(self._rllib("impala", "batched")),
            "RLlib PPO, multi_agent": lambda: _learner(self._rllib("ppo", "multi_agent")),
        }
        speeds = dict(zip(tasks, in_turn(self.repeats, *tasks.values()), strict=True))
        rows = [Row(what, tuple(value / 1e3 for value in values), "k/s") for what, values in speeds.items()]
        ratio = over(speeds["RLlib PPO, batched"], speeds["RLlib PPO, multi_agent"])
        return [*rows, Row("RLlib PPO, batched over multi_agent", ratio, "x", at_least=3)]

    def _a2c(self) -> A3cConfig:
        return A3cConfig(mode="sync", epochs=self.epochs, checkpoint_epochs=NEVER)

    def _rllib(self, algorithm: str, form: str) -> RllibConfig:
        epochs = self.epochs if form == "batched" else max(LEAST, self.epochs // SLOWER)
        plain = {"algorithm": algorithm, "form": form, "epochs": epochs, "checkpoint_epochs": NEVER}
        made: RllibConfig = from_dict(RllibConfig, plain, "agent")
        return made

    def _stable(self) -> float:
        from ncc.bench.stable import agent_steps_per_s

        learner = self._a2c().build(batching=True)
        return agent_steps_per_s(learner.racks_per_env, learner.config, SEED)


def _factory(racks: int, threads: int) -> RackFactory:
    return RackFactory(env_spec(), datapath_factory("packetsim"), SEED, racks, threads=threads)


def _learner(config: A3cConfig | RllibConfig) -> float:
    """From its first report of work done to its last."""
    learner = config.build(batching=True)
    reports: list[tuple[int, float]] = []

    def report(progress: Progress) -> None:
        if progress.epochs:
            reports.append((progress.epochs, time.perf_counter()))

    workers = max(1, learner.processes // learner.racks_per_env)
    factory = _factory(learner.racks_per_env, max(1, usable_cpus() // workers))
    with tempfile.TemporaryDirectory() as folder:
        learner.train(factory, Path(folder), SEED, resume=False, report=report, meta={})
    (first, began_s), (last, ended_s) = reports[0], reports[-1]
    return (last - first) * env_spec().scenario.n_agents / (ended_s - began_s)
