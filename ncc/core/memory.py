# SPDX-License-Identifier: BSD-3-Clause
"""Memory of a process, as Linux counts it."""

from pathlib import Path


def memory_bytes(field: str, pid: int | str = "self") -> int:
    """Bytes of a field of /proc/<pid>/status (proc_pid_status(5)): VmRSS, resident now, or VmHWM, the most so far.

    VmHWM counts from the start of the program. The peak of getrusage(2) includes the parent's before it.
    """
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split(f"{field}:")[1].split()[0]) * 1024
