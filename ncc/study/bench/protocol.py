# SPDX-License-Identifier: BSD-3-Clause
"""The cost of a step in process, and over ns3-gym's protocol between two processes."""

import sys
import time
from typing import Any

import gymnasium
import numpy as np

from ncc.envs.gym import RackEnv
from ncc.envs.ns3gym import Ns3GymEnv
from ncc.study.bench.rows import SEED, Row, in_turn, over

WARM_STEPS = 30
SERVED = (sys.executable, "-m", "ncc.serve", "port={port}", "seed={seed}", "episodes=1")
"""The very command that a user types, which serves the same rack."""


def over_the_wire(steps: int, repeats: int) -> list[Row]:
    """Steps of one rack on packetsim, no host limited, in wall time."""
    near, far = in_turn(repeats, lambda: _step_us(RackEnv(), steps), lambda: _step_us(Ns3GymEnv(SERVED), steps))
    return [
        Row("env.step in process, 16 hosts on packetsim", near, "us"),
        Row("the same environment over ns3-gym's protocol", far, "us"),
        Row("over the protocol / in process", over(far, near), "x"),
    ]


def _step_us(env: gymnasium.Env[Any, Any], steps: int) -> float:
    """Microseconds per step, after some that do not count."""
    try:
        env.reset(seed=SEED)
        space: Any = env.action_space
        free = np.array([part.n - 1 for part in space])
        for _ in range(WARM_STEPS):
            env.step(free)
        began_s = time.perf_counter()
        for _ in range(steps):
            env.step(free)
        return (time.perf_counter() - began_s) / steps * 1e6
    finally:
        env.close()  # type: ignore[no-untyped-call]
