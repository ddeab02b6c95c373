# SPDX-License-Identifier: BSD-3-Clause
"""Network namespaces of a run, named after its process so that later runs can remove what a crash leaves behind.

A name (`ncc-<pid>-<start time of that process>-<its pid namespace>-...`) identifies the process that made it. `sweep`
uses it to tell the namespaces of a crashed run from those of a running one, or of another container.
"""

import ctypes
import os
import re
import select
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from ncc.core.errors import ConfigError, DatapathError

T = TypeVar("T")
PREFIX = "ncc"
NAME_MAX = 55
"""Longest name in characters; the traffic program has room for no more."""
FOLDER = Path("/run/netns")
"""Folder of the network namespaces that have a name."""
GONE_WITHIN_S = 5.0
"""Seconds that a killed process may take to end."""
_OWNED = re.compile(rf"{PREFIX}-(\d+)-(\d+)-(\d+)-")
_CLONE_NEWNET = 0x40000000


def start_ticks(pid: int) -> int | None:
    """Return the start time of a process in ticks since boot; None if there is no such process or it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, *fields = stat.rpartition(")")[2].split()
    return None if state in "ZX" else int(fields[18])  # field 22 of proc(5); the state is field 3


def owner() -> str:
    """Return the prefix of the names of this process's namespaces."""
    return f"{PREFIX}-{os.getpid()}-{start_ticks(os.getpid())}-{_pid_namespace()}"


def _pid_namespace() -> int:
    return Path("/proc/self/ns/pid").stat().st_ino


def path(name: str) -> Path:
    """Path of the file of a namespace; a process that opens it may enter the namespace."""
    return FOLDER / name


def names() -> list[str]:
    """List the namespaces of this machine that have a name, in order."""
    return sorted(entry.name for entry in FOLDER.iterdir()) if FOLDER.is_dir() else []


def create(name: str) -> None:
    """Make a namespace, whose loopback is up."""
    iproute2("ip", "netns", "add", name)
    iproute2("ip", "-n", name, "link", "set", "lo", "up")


def iproute2(*command: str, lines: Sequence[str] = ()) -> None:
    """Run a command of iproute2 (`ip` or `tc`), with `lines` for its standard input.

    Raises:
        DatapathError: it is refused, or iproute2 is not installed.
    """
    try:
        done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise DatapathError(f"{command[0]} is not installed (package iproute2).") from None
    if done.returncode:
        if os.geteuid():
            raise _not_root(done.stderr.strip())
        raise DatapathError(f"The kernel refuses `{' '.join(command)}`: {done.stderr.strip()}.")


def _not_root(refusal: str) -> DatapathError:
    return DatapathError(
        f"Network namespaces take root (sudo), or CAP_SYS_ADMIN and CAP_NET_ADMIN ({refusal}): run as root, or use "
        "datapath=packetsim."
    )


@contextmanager
def inside(name: str) -> Iterator[None]:
    """Move the calling thread into a namespace for the block; sockets opened there stay in that namespace.

    Args:
        name: name of the namespace, or path of a file of it.

    Raises:
        ConfigError: there is no such namespace, or this process may not enter it.
    """
    libc, where = ctypes.CDLL(None, use_errno=True), path(name)
    with ExitStack() as undo:
        here, there = (_opened(file, undo) for file in (Path("/proc/thread-self/ns/net"), where))
        if libc.setns(there, _CLONE_NEWNET):
            raise ConfigError(
                f"Network namespace {where} cannot be entered ({os.strerror(ctypes.get_errno())}): it takes root "
                "(sudo), or CAP_SYS_ADMIN, and a file of a network namespace."
            )
        try:
            yield
        finally:
            if libc.setns(here, _CLONE_NEWNET):
                raise DatapathError(f"A network namespace cannot be left: {os.strerror(ctypes.get_errno())}.")


def _opened(file: Path, undo: ExitStack) -> int:
    try:
        opened = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigError(f"Network namespace {file} cannot be opened: {error.strerror}.") from None
    undo.callback(os.close, opened)
    return opened


def in_new(call: Callable[[], T]) -> T:
    """Run `call` in a thread of its own and in a new network namespace; return the result of `call`.

    The namespace is gone when this function returns. The caller's thread stays in its own namespace.

    Raises:
        DatapathError: this process may not make a network namespace.
    """
    libc = ctypes.CDLL(None, use_errno=True)

    def run() -> T:
        if libc.unshare(_CLONE_NEWNET):  # of this thread only
            raise _not_root(os.strerror(ctypes.get_errno()))
        return call()

    with ThreadPoolExecutor(1, "ncc-namespace") as thread:
        return thread.submit(run).result()


def processes(name: str) -> list[int]:
    """List the processes in a namespace, except this one."""
    try:
        target = path(name).stat()
    except FileNotFoundError:
        return []
    pids = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
                namespace = (entry / "ns" / "net").stat()
                if (namespace.st_dev, namespace.st_ino) == (target.st_dev, target.st_ino):
                    pids.append(int(entry.name))
    return pids


def remove(name: str) -> None:
    """End every process in a namespace and remove it; do nothing if there is no such namespace.

    The kernel removes its devices, queues and programs a moment later.
    """
    for pid in processes(name):
        _kill(pid, name)
    if path(name).exists():
        iproute2("ip", "netns", "delete", name)


def _kill(pid: int, name: str) -> None:
    with suppress(ProcessLookupError), ExitStack() as undo:
        undo.callback(os.close, process := os.pidfd_open(pid))
        if pid not in processes(name):  # another process may have this number by now
            return
        signal.pidfd_send_signal(process, signal.SIGKILL)
        if not select.select([process], [], [], GONE_WITHIN_S)[0]:
            raise DatapathError(f"Process {pid} in network namespace {name} does not end on SIGKILL; end it by hand.")


def sweep() -> tuple[str, ...]:
    """Remove the namespaces of runs whose process has ended, with any processes in them; return their names."""
    swept, here = [], _pid_namespace()
    for name in names():
        owned = _OWNED.match(name)
        if owned and int(owned[3]) == here and start_ticks(int(owned[1])) != int(owned[2]):
            remove(name)
            swept.append(name)
    return tuple(swept)
