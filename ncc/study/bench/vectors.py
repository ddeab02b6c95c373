# SPDX-License-Identifier: BSD-3-Clause
"""Racks as one of Gymnasium's vector environments: our own entry point against Gymnasium's two."""

import time
from functools import partial

import gymnasium

from ncc.core.scenario import Scenario
from ncc.envs.make import DEFAULT_SCENARIO
from ncc.study.bench.rows import SEED, Row, in_turn, over

WARM_EPOCHS = 30
ACTIONS = 16
"""Samples of the action space that are taken in turn."""


def entry_points(epochs: int, repeats: int, scenario: Scenario = DEFAULT_SCENARIO, racks: int = 8) -> list[Row]:
    """Epochs of racks on packetsim per second of wall time, every host choosing among its rates at random."""
    modes = ("vector_entry_point", "sync", "async")
    tasks = [partial(_epochs_per_s, mode, scenario, epochs, racks) for mode in modes]
    entry, sync, workers = in_turn(repeats, *tasks)
    what = f"epochs/s of {racks} racks"
    return [
        Row(f"{what}, vector entry", entry, "racks/s"),
        Row(f"{what}, vector entry over SyncVectorEnv", over(entry, sync), "x", at_least=1.5),
        Row(f"{what}, vector entry over AsyncVectorEnv", over(entry, workers), "x", at_least=4),
    ]


def _epochs_per_s(mode: str, scenario: Scenario, epochs: int, racks: int) -> float:
    env = gymnasium.make_vec("ncc/Rack-v0", racks, mode, scenario=scenario)
    env.action_space.seed(SEED)
    actions = [env.action_space.sample() for _ in range(ACTIONS)]
    env.reset(seed=SEED)
    for epoch in range(WARM_EPOCHS):
        env.step(actions[epoch % ACTIONS])
    began_s = time.perf_counter()
    for epoch in range(epochs):
        env.step(actions[epoch % ACTIONS])
    spent_s = time.perf_counter() - began_s
    env.close()
    return racks * epochs / spent_s
