# SPDX-License-Identifier: BSD-3-Clause
"""Processes that tests watch, and waiting for what takes a moment."""

import time
from collections.abc import Callable
from pathlib import Path

PATIENCE_S = 60.0
"""Time within which a machine with any other work gets everything here done."""


def alive(pid: int) -> bool:
    """True if a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def eventually(holds: Callable[[], object], for_s: float = PATIENCE_S) -> bool:
    """Wait until something is so; False if that takes longer than `for_s`."""
    until_s = time.monotonic() + for_s
    while not holds():
        if time.monotonic() > until_s:
            return False
        time.sleep(0.005)
    return True
