# SPDX-License-Identifier: BSD-3-Clause
"""Training from end to end: what a CPU second gives on packetsim and on ns-3."""

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from ncc.agents.a3c.config import A3cConfig
from ncc.bench.engine import NS3_DCTCP
from ncc.bench.rows import Row, in_turn, over
from ncc.envs.make import datapath_factory, env_spec
from ncc.envs.ns3.plain import PPP_BYTES, run_plain
from ncc.envs.spec import EnvSpec
from ncc.harness.learner import Progress
from ncc.racks import RackFactory

SEED = 1
NEVER = 10**9


@dataclass(frozen=True)
class Learning:
    """Agent-steps per CPU second, learning included, on the default scenario.

    The synchronous learner in one process, the same settings on both but for the racks: ns-3 runs one simulation in a
    process, packetsim as many as the learner likes. What training does once (building, the first policy) is left out.
    """

    epochs: int
    """On ns-3."""
    repeats: int
    racks: int = 16
    """On packetsim."""
    longer: int = 20
    """Epochs on packetsim for each on ns-3."""

    def rows(self) -> list[Row]:
        """The ratio, and both sides of it."""
        spec = env_spec()
        fast, slow, stock = in_turn(
            self.repeats,
            lambda: agent_steps_per_s(spec, "packetsim", self.racks, self.epochs * self.longer),
            lambda: agent_steps_per_s(spec, "ns3", 1, self.epochs),
            lambda: plain_agent_steps_per_s(spec),
        )
        return [
            Row("training, agent-steps per CPU second, packetsim over ns-3", over(fast, slow), "x", at_least=30),
            Row("the same over an ordinary ns-3 program that learns nothing", over(fast, stock), "x"),
            Row("training on packetsim, agent-steps per CPU second", tuple(v / 1e3 for v in fast), "k/s"),
            Row("training on ns-3, agent-steps per CPU second", tuple(v / 1e3 for v in slow), "k/s"),
        ]


def agent_steps_per_s(spec: EnvSpec, datapath: str, racks: int, epochs: int) -> float:
    """Decisions of hosts per CPU second of this process, from the first report of the learner to its last."""
    learner = A3cConfig(mode="sync", racks=racks, epochs=epochs, checkpoint_epochs=NEVER).build()
    reports: list[tuple[int, float]] = []

    def report(progress: Progress) -> None:
        reports.append((progress.epochs, time.process_time()))

    factory = RackFactory(spec, datapath_factory(datapath), SEED, racks)
    with tempfile.TemporaryDirectory() as folder:
        learner.train(factory, Path(folder), SEED, resume=False, report=report, meta={})
    (first, began_s), (last, ended_s) = reports[0], reports[-1]
    return (last - first) * spec.scenario.n_agents / (ended_s - began_s)


def plain_agent_steps_per_s(spec: EnvSpec) -> float:
    """As many decisions as there would be in an ordinary ns-3 program of the scenario: stock parts, nothing decided."""
    scenario = spec.scenario
    scenario = scenario.replace(transport=scenario.transport.replace(frame_overhead_bytes=PPP_BYTES))
    done = run_plain(scenario, scenario.flows(SEED), NS3_DCTCP, SEED, stop_s=scenario.duration_s)
    return scenario.duration_s / scenario.period_s * scenario.n_agents / done.cpu_s
