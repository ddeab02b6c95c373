# SPDX-License-Identifier: BSD-3-Clause
"""The machine that runs take place on: a lock for one run at a time, its load, and scheduling of the run's threads."""

import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path

import psutil

from ncc.core.errors import DatapathError
from ncc.core.units import NS_PER_S
from ncc.envs.linux.check import State, check_machine

LOCK = Path("/run/ncc-linux.lock")
"""Lock file, held by the process that has a run on this machine until it ends."""
DECISIONS_PRIORITY = 50
"""SCHED_FIFO priority of the thread that decides."""
TRAFFIC_NICE = -20
"""Nice value of the traffic: ahead of everything that is not SCHED_FIFO."""
WATCHED_S = 0.2


@cache
def require() -> None:
    """Check once per process that runs are possible on this machine."""
    for row in check_machine():
        if row.needed and row.state is not State.THERE:
            raise DatapathError(f"No run on linux is possible here: {row.name}: {row.sentence.rstrip('.')}.")


def take_machine(*, shared: bool = False) -> int:
    """Take the machine; return a descriptor that holds it until it is closed.

    Args:
        shared: hold it together with others that also set this; a run never shares.
    """
    try:
        lock = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise DatapathError(f"Cannot open {LOCK}: {error.strerror}; a run on linux takes root (sudo).") from None
    try:
        fcntl.flock(lock, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"
        os.close(lock)
        raise DatapathError(
            f"Another run on linux has this machine (process {holder}), and only one can have it at a time: wait for "
            "it to end."
        ) from None
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock


@contextmanager
def alone() -> Iterator[None]:
    """Hold the machine for as long as the block lasts; raises as `take_machine`."""
    lock = take_machine()
    try:
        yield
    finally:
        os.close(lock)


def busy_frac(watched_s: float = WATCHED_S) -> float:
    """Measure which fraction of all cores is in use while this process sleeps for `watched_s`."""
    return float(psutil.cpu_percent(watched_s)) / 100


def waited_s() -> float:
    """Seconds for which the calling thread was ready to run while another ran instead, as the kernel counts them."""
    return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / NS_PER_S


def split_cores() -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the cores for the decisions and those for the traffic; a single core serves both."""
    cores = sorted(os.sched_getaffinity(0))
    return tuple(cores[-1:]), tuple(cores[:-1] or cores)


def stay_on(cores: tuple[int, ...], undo: ExitStack) -> None:
    """Bind the calling thread to cores until `undo` is closed, by any thread; without cores, nothing changes."""
    if cores:
        undo.callback(_give_back, os.sched_setaffinity, threading.get_native_id(), os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores)


def go_first(undo: ExitStack) -> None:
    """Give the calling thread, and none that it makes, SCHED_FIFO until `undo` is closed, by any thread."""
    before = (threading.get_native_id(), os.sched_getscheduler(0), os.sched_getparam(0))
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(DECISIONS_PRIORITY))
    except PermissionError:
        raise DatapathError(
            "SCHED_FIFO is refused (it takes CAP_SYS_NICE, and a control group that allows it): set "
            "datapath.linux.settings.scheduling=other, and expect missed periods on a machine with other work."
        ) from None
    undo.callback(_give_back, os.sched_setscheduler, *before)


def _give_back(call: Callable[..., None], *before: object) -> None:
    with suppress(ProcessLookupError):  # the thread has ended
        call(*before)
