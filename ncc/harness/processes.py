# SPDX-License-Identifier: BSD-3-Clause
"""Processes: how they start, how they end, and how those of a command are found again.

It imports nothing heavy, because every worker imports it too.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

TERMINATE_S = 10.0
"""Seconds that a terminated process gets to clean up before it is killed."""
_BLAS_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def usable_cpus() -> int:
    """Number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0))


@contextmanager
def quiet_start() -> Iterator[None]:
    """Let processes started in this context ignore Ctrl-C and, unless the environment says more, use one BLAS thread.

    A terminal sends Ctrl-C to all processes. Children inherit the blocked signal, so the parent alone reacts. An
    interrupt in the meantime is raised at the end. One thread each, because the processes share the cores.
    """
    resource_tracker.ensure_running()  # `spawn` would start it, and starting it unblocks SIGINT
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    ours = [name for name in _BLAS_THREADS if name not in os.environ]
    try:
        os.environ.update(dict.fromkeys(ours, "1"))
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def main_left_alone() -> Iterator[None]:
    """Start processes that do not import this one's main module, so that a script needs no guard for them.

    `multiprocessing` finds that module by its `__spec__` or `__file__`, which are hidden meanwhile. Arguments of the
    processes must then not be defined in it.
    """
    main = vars(sys.modules["__main__"])
    before: dict[str, Any] = {name: main[name] for name in ("__spec__", "__file__") if name in main}
    try:
        main.update(dict.fromkeys(before))
        yield
    finally:
        main.update(before)


def end(processes: Sequence[BaseProcess], grace_s: float = 0.0) -> None:
    """End these processes: wait up to `grace_s` for all, terminate the rest, kill the rest, and close them."""
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
    """Other processes of this machine whose command line and environment match, as far as this user may read them.

    Args:
        matches: receives the arguments and variables of a process, each of which ends with a null byte.
    """
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            described = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:  # it has exited, or belongs to another user
            continue
        if matches(described):
            found.append(int(entry.name))
    return found


def await_end(matches: Callable[[bytes], bool], patience_s: float) -> None:
    """Wait until `processes_where` finds no process; kill those that are left after `patience_s`."""
    deadline_s = time.monotonic() + patience_s
    while left := processes_where(matches):
        if time.monotonic() > deadline_s:
            for process in left:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
        time.sleep(0.1)
