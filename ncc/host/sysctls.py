# SPDX-License-Identifier: BSD-3-Clause
"""The two sysctls of a network namespace that `--default` changes, and puts back, even after a SIGKILL, if late.

Their former values are written below `FOLDER` before they are changed, for the next agent and for ``ncc host restore``.
"""

import argparse
import fcntl
import os
import socket
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from ncc.core.errors import DatapathError, ResultError
from ncc.harness.atomic import write_text

DEFAULT = Path("/proc/sys/net/ipv4/tcp_congestion_control")
ECN = Path("/proc/sys/net/ipv4/tcp_ecn")
FOLDER = Path("/run/ncc")
"""Folder of root, or of the user that agents run as: nobody else may hold the lock, or write former values."""
SO_NETNS_COOKIE = 71
"""asm-generic/socket.h, since Linux 5.14."""


class Changed(msgspec.Struct, frozen=True):
    """A sysctl that an agent has changed."""

    before: str
    set: str


def settable(*, ecn: bool) -> list[Path]:
    """Sysctls that `--default` changes."""
    found = [DEFAULT, *([ECN] if ecn else [])]
    for path in found:
        if not os.access(path, os.W_OK):
            raise DatapathError(f"--default writes {path}, and this process may not: it takes root (sudo).")
    return found


@contextmanager
def changed(paths: Sequence[Path], congestion: str) -> Iterator[None]:
    """Set `congestion` as the default, and ECN; put both back afterwards, unless somebody else has changed them.

    Raises:
        DatapathError: the kernel refuses, or another agent has done the same in this network namespace.
    """
    if not paths:
        yield
        return
    wanted = {DEFAULT: congestion, ECN: "1"}
    with _lock():
        settings = _left()  # what this agent does not change goes back with the rest
        for path in paths:
            now, known = _read(path), settings.get(str(path))
            settings[str(path)] = Changed(known.before if known and known.set == now else now, wanted[path])
        write_text(_record(), msgspec.json.encode(settings).decode())
        try:
            for path in paths:
                _write(path, wanted[path])
            yield
        finally:
            _restore(settings)


def command(_: argparse.Namespace) -> int:
    """``ncc host restore``: print what was put back; always 0, errors as `restore`."""
    restored = [f"{name} is {value} again" for name, value in restore().items()]
    print(*(restored or ["No agent left anything changed in this network namespace."]), sep="\n")
    return 0


def restore() -> dict[str, str]:
    """Put back the sysctls that a killed agent has left in this network namespace, and return them.

    Raises:
        DatapathError: its agent is alive, or the kernel refuses.
        ResultError: the record cannot be read.
    """
    with _lock():
        return _restore(_left())


def _restore(settings: dict[str, Changed]) -> dict[str, str]:
    """Put back all that can be, and return it. Unless all was put back, the former values stay on record."""
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
        found = msgspec.json.decode(_record().read_bytes(), type=dict[str, Changed])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError) as error:
        raise ResultError(
            f"{_record()} cannot be used ({error}): look at it, set net.ipv4.tcp_congestion_control by hand, remove it"
        ) from None
    return {name: setting for name, setting in found.items() if name in (str(DEFAULT), str(ECN))}


@contextmanager
def _lock() -> Iterator[None]:
    """Hold the lock of this network namespace, which the kernel frees when the process dies."""
    path = _record().with_suffix(".lock")
    try:
        _make_folder()
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)  # readers could lock it
    except OSError as error:
        raise DatapathError(f"Cannot open {path}: {error.strerror}; --default and restore take root (sudo).") from None
    with os.fdopen(lock, "wb"):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DatapathError(
                "Another agent has set the default of this network namespace: end it first, or leave out --default."
            ) from None
        yield


def _make_folder() -> None:
    """Make `FOLDER` if it is not there; refuse one in which others may write."""
    with suppress(FileExistsError):
        FOLDER.mkdir(mode=0o755)
    found = FOLDER.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (0, os.geteuid()) or found.st_mode & 0o022:
        raise DatapathError(
            f"{FOLDER} is no folder in which root alone may write: somebody else made it; look at it, and remove it"
        )


def _record() -> Path:
    """The record of this network namespace, by its cookie: an inode number would go on to a later namespace."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as asking:
        cookie = int.from_bytes(asking.getsockopt(socket.SOL_SOCKET, SO_NETNS_COOKIE, 8), sys.byteorder)
    return FOLDER / f"{cookie}.json"


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
