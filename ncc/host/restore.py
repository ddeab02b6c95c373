# SPDX-License-Identifier: BSD-3-Clause
"""Settings of a network namespace that an agent changes and puts back; after a SIGKILL, ``ncc host restore`` does.

They are two sysctls for `--default`, one for queues, one for `--send-buffer`, and the queues, known by their filter.
Former values of sysctls are written below `machine.FOLDER` first, for the next agent and for ``restore``.
"""

import argparse
import fcntl
import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from ncc.core.errors import DatapathError, ResultError
from ncc.envs.linux import device, machine
from ncc.envs.linux.stack import SKB_OVERHEAD
from ncc.harness.atomic import write_text

DEFAULT = Path("/proc/sys/net/ipv4/tcp_congestion_control")
ECN = Path("/proc/sys/net/ipv4/tcp_ecn")
AUTOCORKING = Path("/proc/sys/net/ipv4/tcp_autocorking")
"""Holds back the last bytes of a message until its first packet has left, which takes long behind a host's queue."""
SEND_BUFFER = Path("/proc/sys/net/ipv4/tcp_wmem")
"""Least, first and largest send buffer of a socket, in bytes of memory; packets take up to twice their payload."""


class Changed(msgspec.Struct, frozen=True):
    """A sysctl that an agent has changed."""

    before: str
    set: str


def first_send_buffer(payload_bytes: int) -> str:
    """Return the value of `SEND_BUFFER` with which a new socket takes at least `payload_bytes` at once."""
    least, first, largest = map(int, _read(SEND_BUFFER).split())
    first = max(first, SKB_OVERHEAD * payload_bytes)
    return f"{least}\t{first}\t{max(first, largest)}"


def check_settable(paths: Iterable[Path]) -> None:
    """Raise `DatapathError` for a sysctl that this process may not write."""
    for path in paths:
        if not os.access(path, os.W_OK, effective_ids=True):
            raise DatapathError(f"The agent writes {path}, and this process may not: it takes CAP_NET_ADMIN.")


@contextmanager
def changed(wanted: Mapping[Path, str]) -> Iterator[None]:
    """Set sysctls to wanted values, given as the kernel prints them; the caller holds the lock (`alone`).

    They are put back afterwards, unless somebody else has changed them.

    Raises:
        DatapathError: the kernel refuses.
    """
    if not wanted:
        yield
        return
    settings = _left()  # settings left by a killed agent are put back with ours
    for path, value in wanted.items():
        now, known = _read(path), settings.get(str(path))
        settings[str(path)] = Changed(known.before if known and known.set == now else now, value)
    write_text(_record(), msgspec.json.encode(settings).decode())
    try:
        for path, value in wanted.items():
            _write(path, value)
        yield
    finally:
        _restore(settings)


def command(_: argparse.Namespace) -> int:
    """Run ``ncc host restore``: print the settings put back; return 0, or raise as `restore`."""
    restored = [f"{name} is {value} again" for name, value in restore().items()]
    print(*(restored or ["No agent left anything changed in this network namespace."]), sep="\n")
    return 0


def restore() -> dict[str, str]:
    """Put back the settings that a killed agent has left in this network namespace, and return them.

    Raises:
        DatapathError: its agent is alive, or the kernel refuses.
        ResultError: the record cannot be read.
    """
    with alone():
        freed = {name: "without an agent's queue" for _, name in socket.if_nameindex() if device.restore(name)}
        return freed | _restore(_left())


def _restore(settings: dict[str, Changed]) -> dict[str, str]:
    """Put back all settings that can be, and return them. If the kernel refuses one, the record stays."""
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


def _left() -> dict[str, Changed]:
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
def alone() -> Iterator[None]:
    """Hold the lock of this network namespace, which the kernel frees when the process dies.

    Raises:
        DatapathError: another agent has it.
    """
    lock = machine.open_lock(_record().with_suffix(".lock").name)
    with os.fdopen(lock, "wb"):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DatapathError(
                "Another agent has changed settings of this network namespace: end it first, or let one agent have "
                "several hosts."
            ) from None
        yield


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
