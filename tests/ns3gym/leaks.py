# SPDX-License-Identifier: BSD-3-Clause
"""Checks that no descriptor (sockets among them), thread, process or taken port is left behind."""

import itertools
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import zmq
import zmq.utils.monitor  # noqa: F401 - what is imported first opens files, which is no leak

from tests.support.processes import eventually

_FIRST = 20_000 + 100 * (os.getpid() % 100)
_PORTS = itertools.cycle(range(_FIRST, _FIRST + 100))


def free_port() -> int:
    """A port that nobody has, below those that the kernel hands out: nobody else gets it before it is used."""
    return next(port for port in _PORTS if port_is_free(port))


def port_is_free(port: int) -> bool:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


@contextmanager
def nothing_left() -> Iterator[None]:
    """Assert that what runs inside leaves no descriptor, thread or process."""
    before = _mine()
    yield
    assert eventually(lambda: _mine() <= before), f"left behind: {_mine()}, before {before}"


class _Counts(tuple[int, int, int]):
    def __le__(self, other: tuple[int, ...]) -> bool:
        return all(mine <= theirs for mine, theirs in zip(self, other, strict=True))


def _mine() -> _Counts:
    tasks = list(Path("/proc/self/task").iterdir())
    children = []
    for task in tasks:
        try:
            children += (task / "children").read_text().split()
        except FileNotFoundError:  # that thread has ended meanwhile
            continue
    return _Counts((len(list(Path("/proc/self/fd").iterdir())), len(tasks), len(children)))
