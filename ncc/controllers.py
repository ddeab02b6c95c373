# SPDX-License-Identifier: BSD-3-Clause
"""Controllers by what `controller=` calls them."""

import re
from pathlib import Path
from typing import Annotated

import msgspec

from ncc.compose import datapath_names, load_datapath
from ncc.config_files import config_paths, read_config
from ncc.core.errors import ConfigError, DatapathError
from ncc.core.value import from_dict
from ncc.harness.controller import Controller, HostsLimit, PolicyLimit

HOSTS = "hosts:"
"""Before the path of a policy file: an agent on each host."""
ControllerName = Annotated[str, msgspec.Meta(min_length=1)]
"""As in configs/controllers, or the path of a policy file; `load_controller` says what is neither."""


def controller_names() -> tuple[str, ...]:
    """Every controller that has a YAML in group controllers."""
    return tuple(config_paths("controllers"))


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
    plain = {"name": name, **read_config("controllers", "controller", name)}
    if plain["name"] != name:
        raise ConfigError(
            f"controllers/{name}.yaml must describe {name!r}, which is its file's name, got name: {plain['name']}"
        )
    return from_dict(Controller, plain, f"controllers/{name}")


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
