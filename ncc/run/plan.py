# SPDX-License-Identifier: BSD-3-Clause
"""A training run as a value: all settings of `ncc train`, checked before anything starts."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from ncc.agents.policy import POLICY_FILE
from ncc.baselines import registry
from ncc.core.errors import ConfigError, ResultError, UnknownNameError
from ncc.core.scenario import Scenario, scenario_from_dict
from ncc.core.value import CONSENT, Name, Natural, Positive, Value, from_dict
from ncc.core.workload import has_requests
from ncc.envs.families import Families, check_families, families_from
from ncc.envs.native.program_checks import has_program
from ncc.envs.native.transport_checks import check_transports
from ncc.envs.observation import obs_dim
from ncc.envs.packetsim.datapath import PacketsimDatapath
from ncc.envs.spec import EnvSpec, EnvView
from ncc.harness.atomic import write_text
from ncc.harness.controller import OPPONENT, TUNED, Controller, PolicyLimit
from ncc.harness.datapath import HostStack
from ncc.harness.run import drawn, eval_flow_seed
from ncc.run.compose import (
    ControllerName,
    DatapathSpec,
    JudgingSpec,
    composed,
    datapaths_from,
    learner_configs,
    load_datapath,
)
from ncc.run.controllers import load_controller, tuned_for, tuned_names

CONFIG = "config.json"


class EvaluationSpec(JudgingSpec, frozen=True):
    """Settings of an evaluation: datapaths, controllers, seeds, duration, and where its runs take place."""

    datapaths: Annotated[tuple[Name, ...], Meta(min_length=1)]
    """Datapaths to evaluate on; `ncc.run.compose.reference_last` chooses the one that the others are compared with."""
    controllers: Annotated[tuple[ControllerName, ...], Meta(min_length=1)]
    seeds: Annotated[int, Meta(ge=1, le=10_000)]
    duration_s: Positive
    curve_points: Annotated[int, Meta(ge=2, le=1000)] | None = None
    """Number of policies of a training, from the untrained one to the last, in its learning curve; null: returns."""

    def check(self) -> None:
        super().check()
        for what, names in (("controllers", self.controllers), ("datapaths", self.datapaths)):
            if len(set(names)) != len(names):
                raise ConfigError(f"evaluation.{what} names one twice: {', '.join(names)}")
        if unknown := sorted(set(self.params) - set(self.controllers)):
            raise UnknownNameError("controller in params", unknown[0], self.controllers)

    def load(self) -> tuple[Controller, ...]:
        """Load the controllers with `params`. Tuned ones lack their tuned set, because it depends on the scenario.

        Raises:
            ConfigError: a name or parameter does not exist, two policy files would have the same name in results, or
                `reference` is none of the controllers.
        """
        tuned = tuned_names()
        loaded = tuple(
            with_params(load_controller(tuned.get(name, name)), self.params.get(name, {})) for name in self.controllers
        )
        loaded = tuple(
            controller.replace(name=name) if name in tuned else controller
            for name, controller in zip(self.controllers, loaded, strict=True)
        )
        for name, same in Counter(controller.name for controller in loaded).items():
            if same > 1:
                files = [given for given, one in zip(self.controllers, loaded, strict=True) if one.name == name]
                raise ConfigError(
                    f"results would call {' and '.join(files)} all {name!r}: leave all but one out, or call the files "
                    "differently"
                )
        if self.reference and self.reference not in (named := [controller.name for controller in loaded]):
            raise UnknownNameError("reference", self.reference, named)
        return loaded

    def contenders(self, scenario: Scenario) -> tuple[tuple[Controller, Scenario], ...]:
        """Load the controllers, each with the scenario that it runs in; a tuned set may change settings of both.

        Raises:
            ConfigError: as in `load` and `ncc.run.controllers.tuned_for`.
        """
        tuned, pairs = tuned_names(), []
        for name, controller in zip(self.controllers, self.load(), strict=True):
            if name in tuned:
                params, changed = tuned_for(tuned[name], scenario)
                pairs.append((with_params(controller, {**params, **self.params.get(name, {})}), changed))
            else:
                pairs.append((controller, scenario))
        return tuple(pairs)


def planned(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Part of a composed configs/train.yaml that a plan stores: all keys but resume, out and consent."""
    return {key: value for key, value in plain.items() if key not in ("resume", "out", CONSENT)}


@dataclass(frozen=True)
class TrainPlan:
    """The parts of one training run, built from plain data so that they can be stored in a run folder."""

    plain: dict[str, Any]
    datapath: DatapathSpec
    """Datapath on which the agent learns."""
    judged_on: tuple[DatapathSpec, ...]
    """Datapaths on which results are evaluated: `evaluation.datapaths`."""
    scenario: Scenario
    """Scenario of evaluations and, unless there are families, of training."""
    also_in: Mapping[str, Scenario]
    """Further scenarios of evaluations, by name."""
    families: Families
    """Families of networks from which training episodes are drawn; may be empty."""
    stack: HostStack
    """Host stack below the agent's rate limit during training."""
    env: EnvView
    learner: Any
    """The agent's configuration (a `Value` with `build() -> Learner`)."""
    evaluation: EvaluationSpec
    seed: int

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> "TrainPlan":
        """Build the plan from the data of `planned`, and check every part.

        Raises:
            ConfigError: a part cannot be used; the message names the field and what is allowed.
        """
        parts = from_dict(_Parts, plain, "configuration")
        agent, configs = dict(parts.agent), learner_configs()
        if (name := agent.pop("learner", None)) is None:
            raise ConfigError(
                "agent has no learner: let its YAML begin with the defaults of one, `/schema/agent@_here_: <folder>`, "
                f"of {', '.join(configs)}"
            )
        if name not in configs:
            raise UnknownNameError("agent.learner", str(name), configs)
        evaluation = from_dict(EvaluationSpec, parts.evaluation, "evaluation")
        datapath = _one(datapaths_from(parts.datapath))
        plan = cls(
            plain=plain,
            datapath=datapath,
            judged_on=tuple(
                datapath if name == datapath.name else load_datapath(name) for name in evaluation.datapaths
            ),
            scenario=scenario_from_dict(parts.scenario),
            also_in={name: scenario_from_dict(scenario, f"also_in.{name}") for name, scenario in parts.also_in.items()},
            families=families_from(parts.families),
            stack=from_dict(HostStack, parts.stack, "stack"),
            env=from_dict(EnvView, parts.env, "env"),
            learner=from_dict(configs[name], agent, "agent"),
            evaluation=evaluation,
            seed=parts.seed,
        )
        plan.check_evaluation()
        if plan.families.of:
            plan.check_families()
        return plan

    def require_same(self, folder: Path) -> None:
        """Raise `ConfigError`, with a key that differs, if the run in `folder` has other settings than this plan."""
        stored, asked = TrainPlan.load(folder).plain, self.plain
        if differs := sorted(key for key in {*stored, *asked} if stored.get(key) != asked.get(key)):
            raise ConfigError(f"{folder} holds a training with another {differs[0]}: delete it, or choose another out=")

    def check_families(self) -> None:
        """Check the families before training, so that no drawn episode and no evaluation fails later."""
        seen = self.env.observation
        learned = check_families(self.families, seen, self.env.action.within)
        for scenario in self.evaluation_scenarios.values():
            judged = obs_dim(seen, scenario)
            if learned != judged:
                raise ConfigError(
                    f"the families' hosts observe {learned} numbers and those of scenario {scenario.name!r}, where "
                    f"results are judged, {judged}: set env.observation.neighbours to pooled, or choose other networks"
                )

    def check_evaluation(self) -> None:
        """Check the evaluation before training, so that it cannot fail afterwards."""
        spec = self.evaluation
        learned = any(is_last_policy(controller) for controller in spec.load())
        if spec.curve_points and not (learned and {OPPONENT, OPPONENT + TUNED} & set(spec.controllers)):
            raise ConfigError(
                "evaluation.curve_points compares policies with DCTCP: name trained or ncc, and dctcp_tuned or dctcp, "
                "in evaluation.controllers, or set evaluation.curve_points=null"
            )
        for where, judged in {"": self.scenario, **self.also_in}.items():
            if spec.duration_s < judged.period_s:
                key = f"also_in.{where}" if where else "scenario"
                raise ConfigError(
                    f"evaluation.duration_s must be at least {key}.period_s ({judged.period_s} s), got "
                    f"{spec.duration_s}"
                )
        for judged in self.evaluation_scenarios.values():
            for seed in range(spec.first_seed, spec.first_seed + spec.seeds):
                drawn(judged, seed, eval_flow_seed(seed))
            for controller, scenario in spec.contenders(judged):
                # A policy's stack is that of the training.
                require_parts(scenario, [] if isinstance(controller.limit, PolicyLimit) else [controller])

    @property
    def spec(self) -> EnvSpec:
        """Environment of the training. If there are families, scenarios drawn from them replace its scenario."""
        return EnvSpec(scenario=self.scenario, stack=self.stack, view=self.env)

    def check_transports(self) -> None:
        """Check that every datapath has the transports that it must run; this loads their extension modules.

        Raises:
            ConfigError: a transport is missing; the message names the datapath, its transports and the remedy.
        """
        self.datapath.require(self.stack, "stack.transport", "Choose one of these, or another datapath to train on.")
        require_transports(self.judged_on, self.controllers())

    def controllers(self) -> tuple[Controller, ...]:
        """Controllers to compare; learned ones have the stack on which they are trained."""
        return tuple(
            controller.over(self.stack)
            if isinstance(controller.limit, PolicyLimit) and controller.limit.stack == "trained"
            else controller
            for controller in self.evaluation.load()
        )

    @property
    def evaluation_scenario(self) -> Scenario:
        """The training scenario with the evaluation's duration; its flows come from other seeds."""
        return self.evaluation_scenarios[""]

    @property
    def evaluation_scenarios(self) -> dict[str, Scenario]:
        """Scenarios in which results are judged, by name in `also_in`; the training's scenario has an empty name."""
        return {
            name: scenario.replace(duration_s=self.evaluation.duration_s)
            for name, scenario in {"": self.scenario, **self.also_in}.items()
        }

    def save(self, folder: Path) -> None:
        """Save the plan in the run folder, so that `resume` and `ncc evaluate` can read it."""
        write_text(folder / CONFIG, json.dumps(self.plain, indent=1, allow_nan=False) + "\n")

    @classmethod
    def load(cls, folder: Path) -> "TrainPlan":
        """Load the plan of a run folder.

        Raises:
            ResultError: the folder has no plan, or it cannot be used.
        """
        path = folder / CONFIG
        try:
            plain = json.loads(path.read_bytes())
        except FileNotFoundError:
            raise ResultError(
                f"{folder} is not a run folder: it has no {CONFIG}; name a folder that ncc train made"
            ) from None
        except (OSError, ValueError) as error:
            raise ResultError(f"{path} cannot be read ({error}); train again") from None
        try:
            return cls.from_plain(plain)
        except UnknownNameError as error:
            hint = "If it is of your own folder, name that: --config-dir <folder>"
            raise ResultError(f"{path}: {error} {hint}") from None
        except ConfigError as error:
            raise ResultError(f"{path} is no configuration of this version of ncc ({error}); train again") from None


def training_plan(overrides: Iterable[str]) -> TrainPlan:
    """Make the plan of the training that `ncc train` with these overrides does."""
    return TrainPlan.from_plain(planned(composed("train", list(overrides))))


def is_last_policy(controller: Controller) -> bool:
    """True if the controller takes the trained policy of a run folder, and not the untrained one."""
    return isinstance(controller.limit, PolicyLimit) and controller.limit.path == POLICY_FILE


def with_params(controller: Controller, params: Mapping[str, Any]) -> Controller:
    """Replace parameters of the controller's transport.

    Parameters of a transport that the datapath itself provides (ns-3's) are checked at the start of a run.

    Raises:
        UnknownNameError: the transport has no such parameter; the message lists those that exist.
        ConfigError: a value is out of range, or the controller uses the stack that its policy was trained on.
    """
    limit, stack = controller.limit, controller.stack
    if params and isinstance(limit, PolicyLimit) and limit.stack == "trained":
        raise ConfigError(
            f"controller {controller.name!r} runs on the stack that its policy was trained on, whose parameters are "
            "those of the training: leave its params out"
        )
    merged = {**dict(stack.params), **params}
    if stack.transport in registry.transport_params():
        registry.check_params(stack.transport, merged)
    return controller.replace(stack=stack.replace(params=tuple(merged.items())))


def require_transports(datapaths: Sequence[DatapathSpec], controllers: Sequence[Controller]) -> None:
    """Raise `ConfigError` unless every controller's transport exists on every datapath."""
    for controller in controllers:
        for datapath in datapaths:
            remedy = f"Leave the controller out, or judge without {datapath.name}."
            datapath.require(controller.stack, f"controller {controller.name!r}", remedy)


def require_parts(scenario: Scenario, controllers: Sequence[Controller]) -> None:
    """Check that programs fit the scenario, that named parts exist, and that controllers find what they need.

    Raises:
        UnknownNameError: a port names an unknown program, or a controller unknown tags, or an unknown order or front
            end.
        ConfigError: programs that do not fit together or the scenario (`ncc.envs.native.program_checks`); a controller
            needs ECN marks or telemetry (its header says so), and no port of the scenario sets any; a controller limits
            rates of hosts, and only receivers decide in the scenario; or it has a front end, and there are no requests.
    """
    known, topology = registry.controllers(), scenario.network()
    PacketsimDatapath.check(scenario)
    named: dict[registry.Kind, list[str]] = {
        "tags": [controller.stack.tags for controller in controllers],
        "flow order": [controller.stack.order for controller in controllers],
        "front end": [controller.stack.front_end[0] for controller in controllers],
    }
    for kind, names in named.items():
        for name in names:
            if name not in (exist := registry.named(kind)):
                raise UnknownNameError(kind, name, exist)
    for controller in controllers:
        check_transports(scenario, controller.stack)
        if (front := controller.stack.front_end[0]) != "one_all" and not has_requests(scenario.workload):
            raise ConfigError(
                f"controller {controller.name!r} has front end {front!r}, which holds queries back, "
                f"and scenario {scenario.name!r} has no requests: set stack.front to one_all, or add a workload of "
                "requests"
            )
        if controller.limit.limits_hosts and controller.placed(scenario).neighbourhoods == "receivers":
            raise ConfigError(
                f"controller {controller.name!r} limits rates of hosts, and in scenario {scenario.name!r} only "
                "receivers decide: set scenario.neighbourhoods to uplink or both, or leave the controller out"
            )
        if controller.limit.needs_receivers and not scenario.has_receivers:
            raise ConfigError(
                f"controller {controller.name!r} needs receivers that tell their senders, which scenario "
                f"{scenario.name!r} does not have: set scenario.neighbourhoods to receivers"
            )
        readers = [
            name for name in controller.stack.transports if name in known and known[name].needs & registry.Needs.HOPS
        ]
        if readers and not has_program(topology, registry.TELEMETRY):
            whose = "" if readers[0] == controller.stack.transport else f" for {readers[0]}, which a component has"
            raise ConfigError(
                f"controller {controller.name!r} needs telemetry{whose}, and no port of scenario {scenario.name!r} "
                "writes any: set topology.programs to a list with int in it, or leave the controller out"
            )
        needs = [
            name for name in controller.stack.transports if name in known and known[name].ecn is registry.Ecn.DCTCP
        ]
        if needs and not topology.marks:
            whose = "" if needs[0] == controller.stack.transport else f" for {needs[0]}, which a component has"
            raise ConfigError(
                f"controller {controller.name!r} needs ECN{whose}, and no setting of scenario {scenario.name!r} marks "
                "packets: set topology.mark_threshold_bytes (or red) above 0, or leave the controller out"
            )


def _one(datapaths: tuple[DatapathSpec, ...]) -> DatapathSpec:
    if len(datapaths) != 1:
        names = ", ".join(spec.name for spec in datapaths) or "none"
        raise ConfigError(
            f"training takes place on one datapath, got {names}: choose datapath=<name>; evaluation.datapaths lists "
            "where results are judged"
        )
    return datapaths[0]


class _Parts(Value, frozen=True):
    """The parts of a training's configuration, as plain data."""

    datapath: dict[str, Any]
    scenario: dict[str, Any]
    stack: dict[str, Any]
    env: dict[str, Any]
    agent: dict[str, Any]
    evaluation: dict[str, Any]
    families: dict[str, Any]
    also_in: dict[str, Any]
    seed: Natural
