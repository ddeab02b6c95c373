# SPDX-License-Identifier: BSD-3-Clause
"""The loaded part of the comparison: scenarios, controllers, and the perturbation that is the yardstick."""

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
"""The perturbation: every flow starts later by up to this much, each by its own draw."""
DESCRIBED: Mapping[str, Any] = yaml.safe_load(Path(__file__).with_name("cases.yaml").read_text(encoding="utf-8"))


class Preset(Value, frozen=True):
    """The amount that is run."""

    distributions: tuple[str, ...]
    load_fracs: tuple[Fraction, ...]
    duration_s: Positive
    incast_duration_s: Positive
    seeds: Count


PRESETS = {name: from_dict(Preset, plain, f"presets.{name}") for name, plain in DESCRIBED["presets"].items()}


@dataclass(frozen=True)
class LoadCase:
    """One scenario, run under every controller and seed."""

    name: str
    what: str
    scenario: Scenario


def load_cases(preset: Preset) -> list[LoadCase]:
    """The default rack under every distribution and load, and the incast: `configs/scenario/`, other figures apart."""
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
    """The same over classic recovery: with modern recovery the simulators differ (ADR 0022)."""
    return scenario.replace(transport=scenario.transport.replace(recovery="classic"))


def baseline_controllers(names: tuple[str, ...] = ()) -> list[Controller]:
    """Every controller of `baselines/`, or those named, with their default parameters and no rate limit.

    Raises:
        UnknownNameError: no such controller.
    """
    known = controllers()
    if unknown := [name for name in names if name not in known]:
        raise UnknownNameError("controller", unknown[0], known)
    return [Controller(name=name, stack=HostStack(transport=name)) for name in names or known]


class PerturbedSpec(DatapathSpec, frozen=True):
    """A datapath that is perturbed."""

    def load(self) -> Callable[[], Datapath]:
        return partial(_perturbed, super().load())

    @property
    def identity(self) -> str:
        """The datapath's own, and that its flows start later."""
        return f"{super().identity}, flows up to {JITTER_NS} ns later"


def perturbed(datapath: DatapathSpec) -> PerturbedSpec:
    """The same datapath, perturbed."""
    return PerturbedSpec(name=f"{datapath.name}_perturbed", target=datapath.target, settings=datapath.settings)


class Perturbed:
    """A datapath whose flows start up to `JITTER_NS` later, each by its own draw.

    How far its results are from the same datapath's without is the yardstick for any comparison flow by flow: which of
    two packets comes first decides who is marked, and single flows then go separate ways, however equal the physics.
    Finish times are given back less the shift, so that completion times are those of the flows as they ran.
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
