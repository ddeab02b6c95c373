# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of our learner on the default scenario, on packetsim and on ns-3."""

import tempfile
import time
from dataclasses import replace
from pathlib import Path

from ncc.agents.a3c.config import A3cConfig
from ncc.envs.make import DEFAULT_SCENARIO, datapath_factory, env_spec
from ncc.envs.spec import EnvSpec
from ncc.envs.worker_racks import RackFactory
from ncc.harness.learner import Progress
from ncc.study.bench import SEED, Figures, in_turn, over
from ncc.study.bench.packetsim import ordinary

NEVER = 10**9
"""Number of periods between checkpoints with which no checkpoint is written."""


def over_ns3(
    epochs: int, repeats: int, racks: int = 16, longer: int = 20, duration_s: float = DEFAULT_SCENARIO.duration_s
) -> Figures:
    """Measure agent-steps per CPU second of our learner: on packetsim over ns-3, and in thousands on packetsim.

    An agent-step is one decision of one host; the time includes learning. The synchronous learner runs in one process.
    Its settings are equal on both simulators except for the number of networks: ns-3 simulates one in a process,
    packetsim `racks`. Work that is done once, such as building, is left out. Both run the default scenario, with
    arrivals for `duration_s`, and the TCP of an ordinary ns-3 program; packetsim runs `longer` periods for each one of
    ns-3.
    """
    spec = env_spec(ordinary(DEFAULT_SCENARIO.replace(duration_s=duration_s)))

    fast, slow = in_turn(
        repeats,
        lambda: _speed("packetsim", spec, racks, epochs * longer),
        lambda: _speed("ns3", spec, 1, epochs),
    )
    return {"datapath": over(fast, slow), "packetsim": fast}


def _speed(datapath: str, spec: EnvSpec, racks: int, epochs: int) -> float:
    """Train; return thousands of agent-steps per CPU second, without the start-up."""
    learner = A3cConfig(mode="sync", racks=racks, epochs=epochs, checkpoint_epochs=NEVER).build()
    factory = RackFactory.for_learner(spec, datapath_factory(datapath), SEED, learner)
    reports: list[tuple[int, float]] = []

    def report(progress: Progress) -> None:
        reports.append((progress.epochs, time.process_time()))

    with tempfile.TemporaryDirectory() as folder:
        learner.train(replace(factory, threads=1), Path(folder), SEED, resume=False, report=report, meta={})
    (first, began_s), (last, ended_s) = reports[0], reports[-1]
    return (last - first) * factory.spec.scenario.n_agents / (ended_s - began_s) / 1e3
