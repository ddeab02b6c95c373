# SPDX-License-Identifier: BSD-3-Clause
"""The cost of the environment on ns-3."""

import multiprocessing
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from threading import Barrier
from typing import Any

from ncc.core.flows import FloatArray
from ncc.core.measurement import Measurement
from ncc.envs.make import datapath_factory, env_spec
from ncc.envs.ns3.plain import PPP_BYTES, run_plain
from ncc.envs.rack import RackBatch
from ncc.envs.spec import EnvSpec
from ncc.harness.batch import BatchedEnv
from ncc.harness.datapath import Datapath
from ncc.harness.workers import InProcesses
from ncc.study.bench.batch import WARM_EPOCHS, run_epochs, unlimited
from ncc.study.bench.engine import NS3_DCTCP
from ncc.study.bench.rows import SEED, Row


def on_ns3(epochs: int, repeats: int, spec: EnvSpec | None = None) -> list[Row]:
    """Episodes of an environment, the default one if none is given: all measurements."""
    spec = spec or env_spec()
    steps = [_step(spec, epochs, episode) for episode in range(repeats)]
    plain = [_over_plain(spec, episode) for episode in range(repeats)]
    free = [_free(spec, epochs, 2, episode) / _free(spec, epochs, 1, episode) for episode in range(repeats)]
    lockstep = [_lockstep(spec, epochs, episode) for episode in range(repeats)]
    return [
        Row("env.step above the simulator's own step, 16 hosts", tuple(us for us, _ in steps), "us", at_most=50),
        Row("ns-3 CPU per simulated time, rack", tuple(ms for _, ms in steps), "ms/ms"),
        Row("stepped environment over a plain ns-3 program, CPU", tuple(plain), "x", at_most=1.15),
        Row("epochs/s, 2 processes over 1 (as A3C's workers)", tuple(free), "x", at_least=1.7),
        Row("epochs/s, 2 racks in lockstep over one after the other", tuple(lockstep), "x"),
    ]


class _Timed:
    """A datapath that keeps the CPU time of each of its steps."""

    def __init__(self, inner: Datapath) -> None:
        self._inner = inner
        self.name, self.start, self.finish, self.close = inner.name, inner.start, inner.finish, inner.close
        self.transports = inner.transports
        self.cpu_s: list[float] = []

    def step(self, rate_limits_bps: FloatArray) -> Measurement:
        before_s = time.process_time()
        measurement = self._inner.step(rate_limits_bps)
        self.cpu_s.append(time.process_time() - before_s)
        return measurement


def _step(spec: EnvSpec, epochs: int, episode: int) -> tuple[float, float]:
    """CPU us per `env.step` outside the datapath, for the median epoch; CPU ms per simulated ms inside it."""
    network = _Timed(datapath_factory("ns3")())
    with closing(RackBatch(spec, lambda: network, SEED)) as env:
        _warm(env, episode)
        actions, outside_s = unlimited(env), []
        for _ in range(epochs):
            before_s = time.process_time()
            env.step(actions)
            outside_s.append(time.process_time() - before_s - network.cpu_s[-1])
    inside_s = sum(network.cpu_s[-epochs:])
    return statistics.median(outside_s) * 1e6, inside_s / (epochs * spec.scenario.period_s)


def _over_plain(spec: EnvSpec, episode: int) -> float:
    """CPU time of an episode in the environment over that of `run_plain` on the same flows, building left out."""
    transport = spec.scenario.transport.replace(frame_overhead_bytes=PPP_BYTES)  # what stock devices add
    spec = EnvSpec(
        scenario=spec.scenario.replace(transport=transport),
        stack=spec.stack.replace(transport=NS3_DCTCP, params=()),
        view=spec.view,
    )
    epochs = round(spec.scenario.duration_s / spec.scenario.period_s) - 1  # the last would start the next episode
    with closing(RackBatch(spec, datapath_factory("ns3"), SEED)) as env:
        env.reset(episode)
        stepped_s = run_epochs(env, epochs)
    flows = spec.scenario.flows(spec.episode_seed(SEED, 0, episode))
    return stepped_s / run_plain(spec.scenario, flows, NS3_DCTCP, SEED, stop_s=epochs * spec.scenario.period_s).cpu_s


def _free(spec: EnvSpec, epochs: int, processes: int, episode: int) -> float:
    """Epochs per second of some processes together that run at once, all on the same flows (A3C)."""
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(processes)
    with ProcessPoolExecutor(processes, context, _Free.share, (start,)) as pool:
        return sum(pool.map(_Free(spec, epochs), [episode] * processes))


@dataclass(frozen=True)
class _Free:
    """A process that runs epochs by itself, once all are ready."""

    spec: EnvSpec
    epochs: int

    def __call__(self, episode: int) -> float:
        with closing(RackBatch(self.spec, datapath_factory("ns3"), SEED)) as env:
            _warm(env, episode)
            _shared["start"].wait()
            began_s = time.perf_counter()
            run_epochs(env, self.epochs)
            return self.epochs / (time.perf_counter() - began_s)

    @staticmethod
    def share(start: Barrier) -> None:
        """Keep the barrier at which all processes wait."""
        _shared["start"] = start


_shared: dict[str, Any] = {}


def _lockstep(spec: EnvSpec, epochs: int, episode: int) -> float:
    """Time of two racks one after the other over their time together, each epoch as long as the slower of them."""

    def spent_s(first_rack: int, racks: int) -> float:
        with closing(RackBatch(spec, InProcesses(datapath_factory("ns3")), SEED, first_rack, racks)) as env:
            _warm(env, episode)
            began_s = time.perf_counter()
            run_epochs(env, epochs)
            return time.perf_counter() - began_s

    return (spent_s(0, 1) + spent_s(1, 1)) / spent_s(0, 2)


def _warm(env: BatchedEnv, episode: int) -> None:
    env.reset(episode)
    run_epochs(env, WARM_EPOCHS)
