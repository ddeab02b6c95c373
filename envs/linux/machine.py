# SPDX-License-Identifier: BSD-3-Clause
"""The machine that runs take place on: a lock for one run at a time, its load, scheduling of threads, and periods."""

import ctypes
import errno
import fcntl
import os
import resource
import socket
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path

import psutil

from ncc.core.errors import DatapathError
from ncc.core.units import NS_PER_S
from ncc.envs.linux.check import check_machine

FOLDER = Path("/run/ncc")
"""Folder of locks and records; it belongs to root or to the agent's user."""
LOCK = "machine.lock"
"""Lock file there, held by the process that has a run on this machine until it ends."""
SO_NETNS_COOKIE = 71
"""asm-generic/socket.h, since Linux 5.14."""
DECISIONS_PRIORITY = 50
"""SCHED_FIFO priority of the thread that decides."""
OFFSETS = Path("/proc/self/timens_offsets")
"""File with the differences between this process's clocks and the kernel's, in seconds and nanoseconds."""
LOCKED = 1 | 2 | 4
"""MCL_CURRENT, MCL_FUTURE and MCL_ONFAULT of mlockall(2)."""
TRAFFIC_NICE = -20
"""Nice value of the traffic: ahead of everything that is not SCHED_FIFO."""
WATCHED_S = 0.2
ADVICE = {
    errno.EACCES: "it takes root (sudo)",
    errno.EPERM: "it takes root (sudo)",
    errno.ENOSPC: "free some space there",
    errno.EROFS: "mount it so that it can be written",
}
"""Remedies by the reason for which a lock file cannot be opened."""


@cache
def require() -> None:
    """Check once per process that this machine can run the datapath; raise `DatapathError` if not."""
    for row in check_machine():
        if row.needed and not row.there:
            raise DatapathError(f"No run on linux is possible here: {row.name}: {row.sentence.rstrip('.')}.")


def open_lock(name: str, *, restores: bool = False) -> int:
    """Open a lock file in `FOLDER`, where only root or this user may write; return its descriptor.

    Args:
        name: name of the file.
        restores: the caller only puts settings back. As root it may then use a folder that root has given to another
            user, as systemd does.
    """
    try:
        with suppress(FileExistsError):
            FOLDER.mkdir(mode=0o755)
            FOLDER.chmod(0o755)  # whatever the umask: any user may read the records there
        info, above = FOLDER.lstat(), FOLDER.parent.stat()
        users = {0, os.geteuid()}
        if restores and os.geteuid() == above.st_uid == 0 and not above.st_mode & 0o022:
            users.add(info.st_uid)
        if not stat.S_ISDIR(info.st_mode) or info.st_uid not in users or info.st_mode & 0o022:
            raise DatapathError(
                f"{FOLDER} is no folder in which only root or this user may write: an agent of user {info.st_uid} has "
                "it (end that first), or somebody else made it (look at it, and remove it)."
            )
        # Nobody else may open it: whoever reads a file may lock it.
        return os.open(FOLDER / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        remedy = ADVICE.get(error.errno or 0, "look at it, and remove it if no agent runs")
        raise DatapathError(f"Cannot open {FOLDER / name}: {error.strerror}; {remedy}.") from None


def check_clock() -> None:
    """Raise `DatapathError` if this process's monotonic clock is not the kernel's.

    Programs in the kernel would take its signs of life for older than they are, or for those of the future.
    """
    offsets = OFFSETS.read_text().splitlines() if OFFSETS.exists() else []  # no file: the kernel knows one clock
    for name, seconds, ns in map(str.split, offsets):
        if name == "monotonic" and (int(seconds) or int(ns)):
            raise DatapathError(
                f"The monotonic clock of this process is {int(seconds) + int(ns) / NS_PER_S:g} s ahead of the kernel's "
                f"({OFFSETS}): start it outside of this time namespace."
            )


@contextmanager
def taken(*, shared: bool = False) -> Iterator[None]:
    """Hold the machine's lock for as long as the block lasts.

    Args:
        shared: share the machine with others that also set this; a run never does.

    Raises:
        DatapathError: another process holds the lock, or this process has another clock than the kernel.
    """
    check_clock()
    lock = open_lock(LOCK)
    try:
        try:
            fcntl.flock(lock, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"
            raise DatapathError(
                f"Another run on linux has this machine (process {holder}), and only one can have it at a time: wait "
                "for it to end."
            ) from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(lock)


def namespace_cookie() -> int:
    """Return the cookie of the calling thread's network namespace, a number that is unique until the next boot.

    An inode number could be reused by a later namespace.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as asking:
        return int.from_bytes(asking.getsockopt(socket.SOL_SOCKET, SO_NETNS_COOKIE, 8), sys.byteorder)


def busy_frac(watched_s: float = WATCHED_S) -> float:
    """Measure the fraction of all cores in use while this process sleeps for `watched_s`."""
    return float(psutil.cpu_percent(watched_s)) / 100


def waited_s() -> float:
    """Return the seconds, by the kernel's count, for which the calling thread was ready but another ran instead."""
    return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / NS_PER_S


def split_cores() -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the last core, for the decisions, and the others, for the traffic; a single core serves both.

    Packet processing on a core delays even SCHED_FIFO.
    """
    cores = sorted(os.sched_getaffinity(0))
    return tuple(cores[-1:]), tuple(cores[:-1] or cores)


def stay_on(cores: tuple[int, ...], undo: ExitStack) -> None:
    """Bind the calling thread to cores until any thread closes `undo`."""
    undo.callback(_give_back, os.sched_setaffinity, threading.get_native_id(), os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores)


def go_first(undo: ExitStack, *, inherited: bool = False) -> None:
    """Give the calling thread SCHED_FIFO until any thread closes `undo`.

    Threads that it starts do not inherit it, unless `inherited` is set; then each has to call `go_second`.
    """
    before = (threading.get_native_id(), os.sched_getscheduler(0), os.sched_getparam(0))
    try:
        reset = 0 if inherited else os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(0, os.SCHED_FIFO | reset, os.sched_param(DECISIONS_PRIORITY))
    except PermissionError:
        raise DatapathError(
            "SCHED_FIFO is refused (it takes CAP_SYS_NICE, and a control group that allows it): set "
            "datapath.linux.settings.scheduling=other, and expect missed periods on a machine with other work."
        ) from None
    undo.callback(_give_back, os.sched_setscheduler, *before)


def go_second() -> None:
    """Let the thread that decides go before the calling thread, which has inherited SCHED_FIFO or has none.

    A thread without it could be stopped by other programs while it holds the interpreter, for which decisions wait.
    """
    if os.sched_getscheduler(0) == os.SCHED_FIFO:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(DECISIONS_PRIORITY - 1))  # to lower it takes no right


def stay_in_memory(undo: ExitStack) -> str:
    """Keep each page that this process uses, from its first use on, in memory until `undo` is closed.

    Returns:
        Reason for which its pages may leave memory: its RLIMIT_MEMLOCK is finite (a right to more could be given up
        later), or the kernel refuses. The text is empty if they stay.
    """
    limit_bytes, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if limit_bytes != resource.RLIM_INFINITY:
        return f"RLIMIT_MEMLOCK is {limit_bytes} bytes"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mlockall(LOCKED):
        return f"the kernel refuses mlockall: {os.strerror(ctypes.get_errno())}"
    undo.callback(libc.munlockall)
    return ""


def _give_back(call: Callable[..., None], *before: object) -> None:
    with suppress(ProcessLookupError, PermissionError):  # the thread has ended, or has given up the right to
        call(*before)


class Periods:
    """The ends of periods on CLOCK_MONOTONIC, in whole nanoseconds.

    Attributes:
        start_ns: start of the first period; set it before calling `next_end_ns`.
        epoch: number of periods that have ended.
        missed: number of periods whose end had already passed when `next_end_ns` was called for them.
    """

    def __init__(self, period_ns: int) -> None:
        self.period_ns = period_ns
        self.start_ns = self.epoch = self.missed = 0

    def next_end_ns(self) -> int:
        """Return the end of the current period; if it has passed, count the missed periods and return the next end."""
        self.epoch += 1
        end_ns, now_ns = self.start_ns + self.epoch * self.period_ns, time.monotonic_ns()
        if now_ns >= end_ns:
            missed = 1 + (now_ns - end_ns) // self.period_ns
            self.missed, self.epoch = self.missed + missed, self.epoch + missed
            end_ns += missed * self.period_ns
        return end_ns


def sleep_until(at_ns: int) -> None:
    """Sleep until a time of CLOCK_MONOTONIC; return at once if it has passed."""
    while (left_ns := at_ns - time.monotonic_ns()) > 0:
        time.sleep(left_ns / NS_PER_S)
