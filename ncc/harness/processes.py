# SPDX-License-Identifier: BSD-3-Clause
"""Common parts of all pools of worker processes: how workers start and end, and how they send errors.

It imports nothing heavy, because workers of environments import it too.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from typing import Any

from ncc.core.errors import NccError

EXIT_S = 10.0
"""Seconds that a process that closed its pipe gets to exit."""
TERMINATE_S = 10.0
"""Seconds that a terminated process gets to clean up before it is killed."""
_BLAS_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


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


def killed_by(process: BaseProcess) -> str | None:
    """Name of the signal that ended a process, such as "SIGKILL"; None if it exited or still runs after `EXIT_S`.

    `process.exitcode` distinguishes the two: it is None if the process still runs.
    """
    process.join(EXIT_S)
    code = process.exitcode
    return signal.Signals(-code).name if code is not None and code < 0 else None


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


@dataclass(frozen=True)
class PackedError:
    """An error in a form that workers send to the parent."""

    kind: type[NccError]
    text: str
    state: dict[str, Any]
    """Attributes of the error."""


def pack_error(error: NccError) -> PackedError:
    """Pack an error for sending; pickling it would call its class with the finished text."""
    return PackedError(type(error), str(error), vars(error))


def unpack_error(packed: PackedError, prefix: str) -> NccError:
    """Rebuild a worker's error, of the same class and with the text "prefix: text"; an empty prefix adds nothing."""
    text = f"{prefix}: {packed.text}" if prefix else packed.text
    error = packed.kind.__new__(packed.kind, text)  # not __init__, which may take other arguments
    vars(error).update(packed.state)
    return error
