# SPDX-License-Identifier: BSD-3-Clause
"""Calls in another network namespace, each in a thread of its own."""

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from ncc.core.errors import ConfigError, DatapathError

T = TypeVar("T")
CLONE_NEWNET = 0x40000000


def not_root(refusal: str) -> DatapathError:
    """Error of a process that may not make or remove namespaces; `refusal` is the kernel's message."""
    return DatapathError(
        f"Network namespaces take root (sudo), or CAP_SYS_ADMIN and CAP_NET_ADMIN ({refusal}): run as root, or use "
        "datapath=packetsim."
    )


def in_namespace(path: Path | None, call: Callable[[], T]) -> T:
    """Run `call` in the network namespace of a file, or in a new one if `path` is None; return its result.

    A new namespace ends with the call, unless `call` has given it a name.
    """
    libc = ctypes.CDLL(None, use_errno=True)

    def run() -> T:
        if path is None:
            if libc.unshare(CLONE_NEWNET):  # of this thread only
                raise not_root(os.strerror(ctypes.get_errno()))
            return call()
        try:
            opened = path.open("rb")
        except OSError as error:
            raise ConfigError(f"Network namespace {path} cannot be opened: {error.strerror}.") from None
        with opened:
            if libc.setns(opened.fileno(), CLONE_NEWNET):
                raise ConfigError(
                    f"Network namespace {path} cannot be entered ({os.strerror(ctypes.get_errno())}): it takes root "
                    "(sudo), or CAP_SYS_ADMIN, and a file of a network namespace."
                )
        return call()

    with ThreadPoolExecutor(1, "ncc-namespace") as thread:
        return thread.submit(run).result()
