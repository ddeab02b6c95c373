# SPDX-License-Identifier: BSD-3-Clause
"""The parts of a matrix, checked before anything runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ncc.compose import DatapathSpec, datapaths_from, plain_config
from ncc.controllers import controller_names, load_controller
from ncc.core.errors import ConfigError, UnknownNameError
from ncc.core.scenario import Scenario, scenario_from_dict
from ncc.core.value import Count, Name, Natural, Value, from_dict
from ncc.harness.controller import Controller, PolicyLimit
from ncc.plan import TrainPlan, require_marks, require_transports, with_params
from ncc.study.mains import compose_config, training_plan

Overrides = tuple[str, ...]
"""Overrides as on a command line."""


class CaseSpec(Value, frozen=True):
    """A network and its traffic."""

    title: Annotated[str, Meta(min_length=1)]
    overrides: Overrides
    """Overrides of `ncc.evaluate`; the first chooses the scenario."""
    policy: Name | None = None
    """The training for this network: a key of `MatrixSpec.policies`; None: learned controllers cannot take part."""
    params: dict[Name, dict[Name, int]] = msgspec.field(default_factory=dict)
    """Parameters that depend on the network, by controller, in its own integer units."""


class MatrixSpec(Value, frozen=True):
    """configs/matrix.yaml, the datapath apart."""

    controller: Annotated[tuple[Name, ...], Meta(min_length=1)] | None
    """None: all that run on the datapath."""
    seeds: Annotated[int, Meta(ge=1, le=10_000)]
    first_seed: Natural
    workers: Count
    out: Annotated[str, Meta(min_length=1)]
    docs: str | None
    cases: Annotated[dict[Name, CaseSpec], Meta(min_length=1)]
    policies: dict[Name, Overrides]
    """Trainings, as overrides of `ncc.train`."""

    def check(self) -> None:
        if self.controller and len(set(self.controller)) != len(self.controller):
            raise ConfigError(f"controller names one twice: {', '.join(self.controller)}")
        for name, case in self.cases.items():
            if case.policy is not None and case.policy not in self.policies:
                raise UnknownNameError(f"policy of cases.{name}", case.policy, self.policies)
            for controller in case.params:
                if controller not in (known := controller_names()):
                    raise UnknownNameError(f"controller in cases.{name}.params", controller, known)


@dataclass(frozen=True)
class Case:
    """One row of the matrix, ready to run but for policies that are still to be trained."""

    name: str
    spec: CaseSpec
    scenario: Scenario
    controllers: tuple[Controller, ...]


@dataclass(frozen=True)
class Matrix:
    """All of it."""

    spec: MatrixSpec
    datapath: DatapathSpec
    cases: tuple[Case, ...]
    trainings: Mapping[str, TrainPlan]
    """Those that the cases need, by name."""

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "Matrix":
        """Compose and check every part, inside a main that Hydra composed.

        Raises:
            ConfigError: names the key, the case or the controller, and what is allowed.
        """
        spec = from_dict(MatrixSpec, {key: value for key, value in plain.items() if key != "datapath"}, "configuration")
        datapaths = datapaths_from(plain["datapath"])
        if len(datapaths) != 1:
            raise ConfigError(f"a matrix is of one datapath, got {len(datapaths)}: choose datapath=<name>")
        controllers = _all_on(datapaths[0]) if spec.controller is None else [*map(load_controller, spec.controller)]
        learned = [c.name for c in controllers if isinstance(c.limit, PolicyLimit)]
        require_transports(datapaths, [c for c in controllers if c.name not in learned])
        cases = [_case(name, case, controllers) for name, case in spec.cases.items()]
        if learned and (lacking := [case.name for case in cases if case.spec.policy is None]):
            raise ConfigError(
                f"{', '.join(learned)} cannot take part in {', '.join(lacking)}: give cases.<name>.policy, or leave "
                "them out of controller="
            )
        name = datapaths[0].name
        # The matrix itself judges, so that a training's own evaluation is as short as it can be.
        short = (f"datapath={name}", f"evaluation.datapaths=[{name}]", "evaluation.controllers=[dctcp]")
        needed = dict.fromkeys(case.spec.policy for case in cases if case.spec.policy) if learned else {}
        trainings = {each: training_plan((*short, "evaluation.seeds=1", *spec.policies[each])) for each in needed}
        return cls(spec, datapaths[0], tuple(cases), trainings)


def _all_on(datapath: DatapathSpec) -> list[Controller]:
    """Controllers that run on the datapath, without NCC's ablations, which take trainings of their own."""
    has = datapath.load()().transports()
    found = [c for c in map(load_controller, controller_names()) if c.stack.transport in has]
    return [c for c in found if not (isinstance(c.limit, PolicyLimit) and c.limit.pretrained not in ("", "ncc"))]


def _case(name: str, spec: CaseSpec, controllers: Sequence[Controller]) -> Case:
    plain = plain_config(compose_config("evaluate", spec.overrides)).get("scenario")
    if plain is None:
        raise ConfigError(f"cases.{name}.overrides must choose a scenario: scenario=<name>")
    scenario = scenario_from_dict(plain)
    told = tuple(with_params(controller, spec.params.get(controller.name, {})) for controller in controllers)
    require_marks(scenario, [controller for controller in told if not isinstance(controller.limit, PolicyLimit)])
    return Case(name, spec, scenario, told)
