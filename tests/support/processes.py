# SPDX-License-Identifier: BSD-3-Clause
"""Processes that tests watch."""

from pathlib import Path


def alive(pid: int) -> bool:
    """True if a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
