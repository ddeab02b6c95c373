# SPDX-License-Identifier: BSD-3-Clause
"""Waiting for resources that only one process of a machine can have at a time."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TypeVar

import pytest

from ncc.core.errors import DatapathError
from ncc.envs.linux import machine

T = TypeVar("T")
WAIT_S = 120.0


def patiently(attempt: Callable[[], T]) -> T:
    """Return what `attempt` does, once no other run has the machine or a controller's name; fail if that lasts."""
    until = time.monotonic() + WAIT_S
    while True:
        try:
            return attempt()
        except DatapathError as error:
            if not ("wait for it" in str(error) or "cannot be registered" in str(error)):
                raise
            if time.monotonic() > until:
                pytest.fail(f"another run has this machine for longer than {WAIT_S:g} s: {error}")
            time.sleep(0.2)


@contextmanager
def exclusively(*, shared: bool = False) -> Iterator[None]:
    """Keep others from running flows on this machine; `shared`: agents may run beside."""
    with ExitStack() as held:
        patiently(lambda: held.enter_context(machine.taken(shared=shared)))
        yield
