# SPDX-License-Identifier: BSD-3-Clause
"""Racks of packetsim stepped together: threads, and what an environment costs beyond the engine."""

import time
from dataclasses import dataclass

import numpy as np

from ncc.bench.rows import Row, Task, in_turn, over
from ncc.core.scenario import Scenario
from ncc.core.workload import Fixed, Flow
from ncc.envs.make import env_spec
from ncc.envs.packetsim import PacketsimDatapath
from ncc.envs.rack import RackBatch
from ncc.envs.spec import EnvSpec

SEED = 1
IDLE_RACKS = 32


@dataclass(frozen=True)
class Batch:
    """Racks of the default scenario."""

    epochs: int
    repeats: int
    racks: tuple[int, ...] = (16, 64)

    def rows(self) -> list[Row]:
        """Wall time by threads, and CPU time where engines have nothing to do."""
        spec = env_spec()
        rows = []
        for racks in self.racks:
            one, two = in_turn(self.repeats, *(self._epochs_per_s(spec, racks, threads) for threads in (1, 2)))
            rows += [
                Row(f"epochs/s of {racks} racks, 2 threads over 1", over(two, one), "x", at_least=1.8),
                Row(f"epochs/s of {racks} racks, 1 thread", one, "racks/s"),
            ]
        (idle,) = in_turn(self.repeats, self._idle_us)
        return [
            *rows,
            Row(f"env.step per rack beyond the engine, {IDLE_RACKS} racks of 16 hosts", idle, "us", at_most=5),
        ]

    def _epochs_per_s(self, spec: EnvSpec, racks: int, threads: int) -> Task:
        def measure() -> float:
            env = RackBatch(spec, PacketsimDatapath, SEED, n_racks=racks, threads=threads)
            env.reset()
            _steps(env, 30)
            started = time.perf_counter()
            epochs = max(1, self.epochs * self.racks[0] // racks)
            _steps(env, epochs)
            spent_s = time.perf_counter() - started
            env.close()
            return racks * epochs / spent_s

        return measure

    def _idle_us(self) -> float:
        """CPU us per rack and epoch of `RackBatch.step` on networks without a packet."""
        env = RackBatch(env_spec(_idle(self.epochs + 40)), PacketsimDatapath, SEED, n_racks=IDLE_RACKS)
        env.reset()
        _steps(env, 30)
        started = time.process_time()
        _steps(env, self.epochs)
        spent_s = time.process_time() - started
        env.close()
        return spent_s / self.epochs / IDLE_RACKS * 1e6


def _idle(epochs: int) -> Scenario:
    """The default scenario with one flow, at its end."""
    scenario = env_spec().scenario
    duration_s = epochs * scenario.period_s
    last = Flow(start_s=duration_s - scenario.period_s / 2, src="h0", dst="r0", size_bytes=1)
    return scenario.replace(duration_s=duration_s, workload=(("last", Fixed(flows=(last,))),))


def _steps(env: RackBatch, epochs: int) -> None:
    unlimited = np.full((env.n_racks, env.n_agents), env.n_actions - 1, dtype=np.int64)
    for _ in range(epochs):
        env.step(unlimited)
