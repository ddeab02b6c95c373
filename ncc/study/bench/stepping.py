# SPDX-License-Identifier: BSD-3-Clause
"""Benchmarks of a step: many environments of packetsim stepped together, and Gymnasium's vector environments."""

import time
from collections.abc import Callable
from contextlib import closing
from functools import partial

import gymnasium
import numpy as np

from ncc.core.workload import Fixed, Flow
from ncc.envs.make import env_spec
from ncc.envs.packetsim import PacketsimDatapath
from ncc.envs.rack import RackBatch
from ncc.study.bench import SEED, Figures, in_turn, over

IDLE_RACKS = 32
WARM_EPOCHS = 30


def racks_together(epochs: int, repeats: int, few: int = 16, many: int = 64) -> Figures:
    """Measure what a second thread gains, and the cost of a step beyond the simulation.

    The gain is the wall time with one thread divided by that with two, on the default scenario, for `few` and for
    `many` racks (simulated networks). The cost (`idle`) is CPU time in microseconds per rack and period, on networks
    without traffic. `few` racks take `epochs` periods; `many` racks take fewer, for the same number of steps in all.
    """
    figures: Figures = {}
    for name, racks, length in (("few", few, epochs), ("many", many, max(1, epochs * few // many))):
        one, two = in_turn(repeats, *(partial(_threaded, racks, threads, length) for threads in (1, 2)))
        figures[name] = over(two, one)
    (figures["idle"],) = in_turn(repeats, partial(_idle_us, epochs))
    return figures


def entry_points(epochs: int, repeats: int, racks: int = 8) -> Figures:
    """Compare the speed, in wall time, of ncc's vector environment with Gymnasium's, which step single environments.

    `sync` is ncc's speed divided by that of Gymnasium's in one process, `workers` by that of Gymnasium's in several
    processes. Every host chooses its actions at random.
    """
    modes = ("vector_entry_point", "sync", "async")
    entry, sync, workers = in_turn(repeats, *(partial(_vector, mode, epochs, racks) for mode in modes))
    return {"sync": over(entry, sync), "workers": over(entry, workers)}


def _run(env: RackBatch, epochs: int, clock: Callable[[], float]) -> float:
    """Begin an episode without rate limits; return the seconds of `epochs` periods after the first `WARM_EPOCHS`."""
    actions = np.full((env.n_racks, env.n_agents), env.n_actions - 1, dtype=np.int64)
    env.reset(0)
    began_s = 0.0
    for epoch in range(WARM_EPOCHS + epochs):
        if epoch == WARM_EPOCHS:
            began_s = clock()
        env.step(actions)
    return clock() - began_s


def _threaded(racks: int, threads: int, epochs: int) -> float:
    with closing(RackBatch(env_spec(), PacketsimDatapath, SEED, n_racks=racks, threads=threads)) as env:
        return racks * epochs / _run(env, epochs, time.perf_counter)


def _idle_us(epochs: int) -> float:
    """Measure the CPU microseconds per rack and period of `RackBatch.step` on networks without a packet.

    Only after the timed periods, one packet is sent.
    """
    scenario = env_spec().scenario
    duration_s = (epochs + 40) * scenario.period_s
    last = Flow(start_s=duration_s - scenario.period_s / 2, src="h0", dst="r0", size_bytes=1)
    idle = scenario.replace(duration_s=duration_s, workload=(("last", Fixed(flows=(last,))),))
    with closing(RackBatch(env_spec(idle), PacketsimDatapath, SEED, n_racks=IDLE_RACKS)) as env:
        return _run(env, epochs, time.process_time) / epochs / IDLE_RACKS * 1e6


def _vector(mode: str, epochs: int, racks: int) -> float:
    with closing(gymnasium.make_vec("ncc/Rack-v0", racks, mode)) as env:
        env.action_space.seed(SEED)
        actions = [env.action_space.sample() for _ in range(16)]
        env.reset(seed=SEED)
        began_s = 0.0
        for epoch in range(WARM_EPOCHS + epochs):
            if epoch == WARM_EPOCHS:
                began_s = time.perf_counter()
            env.step(actions[epoch % len(actions)])
        return racks * epochs / (time.perf_counter() - began_s)
