# SPDX-License-Identifier: BSD-3-Clause
"""What is compared under load: scenarios, controllers, seeds, and what the reference is perturbed by."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ncc.baselines.registry import controllers
from ncc.compose import plain_config, register
from ncc.core.errors import ConfigError, UnknownNameError
from ncc.core.flows import FlowTable, IntArray
from ncc.core.measurement import Measurement
from ncc.core.scenario import Scenario, scenario_from_dict
from ncc.core.seeding import generator
from ncc.core.units import NS_PER_S
from ncc.core.workload import Poisson
from ncc.harness.controller import Controller
from ncc.harness.datapath import Datapath, HostStack, Records

JITTER_NS = 1000
"""The perturbation: every flow starts later by up to this much, each by its own draw."""


@dataclass(frozen=True)
class Preset:
    """How much is run."""

    name: str
    distributions: tuple[str, ...]
    load_fracs: tuple[float, ...]
    duration_s: float
    incast_duration_s: float
    seeds: int

    def changed(self, seeds: int | None, duration_s: float | None) -> "Preset":
        """The preset with other numbers, where given; it is then called `custom`.

        Raises:
            ConfigError: fewer than one seed, or no time.
        """
        if (seeds is not None and seeds < 1) or (duration_s is not None and duration_s <= 0):
            raise ConfigError(f"seeds and duration must be above 0, got {seeds} and {duration_s}")
        if seeds is None and duration_s is None:
            return self
        return replace(
            self,
            name="custom",
            seeds=seeds or self.seeds,
            duration_s=duration_s or self.duration_s,
            incast_duration_s=duration_s or self.incast_duration_s,
        )


QUICK = Preset("quick", ("hadoop",), (0.6,), 0.05, 0.1, 3)
FULL = Preset("full", ("websearch", "hadoop"), (0.4, 0.6, 0.8), 1.0, 1.0, 10)
PRESETS = {preset.name: preset for preset in (QUICK, FULL)}


@dataclass(frozen=True)
class LoadCase:
    """One scenario, run under every controller and seed."""

    name: str
    what: str
    scenario: Scenario


def load_cases(preset: Preset) -> list[LoadCase]:
    """The default rack under every distribution and load, and the incast: `configs/scenario/`, other figures apart."""
    rack, incast = _composed("rack"), _composed("incast")
    ((_, traffic),) = rack.workload
    cases = []
    for distribution in preset.distributions:
        for load_frac in preset.load_fracs:
            assert isinstance(traffic, Poisson)
            name = f"rack_{distribution}_{round(100 * load_frac)}"
            workload = ((distribution, traffic.replace(distribution=distribution, load_frac=load_frac)),)
            scenario = rack.replace(name=name, workload=workload, duration_s=preset.duration_s)
            cases.append(LoadCase(name, f"16 hosts, {distribution}, {load_frac:.0%} of the uplink", scenario))
    incast = incast.replace(name="incast", duration_s=preset.incast_duration_s)
    cases.append(LoadCase("incast", "32 servers answer at the same instant, 50 times a second", incast))
    return cases


def baseline_controllers(names: tuple[str, ...] = ()) -> list[Controller]:
    """Every controller of `baselines/`, or those named, with their default parameters and no rate limit.

    Raises:
        UnknownNameError: no such controller.
    """
    known = controllers()
    if unknown := [name for name in names if name not in known]:
        raise UnknownNameError("controller", unknown[0], known)
    return [Controller(name=name, stack=HostStack(transport=name)) for name in names or known]


def _composed(name: str) -> Scenario:
    from hydra import compose, initialize_config_module

    register()
    with initialize_config_module("ncc.configs", version_base=None):
        return scenario_from_dict(plain_config(compose("train", [f"scenario={name}"]))["scenario"])


@dataclass(frozen=True)
class PerturbedFactory:
    """Makes a `Perturbed` datapath; picklable."""

    inner: Callable[[], Datapath]

    def __call__(self) -> Datapath:
        return Perturbed(self.inner())


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
