# SPDX-License-Identifier: BSD-3-Clause
"""Controllers by their names in `controller=`, and the tuned sets of configs/tuned.

A tuned set has settings of controllers for one kind of network; `studies/tuning.py` chooses them. `<name>_tuned` is the
controller <name> with the set for the scenario's kind of network.
"""

import copy
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import field

from ncc.core.errors import ConfigError, DatapathError, UnknownNameError, hint
from ncc.core.keys import set_key
from ncc.core.scenario import Scenario, scenario_from_dict
from ncc.core.value import Name, Value, from_dict
from ncc.harness.controller import TUNED, Controller, HostsLimit, ModelLimit, PolicyLimit
from ncc.run.compose import datapath_names, load_datapath
from ncc.run.config_files import config_paths, elsewhere, read_config
from ncc.run.own_class import class_controller

HOSTS = "hosts:"
"""Prefix before the path of a policy file, for a policy that an agent on each host runs."""
POLICY = PolicyLimit().path
"""Name of the policy file in the folder of a training."""
OWN = "Your own controller may be module:Class, a path, or <folder>/controllers/<name>.yaml with --config-dir <folder>."
"""Sentence for names that resemble no controller."""
GROUP = "tuned"
MARKS = "scenario.topology.mark_threshold_bytes"


def controller_names() -> tuple[str, ...]:
    """Names of the controllers, from the YAML files of group controllers."""
    return tuple(config_paths("controllers"))


def load_controller(name: str) -> Controller:
    """Load a controller by name: from controllers/<name>.yaml, or by the form of the name.

    | looks like | is |
    |---|---|
    | `module:Class` | a Python class (`ncc.run.own_class`) |
    | `path.zip` | a model of Stable-Baselines3 |
    | `path`, a folder of `ncc train` | the policy of the training |
    | `path`, another folder | a checkpoint of RLlib |
    | `path.ncc` | a policy |
    | `hosts:path.ncc` | a policy that an agent on each host runs |

    In results a file or folder is called by its name without the folder above it, and a class by its own name.

    Raises:
        UnknownNameError: there is no such controller; the message lists those that exist.
        ConfigError: the class or file cannot be used, its name cannot be used in results, or the name is an old one.
    """
    if (Path(name) / "config.json").is_file() and not _is_training(name):
        raise ConfigError(f"controller {name!r} is a training that has not ended: ncc train resume={name}")
    if name in config_paths("controllers"):
        plain = {"name": name, **read_config("controllers", "controller", name)}
        if plain["name"] != name:
            raise ConfigError(f"controllers/{name}.yaml must describe {name!r}, its own name, got {plain['name']!r}")
        return from_dict(Controller, plain, f"controllers/{name}")
    for fits, make in LOOKS:
        if fits(name):
            return make(name)
    if meant := _meant_class(name):
        raise ConfigError(
            f"Unknown controller {name!r}: a class is named module:Class, without .py; did you mean {meant}?"
        )
    if name in tuned_names():
        raise ConfigError(f"{name} is for ncc evaluate and the evaluations of ncc train: name it there")
    known = config_paths("controllers")
    raise UnknownNameError(
        "controller", name, known, elsewhere("controllers", name) or ("" if hint(name, known) else OWN)
    )


def _meant_class(name: str) -> str:
    """Return `module:Class` if the name may mean a class in a file of the current folder, else an empty text."""
    file, _, within = name.partition(":")
    module = file.removesuffix(".py")
    if module != file or (not within and Path(f"{module}.py").is_file()):
        return f"{module.removeprefix('./').replace('/', '.')}:{within or 'Class'}"
    starts = re.compile(rf"^class {re.escape(name)}\b", re.MULTILINE)
    holding = (path for path in sorted(Path().glob("*.py")) if starts.search(path.read_text(errors="replace")))
    return next((f"{path.stem}:{name}" for path in holding), "")


def _policy_on_hosts(name: str) -> Controller:
    called, path = _file(name, name.removeprefix(HOSTS))
    if not path.endswith(".ncc"):
        raise ConfigError(f"controller {name!r}: {HOSTS} takes a policy file, which ends in .ncc; name one")
    return Controller(name=HOSTS + called, summary="A policy file, on each host", limit=HostsLimit(path=path))


def _policy_file(name: str) -> Controller:
    called, path = _file(name, name)
    return Controller(name=called, summary="A policy file", limit=PolicyLimit(path=path))


def _is_training(name: str) -> bool:
    return (Path(name) / POLICY).is_file()


def _training(name: str) -> Controller:
    called, path = _file(name, name)
    if called in config_paths("controllers") or called in tuned_names():
        raise ConfigError(
            f"controller {name!r}: results would call the training {called!r}, and that is a controller of ncc; rename "
            "the folder"
        )
    return Controller(name=called, summary="A training", limit=PolicyLimit(path=str(Path(path) / POLICY)))


def _model(name: str) -> Controller:
    called, path = _file(name, name)
    return Controller(name=called, summary="A model trained elsewhere", limit=ModelLimit(path=path))


def _is_checkpoint(name: str) -> bool:
    """True for a folder whose name has a / or that holds a checkpoint; any other may have its name by chance."""
    return Path(name).is_dir() and ("/" in name or (Path(name) / "rllib_checkpoint.json").is_file())


def _file(name: str, path: str) -> tuple[str, str]:
    """Return the name in results of a file or folder, and its absolute path."""
    resolved = Path(path).resolve()
    if resolved.name.startswith(".") or not re.fullmatch(r"[A-Za-z0-9_.:+-]+", resolved.name):
        raise ConfigError(
            f"controller {name!r}: results go by a file's name, which must be letters, digits and any of "
            f"_.:+- and not begin with a dot; call {resolved.name!r} otherwise"
        )
    return resolved.name, str(resolved)


LOOKS: tuple[tuple[Callable[[str], object], Callable[[str], Controller]], ...] = (
    (re.compile(r"hosts:.*[./].*").fullmatch, _policy_on_hosts),
    (re.compile(r".*\.ncc").fullmatch, _policy_file),
    (re.compile(r".*\.zip").fullmatch, _model),
    (re.compile(r"[\w.]+(?<!\.py):\w+").fullmatch, class_controller),
    (_is_training, _training),
    (_is_checkpoint, _model),
)
"""Tests of a name's form, each with the function that makes the controller; the first test that fits is used."""


def runs_on(controller: Controller) -> tuple[str, ...]:
    """Datapaths that have all transports of a controller; those that are not built here are left out."""
    return tuple(name for name, known in transports_here()[0].items() if {*controller.stack.transports} <= {*known})


def transports_here() -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """Transports of each datapath that is built here, and the reason for each that is not."""
    built, missing = {}, {}
    for name in datapath_names():
        try:
            built[name] = load_datapath(name).load()().transports()
        except (ConfigError, DatapathError) as error:
            missing[name] = str(error)
    return built, missing


class Tuning(Value, frozen=True, kw_only=True):
    """Settings of a controller, and of the hosts and switches on which it runs."""

    changes: dict[str, Any] = field(default_factory=dict)
    """Values of keys such as `scenario.transport.initial_window_pkts`."""
    params: dict[str, int] = field(default_factory=dict)
    """Parameters of the controller's header."""


class TunedSet(Value, frozen=True, kw_only=True):
    """The contents of configs/tuned/<name>.yaml."""

    topology: Name
    """Kind of the networks on which the settings were chosen."""
    controllers: dict[Name, Tuning]


def tuning_of(name: str, controller: str, scenario: Mapping[str, Any]) -> Tuning:
    """Return the settings that the tuned set `name` has for a controller.

    Args:
        scenario: plain data of a scenario, whose network must be of the kind on which the set was chosen.

    Raises:
        UnknownNameError: there is no such set, or the set lacks the controller.
        ConfigError: the set is for another kind of network.
    """
    tuned = _tuned_set(name)
    kind = scenario["topology"]["kind"]
    if kind != tuned.topology:
        fitting = _sets_for(kind)
        raise ConfigError(
            f"tuned set {name!r} was chosen on networks of kind {tuned.topology}, and this one is of kind {kind}: "
            f"{'name ' + ' or '.join(fitting) if fitting else 'no set is for that'}; or leave tuned out"
        )
    if controller not in tuned.controllers:
        raise UnknownNameError(f"controller in tuned set {name!r}", controller, tuned.controllers)
    return tuned.controllers[controller]


def tuned_names() -> dict[str, str]:
    """Names of tuned controllers (`<name>_tuned`), each with the name of the controller that it tunes."""
    controllers = {name for tuned in config_paths(GROUP) for name in _tuned_set(tuned).controllers}
    with_yaml = config_paths("controllers")
    return {name + TUNED: name for name in sorted(controllers) if name + TUNED not in with_yaml}


def tuned_for(controller: str, scenario: Scenario) -> tuple[dict[str, int], Scenario]:
    """Apply the tuned set for the scenario's kind of network: return the controller's parameters and the new scenario.

    Raises:
        ConfigError: there is no set for this kind of network, or its settings do not fit the scenario.
        UnknownNameError: the set lacks the controller.
    """
    plain = {"scenario": scenario.to_dict()}
    fitting = _sets_for(kind := plain["scenario"]["topology"]["kind"])
    if not fitting:
        known = sorted({_tuned_set(name).topology for name in config_paths(GROUP)})
        raise ConfigError(
            f"{controller}{TUNED} has no settings for networks of kind {kind}, only for {', '.join(known)}: leave it "
            f"out, or compare {controller} with params of your own"
        )
    tuning = tuning_of(fitting[0], controller, plain["scenario"])
    if MARKS in tuning.changes:
        topology = plain["scenario"]["topology"]
        other = "marks by RED" if topology.get("red") else "" if topology["mark_threshold_bytes"] else "does not mark"
        if other:
            raise ConfigError(
                f"{controller}{TUNED} sets a marking threshold, and scenario {scenario.name!r} {other}: leave "
                f"{controller}{TUNED} out"
            )
    for key, value in tuning.changes.items():
        set_key(plain, key, copy.deepcopy(value))
    try:
        return tuning.params, scenario_from_dict(plain["scenario"])
    except ConfigError as error:
        raise ConfigError(f"{controller}{TUNED} does not fit scenario {scenario.name!r}: {error}") from None


def _sets_for(kind: str) -> list[str]:
    return [name for name in config_paths(GROUP) if _tuned_set(name).topology == kind]


def _tuned_set(name: str) -> TunedSet:
    tuned: TunedSet = from_dict(TunedSet, dict(read_config(GROUP, "tuned set", name)), f"{GROUP}/{name}")
    return tuned
