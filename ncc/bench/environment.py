# SPDX-License-Identifier: BSD-3-Clause
"""What the environment costs on ns-3."""

import multiprocessing
import statistics
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from multiprocessing.connection import Connection

import numpy as np

from ncc.bench.engine import NS3_DCTCP
from ncc.bench.rows import Row
from ncc.core.errors import WorkerDiedError
from ncc.core.flows import FloatArray
from ncc.core.measurement import Measurement
from ncc.envs.make import datapath_factory
from ncc.envs.ns3.plain import PPP_BYTES, run_plain
from ncc.envs.rack import RackBatch
from ncc.envs.spec import EnvSpec
from ncc.harness.batch import ActionArray, BatchedEnv
from ncc.harness.datapath import Datapath
from ncc.harness.workers import InProcesses

SEED = 1
WARM_EPOCHS = 30


class Timed:
    """A datapath that keeps the CPU time of each of its steps."""

    def __init__(self, inner: Datapath) -> None:
        self._inner = inner
        self.name, self.start, self.finish, self.close = inner.name, inner.start, inner.finish, inner.close
        self.transports = inner.transports
        self.cpu_s: list[float] = []

    def step(self, rate_limits_bps: FloatArray) -> Measurement:
        before = time.process_time()
        measurement = self._inner.step(rate_limits_bps)
        self.cpu_s.append(time.process_time() - before)
        return measurement


@dataclass(frozen=True)
class Environment:
    """Episodes of an environment on ns-3: how long and how often."""

    spec: EnvSpec
    epochs: int
    repeats: int

    def rows(self) -> list[Row]:
        """All measurements."""
        step_us, sim_ms = self._step()
        free, lockstep = self._workers()
        return [
            Row("env.step above the simulator's own step, 16 hosts", step_us, "us", at_most=50),
            Row("ns-3 CPU per simulated time, rack", sim_ms, "ms/ms"),
            Row("stepped environment over a plain ns-3 program, CPU", self._plain(), "x", at_most=1.15),
            Row("epochs/s, 2 processes over 1 (as A3C's workers)", free, "x", at_least=1.7),
            Row("epochs/s, 2 racks in lockstep over one after the other", lockstep, "x"),
        ]

    def _step(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """CPU us per `env.step` outside the datapath, for the median epoch; CPU ms per simulated ms inside it."""
        above, inside = [], []
        for episode in range(self.repeats):
            network = Timed(datapath_factory("ns3")())
            env = RackBatch(self.spec, _Ready(network), SEED)
            _warm(env, episode)
            actions = _unlimited(env)
            outside = []
            for _ in range(self.epochs):
                before = time.process_time()
                env.step(actions)
                outside.append(time.process_time() - before - network.cpu_s[-1])
            above.append(statistics.median(outside) * 1e6)
            inside.append(sum(network.cpu_s[-self.epochs :]) / (self.epochs * self.spec.scenario.period_s))
            env.close()
        return tuple(above), tuple(inside)

    def _plain(self) -> tuple[float, ...]:
        """CPU time of an episode in the environment over that of `run_plain` on the same flows, building left out."""
        stack = self.spec.stack.replace(transport=NS3_DCTCP, params=())
        transport = self.spec.scenario.transport.replace(frame_overhead_bytes=PPP_BYTES)  # what stock devices add
        spec = EnvSpec(scenario=self.spec.scenario.replace(transport=transport), stack=stack, view=self.spec.view)
        epochs = round(spec.scenario.duration_s / spec.scenario.period_s)
        ratios = []
        for episode in range(self.repeats):
            env = RackBatch(spec, datapath_factory("ns3"), SEED)
            env.reset(episode)
            stepped_s = _run(env, epochs - 1)  # the last would start the next episode
            env.close()
            flows = spec.scenario.flows(spec.episode_seed(SEED, 0, episode))
            plain = run_plain(spec.scenario, flows, NS3_DCTCP, SEED, stop_s=(epochs - 1) * spec.scenario.period_s)
            ratios.append(stepped_s / plain.cpu_s)
        return tuple(ratios)

    def _workers(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Epochs per second with two processes over one: independent (A3C), and waiting for each other (A2C)."""
        free, lockstep = [], []
        for episode in range(self.repeats):
            one, two = (sum(self._independent(n, episode)) for n in (1, 2))
            free.append(two / one)
            first, second, both = (self._lockstep_s(*racks, episode) for racks in ((0, 1), (1, 1), (0, 2)))
            lockstep.append((first + second) / both)
        return tuple(free), tuple(lockstep)

    def _independent(self, processes: int, episode: int) -> list[float]:
        """Epochs per second of each of some processes that run at once, all on the same flows."""
        context = multiprocessing.get_context("spawn")
        pipes, workers = [], []
        for _ in range(processes):
            ours, theirs = context.Pipe()
            workers.append(context.Process(target=_independent_worker, args=(theirs, self, episode), daemon=True))
            pipes.append(ours)
            workers[-1].start()
            theirs.close()
        try:
            return _all_at_once(pipes)
        except EOFError:
            raise WorkerDiedError("a worker of the benchmark died; its standard error says why") from None
        finally:
            for pipe, worker in zip(pipes, workers, strict=True):
                pipe.close()
                worker.join()

    def _lockstep_s(self, first_rack: int, racks: int, episode: int) -> float:
        """Seconds that some racks take together, each epoch as long as the slowest of them."""
        with closing(RackBatch(self.spec, InProcesses(datapath_factory("ns3")), SEED, first_rack, racks)) as env:
            _warm(env, episode)
            started = time.perf_counter()
            _run(env, self.epochs)
            return time.perf_counter() - started


@dataclass(frozen=True)
class _Ready:
    """A factory of one datapath that exists already."""

    network: Datapath

    def __call__(self) -> Datapath:
        return self.network


def _independent_worker(pipe: Connection, bench: Environment, episode: int) -> None:
    env = RackBatch(bench.spec, datapath_factory("ns3"), SEED)
    _warm(env, episode)
    pipe.send("ready")
    pipe.recv()
    started = time.perf_counter()
    _run(env, bench.epochs)
    pipe.send(bench.epochs / (time.perf_counter() - started))
    env.close()


def _all_at_once(pipes: Sequence[Connection]) -> list[float]:
    """Let all start when the last is ready; what each says at its end."""
    for pipe in pipes:
        pipe.recv()
    for pipe in pipes:
        pipe.send("go")
    return [float(pipe.recv()) for pipe in pipes]


def _warm(env: BatchedEnv, episode: int) -> None:
    env.reset(episode)
    _run(env, WARM_EPOCHS)


def _run(env: BatchedEnv, epochs: int) -> float:
    """CPU seconds of this process for `epochs` epochs in which no host is limited."""
    actions = _unlimited(env)
    started = time.process_time()
    for _ in range(epochs):
        env.step(actions)
    return time.process_time() - started


def _unlimited(env: BatchedEnv) -> ActionArray:
    return np.full((env.n_racks, env.n_agents), env.n_actions - 1, dtype=np.int64)
