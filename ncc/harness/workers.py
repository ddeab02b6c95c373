# SPDX-License-Identifier: BSD-3-Clause
"""Worker processes: one way to start them, to hear from them, to name one that died, and to end them.

Runs of an evaluation, networks in processes of their own and A3C's workers are all `Workers`. Workers are spawned,
never forked, because a simulator or a BLAS may hold threads and locks. A simulator may also abort its interpreter, so a
worker may die at any time. A closed pipe shows either side that the other has gone.
"""

import signal
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import nullcontext, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import FrameType
from typing import Any

from ncc.core.errors import NccError, WorkerDiedError
from ncc.harness.processes import end, main_left_alone, quiet_start

EXIT_S = 10.0
"""Seconds that a worker whose pipe is closed gets to exit."""

Work = Callable[..., None]
"""Function that a worker runs, with its pipe and its arguments; an `NccError` that it raises reaches the parent."""


class Workers:
    """Spawned processes with a pipe each. None outlives this process, however it ends.

    Args:
        work: function of a module, called in each worker.
        arguments: further arguments for each worker; its number is that of the workers.
        labels: for each worker, the name of its work in errors, or an empty text; may be changed between messages.
        remedy: end of the sentence that says that a worker died.
        daemon: True for workers that start no processes themselves.
        main: False lets workers not import this process's main module, so that a script needs no guard for them.
    """

    def __init__(
        self,
        work: Work,
        arguments: Sequence[tuple[Any, ...]],
        labels: Sequence[str],
        *,
        remedy: str = "",
        daemon: bool = True,
        main: bool = True,
    ) -> None:
        context = get_context("spawn")
        self.labels, self._remedy = list(labels), remedy
        self._processes: list[SpawnProcess] = []
        self._pipes: list[Connection[Any, Any]] = []
        try:
            with quiet_start(), nullcontext() if main else main_left_alone():
                for each in arguments:
                    ours, theirs = context.Pipe()
                    process = context.Process(target=_run, args=(work, theirs, each), daemon=daemon)
                    self._pipes.append(ours)
                    process.start()
                    self._processes.append(process)
                    theirs.close()
        except BaseException:
            self.close()
            raise

    def send(self, worker: int, message: Any) -> None:
        """Send a message; `WorkerDiedError` if the worker is dead."""
        try:
            self._pipes[worker].send(message)
        except ConnectionError:
            raise self._died(worker) from None

    def receive(self, worker: int) -> Any:
        """Wait for the next message of one worker; errors as in `messages`."""
        try:
            message = self._pipes[worker].recv()
        except (EOFError, OSError):
            raise self._died(worker) from None
        if isinstance(message, NccError):
            raise message.within(self.labels[worker])
        return message

    def messages(self, workers: Collection[int]) -> Iterator[tuple[int, Any]]:
        """Wait for the first message of any of these workers; yield one message of each that has sent any.

        Raises:
            WorkerDiedError: a worker died; the sentence says whose work it did, how it ended, and the remedy.
            NccError: the worker's own error, of the same class, after the name of its work.
        """
        # Watch the process as well as the pipe: the pipe of a dead worker stays open if the worker left a child.
        watched = {worker: (self._pipes[worker], self._processes[worker].sentinel) for worker in workers}
        ready = wait([sign for pair in watched.values() for sign in pair])
        for worker, (pipe, sentinel) in watched.items():
            if pipe not in ready and sentinel not in ready:
                continue
            if not pipe.poll():
                raise self._died(worker)
            yield worker, self.receive(worker)

    def close(self, grace_s: float = 0.0) -> None:
        """End all workers; those that do not exit within `grace_s` are terminated, and killed if that does not help."""
        for pipe in self._pipes:
            pipe.close()
        end(self._processes, grace_s)
        self._processes, self._pipes = [], []

    def _died(self, worker: int) -> WorkerDiedError:
        process = self._processes[worker]
        process.join(EXIT_S)
        code = process.exitcode
        if code is None:
            how = "closed its pipe and did not exit"
        elif code >= 0:
            how = f"ended with exit status {code}; its last message, if any, is on standard error"
        else:
            name = signal.Signals(-code).name
            how = f"was killed by {name}{' (perhaps for want of memory)' if name == 'SIGKILL' else ''}"
        remedy = f"; {self._remedy}" if self._remedy else ""
        return WorkerDiedError(f"the worker process {process.pid} {how}{remedy}").within(self.labels[worker])


def _run(work: Work, pipe: "Connection[Any, Any]", arguments: tuple[Any, ...]) -> None:
    """Run a worker. SIGTERM ends it as an exception does, so that a datapath that holds more than memory is closed."""
    signal.signal(signal.SIGTERM, _leave)
    try:
        work(pipe, *arguments)
    except (EOFError, ConnectionError):
        return  # the parent has closed its end or exited: nobody waits for more
    except NccError as error:
        with suppress(ConnectionError):
            pipe.send(error)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _leave(number: int, _: FrameType | None) -> None:
    """Raise SystemExit on the first signal only."""
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(128 + number)
