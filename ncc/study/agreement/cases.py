# SPDX-License-Identifier: BSD-3-Clause
"""The cases under load: scenarios, controllers, and the perturbed datapath with which differences are compared."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from ncc.baselines.registry import controllers
from ncc.core.errors import UnknownNameError
from ncc.core.flows import FlowTable, IntArray
from ncc.core.measurement import Measurement
from ncc.core.scenario import Scenario
from ncc.core.seeding import generator
from ncc.core.units import NS_PER_S
from ncc.core.value import Count, Fraction, Positive, Value, from_dict
from ncc.core.workload import Poisson
from ncc.envs.scenarios import make_scenario
from ncc.harness.controller import Controller
from ncc.harness.datapath import Datapath, HostStack, Records
from ncc.run.compose import DatapathSpec

JITTER_NS = 1000
"""Upper end of the random delays of flow starts in perturbed runs, in nanoseconds."""
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
    return [Controller(name=name, stack=HostStack(transport=name)) for name in names or known]


class PerturbedSpec(DatapathSpec, frozen=True):
    """A datapath on which every flow starts up to `JITTER_NS` later (`Perturbed`)."""

    def load(self) -> Callable[[], Datapath]:
        return partial(_perturbed, super().load())

    @property
    def identity(self) -> str:
        """Identity of the datapath, with a note that flows start later."""
        return f"{super().identity}, flows up to {JITTER_NS} ns later"


def perturbed(datapath: DatapathSpec) -> PerturbedSpec:
    """Make the spec of the perturbed variant of a datapath."""
    return PerturbedSpec(name=f"{datapath.name}_perturbed", target=datapath.target, settings=datapath.settings)


class Perturbed:
    """A datapath whose flows start up to `JITTER_NS` later, each by a random time of its own.

    Its results show how much single flows differ even between equal simulators, because a tiny delay can change the
    order of two packets, and so decide which one is marked. A flow's delay is subtracted from its finish time, so that
    completion times are those of the flows as they ran.
    """

    def __init__(self, inner: Datapath) -> None:
        self._inner = inner
        self.name = f"{inner.name}_perturbed"
        self.transports, self.step, self.close = inner.transports, inner.step, inner.close
        self._order: IntArray = np.zeros(0, np.int64)
        self._shift_ns = np.zeros(0)

    def start(self, scenario: Scenario, flows: FlowTable, stack: HostStack, seed: int) -> Measurement:
        self._shift_ns = generator(seed, "perturbed").integers(JITTER_NS, size=len(flows)).astype(np.float64)
        start_s = (np.rint(flows.start_s * NS_PER_S) + self._shift_ns) / NS_PER_S
        self._order = np.argsort(start_s, kind="stable")
        shifted = FlowTable(
            **{name: column[self._order] for name, column in vars(replace(flows, start_s=start_s)).items()}
        )
        return self._inner.start(scenario, shifted, stack, seed)

    def finish(self) -> Records:
        records = self._inner.finish()
        back = np.argsort(self._order)
        columns = {name: column[back] for name, column in vars(records.flows).items()}
        columns["finish_s"] = columns["finish_s"] - self._shift_ns / NS_PER_S
        return replace(records, flows=replace(records.flows, **columns))


def _perturbed(make: Callable[[], Datapath]) -> Datapath:
    return Perturbed(make())
