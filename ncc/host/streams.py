# SPDX-License-Identifier: BSD-3-Clause
"""Standard streams: each of their descriptors is open, so that no file of ours gets the number of one."""

import os
import sys

STANDARD = range(3)


def open_standard() -> None:
    """Open those that are closed on /dev/null: what is written to them is lost, and nothing else is written over."""
    for descriptor in STANDARD:
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest that is free, which is this one
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # as Python leaves it where it found the descriptor closed
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115, PTH123
