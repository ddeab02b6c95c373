# SPDX-License-Identifier: BSD-3-Clause
"""Capabilities of an agent: it needs three to begin, and gives up all but one before it reads any message."""

import ctypes
import os
import struct
from pathlib import Path

from ncc.core.errors import DatapathError
from ncc.envs.linux.check import CAPABILITIES, capabilities

NEEDED = ("CAP_BPF", "CAP_PERFMON", "CAP_NET_ADMIN")
KEPT = "CAP_NET_ADMIN"
"""Capability that an agent keeps, to change limits and to put settings back."""
_VERSION_3, _NO_NEW_PRIVILEGES = 0x20080522, 38
"""Constants of linux/capability.h and linux/prctl.h."""


def check() -> None:
    """Raise `DatapathError` if this process lacks one of the capabilities `NEEDED`."""
    held = capabilities()
    lacking = [name for name in NEEDED if not held >> CAPABILITIES[name][0] & 1]
    if lacking:
        which = "all of them" if len(lacking) == len(NEEDED) else " and ".join(lacking)
        raise DatapathError(
            f"The agent of a host needs {', '.join(NEEDED[:-1])} and {NEEDED[-1]} and lacks {which}: run it as root "
            "(sudo), or by the systemd unit."
        )


def drop() -> None:
    """Give up all capabilities except `KEPT` for good, also for programs that this process might start.

    Raises:
        DatapathError: this process has other threads, which would keep theirs; or the kernel refuses.
    """
    if (threads := len(list(Path("/proc/self/task").iterdir()))) > 1:
        raise DatapathError(
            f"This process has {threads} threads, and each would keep its capabilities: run `ncc host run` as a "
            "process of its own, and load nothing that starts threads."
        )
    kept = 1 << CAPABILITIES[KEPT][0]
    low, high = kept & 0xFFFF_FFFF, kept >> 32
    libc = ctypes.CDLL(None, use_errno=True)
    head, sets = struct.pack("=Ii", _VERSION_3, 0), struct.pack("=6I", low, low, 0, high, high, 0)
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.capset(head, sets):
        raise DatapathError(f"This process cannot give up its capabilities: {os.strerror(ctypes.get_errno())}.")
