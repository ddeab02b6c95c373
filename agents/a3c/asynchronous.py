# SPDX-License-Identifier: BSD-3-Clause
"""A3C: processes that collect from their own environments and update a shared model; the parent writes checkpoints."""

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Lock
from pathlib import Path

import torch
import torch.multiprocessing  # makes pipes pass tensors in shared memory

from ncc.agents.a3c.config import A3cConfig
from ncc.agents.a3c.network import NetShape
from ncc.agents.a3c.rollout import Collector
from ncc.agents.a3c.run import TrainingRun, TrainState
from ncc.agents.a3c.update import Update, Updater
from ncc.agents.progress import Meter
from ncc.core.errors import NccError, WorkerDiedError
from ncc.core.seeding import generator
from ncc.harness.batch import EnvFactory
from ncc.harness.learner import Report
from ncc.harness.workers import Workers

GRACE_S = 5.0
"""Seconds that workers get to exit by themselves before they are terminated."""


@dataclass(frozen=True)
class Start:
    """First message to a worker: the state that all workers share, a flag, and the number of its first episode.

    The parent sets `stop` [1] to 1 to end the workers early.
    """

    state: TrainState
    stop: torch.Tensor
    episode: int


class Stopped(Exception):  # noqa: N818 - not an error, only leaves the loop
    """The parent asked to stop, or has exited."""


def work(
    pipe: "Connection[NetShape | Update | None, Start]",
    index: int,
    *,
    make_env: EnvFactory,
    config: A3cConfig,
    seed: int,
    lock: Lock,
) -> None:
    """Run a worker process: send the shape of the networks, then each update, and None when all periods are used.

    An update takes some milliseconds and holds the lock for about 45 us of them. Updating without a lock (Hogwild)
    would save no more than that, and counts and checkpoints would no longer be exact.
    """
    torch.set_num_threads(1)
    env = make_env(index)
    try:
        shape = NetShape.of(env, config.hidden)
        pipe.send(shape)
        start = pipe.recv()
        # The episode in the seed keeps a resumed run from drawing the same actions again.
        rng = generator(seed, "a3c", "actions", index, start.episode)
        collector = Collector(env, rng, config.steps, start.episode)
        updater = Updater(collector, config, shape, start.state, partial(_holding, lock, start.stop))
        while update := updater.update():
            pipe.send(update)
    except Stopped:
        return
    finally:
        env.close()
    pipe.send(None)


@contextmanager
def _holding(lock: Lock, stop: torch.Tensor) -> Iterator[None]:
    """Hold the lock; raise `Stopped` if training ends while waiting for it.

    A killed process never releases the lock, so waiting checks every 0.5 s for `stop` and for the parent's end.
    """
    parent = multiprocessing.parent_process()
    while True:
        if stop.item():
            raise Stopped
        if lock.acquire(timeout=0.5):
            break
        if parent is not None and not parent.is_alive():
            raise Stopped
    try:
        yield
    finally:
        lock.release()


def train_async(run: TrainingRun, make_env: EnvFactory, report: Report) -> Path:
    """Train with ``run.config.workers`` processes; see `A3cConfig.fit`."""
    training = _Training(run, make_env)
    try:
        return training.train(report)
    finally:
        training.stop()


class _Training:
    """The worker processes and the state that they share.

    They also share a lock around the state, and a flag that stops them.
    """

    def __init__(self, run: TrainingRun, make_env: EnvFactory) -> None:
        self._run, self._all = run, range(run.config.workers)
        self._lock = multiprocessing.get_context("spawn").Lock()
        self._stop = torch.zeros(1, dtype=torch.uint8)
        self._stop.share_memory_()  # type: ignore[no-untyped-call]
        worker = partial(work, make_env=make_env, config=run.config, seed=run.seed, lock=self._lock)
        # No daemons, because an environment may start processes of its own.
        self._workers = Workers(worker, [(i,) for i in self._all], [f"worker {i}" for i in self._all], daemon=False)

    def train(self, report: Report) -> Path:
        """Run to the end; leave a checkpoint even if training fails."""
        run = self._run
        self._shape: NetShape = next(iter([self._workers.receive(index) for index in self._all]))
        self._state = run.begin(self._shape)
        self._state.share()
        saved_epochs = self._state.epochs
        # Every episode has at least one period, so no earlier worker has played an episode of this number.
        start = Start(self._state, self._stop, saved_epochs)
        if run.loaded is None:
            self._save()
        meter = Meter(report, saved_epochs, run.config.epochs)
        try:
            for index in self._all:
                self._workers.send(index, start)
            for update in self._updates():
                meter.add(update.epochs, update.returns, update.scalars)
                if meter.epochs - saved_epochs >= run.config.checkpoint_epochs:
                    meter.flush()  # report now, because a resumed run does not repeat it
                    _, saved_epochs = self._save()
            meter.flush()
        except WorkerDiedError as error:
            path, _ = self._save()
            raise WorkerDiedError(f"{error}; resume this run to continue from {path}") from error
        except BaseException:
            self._save()
            raise
        if self._state.epochs != saved_epochs:
            self._save()
        return run.finish(self._shape, self._state)

    def stop(self) -> None:
        """End all workers, by force if necessary; no process is left behind."""
        self._stop[0] = 1
        self._workers.close(GRACE_S)

    def _updates(self) -> Iterator[Update]:
        """Yield the updates of all workers as they come, until all are done.

        Raises:
            WorkerDiedError: a worker died, or stopped with an error.
        """
        working = set(self._all)
        try:
            while working:
                for index, update in self._workers.messages(working):
                    if update is None:
                        working.discard(index)
                    else:
                        yield update
        except NccError as error:
            raise WorkerDiedError(str(error)) from error

    def _save(self) -> tuple[Path, int]:
        """Write a checkpoint of the state between two updates; return its path and its number of periods.

        If a worker was killed during an update, some weights in the copy are one step older than others, which
        asynchronous training tolerates.
        """
        locked = self._lock.acquire(timeout=1.0)
        try:
            state = self._state.clone()
        finally:
            if locked:
                self._lock.release()
        return self._run.save(self._shape, state, state.epochs), state.epochs
