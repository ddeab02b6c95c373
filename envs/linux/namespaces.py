# SPDX-License-Identifier: BSD-3-Clause
"""Network namespaces of a run, named after its process so that later runs can remove what a crash leaves behind.

A name (`ncc-<pid>-<start time of that process>-<its pid namespace>-...`) identifies the process that made it. `sweep`
uses it to tell the namespaces of a crashed run from those of a running one, or of another container.
"""

import os
import re
import select
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from ncc.core.errors import DatapathError
from ncc.core.extras import require_extra
from ncc.envs.linux.enter import in_namespace, not_root

require_extra("linux", "datapath=linux")

from pyroute2 import netns  # noqa: E402 - after the check

PREFIX = "ncc"
NAME_MAX = 55
"""Longest name in characters; the traffic program has room for no more."""
GONE_WITHIN_S = 5.0
"""Seconds that a killed process may take to end."""
_OWNED = re.compile(rf"{PREFIX}-(\d+)-(\d+)-(\d+)-")


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
    return Path(netns.NETNS_RUN_DIR) / name


def create(name: str) -> None:
    """Make a namespace."""
    if len(name) > NAME_MAX:
        raise DatapathError(f"A namespace's name must have at most {NAME_MAX} characters, got {name!r}.")
    try:
        in_namespace(None, lambda: netns.attach(name, threading.get_native_id()))
    except OSError as error:
        remove(name)
        raise DatapathError(f"Cannot make network namespace {name}: {error}.") from None


@contextmanager
def inside(name: str) -> Iterator[None]:
    """Move the calling thread into a namespace for the block; sockets opened there stay in that namespace."""
    here = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        netns.setns(name, flags=0)
        try:
            yield
        finally:
            netns.setns(here)
    finally:
        os.close(here)


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
    try:
        netns.remove(name)
    except FileNotFoundError:
        return
    except PermissionError as error:
        raise not_root(str(error.strerror)) from None


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
    for name in sorted(netns.listnetns()):
        owned = _OWNED.match(name)
        if owned and int(owned[3]) == here and start_ticks(int(owned[1])) != int(owned[2]):
            remove(name)
            swept.append(name)
    return tuple(swept)
