# SPDX-License-Identifier: BSD-3-Clause
"""The packet engine under another name, with some ways to fail.

The transport's name says how it behaves: `fluid` is right (DCTCP), `sticky` never delivers its largest flow, `killed`,
`aborts` and `exits` take the process down and `broken` raises in the fourth epoch, `sloppy` falls back, `slow` takes
20 ms of wall time per epoch.
"""

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ncc.core.errors import DatapathError
from ncc.core.flows import FloatArray, FlowTable
from ncc.core.measurement import Measurement
from ncc.core.scenario import Scenario
from ncc.envs.native.base import NativeDatapath
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.datapath import HostStack, Records

OWN = ("fluid", "sticky", "killed", "aborts", "exits", "broken", "sloppy", "slow")


class FluidDatapath(NativeDatapath):
    name = title = "fluid"
    module = PacketsimDatapath.module

    def __init__(self) -> None:
        super().__init__()
        self.fallbacks: Sequence[str] = ()

    def transports(self) -> tuple[str, ...]:
        return (*OWN, "dctcp")

    def start(self, scenario: Scenario, flows: FlowTable, stack: HostStack, seed: int) -> Measurement:
        self._flows, self._kind = flows, stack.transport
        self.fallbacks = ("the sloppy transport pretended",) if self._kind == "sloppy" else ()
        return super().start(scenario, flows, stack.replace(transport="dctcp") if self._kind in OWN else stack, seed)

    def step(self, rate_limits_bps: FloatArray) -> Measurement:
        now = super().step(rate_limits_bps)
        late = now.epoch == 4
        if self._kind == "sticky":
            return replace(now, flows_finished=min(now.flows_finished, max(now.flows_started - 1, 0)))
        if self._kind == "slow":
            time.sleep(0.02)
        elif self._kind == "killed" and late:
            os.kill(os.getpid(), signal.SIGKILL)
        elif self._kind == "aborts" and late:
            os.abort()
        elif self._kind == "exits" and late:
            os._exit(7)
        elif self._kind == "broken" and late:
            raise DatapathError("the broken transport broke; choose another")
        return now

    def finish(self) -> Records:
        done = super().finish()
        if self._kind == "sticky":
            done.flows.finish_s[np.argmax(self._flows.size_bytes)] = np.nan
        return done
