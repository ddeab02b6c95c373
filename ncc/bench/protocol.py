# SPDX-License-Identifier: BSD-3-Clause
"""What a step costs in process, and what it costs over ns3-gym's protocol between two processes."""

import sys
import time
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from ncc.bench.rows import Row, in_turn, over
from ncc.envs.gym import RackEnv
from ncc.envs.ns3gym import Ns3GymEnv

SEED = 1
WARM_STEPS = 30


@dataclass(frozen=True)
class Protocol:
    """Steps of one rack on packetsim, no host limited: how many and how often."""

    steps: int
    repeats: int

    def rows(self) -> list[Row]:
        """All measurements, wall time."""
        near, far = in_turn(self.repeats, self._in_process, self._over_protocol)
        return [
            Row("env.step in process, 16 hosts on packetsim", near, "us"),
            Row("the same environment over ns3-gym's protocol", far, "us"),
            Row("over the protocol / in process", over(far, near), "x"),
        ]

    def _in_process(self) -> float:
        return self._step_us(RackEnv())

    def _over_protocol(self) -> float:
        # The very command that a user types, which serves the same rack, as the simulation of our own agent's side.
        served = (sys.executable, "-m", "ncc.serve", "port={port}", "seed={seed}", "episodes=1")
        return self._step_us(Ns3GymEnv(served))

    def _step_us(self, env: gymnasium.Env[Any, Any]) -> float:
        """Microseconds per step, after some that do not count."""
        try:
            env.reset(seed=SEED)
            space: Any = env.action_space
            free = np.array([part.n - 1 for part in space])
            for _ in range(WARM_STEPS):
                env.step(free)
            started = time.perf_counter()
            for _ in range(self.steps):
                env.step(free)
            return (time.perf_counter() - started) / self.steps * 1e6
        finally:
            env.close()  # type: ignore[no-untyped-call]
