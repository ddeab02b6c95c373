# SPDX-License-Identifier: BSD-3-Clause
"""Environments from user input: names and plain mappings as well as values."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict, Unpack, cast

from ncc.core.errors import ConfigError, UnknownNameError
from ncc.core.value import CONSENT, Value, from_dict, require_plausible
from ncc.envs.action import ActionSpec
from ncc.envs.observation import ObservationSpec
from ncc.envs.pairs import Pairs
from ncc.envs.reward import AnyReward
from ncc.envs.scenarios import ScenarioLike, make_scenario
from ncc.envs.spec import DatapathFactory, EnvSpec, EnvView
from ncc.harness.datapath import HostStack

Settings = Mapping[str, Any]

DEFAULT_SCENARIO = make_scenario()
"""16 hosts of 1 Gbit/s behind a 4 Gbit/s uplink at 80 % load: the scenario that `ncc train` trains on."""

DEFAULT_DATAPATH = "packetsim"
"""Datapath on which `ncc train` trains."""


class RackSettings(TypedDict, total=False):
    """Keywords of all environments, in addition to the scenario. Each may be left out, or None if that is allowed."""

    hosts: int | None
    """Number of hosts that decide."""
    duration_s: float | None
    """Length of an episode."""
    period_s: float | None
    """Time between two decisions."""
    load_frac: float | None
    """Load of the scenario's Poisson traffic, as a fraction of the rate of its link."""
    stack: HostStack | Settings | str | None
    """Transport below the rate limit: its name (``cubic``); or a mapping of `ncc.harness.datapath.HostStack`'s
    fields."""
    observation: ObservationSpec | Settings | str | None
    """Neighbours that a host sees: ``each``, ``pooled``, ``ranked``, ``ordered`` or ``none``; or a mapping of
    `ncc.envs.observation.ObservationSpec`'s fields."""
    action: ActionSpec | Settings | str | None
    """Decision of a host: ``levels``, ``shares``, ``linear``, ``log`` or ``residual``; or a mapping of
    `ncc.envs.action.ActionSpec`'s fields."""
    reward: AnyReward | Settings | str | None
    """Reward of a host: a ``tag`` of `ncc.envs.reward`, such as ``utility``; or a mapping of its fields."""
    pairs: Pairs | Settings | str | None
    """Copies of each rack with the same flows, and how rewards compare them: ``mean`` or ``mirror``; or a mapping of
    `ncc.envs.pairs.Pairs`' fields. Hosts get their own rewards if it is not given."""
    purpose: str
    """Name of the stream of seeds, ``train`` if not given: training and evaluation never meet the same flows."""
    consent: bool
    """Accept a scenario whose values look like a mistake (a load of 80); otherwise it is refused."""


def env_spec(scenario: ScenarioLike = None, *, continuous: bool = False, **settings: Unpack[RackSettings]) -> EnvSpec:
    """Make an `EnvSpec` from user input.

    Args:
        scenario: a name (``incast``), a YAML file, a mapping of what differs from the default scenario, or a value
            (`ncc.envs.scenarios.make_scenario`).
        continuous: True makes ``linear`` the default kind of action instead of ``levels``.
        **settings: see `RackSettings`.

    Raises:
        ConfigError: a setting is wrong or unusual; the message names it and what is allowed or usual.
        TypeError: there is no setting of that name; the message suggests one.
    """
    for name in settings:
        if name not in RackSettings.__annotations__:  # TorchRL reads these words, and leaves the keyword out
            known = UnknownNameError("setting of an environment", name, sorted(RackSettings.__annotations__))
            raise TypeError(f"unexpected keyword argument {name!r}: {known}")
    view = {
        "observation": _plain(settings.get("observation"), "observation", "neighbours"),
        "action": ({"kind": "linear"} if continuous else {}) | _plain(settings.get("action"), "action", "kind"),
        "reward": {"kind": "utility"} | _plain(settings.get("reward"), "reward", "kind"),
        "pairs": None if settings.get("pairs") is None else _plain(settings.get("pairs"), "pairs", "paid"),
    }
    made = make_scenario(
        scenario,
        hosts=settings.get("hosts"),
        duration_s=settings.get("duration_s"),
        period_s=settings.get("period_s"),
        load_frac=settings.get("load_frac"),
    )
    require_plausible({"scenario": made}, settings.get("consent", False), add=f"{CONSENT}=True")
    return EnvSpec(
        scenario=made,
        stack=from_dict(HostStack, _plain(settings.get("stack"), "stack", "transport"), "stack"),
        view=from_dict(EnvView, view, "env"),
        purpose=settings.get("purpose", "train"),
    )


def datapaths() -> tuple[str, ...]:
    """List the datapaths: folders beside this file with a `datapath.py` that sets `DATAPATH = <its class>`."""
    return tuple(sorted(file.parent.name for file in Path(__file__).parent.glob("*/datapath.py")))


def datapath_factory(datapath: str | DatapathFactory) -> DatapathFactory:
    """Return the given factory, or that of the datapath of this name.

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


def _plain(part: Value | Settings | str | None, where: str, named: str) -> dict[str, Any]:
    """Return the given fields as a dict; a bare name is the value of the field `named`."""
    if part is None:
        return {}
    if isinstance(part, str):
        return {named: part}
    if isinstance(part, Value):
        return part.to_dict()
    if not isinstance(part, Mapping):
        raise ConfigError(
            f"{where} must be a value, a mapping of its fields or a name (its {named}), got {type(part).__name__}"
        )
    return dict(part)
