# SPDX-License-Identifier: BSD-3-Clause
"""Decisions that hosts make in a run, or would make on its measurements."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from ncc.core.flows import FloatArray
from ncc.core.measurement import Measurement
from ncc.core.receivers import parts
from ncc.core.scenario import Scenario
from ncc.harness.run import Run, eval_flow_seed, limiter_seed, run_once
from ncc.run.compose import load_datapath
from ncc.run.controllers import load_controller
from ncc.run.limiters import LimiterFactory


def watched_run(
    scenario: Scenario, controller: str, *, training: Path | None = None, seed: int = 0
) -> tuple[Run, list[Measurement], FloatArray]:
    """Do a run on packetsim, and record all that its limiter receives and decides.

    Args:
        controller: name of the controller.
        training: run folder of its policy; None: the policy in the package.
        seed: seed of the flows.

    Returns:
        The run, epochs + 1 measurements, and limits in bits/s, [epochs, n_agents]. The first measurement is from before
        anything was sent. The limits at index i were decided on measurement i.
    """
    factory = LimiterFactory(training)
    resolved = factory.resolved(load_controller(controller), scenario)
    measurements: list[Measurement] = []
    decided: list[FloatArray] = []

    def watch(measurement: Measurement, limits_bps: FloatArray | None) -> None:
        measurements.append(measurement)
        if limits_bps is not None:
            decided.append(limits_bps.copy())

    limiter = factory(resolved, scenario)
    with closing(load_datapath("packetsim").load()()) as datapath:
        run = run_once(datapath, scenario, resolved, limiter, 0, flow_seed=eval_flow_seed(seed), watch=watch)
    return run, measurements, np.array(decided)


def replayed(scenario: Scenario, controller: str, measurements: Sequence[Measurement]) -> FloatArray:
    """Let a controller decide on the measurements of another controller's run.

    Args:
        controller: name of the controller; a policy comes from the package.
        measurements: the measurements that `watched_run` returns.

    Returns:
        Limits in bits/s, [epochs, n_agents].
    """
    factory = LimiterFactory(None)
    resolved = factory.resolved(load_controller(controller), scenario)
    limiter = factory(resolved, scenario)
    limiter.reset(resolved.placed(scenario), limiter_seed(0))
    return np.array([parts(limiter.decide(measurement))[0].copy() for measurement in measurements[:-1]])
