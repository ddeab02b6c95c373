# SPDX-License-Identifier: BSD-3-Clause
"""Racks of packetsim stepped together: threads, and the cost of an environment beyond the engine."""

import time
from collections.abc import Sequence
from contextlib import closing
from functools import partial

import numpy as np

from ncc.core.scenario import Scenario
from ncc.core.workload import Fixed, Flow
from ncc.envs.make import env_spec
from ncc.envs.packetsim import PacketsimDatapath
from ncc.envs.rack import RackBatch
from ncc.harness.batch import ActionArray, BatchedEnv
from ncc.study.bench.rows import SEED, Row, in_turn, over

IDLE_RACKS = 32
WARM_EPOCHS = 30


def racks_together(epochs: int, repeats: int, racks: Sequence[int] = (16, 64)) -> list[Row]:
    """Wall time by threads on the default scenario, and CPU time where engines have nothing to do."""
    rows = []
    for n in racks:
        length = max(1, epochs * racks[0] // n)
        one, two = in_turn(repeats, *(partial(_epochs_per_s, n, threads, length) for threads in (1, 2)))
        rows += [
            Row(f"epochs/s of {n} racks, 2 threads over 1", over(two, one), "x", at_least=1.8),
            Row(f"epochs/s of {n} racks, 1 thread", one, "racks/s"),
        ]
    (idle,) = in_turn(repeats, partial(_idle_us, epochs))
    return [*rows, Row(f"env.step per rack beyond the engine, {IDLE_RACKS} racks of 16 hosts", idle, "us", at_most=5)]


def unlimited(env: BatchedEnv) -> ActionArray:
    """The action that limits no host."""
    return np.full((env.n_racks, env.n_agents), env.n_actions - 1, dtype=np.int64)


def run_epochs(env: BatchedEnv, epochs: int) -> float:
    """CPU seconds of this process for some epochs in which no host is limited."""
    actions = unlimited(env)
    began_s = time.process_time()
    for _ in range(epochs):
        env.step(actions)
    return time.process_time() - began_s


def _epochs_per_s(racks: int, threads: int, epochs: int) -> float:
    with closing(RackBatch(env_spec(), PacketsimDatapath, SEED, n_racks=racks, threads=threads)) as env:
        env.reset()
        run_epochs(env, WARM_EPOCHS)
        began_s = time.perf_counter()
        run_epochs(env, epochs)
        return racks * epochs / (time.perf_counter() - began_s)


def _idle_us(epochs: int) -> float:
    """CPU us per rack and epoch of `RackBatch.step` on networks without a packet."""
    with closing(RackBatch(env_spec(_idle(epochs + 40)), PacketsimDatapath, SEED, n_racks=IDLE_RACKS)) as env:
        env.reset()
        run_epochs(env, WARM_EPOCHS)
        return run_epochs(env, epochs) / epochs / IDLE_RACKS * 1e6


def _idle(epochs: int) -> Scenario:
    """The default scenario with one flow, at its end."""
    scenario = env_spec().scenario
    duration_s = epochs * scenario.period_s
    last = Flow(start_s=duration_s - scenario.period_s / 2, src="h0", dst="r0", size_bytes=1)
    return scenario.replace(duration_s=duration_s, workload=(("last", Fixed(flows=(last,))),))
