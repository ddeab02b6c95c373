# SPDX-License-Identifier: BSD-3-Clause
"""Takeover of a run whose process was killed while its flows go on (`LinuxSettings.outlive`).

The traffic program keeps what the run still needs: the registration of the congestion control, and the program that
samples the ports. The process that takes over finds the traffic program by the table of flows that it has open.
"""

import ctypes
import mmap
import os
import select
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np

from ncc.core.errors import DatapathError
from ncc.core.flows import FlowTable
from ncc.envs.linux.namespaces import sweep
from ncc.envs.linux.orphans import maps_if
from ncc.envs.linux.switch import STATS, Switch
from ncc.envs.linux.traffic import FLOW, HEADER, HOST, MAGIC, TABLE, Traffic

SAMPLE = "ncc_switch_sample"
GONE_WITHIN_S = 5.0
_LIBC = ctypes.CDLL(None, use_errno=True)
_PIDFD_GETFD = 438
"""Number of the system call on every architecture."""


class LeftTraffic(Traffic):
    """The traffic program of a run that was left; `close` ends the program and removes the rack.

    Raises:
        DatapathError: no program sends these flows, or its run had not begun.
    """

    def __init__(self, flows: FlowTable, sample_s: float) -> None:
        self._fd, self._process = -1, None
        found = next(((pid, path) for pid, path in _tables() if self._open(path, flows)), None)
        if found is None:
            raise DatapathError(
                "No run on linux was left that sends these flows: start it with datapath.linux.settings.outlive=true, "
                "and take it over with the same scenario and seed."
            )
        self._pid = found[0]
        self._alive = os.pidfd_open(self._pid)
        # The pipes for requests of TCP_INFO were closed with the process, so the program must sample by itself.
        self.header["sample_ns"] = round(sample_s * 1e9)
        if not self.start_ns:
            self.close()
            raise DatapathError("The run that was left had not begun: start another.")

    def _open(self, path: Path, flows: FlowTable) -> bool:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        table = mmap.mmap(fd, os.fstat(fd).st_size)
        header = np.frombuffer(table, HEADER, 1)
        if int(header["magic"][0]) == MAGIC and int(header["n_flows"][0]) == len(flows):
            at = HEADER.itemsize + int(header["n_hosts"][0]) * HOST.itemsize
            rows = np.frombuffer(table, FLOW, len(flows), at)
            starts = np.rint(flows.start_s * 1e9)
            if (rows["size_bytes"] == flows.size_bytes).all() and (rows["start_ns"] == starts).all():
                self._fd, self.header, self.flows = fd, header, rows
                return True
        os.close(fd)
        return False

    @property
    def pid(self) -> int:
        return self._pid

    @property
    def start_ns(self) -> int:
        """Time 0 on CLOCK_MONOTONIC."""
        return int(self.header["start_ns"][0])

    def switch(self, n_ports: int) -> Switch:
        """Return the counters at the ports of the run's rack."""
        for entry in Path(f"/proc/{self._pid}/fd").iterdir():
            if not str(entry.readlink()).startswith("anon_inode:bpf-prog"):
                continue
            fd = int(_LIBC.syscall(_PIDFD_GETFD, self._alive, int(entry.name), 0))
            if fd < 0:
                why = os.strerror(ctypes.get_errno())
                raise DatapathError(f"The traffic program would not show what it holds: {why}.")
            if (maps := maps_if(fd, SAMPLE)) is not None:
                return LeftSwitch(fd, maps["port_stats"].view(STATS)[:n_ports])
            os.close(fd)
        raise DatapathError("The traffic program that was left does not hold the counters of its rack.")

    def snapshot(self) -> None:
        """Do nothing: after a takeover the program samples every period."""

    def check(self) -> None:
        if select.select([self._alive], [], [], 0)[0] and not self.over:
            raise DatapathError("The traffic program ended before its flows did.")

    def close(self) -> None:
        if self._fd < 0:
            return
        os.close(self._fd)
        self._fd = -1
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._alive, signal.SIGKILL)
        select.select([self._alive], [], [], GONE_WITHIN_S)
        os.close(self._alive)
        sweep()


class LeftSwitch(Switch):
    """The sampling program of a rack that was left, accessed by its descriptor."""

    def __init__(self, sample: int, stats: np.ndarray) -> None:
        self._sample, self._stats = sample, stats

    def close(self) -> None:
        if self._sample >= 0:
            os.close(self._sample)
            self._sample = -1


def _tables() -> Iterator[tuple[int, Path]]:
    """Iterate over the tables of flows that processes have open; yield process id and path."""
    for process in Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            for entry in (process / "fd").iterdir():
                if str(entry.readlink()).startswith(f"/memfd:{TABLE}"):
                    yield int(process.name), entry
                    break
