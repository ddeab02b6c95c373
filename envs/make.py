# SPDX-License-Identifier: BSD-3-Clause
"""Environments from what people type: names and plain mappings as well as values."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from ncc.core.errors import ConfigError, UnknownNameError
from ncc.core.plausible import CONSENT, require_plausible
from ncc.core.value import Value, from_dict
from ncc.envs.action import ActionSpec
from ncc.envs.observation import ObservationSpec
from ncc.envs.reward import AnyReward
from ncc.envs.scenarios import ScenarioLike, make_scenario
from ncc.envs.spec import DatapathFactory, EnvSpec, EnvView
from ncc.harness.datapath import HostStack

Settings = Mapping[str, Any]

DEFAULT_SCENARIO = make_scenario()
"""16 hosts of 1 Gbit/s behind a 4 Gbit/s uplink at 80 % load: the scenario that `ncc train` trains on."""

DEFAULT_DATAPATH = "packetsim"
"""Where `ncc train` trains."""


def env_spec(
    scenario: ScenarioLike = None,
    *,
    hosts: int | None = None,
    duration_s: float | None = None,
    period_s: float | None = None,
    load_frac: float | None = None,
    stack: HostStack | Settings | str | None = None,
    observation: ObservationSpec | Settings | str | None = None,
    action: ActionSpec | Settings | str | None = None,
    reward: AnyReward | Settings | str | None = None,
    continuous: bool = False,
    purpose: str = "train",
    consent: bool = False,
) -> EnvSpec:
    """An `EnvSpec` from what people type.

    `stack`, `observation`, `action` and `reward` may be a value, a mapping of the fields that differ from the default,
    or a name alone: of the transport (``cubic``), of how neighbours are seen (``pooled``), of the kind of action
    (``log``) or of reward (``backlog``).

    Args:
        scenario: see `ncc.envs.scenarios.make_scenario`, as for `hosts`, `duration_s`, `period_s` and `load_frac`.
        hosts: how many hosts decide.
        duration_s: length of an episode.
        period_s: time between two decisions.
        load_frac: of the uplink, say.
        stack: what runs on hosts below the rate limit.
        observation: how measurements become numbers.
        action: what hosts may decide.
        reward: what they are paid for.
        continuous: whether the kind of action that is not given is ``linear`` rather than ``levels``.
        purpose: names the stream of seeds.
        consent: take a scenario whose values look like a slip, a load of 80, say (`ncc.core.plausible`).

    Raises:
        ConfigError: names the field and what is allowed, or what is usual.
    """
    view = {
        "observation": _plain(observation, "observation", "neighbours"),
        "action": ({"kind": "linear"} if continuous else {}) | _plain(action, "action", "kind"),
        "reward": {"kind": "utility"} | _plain(reward, "reward", "kind"),
    }
    made = make_scenario(scenario, hosts=hosts, duration_s=duration_s, period_s=period_s, load_frac=load_frac)
    require_plausible({"scenario": made}, consent, add=f"{CONSENT}=True")
    return EnvSpec(
        scenario=made,
        stack=from_dict(HostStack, _plain(stack, "stack", "transport"), "stack"),
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


def _plain(part: Value | Settings | str | None, where: str, named: str) -> dict[str, Any]:
    """The fields that are given; a name alone is that of the field `named`."""
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
