# SPDX-License-Identifier: BSD-3-Clause
"""Decisions that a host would make, from a run."""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from ncc.compose import load_datapath
from ncc.controllers import load_controller
from ncc.core.flows import FloatArray
from ncc.core.measurement import Measurement
from ncc.core.scenario import Scenario
from ncc.harness.run import Run, eval_flow_seed, limiter_seed, run_once
from ncc.limiters import LimiterFactory
from ncc.notebook.show import Page


def watched_run(
    scenario: Scenario, controller: str, *, seed: int = 0, training: Path | None = None
) -> tuple[Run, list[Measurement], FloatArray]:
    """Make a run on packetsim and record all that its limiter received and decided.

    Returns:
        The run; [epochs + 1] measurements, the first from before anything was sent; [epochs, n_agents] limits in
        bits/s, each decided on the measurement of the same index.
    """
    factory = LimiterFactory(training)
    found = factory.resolved(load_controller(controller))
    told: list[Measurement] = []
    decided: list[FloatArray] = []

    def watch(measurement: Measurement, limits_bps: FloatArray | None) -> None:
        told.append(measurement)
        if limits_bps is not None:
            decided.append(limits_bps.copy())

    limiter = factory(found, scenario)
    with closing(load_datapath("packetsim").load()()) as datapath:
        run = run_once(datapath, scenario, found, limiter, seed, flow_seed=eval_flow_seed(seed), watch=watch)
    return run, told, np.array(decided)


def replayed(
    scenario: Scenario, controller: str, told: Sequence[Measurement], *, seed: int = 0, training: Path | None = None
) -> FloatArray:
    """Limits in bits/s [epochs, n_agents] that a controller decides on measurements of another controller's run.

    Args:
        told: measurements as `watched_run` returns them.
    """
    factory = LimiterFactory(training)
    limiter = factory(factory.resolved(load_controller(controller)), scenario)
    limiter.reset(scenario, limiter_seed(seed))
    return np.array([limiter.decide(measurement).copy() for measurement in told[:-1]])


def network_options(scenario: Scenario) -> list[str]:
    """Options of `ncc host` for a scenario's first neighbourhood, with values that a host cannot measure."""
    from ncc.envs.scales import scales_of

    scales = scales_of(scenario)
    told = {
        "--link-rate": scales.link_rate_bps,
        "--upper-rate": scales.upper_rate_bps,
        "--upper-buffer": scales.upper_buffer_bytes,
        "--base-rtt": scales.base_rtt_s,
    }
    return [word for name, values in told.items() for word in (name, f"{values[0]:.9g}")]


def host_says(*arguments: str) -> Page:
    """Output of `ncc host <arguments>`: its findings, or its error."""
    plain = {key: value for key, value in os.environ.items() if "COLOR" not in key}  # a kernel asks for colours
    command = [sys.executable, "-m", "ncc.host", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=plain | {"COLUMNS": "110"})
    return Page(f"```text\n{(ended.stdout or ended.stderr).strip()}\n```")
