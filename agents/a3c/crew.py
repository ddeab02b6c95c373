# SPDX-License-Identifier: BSD-3-Clause
"""The parent process of A3C: starts workers, receives their messages, writes checkpoints and detects dead workers."""

import multiprocessing
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import torch
import torch.multiprocessing  # makes pipes pass tensors in shared memory

from ncc.agents.a3c.adam import TrainState
from ncc.agents.a3c.imitation import warm_up
from ncc.agents.a3c.network import NetShape
from ncc.agents.a3c.run import TrainingRun, one_thread
from ncc.agents.a3c.worker import Failed, Message, Ready, Start, Update, WorkerSetup, work
from ncc.agents.policy import Layer
from ncc.agents.progress import Meter
from ncc.core.errors import ConfigError, WorkerDiedError
from ncc.harness.batch import EnvFactory
from ncc.harness.learner import Report
from ncc.harness.processes import end, killed_by, quiet_start

GRACE_S = 5.0
"""Seconds that workers get to exit by themselves before they are terminated."""


def train_async(run: TrainingRun, make_env: EnvFactory, report: Report) -> Path:
    """Train with ``run.config.workers`` processes; see `A3cLearner.train`.

    The warm start runs first, in this process: the racks of one environment are enough to imitate.
    """
    _check_picklable(make_env)
    if (warm := run.cold) is not None:
        with one_thread():
            env = make_env(0)
            try:
                warm_up(run, warm, env, report)
            finally:
                env.close()
    crew = Crew(run, make_env)
    try:
        shape = crew.shape()
        state = run.begin(shape)
        training = _Training(run, shape, state, crew)
        if run.loaded is None:
            training.save()
        return training.train(run.meter(report, state))
    finally:
        crew.stop()


class _Training:
    """The shared state, and the progress of each worker."""

    def __init__(self, run: TrainingRun, shape: NetShape, state: TrainState, crew: "Crew") -> None:
        self._run, self._shape, self._state, self._crew = run, shape, state, crew
        workers = run.config.workers
        stored = (0,) if run.loaded is None else run.loaded.episodes
        # With a different number of workers than before, all start at an episode that none has used.
        self._episodes = list(stored) if len(stored) == workers else [max(stored)] * workers
        self._saved_epochs = state.epochs
        state.share()

    def train(self, meter: Meter) -> Path:
        """Run to the end; leave a checkpoint even if training fails."""
        config = self._run.config
        try:
            self._crew.begin(self._shape, self._state, self._episodes, self._run.anchor(self._shape))
            for index, update in self._crew.updates():
                self._episodes[index] = update.episode
                meter.add(update.epochs, update.returns, update.scalars)
                if meter.epochs - self._run.warm_epochs - self._saved_epochs >= config.checkpoint_epochs:
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
        state = self._crew.snapshot(self._state)
        self._saved_epochs = state.epochs
        return self._run.save(self._shape, state, self._episodes)


class Crew:
    """The worker processes.

    Each has its own pipe, because a shared queue would stay locked forever if the process that holds its lock were
    killed.
    """

    def __init__(self, run: TrainingRun, make_env: EnvFactory) -> None:
        context = multiprocessing.get_context("spawn")
        self._run = run
        self._lock = context.Lock()
        self._stop = torch.zeros(1, dtype=torch.uint8)
        self._stop.share_memory_()  # type: ignore[no-untyped-call]
        self._processes: list[SpawnProcess] = []
        self._pipes: list[Connection[Start, Message]] = []
        try:
            with quiet_start():
                for index in range(run.config.workers):
                    mine, theirs = context.Pipe()
                    setup = WorkerSetup(index, make_env, run.config, run.seed, self._lock)
                    process = context.Process(target=work, args=(setup, theirs), name=f"ncc-a3c-{index}")
                    self._pipes.append(mine)
                    process.start()
                    self._processes.append(process)
                    theirs.close()
        except BaseException:
            self.stop()
            raise

    def shape(self) -> NetShape:
        """Wait for all workers' environments and return the shape of the networks that they need."""
        ready: dict[int, Ready] = {}
        while len(ready) < len(self._processes):
            for index, message in self._receive(set(range(len(self._processes))) - set(ready)):
                if not isinstance(message, Ready):
                    raise WorkerDiedError(f"worker {index} ended before it began")
                ready[index] = message
        shapes = {self._run.shape(message) for message in ready.values()}
        if len(shapes) > 1:
            raise ConfigError(
                f"all workers' environments must have one shape, got {', '.join(sorted(map(str, shapes)))}"
            )
        return shapes.pop()

    def begin(self, shape: NetShape, state: TrainState, episodes: list[int], anchor: tuple[Layer, ...] | None) -> None:
        """Send all workers the shared state, and the policy to stay near if there is one."""
        for index, (pipe, episode) in enumerate(zip(self._pipes, episodes, strict=True)):
            try:
                pipe.send(Start(shape, state, self._stop, episode, anchor))
            except OSError:
                raise self._died(index) from None

    def updates(self) -> Iterator[tuple[int, Update]]:
        """Yield the updates of all workers as they come, until all are done."""
        working = set(range(len(self._processes)))
        while working:
            for index, message in self._receive(working):
                if isinstance(message, Update):
                    yield index, message
                else:
                    working.discard(index)

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
        for pipe in self._pipes:
            pipe.close()
        end(self._processes, GRACE_S)
        self._processes, self._pipes = [], []

    def _receive(self, indices: set[int]) -> Iterator[tuple[int, Message]]:
        """Yield the messages that the workers `indices` have sent; wait for the first."""
        # Watch the process as well as the pipe: the pipe of a dead worker stays open if the worker forked a child.
        signs = {index: (self._pipes[index], self._processes[index].sentinel) for index in indices}
        seen = wait([sign for pair in signs.values() for sign in pair])
        for index, (pipe, sentinel) in signs.items():
            if pipe not in seen and sentinel not in seen:
                continue
            try:
                message = pipe.recv() if pipe.poll() else None
            except (EOFError, OSError):
                message = None
            if message is None:
                raise self._died(index)
            if isinstance(message, Failed):
                error = WorkerDiedError(f"worker {index} stopped with {message.message}")
                error.add_note(message.details)
                raise error
            yield index, message

    def _died(self, index: int) -> WorkerDiedError:
        process = self._processes[index]
        if name := killed_by(process):
            how = f"was killed by {name} (exit code {process.exitcode})"
        elif process.exitcode is None:
            how = "closed its pipe without a word"
        else:
            how = f"ended by itself with exit code {process.exitcode}"
        return WorkerDiedError(f"worker {index} (process {process.pid}) {how}")


def _check_picklable(make_env: EnvFactory) -> None:
    try:
        ForkingPickler.dumps(make_env)
    except Exception as error:  # pickling runs arbitrary code
        raise ConfigError(
            f"make_env must be picklable, for instance a class at the top of a module: workers are processes ({error})"
        ) from error
