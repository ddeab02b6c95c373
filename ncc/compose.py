# SPDX-License-Identifier: BSD-3-Clause
"""From names and plain configuration to the objects that run: the one place that knows envs, agents and harness.

Hydra composes plain dicts; the frozen values behind them hold schema, defaults and ranges. `register` offers those
defaults to Hydra under `schema/`, so that a YAML states differences only and every key can be overridden.
"""

import importlib
import json
import pkgutil
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import msgspec

import ncc.agents
from ncc.agents.packaged import FOLDER, packaged_names, packaged_policy
from ncc.core.errors import ConfigError, DatapathError, ResultError, UnknownNameError
from ncc.core.scenario import Scenario
from ncc.core.value import Name, Value, from_dict
from ncc.harness.atomic import file_digest
from ncc.harness.controller import Controller, Formula, HostsLimit, PolicyLimit
from ncc.harness.datapath import Datapath, HostStack
from ncc.harness.limiter import PolicyLimiter, RateLimiter

if TYPE_CHECKING:
    from ncc.agents.policy import MlpPolicy


HOSTS = "hosts:"
"""Before the path of a policy file: an agent on each host."""
ControllerName = Annotated[str, msgspec.Meta(min_length=1)]
"""As in configs/controllers, or the path of a policy file; `load_controller` says what is neither."""


class DatapathSpec(Value, frozen=True):
    """A datapath: what it is called in results, and its class as `package.module:Class`, called without arguments."""

    name: Name
    target: Name
    settings: dict[str, Any] = msgspec.field(default_factory=dict)
    """Of its own, for a class that has any: its `configured(settings, where)` gives what is called instead."""
    reference: bool = False
    """Others are held against it, whatever the order in which they are named."""

    def check(self) -> None:
        if self.name.startswith("."):
            raise ConfigError(f"datapath {self.name!r} cannot be a folder's name: it must not start with a dot")

    def load(self) -> Callable[[], Datapath]:
        """The class itself; picklable, so that workers make their own."""
        where = f"datapath.{self.name}.target"
        found = load_target(self.target, where)
        if not isinstance(found, type) or not all(
            hasattr(found, verb) for verb in ("transports", "start", "step", "finish", "close")
        ):
            raise ConfigError(f"{where}: {self.target!r} is no datapath class; it must offer ncc.harness.Datapath")
        if not self.settings:
            return cast(Callable[[], Datapath], found)
        if not hasattr(found, "configured"):
            raise ConfigError(f"datapath.{self.name}.settings: {self.name} has none; leave them away")
        return cast(Callable[[], Datapath], found.configured(self.settings, f"datapath.{self.name}.settings"))

    @property
    def identity(self) -> str:
        """What tells its runs from those of another datapath, or of the same with other settings."""
        return self.target + (f" {json.dumps(self.settings, sort_keys=True)}" if self.settings else "")

    def require(self, stack: HostStack, whose: str, remedy: str) -> None:
        """`ConfigError` if the datapath lacks the stack's transport; says what it has, and `remedy`."""
        transport, known = stack.transport, sorted(self.load()().transports())
        if transport not in known:
            close = get_close_matches(transport, known, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise ConfigError(
                f"{whose}: datapath {self.name} has no transport {transport!r}; it has: {', '.join(known)}.{hint} "
                + remedy
            )


def datapaths_from(plain: Any, where: str = "datapath") -> tuple[DatapathSpec, ...]:
    """The datapaths that `{name: {target: package.module:Class}}` describes, in its order."""
    if not isinstance(plain, Mapping) or not all(isinstance(entry, Mapping) for entry in plain.values()):
        raise ConfigError(f"{where} must be a mapping of names to {{target: package.module:Class}}, got {plain!r}")
    return tuple(from_dict(DatapathSpec, {"name": name, **plain[name]}, f"{where}.{name}") for name in plain)


def reference_last(datapaths: Sequence[DatapathSpec]) -> tuple[DatapathSpec, ...]:
    """The datapaths with the one that the others are held against at the end; without such a one, as they are.

    Raises:
        ConfigError: several say that they are the reference.
    """
    references = [datapath.name for datapath in datapaths if datapath.reference]
    if len(references) > 1:
        raise ConfigError(
            f"one datapath at most can be the reference of the others, got {', '.join(references)}: leave one out or "
            "set reference to false in its YAML"
        )
    return tuple(sorted(datapaths, key=lambda datapath: datapath.reference))


def load_target(target: str, where: str) -> Any:
    """The object at `package.module:name`."""
    module, _, name = target.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{where}: cannot load {target!r} ({error}); it must be 'package.module:name'") from None


@dataclass(frozen=True)
class LimiterFactory:
    """Builds the rate limiter of a controller in the process that runs it.

    Policies come from the run folder `folder`; without one, from those that came with the package, in `packaged`.
    """

    folder: Path | None
    packaged: Path = FOLDER

    def __call__(self, controller: Controller, scenario: Scenario) -> RateLimiter:
        limit = controller.limit
        return limit.build() if isinstance(limit, Formula) else self._policy(controller.name, limit, scenario)

    def resolved(self, controller: Controller) -> Controller:
        """The controller with the stack its policy was trained on, unless it says that it brings its own."""
        if not isinstance(controller.limit, PolicyLimit) or controller.limit.stack == "own":
            return controller
        path, _, meta = self._load(controller.name, controller.limit)
        return controller.replace(stack=from_dict(HostStack, _part(meta, "stack", path), f"{path}: stack"))

    def path(self, controller: str, limit: PolicyLimit) -> Path:
        """Where the policy file lies; a packaged one is compared with its manifest."""
        path = Path(limit.path)
        if path.is_absolute() or self.folder is not None:
            return (self.folder or Path()) / path
        if not limit.pretrained:
            raise ConfigError(
                f"controller {controller!r} needs a trained policy; name the run that made it: run=<folder>"
            )
        if limit.pretrained not in (names := packaged_names(self.packaged)):
            raise ConfigError(
                f"controller {controller!r} needs a trained policy, and none called {limit.pretrained!r} came with "
                f"ncc (it has: {', '.join(names) or 'none'}); name the run that made one, run=<folder>, or pack it: "
                f"python -m ncc.pack <folder> --name {limit.pretrained}"
            )
        return packaged_policy(limit.pretrained, self.packaged)

    def inputs(self, controller: Controller) -> dict[str, str]:
        """Digests of the files that decide what the controller does, by what they are."""
        if not isinstance(controller.limit, PolicyLimit):
            return {}
        return {"policy": file_digest(self.path(controller.name, controller.limit))}

    def _load(self, controller: str, limit: PolicyLimit) -> tuple[Path, "MlpPolicy", Mapping[str, Any]]:
        from ncc.agents.policy import load_policy
        from ncc.deployed import SUFFIX, load_policy_file

        path = self.path(controller, limit)
        if path.suffix == SUFFIX:
            found = load_policy_file(path)
            return path, found.policy, found.header.to_dict()
        return (path, *load_policy(path))

    def _policy(self, controller: str, limit: PolicyLimit, scenario: Scenario) -> RateLimiter:
        from ncc.deployed import HeldLimiter, RateBounds, table_bounds
        from ncc.envs.action import ActionSpec, RateTable
        from ncc.envs.observation import ObservationSpec, SharedObserver

        if isinstance(limit, HostsLimit):
            return self._agents(controller, limit)
        path, policy, meta = self._load(controller, limit)
        observer = SharedObserver(from_dict(ObservationSpec, _part(meta, "observation", path), f"{path}: observation"))
        actions = RateTable(from_dict(ActionSpec, _part(meta, "action", path), f"{path}: action"), observer.spec)
        observer.reset(scenario)
        if observer.obs_dim != policy.obs_dim:
            raise ConfigError(
                f"{path} was trained on {policy.obs_dim} numbers per host and scenario {scenario.name!r} gives "
                f"{observer.obs_dim}: this policy fits neighbourhoods of one size only; choose a scenario with as many "
                "hosts per neighbourhood as it was trained on"
            )
        if policy.n_actions != actions.spec.n_actions:
            raise ConfigError(
                f"{path} chooses among {policy.n_actions} actions and states a table of {actions.spec.n_actions}; "
                "train or pack it again"
            )
        limiter = PolicyLimiter(policy, observer, actions, greedy=limit.greedy)
        if "limits" not in meta:
            return limiter
        bounds = from_dict(RateBounds, _part(meta, "limits", path), f"{path}: limits")
        return limiter if bounds == table_bounds(actions.spec) else HeldLimiter(limiter, bounds)

    def _agents(self, controller: str, limit: HostsLimit) -> RateLimiter:
        from ncc.deployed import SUFFIX, load_policy_file
        from ncc.deployed.host_agents import HostAgents

        path = self.path(controller, limit)
        if path.suffix != SUFFIX or not limit.greedy:
            raise ConfigError(
                f"controller {controller!r} is an agent on each host: that takes a policy file ({SUFFIX}, made by "
                f"python -m ncc.export) and greedy decisions, got {path.name} and greedy={limit.greedy}"
            )
        return HostAgents(load_policy_file(path))


def _part(meta: Mapping[str, Any], name: str, path: Path) -> Mapping[str, Any]:
    if not isinstance(part := meta.get(name), Mapping):
        raise ResultError(f"{path} does not say its {name}; train again")
    return part


def controller_names() -> tuple[str, ...]:
    """Every controller that has a YAML in configs/controllers."""
    return _names("controllers")


def load_controller(name: str) -> Controller:
    """The controller that configs/controllers/<name>.yaml describes; of a path that ends in .ncc, that policy file.

    ``hosts:<path>.ncc`` is the same policy by an agent on each host. In results either goes by the file's name, without
    its folder.

    Raises:
        UnknownNameError: there is no such controller; the message lists what exists.
        ConfigError: a policy file has a name that results cannot take over.
    """
    from ncc.deployed import SUFFIX

    if name.endswith(SUFFIX):
        given = Path(name.removeprefix(HOSTS))
        if given.name.startswith(".") or not re.fullmatch(r"[A-Za-z0-9_.:+-]+", given.name):
            raise ConfigError(
                f"controller {name!r}: results go by a policy file's name, which must be letters, digits and any of "
                f"_.:+- and not begin with a dot; call {given.name!r} otherwise"
            )
        path = str(given.resolve())
        if name.startswith(HOSTS):
            summary = "A policy file, on each host"
            return Controller(name=HOSTS + given.name, summary=summary, limit=HostsLimit(path=path))
        return Controller(name=given.name, summary="A policy file", limit=PolicyLimit(path=path))
    return from_dict(Controller, read_config("controllers", "controller", name), f"controllers/{name}")


def experiment_names() -> tuple[str, ...]:
    """Every experiment that has a YAML in configs/experiment."""
    return _names("experiment")


def recipe_names() -> tuple[str, ...]:
    """Every recipe of training that has a YAML in configs/recipes/experiment."""
    return _names("recipes/experiment")


def datapath_names() -> tuple[str, ...]:
    """Every datapath that has a YAML in configs/datapath."""
    return _names("datapath")


def runs_on(controller: Controller) -> tuple[str, ...]:
    """Datapaths that have the controller's transport; those that are not built here are left out."""
    found = []
    for name in datapath_names():
        try:
            transports = load_datapath(name).load()().transports()
        except (ConfigError, DatapathError):
            continue
        if controller.stack.transport in transports:
            found.append(name)
    return tuple(found)


def load_datapath(name: str) -> DatapathSpec:
    """The datapath that configs/datapath/<name>.yaml describes."""
    found = {
        spec.name: spec for spec in datapaths_from(read_config("datapath", "datapath", name), f"datapath/{name}.yaml")
    }
    if set(found) != {name}:
        raise ConfigError(f"datapath/{name}.yaml must describe {name!r} and nothing else, found {', '.join(found)}")
    return found[name]


def _names(group: str) -> tuple[str, ...]:
    folder = files("ncc.configs") / group
    return tuple(sorted(f.name.removesuffix(".yaml") for f in folder.iterdir() if f.name.endswith(".yaml")))


def read_config(group: str, what: str, name: str) -> Mapping[str, Any]:
    """One YAML as it is written, without its defaults; `what` it is, for the error of a name that is unknown."""
    from omegaconf import OmegaConf

    if name not in (known := _names(group)):
        raise UnknownNameError(what, name, known)
    text = (files("ncc.configs") / group / f"{name}.yaml").read_text()
    return cast(Mapping[str, Any], OmegaConf.to_container(OmegaConf.create(text)))


def register() -> None:
    """Offer the values' defaults to Hydra: groups `schema/...` and `scenario/topology`."""
    from hydra.core.config_store import ConfigStore

    from ncc.core.topologies import AnyTopology
    from ncc.core.value import kinds
    from ncc.envs.ns3gym.spec import SimulationSpec
    from ncc.envs.reward import AnyReward
    from ncc.envs.spec import EnvView

    store = ConfigStore.instance()
    store.store(group="experiment", name="list", node={})  # asks for their names
    store.store(group="schema/scenario", name="base", node=defaults(Scenario))
    for kind, topology in kinds(AnyTopology).items():
        store.store(group="scenario/topology", name=kind, node=defaults(topology))
    view = {key: node for key, node in defaults(EnvView).items() if key != "reward"}  # a group of its own
    store.store(group="schema/env", name="base", node=view)
    store.store(group="schema/env", name="ns3gym", node=defaults(SimulationSpec))
    for kind, reward in kinds(AnyReward).items():
        store.store(group="schema/env/reward", name=kind, node=defaults(reward))
    for name, config in learner_configs().items():
        store.store(group="schema/agent", name=name, node={"learner": name, **defaults(config)})


def learner_configs() -> dict[str, type[Value]]:
    """The configuration class of every folder in agents/ that has a `config.py` with a `CONFIG`."""
    # Not by listing files: an editable installation keeps an agent's extension module apart from its Python.
    packages = [module.name for module in pkgutil.iter_modules(ncc.agents.__path__) if module.ispkg]
    names = sorted(name for name in packages if find_spec(f"ncc.agents.{name}.config") is not None)
    return {name: importlib.import_module(f"ncc.agents.{name}.config").CONFIG for name in names}


def agent_name(agent: Mapping[str, Any]) -> str:
    """What an agent is called, by its settings as a run keeps them: what its learner makes of them, if it tells."""
    learner = str(agent["learner"])
    called: Callable[[Mapping[str, Any]], str] | None = getattr(learner_configs().get(learner), "called", None)
    return learner if called is None else called(agent)


def defaults(kind: type[Value]) -> dict[str, Any]:
    """Plain defaults of a value's fields, `???` (Hydra's mark for a missing value) where it has none."""
    plain: dict[str, Any] = {}
    tag = kind.__struct_config__.tag
    if tag is not None:
        plain[str(kind.__struct_config__.tag_field)] = tag
    for field in msgspec.structs.fields(kind):
        if field.default is not msgspec.NODEFAULT:
            plain[field.encode_name] = msgspec.to_builtins(field.default)
        elif field.default_factory is not msgspec.NODEFAULT:
            plain[field.encode_name] = msgspec.to_builtins(field.default_factory())
        else:
            plain[field.encode_name] = "???"
    return plain


def plain_config(config: Any) -> dict[str, Any]:
    """A composed Hydra configuration as plain data; `ConfigError` names what is missing."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        return cast(dict[str, Any], OmegaConf.to_container(config, resolve=True, throw_on_missing=True))
    except OmegaConfBaseException as error:
        raise ConfigError(
            f"configuration: {str(error).splitlines()[0]}; give it on the command line or in a YAML"
        ) from None
