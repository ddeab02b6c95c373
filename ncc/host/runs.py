# SPDX-License-Identifier: BSD-3-Clause
"""What the parts of the report share: scenarios by name, runs that wait their turn, and how busy the machine was."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from ncc.compose import load_datapath, plain_config, register
from ncc.controllers import load_controller
from ncc.core.errors import DatapathError
from ncc.core.scenario import Scenario, scenario_from_dict
from ncc.envs.linux.datapath import LinuxDatapath
from ncc.envs.linux.machine import busy_frac
from ncc.harness.controller import Controller
from ncc.harness.datapath import Datapath
from ncc.harness.run import Run, eval_flow_seed, run_once
from ncc.limiters import LimiterFactory
from ncc.metrics.stats import interval

T = TypeVar("T")
WAIT_S = 600.0
"""For another run to let go of the machine."""
CORES = os.cpu_count() or 1


@dataclass(frozen=True)
class Preset:
    """How much is run."""

    name: str
    hold_s: float
    """Decisions are held for so long."""
    holds: int
    """So many times."""
    effect_s: float
    cost_s: float
    costs: int
    callbacks_s: float
    seeds: int

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


FULL = Preset("full", hold_s=60, holds=2, effect_s=10, cost_s=3, costs=3, callbacks_s=10, seeds=5)
QUICK = Preset("quick", hold_s=5, holds=1, effect_s=2, cost_s=0.5, costs=1, callbacks_s=2, seeds=2)


def lab(name: str, *overrides: str) -> Scenario:
    """The scenario that configs/scenario/<name>.yaml describes, with Hydra's overrides (``scenario.duration_s=60``)."""
    import hydra

    register()
    with hydra.initialize_config_module("ncc.configs", version_base=None):
        config = plain_config(hydra.compose("evaluate", [f"scenario={name}", *overrides]))
    return scenario_from_dict(config["scenario"])


def contender(name: str, **params: int) -> Controller:
    """The controller of configs/controllers/<name>.yaml, on the stack of its policy if it has one."""
    found = LimiterFactory(None).resolved(load_controller(name))
    return found.replace(stack=found.stack.replace(params=(*found.stack.params, *params.items()))) if params else found


def linux(**settings: Any) -> LinuxDatapath:
    """A datapath with what configs/datapath/linux.yaml says, and other settings."""
    plain = load_datapath("linux").settings | settings
    return LinuxDatapath.configured(plain, "datapath.linux.settings")()


def run_of(datapath: Datapath, scenario: Scenario, controller: Controller, seed: int) -> Run:
    """The run that an evaluation would do for that seed; the datapath is closed after it."""
    limiter = LimiterFactory(None)(controller, scenario)
    with closing(datapath):
        return patiently(
            lambda: run_once(datapath, scenario, controller, limiter, seed, flow_seed=eval_flow_seed(seed))
        )


def patiently(attempt: Callable[[], T]) -> T:
    """What `attempt` returns as soon as no other run has the machine; for `WAIT_S` at most."""
    until = time.monotonic() + WAIT_S
    while True:
        try:
            return attempt()
        except DatapathError as error:
            if "has this machine" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.5)


@contextmanager
def watched() -> Iterator[dict[str, Any]]:
    """How busy the machine is before, and its load average at both ends; filled in on the way out.

    Before is the share of all cores that others use: what a figure was disturbed by at its beginning.
    """
    found: dict[str, Any] = {"busy_frac_before": round(busy_frac(1.0), 3), "load_average_before": _load()}
    began = time.monotonic()
    yield found
    found |= {"load_average_after": _load(), "wall_s": round(time.monotonic() - began, 1)}


def _load() -> float:
    return round(os.getloadavg()[0], 2)


def spread(values: ArrayLike) -> dict[str, Any]:
    """Mean with its 95 % bootstrap interval, and the values; JSON has no NaN, so null stands for it."""
    found = interval(values)
    return {
        "mean": _plain(found.estimate),
        "low": _plain(found.low),
        "high": _plain(found.high),
        "values": [_plain(value) for value in np.asarray(values, dtype=np.float64).tolist()],
    }


def _plain(value: float) -> float | None:
    return float(f"{value:.6g}") if np.isfinite(value) else None


def spreads(rows: list[Mapping[str, float]]) -> dict[str, Any]:
    """`spread` of every figure of some runs."""
    return {name: spread([row[name] for row in rows]) for name in rows[0]}
