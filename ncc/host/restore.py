# SPDX-License-Identifier: BSD-3-Clause
"""Settings of a network namespace that an agent changes and puts back.

They are two sysctls for `--default`, one that every agent sets (`AUTOCORKING`), one for `--send-buffer`, and the queues
of interfaces. An agent first writes the former values of sysctls to a file below `machine.FOLDER`. If it is killed, the
next agent or ``ncc host restore`` puts them back. ``restore`` also removes the queues that such an agent has left.
"""

import argparse
import fcntl
import os
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from ncc.core.errors import DatapathError, ResultError
from ncc.envs.linux import device, machine
from ncc.envs.linux.stack import SKB_OVERHEAD
from ncc.harness.atomic import write_text
from ncc.host import record

DEFAULT = Path("/proc/sys/net/ipv4/tcp_congestion_control")
ECN = Path("/proc/sys/net/ipv4/tcp_ecn")
AUTOCORKING = Path("/proc/sys/net/ipv4/tcp_autocorking")
"""Sysctl that is turned off. It holds back a message's last bytes until its first packet has left the host's queue."""
SEND_BUFFER = Path("/proc/sys/net/ipv4/tcp_wmem")
"""Sysctl with three sizes of a socket's send buffer, in bytes of memory: smallest, first, and largest."""
TAKEN = 3
"""Exit status of ``ncc host restore`` while an agent is alive here."""


class TakenError(DatapathError):
    """Another agent has the lock of this network namespace."""


class Changed(msgspec.Struct, frozen=True):
    """A sysctl that an agent has changed."""

    before: str
    """Value before the change."""
    set: str
    """Value that the agent has set."""


def first_send_buffer(payload_bytes: int) -> str:
    """Return the value of `SEND_BUFFER` with which an application can write `payload_bytes` at once to a new socket.

    Packets take up to twice their payload in memory. No size gets smaller than it is.
    """
    least, first, largest = map(int, _read(SEND_BUFFER).split())
    first = max(first, SKB_OVERHEAD * payload_bytes)
    return f"{least}\t{first}\t{max(first, largest)}"


def check_settable(paths: Iterable[Path]) -> None:
    """Raise `DatapathError` if this process may not write one of these sysctls."""
    for path in paths:
        if not os.access(path, os.W_OK, effective_ids=True):
            raise DatapathError(f"The agent writes {path}, and this process may not: it takes CAP_NET_ADMIN.")


@contextmanager
def changed(wanted: Mapping[Path, str]) -> Iterator[None]:
    """Set sysctls in a context, and put their former values back after it. The caller holds the lock (`alone`).

    A sysctl that somebody else has changed meanwhile is not put back.

    Args:
        wanted: value of each sysctl, in the form in which the kernel prints it.

    Raises:
        DatapathError: the kernel refuses.
        ResultError: the record that a killed agent has left cannot be read.
    """
    if not wanted:
        yield
        return
    settings = left()  # settings left by a killed agent are put back with ours
    for path, value in wanted.items():
        now, known = _read(path), settings.get(str(path))
        settings[str(path)] = Changed(known.before if known and known.set == now else now, value)
    write_text(_record(), msgspec.json.encode(settings).decode())
    _record().chmod(record.READABLE)
    try:
        for path, value in wanted.items():
            _write(path, value)
        yield
    finally:
        _restore(settings)


def command(_: argparse.Namespace) -> int:
    """Run ``ncc host restore``: print the settings that were put back; return 0, or `TAKEN`.

    Other errors are those of `restore`.
    """
    try:
        restored = [f"{name} is {value} again" for name, value in restore().items()]
    except TakenError as error:
        print(f"error: {error}", file=sys.stderr)
        return TAKEN
    print(*(restored or ["No agent left anything changed in this network namespace."]), sep="\n")
    return 0


def restore() -> dict[str, str]:
    """Put back the settings that a killed agent has left in this network namespace.

    Returns:
        For each sysctl that was put back its value; and an entry for each interface that lost an agent's queue.

    Raises:
        TakenError: an agent is alive here.
        DatapathError: the kernel refuses.
        ResultError: the record of former values cannot be read.
    """
    with alone(restores=True):
        record.sweep()
        freed = {name: "without an agent's queue" for _, name in socket.if_nameindex() if device.restore(name)}
        return freed | _restore(left())


def _restore(settings: dict[str, Changed]) -> dict[str, str]:
    """Put back as many of these sysctls as the kernel allows, and return their values.

    Raises:
        DatapathError: the kernel refuses one; the record is kept.
    """
    restored, refused = {}, None
    for name, setting in settings.items():
        try:
            if _read(Path(name)) == setting.set != setting.before:
                _write(Path(name), setting.before)
                restored[name] = setting.before
        except DatapathError as error:
            refused = error
    if refused is not None:
        raise refused
    _record().unlink(missing_ok=True)
    return restored


def left() -> dict[str, Changed]:
    """Return the sysctls that an agent of this network namespace has changed, if any, by their paths."""
    try:
        settings = msgspec.json.decode(_record().read_bytes(), type=dict[str, Changed])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError) as error:
        raise ResultError(
            f"{_record()} cannot be used ({error}): look at it, set net.ipv4.tcp_congestion_control by hand, remove it"
        ) from None
    known = {str(path) for path in (DEFAULT, ECN, AUTOCORKING, SEND_BUFFER)}
    return {name: setting for name, setting in settings.items() if name in known}


@contextmanager
def alone(*, restores: bool = False) -> Iterator[None]:
    """Hold the lock of this network namespace, which the kernel frees when the process dies. Its file is removed.

    `restores` is that of `machine.open_lock`.

    Raises:
        TakenError: another agent has it.
        DatapathError: its file cannot be opened.
    """
    path = _record().with_suffix(".lock")
    while True:
        lock = machine.open_lock(path.name, restores=restores)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise TakenError(
                "Another agent has changed settings of this network namespace: end it first, or let one agent have "
                "several hosts."
            ) from None
        with suppress(FileNotFoundError):
            if os.path.samestat(path.stat(), os.fstat(lock)):
                break
        os.close(lock)  # its former holder has removed the file meanwhile
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(lock)


def _record() -> Path:
    """Return the path of the record of this network namespace."""
    return machine.FOLDER / f"{machine.namespace_cookie()}.json"


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError as error:
        raise DatapathError(f"Cannot read {path}: {error.strerror}.") from None


def _write(path: Path, value: str) -> None:
    try:
        path.write_text(value)
    except OSError as error:
        raise DatapathError(f"Cannot set {path} to {value}: {error.strerror}.") from None
