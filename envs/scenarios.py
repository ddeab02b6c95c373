# SPDX-License-Identifier: BSD-3-Clause
"""Scenarios from user input in Python: by name, by file, or by differences from another scenario.

Commands compose the same YAML files with Hydra, which environments do not need.
"""

import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from ncc.core.errors import ConfigError, UnknownNameError
from ncc.core.scenario import Scenario, scenario_from_dict
from ncc.core.workload import Incast, Poisson, Workload

ScenarioLike = Scenario | str | Path | Mapping[str, Any] | None
"""A value, a name, a YAML file, a mapping of differences, or None for the default."""

DEFAULT = "rack"
SCHEMA = {"/schema/scenario@_here_": "base"}
"""Entry in the `defaults` of a file that stands for the defaults of `ncc.core.scenario.Scenario`."""
HOSTS = {"rack": "hosts", "many_to_one": "senders", "dumbbell": "pairs", "single_switch": "senders"}
"""Field with the number of hosts that decide, by kind of topology."""


def scenario_names() -> tuple[str, ...]:
    """List the scenarios that have a YAML in configs/scenario."""
    folder = files("ncc.configs") / "scenario"
    return tuple(sorted(file.name.removesuffix(".yaml") for file in folder.iterdir() if file.name.endswith(".yaml")))


def names_file(given: str) -> bool:
    """True for the path of a scenario's file: a text with a slash, or that ends in ``.yaml`` or ``.yml``."""
    return re.search(r"[/\\]|\.ya?ml$", given) is not None


def make_scenario(
    given: ScenarioLike = None,
    *,
    hosts: int | None = None,
    duration_s: float | None = None,
    period_s: float | None = None,
    load_frac: float | None = None,
) -> Scenario:
    """Make a scenario, with settings that are often changed; None keeps the scenario's own.

    Args:
        given: a name (``incast``); a YAML file (``my/own.yaml``); or a mapping of differences from the scenario that
            its ``name`` names, by default ``rack``. If the mapping has a workload, only the components that it names
            remain; a component that the scenario has may be given in part.
        hosts: number of hosts that decide. The `fan_in` of an incast changes in proportion.
        duration_s: length of an episode.
        period_s: time between two decisions.
        load_frac: load of the one component that arrives as a Poisson process.

    Raises:
        UnknownNameError: no such scenario; the message lists what exists.
        ConfigError: the file cannot be read, or the scenario does not have or allow a setting.
    """
    scenario = _given(given)
    changes: dict[str, Any] = {}
    workload = scenario.workload
    if hosts is not None:
        changes["topology"], workload = _with_hosts(scenario, hosts)
    if load_frac is not None:
        workload = _with_load(scenario.name, workload, load_frac)
    if workload != scenario.workload:
        changes["workload"] = workload
    changes |= {} if duration_s is None else {"duration_s": duration_s}
    changes |= {} if period_s is None else {"period_s": period_s}
    return scenario.replace(**changes) if changes else scenario


def _given(given: ScenarioLike) -> Scenario:
    if isinstance(given, Scenario):
        return given
    if given is None:
        return scenario_from_dict(_named(DEFAULT))
    if isinstance(given, str) and not names_file(given):
        return scenario_from_dict(_named(given), f"scenario {given}")
    if isinstance(given, str | Path):
        path = Path(given)
        return scenario_from_dict({"name": path.stem} | _read(path), str(given))
    if not isinstance(given, Mapping):
        raise ConfigError(
            "scenario must be a name, a YAML file, a mapping of what differs from a scenario, or a Scenario, got "
            f"{type(given).__name__}"
        )
    name = given.get("name")
    base = _named(name if name in scenario_names() else DEFAULT)
    if isinstance(workload := given.get("workload"), Mapping):
        base["workload"] = {key: part for key, part in base["workload"].items() if key in workload}
    return scenario_from_dict(_merged(base, given))


def _with_hosts(scenario: Scenario, hosts: int) -> tuple[Any, Workload]:
    topology = scenario.topology
    kind = str(topology.__struct_config__.tag)
    if kind not in HOSTS:
        raise ConfigError(
            f"hosts can be given for topologies of kind {', '.join(HOSTS)}; scenario {scenario.name!r} has {kind}: "
            'change its fields instead, scenario={"topology": {...}}'
        )
    before = getattr(topology, HOSTS[kind])
    topology = topology.replace(**{HOSTS[kind]: hosts})
    workload = tuple(
        (name, part.replace(fan_in=max(1, round(part.fan_in * hosts / before))) if isinstance(part, Incast) else part)
        for name, part in scenario.workload
    )
    return topology, workload


def _with_load(name: str, workload: Workload, load_frac: float) -> Workload:
    parts = [key for key, part in workload if isinstance(part, Poisson)]
    if len(parts) != 1:
        raise ConfigError(
            f"load_frac is of one Poisson component, and scenario {name!r} has {len(parts)} (its workload: "
            f"{', '.join(key for key, _ in workload)}): "
            'change the workload instead, scenario={"workload": {...}}'
        )
    return tuple(
        (key, part.replace(load_frac=load_frac) if isinstance(part, Poisson) else part) for key, part in workload
    )


def _named(name: str) -> dict[str, Any]:
    """Return the content of a named YAML, merged with the scenarios that it builds on."""
    if name not in (known := scenario_names()):
        raise UnknownNameError("scenario", name, known)
    return _resolved((files("ncc.configs") / "scenario" / f"{name}.yaml").read_text(), f"scenario/{name}.yaml")


def _read(path: Path) -> dict[str, Any]:
    try:
        return _resolved(path.read_text(), str(path))
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise ConfigError(f"scenario file {path} cannot be read: {why}") from None


def _resolved(text: str, where: str) -> dict[str, Any]:
    """Return a file's settings merged over those of its `defaults`: a kind of topology, and other scenarios."""
    try:
        plain = yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise ConfigError(f"{where} is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(plain, dict):
        raise ConfigError(f"{where} must be a mapping of a scenario's fields, got {type(plain).__name__}")
    base: dict[str, Any] = {}
    entries = plain.pop("defaults", [])
    for entry in entries if isinstance(entries, list) else [entries]:
        if isinstance(entry, dict) and list(entry) == ["topology"]:
            base = _merged(base, {"topology": {"kind": entry["topology"]}})
        elif isinstance(entry, str) and entry != "_self_":
            base = _merged(base, _named(entry))
        elif entry not in ("_self_", SCHEMA):
            raise ConfigError(
                f"{where}: defaults may name a topology ({{topology: rack}}), other scenarios and _self_, got {entry!r}"
            )
    return _merged(base, plain)


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merge `over` into `base`, part by part; a part of another kind replaces the whole part."""
    merged = dict(base)
    for key, value in over.items():
        before = merged.get(key)
        merged[key] = value
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            kind = before.get("kind")
            merged[key] = _merged(before, value) if value.get("kind", kind) == kind else value
    return merged


class _Loader(yaml.SafeLoader):  # type: ignore[misc] # PyYAML has no types
    """YAML loader with YAML 1.2's floats, like OmegaConf: ``10.0e9`` is a number, which it is not for PyYAML."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)
