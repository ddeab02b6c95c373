# SPDX-License-Identifier: BSD-3-Clause
"""Construction of objects from names and plain configuration; it connects envs, agents and harness.

Hydra composes plain dicts; the frozen values behind them hold schema, defaults and ranges. `register` stores those
defaults in Hydra under `schema/`, so that a YAML states differences only and every key can be overridden.
"""

import importlib
import json
import pkgutil
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import msgspec
from msgspec import Meta

import ncc.agents
from ncc.agents.rllib.config import check_cluster
from ncc.core.errors import ConfigError, hint
from ncc.core.extras import MissingExtraError, require_extra
from ncc.core.scenario import Scenario
from ncc.core.sizes import with_tables
from ncc.core.units import without_units
from ncc.core.value import Name, Natural, Value, from_dict
from ncc.harness.datapath import Datapath, HostStack
from ncc.run.config_files import config_paths, read_config, with_scenario_files

if TYPE_CHECKING:
    from ncc.harness.pool import Executor


ControllerName = Annotated[str, Meta(min_length=1)]
"""Name of a controller for `ncc.run.controllers.load_controller`."""


class DatapathSpec(Value, frozen=True):
    """A datapath: its name in results, and its class as `package.module:Class`, called without arguments."""

    name: Name
    target: Name
    settings: dict[str, Any] = msgspec.field(default_factory=dict)
    """Settings for `configured(settings, where)` of the class, which returns a factory to use instead of the class."""
    reference: bool = False
    """Put this datapath last in results, and its verdict first, in whatever order datapaths are named."""

    def load(self) -> Callable[[], Datapath]:
        """Import the class, or make its factory if there are settings; workers get the result by pickle.

        Raises:
            ConfigError: there is no such class, it is no datapath, or it does not take the settings.
        """
        where = f"datapath.{self.name}.target"
        target = load_target(self.target, where)
        if not isinstance(target, type) or not all(
            hasattr(target, verb) for verb in ("transports", "start", "step", "finish", "close")
        ):
            raise ConfigError(f"{where}: {self.target!r} is no datapath class; it must offer ncc.harness.Datapath")
        if not self.settings:
            return cast(Callable[[], Datapath], target)
        if not hasattr(target, "configured"):
            raise ConfigError(f"datapath.{self.name}.settings: {self.name} has none; leave them out")
        return cast(Callable[[], Datapath], target.configured(self.settings, f"datapath.{self.name}.settings"))

    @property
    def identity(self) -> str:
        """Text that identifies this datapath and its settings."""
        return self.target + (f" {json.dumps(self.settings, sort_keys=True)}" if self.settings else "")

    def require(self, stack: HostStack, whose: str, remedy: str) -> None:
        """Check that the datapath has all transports of a stack.

        Raises:
            ConfigError: it lacks one; the message begins with `whose`, lists the known transports and ends in `remedy`.
        """
        known = sorted(self.load()().transports())
        for transport in stack.transports:
            if transport not in known:
                raise ConfigError(
                    f"{whose}: datapath {self.name} has no transport {transport!r}.{hint(transport, known)} It has: "
                    f"{', '.join(known)}. {remedy}"
                )


class ExecutorSpec(Value, frozen=True, kw_only=True):
    """Executor of runs and its settings; results do not depend on them."""

    executor: Literal["processes", "ray"] = "processes"
    """Processes of this machine, or Ray."""
    workers: Annotated[int, Meta(ge=1, le=256)] = 2
    """Runs at a time, each a process."""
    address: str | None = None
    """Address of a Ray cluster: auto, or host:port of its head. None: start a private Ray on this machine."""

    def check(self) -> None:
        if self.executor != "ray" and self.address is not None:
            raise ConfigError("address is for a Ray cluster: set executor=ray, or leave address out")
        check_cluster(self.address, of="")

    def load_executor(self) -> "Executor":
        """Make the executor.

        Raises:
            ConfigError: Ray is not installed.
        """
        if self.executor == "processes":
            from ncc.harness.pool import Processes  # imported late: `--help` does not need pyarrow

            return Processes(self.workers)
        require_extra("rllib", "executor=ray", "ray")
        from ncc.agents.rllib.executor import RayExecutor

        return RayExecutor(self.workers, self.address)


class JudgingSpec(ExecutorSpec, frozen=True, kw_only=True):
    """Settings of an evaluation except its datapaths, controllers, number of seeds and duration."""

    first_seed: Natural = 0
    """Seed of the first run; the others follow."""
    bounds: bool = True
    """Add `ncc.metrics.bounds` to the table, unless flows are endless."""
    table: Literal["short", "full"] = "short"
    """Size of the printed table: 80 columns, or every metric with its interval and the bounds."""
    reference: ControllerName | None = None
    """Controller that the others are compared with, as results call it; None: `ncc.results.verdict.opponent`."""
    params: dict[ControllerName, dict[str, Any]] = msgspec.field(default_factory=dict)
    """Parameters of transports, by controller, that replace the defaults; `ncc.run.plan.with_params` checks them."""


def datapaths_from(plain: Any, where: str = "datapath") -> tuple[DatapathSpec, ...]:
    """Make the datapaths that `{name: {target: package.module:Class}}` describes, in its order.

    Raises:
        ConfigError: the data does not describe datapaths; the message names the field, beginning with `where`.
    """
    if not isinstance(plain, Mapping) or not all(isinstance(entry, Mapping) for entry in plain.values()):
        raise ConfigError(f"{where} must be a mapping of names to {{target: package.module:Class}}, got {plain!r}")
    return tuple(from_dict(DatapathSpec, {"name": name, **plain[name]}, f"{where}.{name}") for name in plain)


def reference_last(datapaths: Sequence[DatapathSpec]) -> tuple[DatapathSpec, ...]:
    """Move the reference datapath to the end; without one, keep the order.

    Raises:
        ConfigError: several datapaths are marked as the reference.
    """
    references = [datapath.name for datapath in datapaths if datapath.reference]
    if len(references) > 1:
        raise ConfigError(
            f"one datapath at most can be the reference of the others, got {', '.join(references)}: leave one out or "
            "set reference to false in its YAML"
        )
    return tuple(sorted(datapaths, key=lambda datapath: datapath.reference))


def load_target(target: str, where: str) -> Any:
    """Import the object at `package.module:name`.

    Raises:
        ConfigError: it cannot be imported; the message begins with `where`.
    """
    module, _, name = target.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{where}: cannot load {target!r} ({error}); it must be 'package.module:name'") from None


def experiment_names() -> tuple[str, ...]:
    """Names of the experiments (figures of papers), from the YAML files of group experiment."""
    return tuple(config_paths("experiment"))


def datapath_names() -> tuple[str, ...]:
    """Names of the datapaths, from the YAML files of group datapath."""
    return tuple(config_paths("datapath"))


def load_datapath(name: str) -> DatapathSpec:
    """Read the datapath that configs/datapath/<name>.yaml describes."""
    described = {
        spec.name: spec for spec in datapaths_from(read_config("datapath", "datapath", name), f"datapath/{name}.yaml")
    }
    if set(described) != {name}:
        raise ConfigError(f"datapath/{name}.yaml must describe {name!r} and nothing else, found {', '.join(described)}")
    return described[name]


@cache
def is_available(name: str) -> bool:
    """True if a datapath's extra is installed; if not, a line on standard error says that it is left out."""
    try:
        load_datapath(name).load()().transports()
    except MissingExtraError as error:
        print(f"{name} is left out: {error}", file=sys.stderr)
        return False
    return True


@cache
def register() -> None:
    """Store the defaults of scenarios, environments and learners in Hydra's config store, so that a YAML can use them.

    Their groups are `schema/...`, `scenario/topology` and `env/reward`. In YAML, ``${installed:packetsim,ns3}`` then
    selects those of the named datapaths whose extras are installed.
    """
    from hydra.core.config_store import ConfigStore
    from omegaconf import OmegaConf

    from ncc.core.topologies import AnyTopology
    from ncc.core.value import kinds
    from ncc.envs.reward import AnyReward
    from ncc.envs.spec import EnvView

    def installed(*names: str) -> list[str]:
        return [name for name in names if is_available(name)]

    OmegaConf.register_new_resolver("installed", installed, replace=True)
    store = ConfigStore.instance()
    for group in ("experiment", "recipe"):
        store.store(group=group, name="list", node={})  # prints the names of the group
    store.store(group="schema/scenario", name="base", node=defaults(Scenario))
    for kind, topology in kinds(AnyTopology).items():
        store.store(group="scenario/topology", name=kind, node=defaults(topology))
    view = {key: node for key, node in defaults(EnvView).items() if key != "reward"}  # `reward` is a group of its own
    store.store(group="schema/env", name="base", node=view)
    for kind, reward in kinds(AnyReward).items():
        store.store(group="env/reward", name=kind, node=defaults(reward))
    for name, config in learner_configs().items():
        store.store(group="schema/agent", name=name, node={"learner": name, **defaults(config)})


def learner_configs() -> dict[str, type[Value]]:
    """Configuration classes of learners by name: `CONFIG` in the `config.py` of a folder in agents/."""
    # Listing files would not do: an editable installation keeps an agent's extension module apart from its Python.
    packages = [module.name for module in pkgutil.iter_modules(ncc.agents.__path__) if module.ispkg]
    names = sorted(name for name in packages if find_spec(f"ncc.agents.{name}.config") is not None)
    return {name: importlib.import_module(f"ncc.agents.{name}.config").CONFIG for name in names}


def agent_name(agent: Mapping[str, Any]) -> str:
    """Name of an agent, by its stored settings: the result of `called` in its configuration class, else the learner."""
    learner = str(agent["learner"])
    called: Callable[[Mapping[str, Any]], str] | None = getattr(learner_configs().get(learner), "called", None)
    return learner if called is None else called(agent)


def defaults(kind: type[Value]) -> dict[str, Any]:
    """Plain defaults of the fields of a class; `???`, Hydra's mark for a missing value, for a field without one."""
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
    """Convert a composed Hydra configuration to plain data: numbers for quantities, tables for size files, ~ resolved.

    Raises:
        ConfigError: a value is missing, a unit does not fit, or a file is invalid.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        plain = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        reason = re.sub(r'^\w+ raised while resolving interpolation: "(.*)"$', r"\1", str(error).splitlines()[0])
        raise ConfigError(f"configuration: {reason}; give it on the command line or in a YAML") from None
    return cast(dict[str, Any], with_tables(without_units(_at_home(plain), "")))


def _at_home(data: Any) -> Any:
    """Replace ~ at the beginning of paths by the user's home directory."""
    if isinstance(data, dict):
        return {key: _at_home(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_at_home(value) for value in data]
    return str(Path(data).expanduser()) if isinstance(data, str) and data.startswith("~/") else data


def composed(verb: str, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Compose the configuration of `ncc <verb>` as plain data; this also works within a command that Hydra runs.

    Raises:
        HydraException: Hydra refuses the overrides.
        ConfigError: see `plain_config`.
    """
    import hydra
    from hydra.core.global_hydra import GlobalHydra

    words = [*map(with_scenario_files, overrides)]
    if GlobalHydra.instance().is_initialized():
        return plain_config(hydra.compose(verb, words))
    register()
    with hydra.initialize_config_module("ncc.configs", version_base=None):
        return plain_config(hydra.compose(verb, words))
