# SPDX-License-Identifier: BSD-3-Clause
"""Settings of an observation, and the names of its numbers."""

import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import yaml
from msgspec import Meta

from ncc.core.errors import ConfigError, UnknownNameError
from ncc.core.scenario import Scenario
from ncc.core.signals import SIGNALS
from ncc.core.value import Positive, Value, from_dict
from ncc.envs.scales import scales_of
from ncc.harness.controller import LocalLimit

TABLE: Mapping[str, Any] = yaml.safe_load(Path(__file__).with_name("features.yaml").read_text(encoding="utf-8"))
"""The table of features, features.yaml."""
FEATURES: Mapping[str, Mapping[str, Any]] = TABLE["features"]
"""The features of the table by name."""
LOW, HIGH = -1.5, 3.0
"""Range of every number of an observation. The lowest are logarithms of ratios, cut at a factor of 20 (kinds.h)."""
COLUMN_LOW = -1.0
"""Lower end of the range of the table's columns, whose upper end is `HIGH`."""
AGE_SCALE = 100.0
"""Age in periods that is observed as 1, as in kinds.h."""


class ObservationSpec(Value, frozen=True):
    """Conversion of measurements to numbers near [0, 1].

    Rates are divided by the line rate of their port (no limit counts as 1). Everything that spans decades is
    ln(1 + value/unit) / ln(1 + scale): 0 at nothing, 1 at `scale` units, and then slowly more.

    | entry | value | unit | scale |
    |---|---|---|---|
    | rtt | RTT above base RTT | base RTT (`Scales.base_rtt_s`) | `rtt_scale` |
    | wait, mean_wait | waiting time, sum or mean over queued flows | period | `wait_scale` |
    | queued_bytes, next bytes | payload not yet sent | bytes that its link carries in a period | `backlog_scale` |
    | queued_flows | flows not yet sent | 1 | `flows_scale` |
    | queue | bytes waiting in the uplink | MTU | its buffer in MTUs, so 1 is a full buffer |

    `neighbours` chooses how neighbours are observed:

    - ``each``: one after the other, as in the paper. A policy then fits neighbourhoods of one size.
    - ``pooled``: mean and maximum over them, the share of busy ones, and the uplink's rate per busy host, divided by
      the link's rate. These numbers mean the same for any number and order of hosts.
    - ``ranked``: also the host's shortest queued flow in comparison with those of its neighbours.
    - ``ordered``: also the bytes and hosts that go before the host's next flow. The order is fewest bytes first, equal
      flows in turn. It is the same for all hosts, because each host ranks its own flow as its last message stated it
      (as it is now, if it was idle then).
    - ``none``: neighbours are not observed, only the uplink is.

    The file features.yaml has the features of each by name.

    `ages` adds the age of the last message of each neighbour and of the uplink, beyond the delay of sharing: ln(1 +
    periods) / ln(1 + 100). For pooled neighbours it adds the mean and the maximum. Ages help where messages get lost
    (`Scenario.sharing_loss_frac`).
    """

    neighbours: Literal["each", "pooled", "ranked", "ordered", "none"] = "each"
    """View of the neighbours."""
    ages: bool = False
    """Also observe the ages of messages."""

    rtt_scale: Positive = 20.0
    """RTT above the base RTT, in base RTTs, that is observed as 1."""
    wait_scale: Positive = 100.0
    """Waiting time in periods that is observed as 1."""
    backlog_scale: Positive = 100.0
    """Bytes that are observed as 1, in bytes that the link carries in a period."""
    flows_scale: Annotated[float, Meta(ge=1)] = 30.0
    """Number of queued flows that is observed as 1."""
    ceiling: Annotated[float, Meta(ge=LOW, le=HIGH)] = HIGH
    """Largest number that hosts observe; larger numbers are cut to it. With 1, all values above a `scale` look alike:
    training may not have met such values. Neighbours are ranked by the numbers before this cut."""

    leave_out: tuple[str, ...] = ()
    """Features of the view that are not observed, to measure the worth of each."""

    def check(self) -> None:
        for name in self.leave_out:
            if name not in _flat(TABLE["views"][self.neighbours]["sees"]):
                raise UnknownNameError(f"observation.leave_out of neighbours {self.neighbours!r}", name, FEATURES)


class Entry(NamedTuple):
    """One number of a host's observation."""

    name: str
    feature: Mapping[str, Any]
    """Line of the number's feature in features.yaml."""
    neighbour: int
    """Index of the neighbour that the number describes, from 0; 0 also for a number without a neighbour."""


def entries(spec: ObservationSpec, n_neighbours: int) -> list[Entry]:
    """Return the entries of a host's observation, in order.

    Raises:
        ConfigError: features.yaml is wrong.
    """
    row: list[Entry] = []
    for per, group in groupby(_seen(spec), lambda name: _feature(name).get("per")):
        features = [(name, FEATURES[name]) for name in group]
        if per is None:
            row += [Entry(name, feature, 0) for name, feature in features]
            continue
        row += [
            Entry(f"neighbour {i + 1} {feature.get('called', name)}", feature, i)
            for i in range(n_neighbours)
            for name, feature in features
        ]
    return row


def names_of(spec: ObservationSpec, n_neighbours: int) -> tuple[str, ...]:
    """Return the names of a host's numbers in order."""
    return tuple(entry.name for entry in entries(spec, n_neighbours))


def neighbours_of(spec: ObservationSpec, obs_dim: int) -> int | None:
    """Return the number of neighbours with which an observation has `obs_dim` numbers; None if any number will do.

    Raises:
        ConfigError: no number of neighbours gives it.
    """
    rest = len(names_of(spec, 0))
    one = len(names_of(spec, 1)) - rest
    near, left = divmod(obs_dim - rest, one) if one else (0, obs_dim - rest)
    if near >= 0 and not left:
        return near if one else None
    needed = f"{rest} + {one} per neighbour" if one else str(rest)
    raise ConfigError(f"observations with neighbours {spec.neighbours!r} have {needed} numbers, got {obs_dim}")


def entry_names(spec: ObservationSpec, obs_dim: int) -> tuple[str, ...]:
    """Return the names of an observation's `obs_dim` numbers in order.

    Raises:
        ConfigError: observations of this kind cannot have that many numbers.
    """
    return names_of(spec, neighbours_of(spec, obs_dim) or 0)


@cache
def tuned_constants() -> dict[str, float]:
    """Return the constants of the formula that features.yaml names, fields of `ncc.harness.controller.LocalLimit`."""
    text = (files("ncc.configs") / "controllers" / f"{TABLE['formula']}.yaml").read_text(encoding="utf-8")
    return from_dict(LocalLimit, yaml.safe_load(text)["limit"], "limit").constants()


def obs_dim(spec: ObservationSpec, scenario: Scenario) -> int:
    """Return the length of one host's observation."""
    return len(entries(spec, scales_of(scenario).neighbours.shape[1]))


def fair_share_at(spec: ObservationSpec) -> int | None:
    """Return the column of a host's fair share of the uplink, as a fraction of its link's rate.

    The result is None if neighbours are not observed.

    Raises:
        ConfigError: neighbours are observed, but the fair share is not among the numbers.
    """
    if spec.neighbours == "none":
        return None
    names = names_of(spec, 0)
    if "fair share" not in names:
        raise ConfigError(
            "action.kind 'shares' needs observation.neighbours 'pooled', 'ranked', 'ordered' or 'none', got "
            f"{spec.neighbours!r}: a fair share must be among what is observed"
        )
    return names.index("fair share")


def guard_at(spec: ObservationSpec) -> tuple[int, int, int] | None:
    """Return the columns by which `ncc.envs.action.ActionSpec` guards a host; None if one of them is not observed.

    Returns:
        Columns of "share among alike", "busy share" and "queued flows before".
    """
    columns = columns_of(spec, ("share among alike", "busy share", "queued flows before"))
    return None if columns is None else (columns[0], columns[1], columns[2])


def columns_of(spec: ObservationSpec, needed: Sequence[str]) -> tuple[int, ...] | None:
    """Return the columns of these names; None if one of them is not observed."""
    names = names_of(spec, 0)
    return tuple(map(names.index, needed)) if set(needed) <= set(names) else None


def check_on_hosts(spec: ObservationSpec) -> None:
    """Raise `ConfigError` if a feature needs a signal that agents on hosts neither measure nor receive."""
    for name in _seen(spec):
        feature = _feature(name)
        column = TABLE["columns"].get(feature.get("of"), {})
        own = feature["kind"] in ("own", "own_before")
        for signal in (SIGNALS[column[key]] for key in ("signal", "over") if key in column):
            if not signal.shared_as and not (own and signal.on_hosts):
                lacks = "do not measure" if own else "are not sent"
                raise ConfigError(
                    f"Feature {name!r} of features.yaml takes the signal {signal.name!r}, which agents on hosts "
                    f"{lacks}: train a policy without it (observation.leave_out), or add the signal to the "
                    "messages of hosts (CONTRIBUTING.md, Add a signal)"
                )


def aged(periods: float) -> float:
    """Return the number that hosts observe for an age in periods."""
    return math.log1p(periods) / math.log1p(AGE_SCALE)


def _seen(spec: ObservationSpec) -> list[str]:
    """Return the names of the features that a spec observes, in order."""
    view = TABLE["views"][spec.neighbours]
    names = [*_flat(view["sees"]), *(view["ages"] if spec.ages else ())]
    return [name for name in names if name not in spec.leave_out]


def _feature(name: str) -> Mapping[str, Any]:
    if name not in FEATURES:
        raise UnknownNameError("feature in a view of features.yaml", name, FEATURES)
    feature = FEATURES[name]
    if not {"kind"} <= set(feature) <= {"kind", "of", "per", "called", "means"}:
        raise ConfigError(
            f"features.yaml: {name!r} must have a kind and may have of, per, called and means, got {', '.join(feature)}"
        )
    if "means" not in feature and feature.get("of") not in TABLE["columns"]:
        more = f"Or say in 'means' what {name!r} means."
        where = "'of' of a feature without 'means' in features.yaml"
        raise UnknownNameError(where, str(feature.get("of")), TABLE["columns"], more)
    return feature


def _flat(names: list[Any]) -> list[str]:
    return [name for each in names for name in (_flat(each) if isinstance(each, list) else [each])]
