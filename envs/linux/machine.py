# SPDX-License-Identifier: BSD-3-Clause
"""The machine that a run has to itself: one run at a time, what else it does, and who goes first."""

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from ncc.core.errors import DatapathError
from ncc.core.units import NS_PER_S
from ncc.envs.linux.check import State, check_machine

LOCK = Path("/run/ncc-linux.lock")
"""Held by whoever has a run on this machine; it goes with the process."""
DECISIONS_PRIORITY = 50
"""Of SCHED_FIFO."""
TRAFFIC_NICE = -20
"""Ahead of everything that is not SCHED_FIFO."""
WATCHED_S = 0.2


@cache
def require() -> None:
    """Look once in a process whether runs are possible here.

    Raises:
        DatapathError: they are not; says the first thing that is missing, and what to do.
    """
    for row in check_machine():
        if row.needed and row.state is not State.THERE:
            raise DatapathError(f"No run on linux is possible here: {row.name}: {row.sentence.rstrip('.')}.")


def take_machine(*, shared: bool = False) -> int:
    """A descriptor that holds the machine until it is closed; `shared`: with others who say so, and with no run.

    Raises:
        DatapathError: another run has it, or it cannot be had.
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
            f"Another run on linux has this machine (process {holder}), and two would falsify each other: wait for it."
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
    """Share of all cores that is in use, while this process sleeps for `watched_s`."""
    before = _cpu_times()
    time.sleep(watched_s)
    busy, total = (end - start for end, start in zip(_cpu_times(), before, strict=True))
    return busy / total if total > 0 else 0.0


def _cpu_times() -> tuple[int, int]:
    """(busy, all) in ticks since boot; waiting for a disk is idle."""
    with Path("/proc/stat").open() as file:
        ticks = [int(value) for value in file.readline().split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def waited_s() -> float:
    """For how long the calling thread has been ready and another ran in its place, by the kernel's account."""
    return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / NS_PER_S


def split_cores() -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Cores for the decisions, and for the traffic; with one core, that one for both."""
    cores = sorted(os.sched_getaffinity(0))
    return tuple(cores[-1:]), tuple(cores[:-1] or cores)


class Cores:
    """The calling thread on some cores, from `enter` to `leave`; both may be called twice, `leave` from any thread.

    Threads and processes that it makes meanwhile are on these cores too.
    """

    def __init__(self, cores: tuple[int, ...]) -> None:
        self._cores = cores
        self._before: tuple[int, set[int]] | None = None

    def enter(self) -> None:
        """Be there; on none: stay."""
        if self._cores and self._before is None:
            self._before = threading.get_native_id(), os.sched_getaffinity(0)
            os.sched_setaffinity(0, self._cores)

    def leave(self) -> None:
        """Be where it was before."""
        before, self._before = self._before, None
        if before is not None:
            with suppress(ProcessLookupError):  # the thread has ended
                os.sched_setaffinity(*before)


class Realtime:
    """SCHED_FIFO for the calling thread, from `enter` to `leave`; both may be called twice, `leave` from any thread.

    Threads and processes that it makes meanwhile are not: they have the usual scheduling.
    """

    def __init__(self) -> None:
        self._before: tuple[int, int, os.sched_param] | None = None

    def enter(self) -> None:
        """Go first.

        Raises:
            DatapathError: not allowed.
        """
        if self._before is not None:
            return
        before = (threading.get_native_id(), os.sched_getscheduler(0), os.sched_getparam(0))
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(DECISIONS_PRIORITY))
        except PermissionError:
            raise DatapathError(
                "SCHED_FIFO is refused (it takes CAP_SYS_NICE, and a control group that allows it): set "
                "datapath.linux.settings.scheduling=other, and expect missed periods on a machine with other work."
            ) from None
        self._before = before

    def leave(self) -> None:
        """Be as before."""
        before, self._before = self._before, None
        if before is not None:
            with suppress(ProcessLookupError):  # the thread has ended
                os.sched_setscheduler(*before)
