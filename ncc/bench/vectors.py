# SPDX-License-Identifier: BSD-3-Clause
"""Racks as one of Gymnasium's vector environments: our own entry point against Gymnasium's two."""

import time
from dataclasses import dataclass

import gymnasium

from ncc.bench.rows import Row, Task, in_turn, over
from ncc.core.scenario import Scenario

SEED = 1
WARM_EPOCHS = 30
ACTIONS = 16
"""Samples of the action space that are taken in turn."""


@dataclass(frozen=True)
class Vectors:
    """Epochs of racks on packetsim, every host choosing among its rates at random, by ``gymnasium.make_vec``."""

    scenario: Scenario
    epochs: int
    repeats: int
    racks: int = 8

    def rows(self) -> list[Row]:
        """Epochs per second of wall time, and ratios of them."""
        modes = ("vector_entry_point", "sync", "async")
        entry, sync, workers = in_turn(self.repeats, *(self._epochs_per_s(mode) for mode in modes))
        racks = f"epochs/s of {self.racks} racks"
        return [
            Row(f"{racks}, vector entry", entry, "racks/s"),
            Row(f"{racks}, vector entry over SyncVectorEnv", over(entry, sync), "x", at_least=1.5),
            Row(f"{racks}, vector entry over AsyncVectorEnv", over(entry, workers), "x", at_least=4),
        ]

    def _epochs_per_s(self, mode: str) -> Task:
        def measure() -> float:
            env = gymnasium.make_vec("ncc/Rack-v0", self.racks, mode, scenario=self.scenario)
            env.action_space.seed(SEED)
            actions = [env.action_space.sample() for _ in range(ACTIONS)]
            env.reset(seed=SEED)
            for epoch in range(WARM_EPOCHS):
                env.step(actions[epoch % ACTIONS])
            began_s = time.perf_counter()
            for epoch in range(self.epochs):
                env.step(actions[epoch % ACTIONS])
            spent_s = time.perf_counter() - began_s
            env.close()
            return self.racks * self.epochs / spent_s

        return measure
