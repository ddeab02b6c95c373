# SPDX-License-Identifier: BSD-3-Clause
"""A training run as a value: everything `ncc train` was asked for, checked before anything starts."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from ncc.baselines import registry
from ncc.compose import DatapathSpec, datapaths_from, learner_configs, load_datapath
from ncc.controllers import ControllerName, load_controller
from ncc.core.errors import ConfigError, ResultError, UnknownNameError
from ncc.core.plausible import CONSENT
from ncc.core.scenario import Scenario, scenario_from_dict
from ncc.core.value import Name, Natural, Positive, Value, from_dict
from ncc.envs.expert import AnyExpert
from ncc.envs.families import Families, check_families, families_from
from ncc.envs.observation import obs_dim
from ncc.envs.spec import EnvSpec, EnvView
from ncc.harness.atomic import write_text
from ncc.harness.controller import Controller, PolicyLimit
from ncc.harness.datapath import HostStack
from ncc.harness.run import eval_flow_seed

CONFIG = "config.json"
FOREIGN = "ns3gym"
"""What `env.kind` of a simulation of others is; `ncc.foreign` trains on those."""
NO_SCENARIO = "is a simulation of others, without a scenario of ours to be judged in: only ncc.train takes it"
PARTS = ("datapath", "scenario", "stack", "env", "agent", "evaluation")
OPTIONAL = ("families", "expert")
"""Parts that earlier run folders do not have."""


class EvaluationSpec(Value, frozen=True):
    """Who is compared, on which datapaths, on how many paired seeds, for how long."""

    datapaths: Annotated[tuple[Name, ...], Meta(min_length=1)]
    """Where; `ncc.compose.reference_last` says with which of them the others are compared."""
    controllers: Annotated[tuple[ControllerName, ...], Meta(min_length=1)]
    seeds: Annotated[int, Meta(ge=1, le=10_000)]
    duration_s: Positive
    first_seed: Natural = 0
    workers: Annotated[int, Meta(ge=1, le=256)] = 2
    bounds: bool = True
    """Beside the controllers, `ncc.metrics.bounds`; not where flows are endless."""
    table: Literal["short", "full"] = "short"
    """Size of the printed table: what fits 80 columns, or every metric with its interval and the bounds."""
    params: dict[ControllerName, dict[str, Any]] = field(default_factory=dict)
    """By controller: parameters of its transport over its own; `with_params` checks them."""

    def check(self) -> None:
        for what, names in (("controllers", self.controllers), ("datapaths", self.datapaths)):
            if len(set(names)) != len(names):
                raise ConfigError(f"evaluation.{what} names one twice: {', '.join(names)}")
        if unknown := sorted(set(self.params) - set(self.controllers)):
            raise UnknownNameError("controller in params", unknown[0], self.controllers)

    def load(self) -> tuple[Controller, ...]:
        """The controllers themselves, with `params`.

        Raises:
            ConfigError: a name or parameter that is none, or two policy files that results would call the same.
        """
        found = tuple(with_params(load_controller(name), self.params.get(name, {})) for name in self.controllers)
        for name, same in Counter(controller.name for controller in found).items():
            if same > 1:
                named = [given for given, one in zip(self.controllers, found, strict=True) if one.name == name]
                raise ConfigError(
                    f"results would call {' and '.join(named)} all {name!r}: leave all but one out, or call the files "
                    "differently"
                )
        return found


def planned(plain: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a composed configs/train.yaml that a plan holds: all but where it runs and how it was asked for."""
    return {key: value for key, value in plain.items() if key not in ("resume", "out", "wandb", CONSENT)}


@dataclass(frozen=True)
class TrainPlan:
    """The parts of one training run. Built from plain data so that a run folder can say what it was."""

    plain: dict[str, Any]
    datapath: DatapathSpec
    """Where the agent learns."""
    judged_on: tuple[DatapathSpec, ...]
    """Where results are judged: `evaluation.datapaths`."""
    scenario: Scenario
    """Where the agent learns, unless there are families; where results are judged in any case."""
    families: Families
    """What episodes of training are drawn from, if it names any."""
    expert: AnyExpert | None
    """Whom the agent may imitate at first."""
    stack: HostStack
    """What runs below the agent's rate limit while it learns."""
    env: EnvView
    learner: Any
    """The agent's configuration (a `Value` with `build() -> Learner`)."""
    evaluation: EvaluationSpec
    seed: int

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> "TrainPlan":
        """Check every part; errors name the field and what is allowed."""
        _check_parts(plain)
        agent = dict(plain["agent"])
        name, configs = agent.pop("learner", None), learner_configs()
        if name not in configs:
            raise UnknownNameError("agent.learner", str(name), configs)
        seed = from_dict(_Seed, {"seed": plain["seed"]}, "configuration").seed
        evaluation = from_dict(EvaluationSpec, plain["evaluation"], "evaluation")
        datapath = _one(datapaths_from(plain["datapath"]))
        plan = cls(
            plain=plain,
            datapath=datapath,
            judged_on=tuple(
                datapath if name == datapath.name else load_datapath(name) for name in evaluation.datapaths
            ),
            scenario=scenario_from_dict(plain["scenario"]),
            families=families_from(plain.get("families") or {}),
            expert=from_dict(_Expert, {"expert": plain.get("expert")}, "configuration").expert,
            stack=from_dict(HostStack, plain["stack"], "stack"),
            env=from_dict(EnvView, plain["env"], "env"),
            learner=from_dict(configs[name], agent, "agent"),
            evaluation=evaluation,
            seed=seed,
        )
        plan.evaluation.load()
        plan.check_evaluation()
        if plan.expert is None and getattr(plan.learner, "needs_expert", False):
            raise ConfigError(
                "agent.warm_start imitates an expert and none is set: set expert, say to {kind: shortest_first}, or "
                "agent.warm_start to null"
            )
        if plan.families.of:
            plan.check_families()
        return plan

    def require_same(self, folder: Path) -> None:
        """Raise `ConfigError` if the run in `folder` was asked for something else than this plan, naming a key."""
        found, asked = TrainPlan.load(folder).plain, self.plain
        if differs := sorted(key for key in {*found, *asked} if found.get(key) != asked.get(key)):
            raise ConfigError(f"{folder} holds a training with another {differs[0]}: delete it, or choose another out=")

    def check_families(self) -> None:
        """Find now what would otherwise end the training at the episode that draws it, or be in the way of judging."""
        seen = self.env.observation
        learned, judged = check_families(self.families, seen), obs_dim(seen, self.scenario)
        if learned != judged:
            raise ConfigError(
                f"the families' hosts observe {learned} numbers and those of scenario {self.scenario.name!r}, where "
                f"results are judged, {judged}: set env.observation.neighbours to pooled, or choose another scenario"
            )

    def check_evaluation(self) -> None:
        """Find now what would otherwise end the run after its training."""
        spec = self.evaluation
        if spec.duration_s < self.scenario.period_s:
            raise ConfigError(
                f"evaluation.duration_s must be at least scenario.period_s ({self.scenario.period_s} s), "
                f"got {spec.duration_s}"
            )
        for seed in range(spec.first_seed, spec.first_seed + spec.seeds):
            if not len(self.evaluation_scenario.flows(eval_flow_seed(seed))):
                raise ConfigError(
                    f"evaluation.duration_s ({spec.duration_s} s) is so short that seed {seed} draws no flow; raise it"
                )

    @property
    def spec(self) -> EnvSpec:
        """What the agent learns in; with families, its scenario is replaced by theirs."""
        return EnvSpec(scenario=self.scenario, stack=self.stack, view=self.env, expert=self.expert)

    def check_transports(self) -> None:
        """Every datapath has what is to run on it; loads their extension modules.

        Raises:
            ConfigError: names the datapath, what it has and what to do.
        """
        self.datapath.require(self.stack, "stack.transport", "Choose one of these, or another datapath to train on.")
        require_transports(self.judged_on, self.controllers())

    def controllers(self) -> tuple[Controller, ...]:
        """Who will be compared, learned ones over the stack that they are trained on."""
        return tuple(
            controller.replace(stack=self.stack)
            if isinstance(controller.limit, PolicyLimit) and controller.limit.stack == "trained"
            else controller
            for controller in self.evaluation.load()
        )

    @property
    def evaluation_scenario(self) -> Scenario:
        """The training scenario with the evaluation's duration; its flows come from other seeds."""
        scenario: Scenario = self.scenario.replace(duration_s=self.evaluation.duration_s)
        return scenario

    def save(self, folder: Path) -> None:
        """Keep the plan in the run folder, so that `resume` and `ncc.evaluate` can read it."""
        save_plain(folder, self.plain)

    @classmethod
    def load(cls, folder: Path) -> "TrainPlan":
        """The plan of a run folder."""
        plain = read_plain(folder)
        if isinstance(plain, dict) and is_foreign(plain.get("env")):
            raise ResultError(
                f"{folder} is a training whose env {NO_SCENARIO}, and ncc.foreign.train.judge plays its policy"
            )
        try:
            return cls.from_plain(plain)
        except ConfigError as error:
            raise not_ours(folder, error) from None


def save_plain(folder: Path, plain: dict[str, Any]) -> None:
    """Write a run's configuration into its folder."""
    write_text(folder / CONFIG, json.dumps(plain, indent=1, allow_nan=False) + "\n")


def read_plain(folder: Path) -> Any:
    """What `save_plain` wrote.

    Raises:
        ResultError: nothing, or what cannot be read.
    """
    path = folder / CONFIG
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise ResultError(
            f"{folder} is not a run folder: it has no {CONFIG}; name a folder that ncc.train made"
        ) from None
    except (OSError, ValueError) as error:
        raise ResultError(f"{path} cannot be read ({error}); train again") from None


def not_ours(folder: Path, error: Exception) -> ResultError:
    """What is said of a configuration that can be read and not be used."""
    if isinstance(error, UnknownNameError):
        return ResultError(f"{folder / CONFIG}: {error} If it is of your own folder, name that: --config-dir <folder>")
    return ResultError(f"{folder / CONFIG} is no configuration of this version of ncc ({error}); train again")


def is_foreign(env: Any) -> bool:
    """Whether that part of a configuration is a simulation of others."""
    return isinstance(env, Mapping) and env.get("kind") == FOREIGN


def with_params(controller: Controller, params: Mapping[str, Any]) -> Controller:
    """The controller with parameters of its transport over its own.

    A transport that a datapath brings itself (ns-3's own) is asked by that datapath, at the start of a run.

    Raises:
        UnknownNameError: its header has no such parameter; the message lists what exists.
        ConfigError: out of range; or the controller runs on the stack that its policy was trained on.
    """
    limit, stack = controller.limit, controller.stack
    if params and isinstance(limit, PolicyLimit) and limit.stack == "trained":
        raise ConfigError(
            f"controller {controller.name!r} runs on the stack that its policy was trained on, whose parameters are "
            "those of the training: leave its params away"
        )
    merged = {**dict(stack.params), **params}
    if stack.transport in registry.controllers():
        registry.check_params(stack.transport, merged)
    return controller.replace(stack=stack.replace(params=tuple(merged.items())))


def require_transports(datapaths: Sequence[DatapathSpec], controllers: Sequence[Controller]) -> None:
    """`ConfigError` unless every controller's transport exists on every datapath."""
    for controller in controllers:
        for datapath in datapaths:
            remedy = f"Leave the controller out, or judge without {datapath.name}."
            datapath.require(controller.stack, f"controller {controller.name!r}", remedy)


def require_marks(scenario: Scenario, controllers: Sequence[Controller]) -> None:
    """`ConfigError` if a controller lives on ECN marks (its header says so) and no port of the scenario sets any."""
    known = registry.controllers()
    for controller in controllers:
        info = known.get(controller.stack.transport)
        if info is not None and info.ecn is registry.Ecn.DCTCP and not scenario.network().marks:
            raise ConfigError(
                f"controller {controller.name!r} needs ECN, and no port of scenario {scenario.name!r} marks packets: "
                "set topology.mark_threshold_bytes (or red) above 0, or leave the controller out"
            )


def _one(datapaths: tuple[DatapathSpec, ...]) -> DatapathSpec:
    if len(datapaths) != 1:
        names = ", ".join(spec.name for spec in datapaths) or "none"
        raise ConfigError(
            f"training takes place on one datapath, got {names}: choose datapath=<name>; evaluation.datapaths lists "
            "where results are judged"
        )
    return datapaths[0]


def _check_parts(plain: Any) -> None:
    """Every part of the configuration is there, of the right kind, and nothing else is."""
    if not isinstance(plain, dict):
        raise ConfigError(f"configuration must be a mapping, got {type(plain).__name__}")
    if is_foreign(plain.get("env")):
        raise ConfigError(f"env={FOREIGN} {NO_SCENARIO}; choose env=rack here")
    for name in PARTS:
        if not isinstance(plain.get(name), dict):
            raise ConfigError(f"configuration must have {name!r}, a mapping; found {plain.get(name)!r}")
    for name in OPTIONAL:
        if not isinstance(part := plain.get(name), dict | None):
            raise ConfigError(f"configuration must have {name!r}, a mapping or null; found {part!r}")
    if unknown := set(plain) - {*PARTS, *OPTIONAL, "seed"}:
        raise UnknownNameError("part of the configuration", min(unknown), [*PARTS, *OPTIONAL, "seed"])
    if "seed" not in plain:
        raise ConfigError("configuration must have 'seed', a whole number")


class _Seed(Value, frozen=True):
    seed: Natural


class _Expert(Value, frozen=True):
    expert: AnyExpert | None
