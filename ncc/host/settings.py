# SPDX-License-Identifier: BSD-3-Clause
"""The two settings of a network namespace that `--default` changes, and puts back, even after a SIGKILL, if late.

What they were is written under /run before they are changed, so that whoever starts an agent next, or calls
``ncc host restore``, knows it.
"""

import os
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from ncc.core.errors import DatapathError, ResultError
from ncc.harness.atomic import write_text

DEFAULT = Path("/proc/sys/net/ipv4/tcp_congestion_control")
ECN = Path("/proc/sys/net/ipv4/tcp_ecn")
RUN = Path("/run")
SO_NETNS_COOKIE = 71
"""asm-generic/socket.h, since Linux 5.14."""


class Changed(msgspec.Struct, frozen=True):
    """A setting that an agent has changed."""

    before: str
    set: str


def settable(*, ecn: bool) -> list[Path]:
    """Settings that are to be changed.

    Raises:
        DatapathError: this process may not.
    """
    found = [DEFAULT, *([ECN] if ecn else [])]
    for path in found:
        if not os.access(path, os.W_OK):
            raise DatapathError(f"--default writes {path}, and this process may not: it takes root (sudo).")
    return found


@contextmanager
def changed(paths: Sequence[Path], congestion: str) -> Iterator[None]:
    """With `congestion` as the default, and ECN; afterwards as before, but for what somebody else changed meanwhile.

    Raises:
        DatapathError: the kernel refuses, or another agent has done the same in this network namespace.
    """
    if not paths:
        yield
        return
    wanted = {DEFAULT: congestion, ECN: "1"}
    with closing(_alone()):
        settings = _left()  # what this agent does not change goes back with the rest
        for path in paths:
            now, known = _read(path), settings.get(str(path))
            settings[str(path)] = Changed(known.before if known and known.set == now else now, wanted[path])
        write_text(_state(), msgspec.json.encode(settings).decode())
        try:
            for path in paths:
                _write(path, wanted[path])
            yield
        finally:
            _restore(settings)


def restore() -> dict[str, str]:
    """Put back what a killed agent has left in this network namespace; what was put back, by setting.

    Raises:
        DatapathError: its agent is alive, or the kernel refuses.
        ResultError: what is written under /run cannot be read.
    """
    with closing(_alone()):
        return _restore(_left())


def _restore(settings: dict[str, Changed]) -> dict[str, str]:
    """All that can be; what was, by setting. Unless all was, it stays known what they were."""
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
    _state().unlink(missing_ok=True)
    return restored


def _left() -> dict[str, Changed]:
    try:
        found = msgspec.json.decode(_state().read_bytes(), type=dict[str, Changed])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError) as error:
        raise ResultError(
            f"{_state()} cannot be used ({error}): look at it, set net.ipv4.tcp_congestion_control by hand, remove it"
        ) from None
    return {name: setting for name, setting in found.items() if name in (str(DEFAULT), str(ECN))}


def _alone() -> socket.socket:
    """Names of this kind belong to one network namespace and go with the process that has them (unix(7))."""
    taken = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    try:
        taken.bind("\0ncc-host-default")
    except OSError as error:
        taken.close()
        raise DatapathError(
            f"Another agent has set the default of this network namespace ({error.strerror}): end it first, or leave "
            "out --default."
        ) from None
    return taken


def _state() -> Path:
    """Of this network namespace, by its cookie: an inode number would go on to a later namespace."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as asking:
        cookie = int.from_bytes(asking.getsockopt(socket.SOL_SOCKET, SO_NETNS_COOKIE, 8), sys.byteorder)
    return RUN / f"ncc-host-{cookie}.json"


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
