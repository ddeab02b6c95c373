# SPDX-License-Identifier: BSD-3-Clause
"""Memory of a process, as Linux counts it, and memory that processes share."""

import os
import tempfile
from pathlib import Path

from ncc.core.errors import ConfigError

SHARED = Path("/dev/shm")
"""Folder in which Linux keeps shared memory (shm_overview(7))."""


def memory_bytes(field: str, pid: int | str = "self") -> int:
    """Read a field of /proc/<pid>/status (proc_pid_status(5)) in bytes: VmRSS is resident memory, VmHWM its peak.

    VmHWM counts from the start of the program. The peak of getrusage(2) may instead be that of the parent process.
    """
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split(f"{field}:")[1].split()[0]) * 1024


def require_shared_memory(what: str, least_bytes: int) -> None:
    """Check that there is enough room in shared memory.

    Without room, Linux kills a process that writes to shared memory (SIGBUS).

    Args:
        what: the part of ncc that needs shared memory, as the subject of the error's sentence.
        least_bytes: room to require: the most bytes that this part may need.

    Raises:
        ConfigError: /dev/shm cannot be written, or has less room.
    """
    needs = f"{what} needs {least_bytes >> 20} MiB of shared memory in {SHARED}"
    remedy = f"mount a tmpfs there (docker run --shm-size={4 * least_bytes >> 20}m)"
    try:
        with tempfile.TemporaryFile(dir=SHARED):
            room = os.statvfs(SHARED)
    except OSError as error:
        raise ConfigError(f"{needs}, which cannot be written here ({error.strerror}); {remedy}") from None
    if (free_bytes := room.f_bavail * room.f_frsize) < least_bytes:
        raise ConfigError(f"{needs}, which has {free_bytes >> 10} KiB left; {remedy}")
