# SPDX-License-Identifier: BSD-3-Clause
"""Tuned sets: what each controller is set to on a kind of network (configs/tuned). `studies/tuning.py` chooses them.

In `controller=`, `<name>_tuned` is the controller with the set of the scenario's kind of network.
"""

import copy
from collections.abc import Mapping
from typing import Any

from msgspec import field

from ncc.core.errors import ConfigError, UnknownNameError
from ncc.core.keys import set_key
from ncc.core.scenario import Scenario, scenario_from_dict
from ncc.core.value import Name, Value, from_dict
from ncc.harness.controller import TUNED
from ncc.run.config_files import config_paths, read_config

GROUP = "tuned"
MARKS = "scenario.topology.mark_threshold_bytes"


class Tuning(Value, frozen=True, kw_only=True):
    """Settings of a controller, and of hosts and switches that run it."""

    changes: dict[str, Any] = field(default_factory=dict)
    """Keys of the scenario, as `scenario.transport.initial_window_pkts`."""
    params: dict[str, int] = field(default_factory=dict)
    """Parameters of its header."""


class TunedSet(Value, frozen=True, kw_only=True):
    """configs/tuned/<name>.yaml."""

    topology: Name
    """Kind of the networks that it was chosen on."""
    controllers: dict[Name, Tuning]


def tuning_of(name: str, controller: str, scenario: Mapping[str, Any]) -> Tuning:
    """The settings that a tuned set has for a controller.

    Args:
        scenario: plain; its network must be of the kind that the set was chosen on.

    Raises:
        UnknownNameError: no such set, or the set lacks the controller.
        ConfigError: the set is of other networks.
    """
    found = _tuned_set(name)
    kind = scenario["topology"]["kind"]
    if kind != found.topology:
        fitting = _sets_for(kind)
        raise ConfigError(
            f"tuned set {name!r} was chosen on networks of kind {found.topology}, and this one is of kind {kind}: "
            f"{'name ' + ' or '.join(fitting) if fitting else 'no set is for that'}; or leave tuned out"
        )
    if controller not in found.controllers:
        raise UnknownNameError(f"controller in tuned set {name!r}", controller, found.controllers)
    return found.controllers[controller]


def tuned_names() -> dict[str, str]:
    """Names in `controller=` of tuned controllers, each with the name of its controller."""
    controllers = {name for each in config_paths(GROUP) for name in _tuned_set(each).controllers}
    own = config_paths("controllers")
    return {name + TUNED: name for name in sorted(controllers) if name + TUNED not in own}


def tuned_for(controller: str, scenario: Scenario) -> tuple[dict[str, int], Scenario]:
    """Parameters of the controller, and the scenario, as the set for this kind of network has them.

    Raises:
        ConfigError: no set is for this kind of network.
        UnknownNameError: that set lacks the controller.
    """
    plain = {"scenario": scenario.to_dict()}
    fitting = _sets_for(kind := plain["scenario"]["topology"]["kind"])
    if not fitting:
        known = sorted({_tuned_set(each).topology for each in config_paths(GROUP)})
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
    return [each for each in config_paths(GROUP) if _tuned_set(each).topology == kind]


def _tuned_set(name: str) -> TunedSet:
    found: TunedSet = from_dict(TunedSet, dict(read_config(GROUP, "tuned set", name)), f"{GROUP}/{name}")
    return found
