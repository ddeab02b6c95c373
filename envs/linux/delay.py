# SPDX-License-Identifier: BSD-3-Clause
"""`Delay`: a running delay program (programs/delay.c), which is both ends of one link with a long delay."""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from select import select

from ncc.core.errors import DatapathError
from ncc.core.units import bdp_bytes, to_ns
from ncc.envs.linux.objects import helper

HOP_S = 30e-6
"""Shortest delay that is set: a hop takes some 8 us by itself, and its processors may be busy."""
OWN_S = 50e-6
"""Time that the program itself adds to a packet, mostly by waking up; packets are released that much earlier."""
MIN_DELAY_S = 200e-6
"""Smallest delay that is kept to within some 10 %."""
SPARE_PKTS = 1024
SMALL_BYTES = 250
"""Lower bound of the average packet size, from which follows how many packets may be on the link at once."""
ANSWER_WITHIN_S = 10.0


@dataclass(frozen=True)
class End:
    """One end of the link: a device that the program makes."""

    namespace: Path
    device: str
    index: int


@dataclass(frozen=True)
class DelayCounts:
    """Packets and lateness of the program so far, both directions together."""

    passed_pkts: int
    dropped_pkts: int
    """Packets dropped because the ring was full or the other end refused them."""
    late_max_s: float
    late_sum_s: float
    """Sum over all passed packets of the time by which they were late."""


class Delay:
    """The two devices of a link: packets that enter one leave the other `delay_s` later. They end with the program.

    Raises:
        DatapathError: the program is not built or cannot make the devices.
    """

    def __init__(self, a: End, b: End, delay_s: float, rate_bps: float, mtu_bytes: int) -> None:
        ring_pkts = SPARE_PKTS + int(bdp_bytes(rate_bps, delay_s) / SMALL_BYTES)
        command = [str(helper("delay")), str(to_ns(delay_s - OWN_S)), str(ring_pkts), str(mtu_bytes)]
        for end in (a, b):
            command += [str(end.namespace), end.device, str(end.index)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            process_group=0,  # Ctrl-C must reach only the process that waits for the run
        )
        try:
            self._answer()
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Process id of the program."""
        return self._process.pid

    def counts(self) -> DelayCounts:
        """Ask the program for its counts so far.

        Raises:
            DatapathError: the program has ended.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(b"?\n")
        except (BrokenPipeError, ValueError):
            raise DatapathError("The delay program of a link has ended.") from None
        passed, dropped, late_max, late_sum = map(int, self._answer().split())
        return DelayCounts(passed, dropped, late_max / 1e9, late_sum / 1e9)

    def close(self) -> None:
        """End the program, and its devices with it. May be called twice."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def _answer(self) -> str:
        process = self._process
        assert process.stdout is not None
        assert process.stderr is not None
        if not select([process.stdout], [], [], ANSWER_WITHIN_S)[0]:
            raise DatapathError(f"The delay program of a link did not answer within {ANSWER_WITHIN_S:g} s.")
        if said := process.stdout.readline():
            return said.decode()
        raise DatapathError(
            f"The delay program of a link ended: {process.stderr.read().decode(errors='replace').strip()}."
        )
