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
"""Longest delay of a link that gets no delay program: a hop by itself takes about 8 us, more on busy processors."""
OWN_S = 50e-6
"""Time that the program itself adds to a packet, mostly by waking up; packets are released that much earlier."""
MIN_DELAY_S = 200e-6
"""Smallest delay that is kept to within some 10 %."""
SPARE_PKTS = 1024
SMALL_BYTES = 250
"""Lower bound of the average packet size, from which follows how many packets the program must be able to hold."""
READY_WITHIN_S = 10.0


@dataclass(frozen=True)
class End:
    """One end of the link: a device that the program makes."""

    namespace: Path
    device: str
    index: int


class Delay:
    """The two devices of a link: packets that enter one leave the other `delay_s` later. They vanish with the program.

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
            self._wait_until_ready()
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Process id of the program."""
        return self._process.pid

    def close(self) -> None:
        """End the program, and its devices with it. May be called twice."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def _wait_until_ready(self) -> None:
        process = self._process
        assert process.stdout is not None
        assert process.stderr is not None
        if not select([process.stdout], [], [], READY_WITHIN_S)[0]:
            raise DatapathError(f"The delay program of a link was not ready within {READY_WITHIN_S:g} s.")
        if not process.stdout.readline():
            reason = process.stderr.read().decode(errors="replace").strip()
            raise DatapathError(f"The delay program of a link ended: {reason}.")
