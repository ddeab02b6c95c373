# SPDX-License-Identifier: BSD-3-Clause
"""Tuned sets: what each controller is set to on a kind of network (configs/tuned). `ncc.study.tuning` chooses them."""

from collections.abc import Mapping
from typing import Any

from msgspec import field

from ncc.core.errors import ConfigError, UnknownNameError
from ncc.core.value import Name, Value, from_dict
from ncc.run.config_files import config_paths, read_config

GROUP = "tuned"


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
    found: TunedSet = from_dict(TunedSet, dict(read_config(GROUP, "tuned set", name)), f"{GROUP}/{name}")
    kind = scenario["topology"]["kind"]
    if kind != found.topology:
        fitting = [
            each for each in config_paths(GROUP) if read_config(GROUP, "tuned set", each).get("topology") == kind
        ]
        raise ConfigError(
            f"tuned set {name!r} was chosen on networks of kind {found.topology}, and this one is of kind {kind}: "
            f"{'name ' + ' or '.join(fitting) if fitting else 'no set is for that'}; or leave tuned out"
        )
    if controller not in found.controllers:
        raise UnknownNameError(f"controller in tuned set {name!r}", controller, found.controllers)
    return found.controllers[controller]
