# SPDX-License-Identifier: BSD-3-Clause
"""Asynchronous training: starts A3C's workers, receives their updates and writes checkpoints."""

import multiprocessing
from collections.abc import Iterator
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import torch
import torch.multiprocessing  # makes pipes pass tensors in shared memory

from ncc.agents.a3c.adam import TrainState
from ncc.agents.a3c.network import NetShape
from ncc.agents.a3c.run import TrainingRun
from ncc.agents.a3c.worker import Start, Update, WorkerSetup, work
from ncc.agents.progress import Meter
from ncc.core.errors import ConfigError, NccError, WorkerDiedError
from ncc.harness.batch import EnvFactory
from ncc.harness.learner import Report
from ncc.harness.workers import Workers

GRACE_S = 5.0
"""Seconds that workers get to exit by themselves before they are terminated."""


def train_async(run: TrainingRun, make_env: EnvFactory, report: Report) -> Path:
    """Train with ``run.config.workers`` processes; see `A3cLearner.train`."""
    _check_picklable(make_env)
    workers = SharedTraining(run, make_env)
    try:
        shape = workers.shape()
        state = run.begin(shape)
        training = _Training(run, shape, state, workers)
        if run.loaded is None:
            training.save()
        return training.train(run.meter(report, state))
    finally:
        workers.stop()


class _Training:
    """The shared state, and the progress of each worker."""

    def __init__(self, run: TrainingRun, shape: NetShape, state: TrainState, workers: "SharedTraining") -> None:
        self._run, self._shape, self._state, self._workers = run, shape, state, workers
        stored = (0,) if run.loaded is None else run.loaded.episodes
        # With a different number of workers than before, all start at an episode that none has used.
        self._episodes = list(stored) if len(stored) == run.config.workers else [max(stored)] * run.config.workers
        self._saved_epochs = state.epochs
        state.share()

    def train(self, meter: Meter) -> Path:
        """Run to the end; leave a checkpoint even if training fails."""
        config = self._run.config
        try:
            self._workers.begin(self._shape, self._state, self._episodes)
            for index, update in self._workers.updates():
                self._episodes[index] = update.episode
                meter.add(update.epochs, update.returns, update.scalars)
                if meter.epochs - self._saved_epochs >= config.checkpoint_epochs:
                    meter.flush()  # report now, because a resumed run does not repeat it
                    self.save()
            meter.flush()
        except WorkerDiedError as error:
            path = self.save()
            raise WorkerDiedError(f"{error}; resume this run to continue from {path}") from error
        except BaseException:
            self.save()
            raise
        if self._state.epochs != self._saved_epochs:
            self.save()
        return self._run.finish(self._shape, self._state)

    def save(self) -> Path:
        """Write a checkpoint of the current state."""
        state = self._workers.snapshot(self._state)
        self._saved_epochs = state.epochs
        return self._run.save(self._shape, state, self._episodes)


class SharedTraining:
    """The worker processes, and what they share: a lock around the state, and a flag that stops them."""

    def __init__(self, run: TrainingRun, make_env: EnvFactory) -> None:
        self._run, self._all = run, range(run.config.workers)
        self._lock = multiprocessing.get_context("spawn").Lock()
        self._stop = torch.zeros(1, dtype=torch.uint8)
        self._stop.share_memory_()  # type: ignore[no-untyped-call]
        setups = [(WorkerSetup(index, make_env, run.config, run.seed, self._lock),) for index in self._all]
        # No daemons, because an environment may start processes of its own.
        self._workers = Workers(work, setups, [f"worker {index}" for index in self._all], daemon=False)

    def shape(self) -> NetShape:
        """Wait for all workers' environments and return the shape of the networks that they need."""
        ready = [self._workers.receive(index) for index in self._all]
        shapes = {self._run.shape(message) for message in ready}
        if len(shapes) > 1:
            raise ConfigError(
                f"all workers' environments must have one shape, got {', '.join(sorted(map(str, shapes)))}"
            )
        return shapes.pop()

    def begin(self, shape: NetShape, state: TrainState, episodes: list[int]) -> None:
        """Send all workers the shared state."""
        for index, episode in enumerate(episodes):
            self._workers.send(index, Start(shape, state, self._stop, episode))

    def updates(self) -> Iterator[tuple[int, Update]]:
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
                        yield index, update
        except WorkerDiedError:
            raise
        except NccError as error:
            raise WorkerDiedError(str(error)) from error

    def snapshot(self, state: TrainState) -> TrainState:
        """Copy the state between two updates.

        If a worker was killed during an update, some weights in the copy are one step older than others, which
        asynchronous training tolerates.
        """
        locked = self._lock.acquire(timeout=1.0)
        try:
            return state.clone()
        finally:
            if locked:
                self._lock.release()

    def stop(self) -> None:
        """End all workers, by force if necessary; no process is left behind."""
        self._stop[0] = 1
        self._workers.close(GRACE_S)


def _check_picklable(make_env: EnvFactory) -> None:
    try:
        ForkingPickler.dumps(make_env)
    except Exception as error:  # pickling runs arbitrary code
        raise ConfigError(
            f"make_env must be picklable, for instance a class at the top of a module: workers are processes ({error})"
        ) from error
