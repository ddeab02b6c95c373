# SPDX-License-Identifier: BSD-3-Clause
"""Worker processes: their start, messages, errors and end.

The workers of evaluations and of A3C, and networks in processes of their own, all use the class `Workers`. Workers are
spawned, never forked, because a simulator or a BLAS may hold threads and locks. A simulator may also abort its
interpreter, so a worker may die at any time. Parent and worker each learn from the closed pipe that the other has gone.
This module imports nothing heavy, because every worker imports it too.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType
from typing import Any

from ncc.core.errors import NccError, WorkerDiedError

EXIT_S = 10.0
"""Seconds that a worker whose pipe is closed gets to exit."""

TERMINATE_S = 10.0
"""Seconds that a terminated process gets to clean up before it is killed."""
_BLAS_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

Work = Callable[..., None]
"""Function that a worker runs. It gets the worker's end of the pipe, and then the worker's arguments.

An `NccError` that it raises reaches the parent.
"""


class Workers:
    """Spawned processes with a pipe each. None outlives this process, however it ends.

    Args:
        work: function of a module, called in each worker.
        arguments: for each worker, the arguments of `work` after the pipe. There are as many workers as entries.
        labels: for each worker, the name of its work in errors, or an empty text; may be changed between messages.
        remedy: advice at the end of the error that says that a worker died.
        daemon: True for workers that start no processes themselves.
        main: False if workers must not import this process's main module (see `main_left_alone`).
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
                for worker_arguments in arguments:
                    parent_end, worker_end = context.Pipe()
                    process = context.Process(target=_run, args=(work, worker_end, worker_arguments), daemon=daemon)
                    self._pipes.append(parent_end)
                    process.start()
                    self._processes.append(process)
                    worker_end.close()
        except BaseException:
            self.close()
            raise

    def send(self, worker: int, message: Any) -> None:
        """Send a message to a worker; raise `WorkerDiedError` if the worker is dead."""
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
            WorkerDiedError: a worker died; the message says which work it did, how it ended, and what to do.
            NccError: a worker raised this error; the worker's label is put before its message.
        """
        # The process is watched as well as the pipe: a dead worker's pipe stays open if the worker left a child.
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
    """Run a worker. SIGTERM raises an exception in it, so that `work` can still close what outlives a process."""
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
    """Raise SystemExit, and ignore the signal from now on."""
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(128 + number)


def usable_cpus() -> int:
    """Number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0))


@contextmanager
def quiet_start() -> Iterator[None]:
    """Let processes that are started in this context ignore Ctrl-C, and let BLAS use one thread in each.

    A terminal sends Ctrl-C to all processes. Children inherit the blocked signal, so the parent alone reacts. A Ctrl-C
    in the context is raised at its end. The processes share the cores, so one thread each is enough; a number of
    threads that the environment sets is kept.
    """
    resource_tracker.ensure_running()  # `spawn` would start it, and starting it unblocks SIGINT
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    unset = [name for name in _BLAS_THREADS if name not in os.environ]
    try:
        os.environ.update(dict.fromkeys(unset, "1"))
        yield
    finally:
        for name in unset:
            os.environ.pop(name, None)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def main_left_alone() -> Iterator[None]:
    """Let processes that are started in this context not import this process's main module.

    A script then needs no ``if __name__ == "__main__":`` for them. `multiprocessing` finds the main module by its
    `__spec__` or `__file__`, which are hidden in the context. The main module must not define functions or classes that
    these processes receive.
    """
    main = vars(sys.modules["__main__"])
    before: dict[str, Any] = {name: main[name] for name in ("__spec__", "__file__") if name in main}
    try:
        main.update(dict.fromkeys(before))
        yield
    finally:
        main.update(before)


def end(processes: Sequence[BaseProcess], grace_s: float = 0.0) -> None:
    """Wait up to `grace_s` for these processes to end; then terminate those left, and after `TERMINATE_S` kill them."""
    _join(processes, grace_s)
    for process in processes:
        process.terminate()
    _join(processes, TERMINATE_S)
    for process in processes:
        process.kill()
    for process in processes:
        process.join()
        process.close()


def _join(processes: Sequence[BaseProcess], patience_s: float) -> None:
    deadline_s = time.monotonic() + patience_s
    for process in processes:
        process.join(max(0.0, deadline_s - time.monotonic()))


def processes_where(matches: Callable[[bytes], bool]) -> list[int]:
    """Return the ids of all other processes of this machine that match, as far as this user may read them.

    Args:
        matches: takes the arguments and environment variables of a process, joined, with a null byte after each.
    """
    pids = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            described = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:  # it has exited, or belongs to another user
            continue
        if matches(described):
            pids.append(int(entry.name))
    return pids


def await_end(matches: Callable[[bytes], bool], patience_s: float) -> None:
    """Wait until `processes_where` finds no process; kill those that are left after `patience_s`."""
    deadline_s = time.monotonic() + patience_s
    while left := processes_where(matches):
        if time.monotonic() > deadline_s:
            for process in left:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
        time.sleep(0.1)
