# SPDX-License-Identifier: BSD-3-Clause
"""The cases under load: their scenarios and controllers."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ncc.baselines.registry import controllers
from ncc.core.errors import UnknownNameError
from ncc.core.scenario import Scenario
from ncc.core.value import Count, Fraction, Positive, Value, from_dict
from ncc.core.workload import Poisson
from ncc.envs.scenarios import make_scenario
from ncc.harness.controller import Controller
from ncc.harness.datapath import HostStack

DESCRIBED: Mapping[str, Any] = yaml.safe_load(Path(__file__).with_name("cases.yaml").read_text(encoding="utf-8"))


class Preset(Value, frozen=True):
    """The size of the comparison under load."""

    distributions: tuple[str, ...]
    """Names of distributions of flow sizes on the rack."""
    load_fracs: tuple[Fraction, ...]
    """Loads of the rack's uplink."""
    duration_s: Positive
    """Seconds in which flows arrive on the rack."""
    incast_duration_s: Positive
    """Seconds in which answers arrive in the incast."""
    seeds: Count


PRESETS = {name: from_dict(Preset, plain, f"presets.{name}") for name, plain in DESCRIBED["presets"].items()}


@dataclass(frozen=True)
class LoadCase:
    """One scenario under load, which is run with every controller and seed."""

    name: str
    what: str
    scenario: Scenario


def load_cases(preset: Preset) -> list[LoadCase]:
    """Make the cases: the scenario `rack` with every distribution and load, and the scenario `incast`."""
    rack, incast = (_classic(make_scenario(name)) for name in ("rack", "incast"))
    ((_, traffic),) = rack.workload
    assert isinstance(traffic, Poisson)
    cases = []
    for distribution in preset.distributions:
        for load_frac in preset.load_fracs:
            name = f"rack_{distribution}_{round(100 * load_frac)}"
            workload = ((distribution, traffic.replace(distribution=distribution, load_frac=load_frac)),)
            scenario = rack.replace(name=name, workload=workload, duration_s=preset.duration_s)
            cases.append(LoadCase(name, f"16 hosts, {distribution}, {load_frac:.0%} of the uplink", scenario))
    incast = incast.replace(name="incast", duration_s=preset.incast_duration_s)
    cases.append(LoadCase("incast", "32 servers answer at the same instant, 50 times a second", incast))
    return cases


def _classic(scenario: Scenario) -> Scenario:
    """Give the scenario classic loss recovery, because the simulators differ in modern recovery (ADR 0022)."""
    return scenario.replace(transport=scenario.transport.replace(recovery="classic"))


def baseline_controllers(names: tuple[str, ...] = ()) -> list[Controller]:
    """Make the controllers of `baselines/`, with default parameters and without rate limits.

    Args:
        names: names of the controllers to make; empty: all.

    Raises:
        UnknownNameError: there is no controller of such a name.
    """
    known = controllers()
    if unknown := [name for name in names if name not in known]:
        raise UnknownNameError("controller", unknown[0], known)
    return [Controller(name=name, stack=HostStack(transport=name)) for name in dict.fromkeys(names or known)]
