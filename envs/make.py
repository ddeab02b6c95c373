# SPDX-License-Identifier: BSD-3-Clause
"""Environments from what people type: names and plain mappings as well as values."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from ncc.core.errors import ConfigError, UnknownNameError
from ncc.core.scenario import Scenario, scenario_from_dict
from ncc.core.topologies import Rack
from ncc.core.value import Value, from_dict
from ncc.core.workload import Poisson
from ncc.envs.spec import DatapathFactory, EnvSpec, EnvView
from ncc.harness.datapath import HostStack

Settings = Mapping[str, Any]

DEFAULT_SCENARIO = Scenario(
    name="rack",
    topology=Rack(mark_threshold_bytes=50_000, delay_s=10e-6),
    workload=(
        (
            "websearch",
            Poisson(distribution="websearch", load_frac=0.8, sources="hosts", destinations="remotes", link="tor->core"),
        ),
    ),
    duration_s=0.5,
    drain_s=10.0,
)
"""16 hosts of 1 Gbit/s behind a 4 Gbit/s uplink at 80 % load: the scenario that `python -m ncc.train` trains on."""

DEFAULT_DATAPATH = "packetsim"
"""Where `python -m ncc.train` trains."""


def env_spec(
    scenario: Scenario | Settings | None = None,
    *,
    stack: HostStack | Settings | None = None,
    observation: Value | Settings | None = None,
    action: Value | Settings | None = None,
    reward: Value | Settings | None = None,
    purpose: str = "train",
) -> EnvSpec:
    """An `EnvSpec`; every part may be a value, a mapping of its fields, or None for the default.

    Raises:
        ConfigError: names the field and what is allowed.
    """
    if scenario is None:
        scenario = DEFAULT_SCENARIO
    elif not isinstance(scenario, Scenario):
        scenario = scenario_from_dict(_plain(scenario, "scenario"))
    parts = {"observation": observation, "action": action, "reward": reward}
    view = {name: _plain(part, name) for name, part in parts.items() if part is not None}
    return EnvSpec(
        scenario=scenario,
        stack=HostStack() if stack is None else from_dict(HostStack, _plain(stack, "stack"), "stack"),
        view=from_dict(EnvView, view, "env"),
        purpose=purpose,
    )


def datapaths() -> tuple[str, ...]:
    """Every folder beside this file that has a `datapath.py` (which says `DATAPATH = <its class>`)."""
    return tuple(sorted(file.parent.name for file in Path(__file__).parent.glob("*/datapath.py")))


def datapath_factory(datapath: str | DatapathFactory) -> DatapathFactory:
    """The factory itself, or the datapath of that name.

    Raises:
        UnknownNameError: no such name; the message lists what exists.
        ConfigError: the datapath's extension module is not built.
    """
    if not isinstance(datapath, str):
        return datapath
    if datapath not in (known := datapaths()):
        raise UnknownNameError("datapath", datapath, known)
    try:
        return cast(DatapathFactory, importlib.import_module(f"ncc.envs.{datapath}.datapath").DATAPATH)
    except ImportError as error:
        raise ConfigError(f"datapath {datapath!r} cannot be loaded ({error}); build it with: make build") from None


def _plain(part: Value | Settings, where: str) -> dict[str, Any]:
    if isinstance(part, Value):
        return part.to_dict()
    if not isinstance(part, Mapping):
        raise ConfigError(f"{where} must be a value or a mapping of its fields, got {type(part).__name__}")
    return dict(part)
