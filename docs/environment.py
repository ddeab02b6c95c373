# SPDX-License-Identifier: BSD-3-Clause
"""The page of what an agent observes, may do and is paid: `python -m docs.environment` writes it anew from the code."""

import inspect
import json
import re
from pathlib import Path
from typing import Any, get_args, get_type_hints

import gymnasium
import msgspec
from msgspec import inspect as types

import ncc  # noqa: F401 - registers the environments
from ncc.cli.help import field_texts
from ncc.core.errors import ConfigError
from ncc.core.registration import RACK
from ncc.core.signals import SIGNALS
from ncc.core.value import Value, kinds
from ncc.envs.action import ActionSpec
from ncc.envs.observation import ObservationSpec
from ncc.envs.observation.columns import COLUMNS
from ncc.envs.observation.spec import FEATURES, HIGH, LOW, TABLE, entries
from ncc.envs.reward import AnyReward, Utility
from ncc.harness.atomic import write_text
from ncc.results.grid import markdown_table

PAGE = Path(__file__).with_name("environment.md")
UNITS = {
    "link_rate": "link rate",
    "uplink_rate": "uplink's rate",
    "base_rtt": "base RTT",
    "period": "period",
    "link_bytes": "bytes of the link in a period",
    "mtu": "MTU",
}
BEFORE = {
    "own_before": "when the neighbours sent their messages: ",
    "mean": "mean over neighbours: ",
    "max": "largest of the neighbours: ",
    "neighbour": "of each neighbour: ",
}
"""Words before the meaning of a column, by kind of feature."""
HOSTS = 8
"""Hosts of the example."""


def page() -> str:
    """The whole page."""
    return f"""<!-- SPDX-License-Identifier: BSD-3-Clause -->
# Observations, actions, rewards

This page lists what an agent observes, may do and is paid, with names, shapes, defaults and ranges.
`python -m docs.environment` writes it from the code; texts on meanings are by hand, in docstrings and in features.yaml.
`observation=`, `action=` and `reward=` of `gymnasium.make` take a name of the tables, or a mapping with any of the
settings; `ncc train` calls them `env.observation.neighbours`, `env.action.kind` and `env/reward`. `ncc train --help
env` shows what a command would use.

## Shapes
{shapes()}

The example is `gymnasium.make(<id>, scenario="incast", hosts={HOSTS})` with the defaults. With hosts as agents
(`RackParallelEnv`, `HostVecEnv`) an observation has the numbers of one host, an action is one index or one number, and
each host gets its own reward. Observations are float32 in [{LOW:g}, {HIGH:g}]. A rack's observation joins those of its
hosts. Its reward is the mean over its hosts, whose own are in `info["host_rewards"]`.

## Observations
`observation` is the view of the neighbours. N is their number.

{views()}

Settings of a mapping, as in `observation={{"neighbours": "pooled", "ages": True}}`:

{settings(ObservationSpec)}

### Numbers
L(x, s) is ln(1 + x) / ln(1 + s): 0 at nothing, 1 at s. "Beyond" means: to nodes outside the neighbourhood. Names of
signals are those of [the table of signals](signals.md); the numbers are in
[features.yaml](../envs/observation/features.yaml).

{features()}

## Actions
`action` is the kind.

{actions()}

{settings(ActionSpec)}

## Rewards
All rewards are dimensionless, and a host without anything to send or deliver gets 0 of its own.

{rewards()}
"""


def shapes() -> str:
    """Table of the spaces of the racks in Gymnasium's registry."""
    rows = []
    for name in (name for name, entry in gymnasium.registry.items() if entry.entry_point == RACK["entry_point"]):
        env = gymnasium.make(name, scenario="incast", hosts=HOSTS)
        rows.append((f"`{name}`", f"`{env.observation_space.shape}`", f"`{_space(env.action_space)}`"))
        env.close()  # type: ignore[no-untyped-call]
    return markdown_table(("id", "shape of an observation in the example", "action in the example"), rows)


def _space(space: Any) -> str:
    """Short text of an action space."""
    if isinstance(space, gymnasium.spaces.Box):
        return f"Box({space.low.flat[0]:g}, {space.high.flat[0]:g}, {space.shape})"
    return re.sub(r"\[(\d+)(?: \1)+\]", lambda same: f"[{same[1]}] * {HOSTS}", str(space))


def views() -> str:
    """Table of the views, with the length of an observation."""
    about = _described(ObservationSpec, "neighbours", r"- (``\w+``): (.*?)(?=\n- ``|\n\n)")
    rows = []
    for name in TABLE["views"]:
        lengths = []
        for ages in (False, True):
            none, one = (len(entries(ObservationSpec(neighbours=name, ages=ages), k)) for k in (0, 1))
            lengths.append(f"{none} + {one - none} N" if one > none else f"{none}")
        rows.append((_name(name, ObservationSpec().neighbours), about[f"`{name}`"], *lengths))
    return markdown_table(("view", "neighbours", "numbers of a host", "with `ages`"), rows)


def features() -> str:
    """Table of all numbers, with the views that have them."""
    rows = []
    for name, feature in FEATURES.items():
        plain, aged = (
            [
                view
                for view in TABLE["views"]
                if any(entry.feature is feature for entry in entries(ObservationSpec(neighbours=view, ages=ages), 1))
            ]
            for ages in (False, True)
        )
        within = "all" if len(aged) == len(TABLE["views"]) else ", ".join(aged)
        text, value = feature.get("means"), ""
        if text is None:
            text, value = _column(COLUMNS[feature["of"]])
            text = BEFORE.get(feature["kind"], "") + text
        rows.append((f"`{feature.get('called', name)}`", text, value, within if plain else f"{within}, with `ages`"))
    return markdown_table(("number", "meaning", "value", "in views"), rows)


def _column(column: dict[str, str]) -> tuple[str, str]:
    """Meaning of a column of features.yaml, and its value as a formula."""
    signal = column["signal"]
    meaning = column.get("means") or re.sub(r"^\[\w+\] ", "", SIGNALS[signal].meaning)
    value = f"min(`{signal}`, `{column['most']}`)" if "most" in column else f"`{signal}`"
    value += f" / max(`{column['over']}`, 1)" if "over" in column else ""
    value += f" / {UNITS[column['unit']]}" if column["unit"] in UNITS else ""
    value += f" - {column['minus']}" if "minus" in column else ""
    if scale := column.get("scale"):
        value = f"L({value}, {'buffer / MTU' if scale == 'buffer' else f'`{scale}`'})"
    return meaning, value


def actions() -> str:
    """List of the kinds of actions, as the class describes them."""
    about = _described(ActionSpec, "kind", r"`kind` (``\w+``(?: and ``\w+``)?): (.*?)(?=\n\n|$)")
    return "\n".join(f"- {kind}: {text}" for kind, text in about.items())


def rewards() -> str:
    """Section for each reward: its purpose and its settings."""
    parts = []
    for tag, kind in kinds(AnyReward).items():
        purpose = " ".join(" ".join((inspect.getdoc(kind) or "").split("\n\n")[:2]).split())
        default = " (default)" if kind is Utility else ""
        parts += [f"`{tag}`{default}: {purpose}", settings(kind)]
    return "\n\n".join(parts)


def settings(kind: type[Value]) -> str:
    """Table of a value's fields: default, range and meaning."""
    rows = [
        (f"`{field.name}`", _plain(field.default), _allowed(types.type_info(field.type)), field_texts(kind)[field.name])
        for field in msgspec.structs.fields(kind)
    ]
    return markdown_table(("setting", "default", "allowed", "meaning"), rows)


def _described(kind: type, field: str, pattern: str) -> dict[str, str]:
    """Texts that the class's docstring has on the choices of a field: one for each match of `pattern`, by its names."""
    found = re.findall(pattern, inspect.getdoc(kind) or "", re.DOTALL)
    named = re.findall(r"``(\w+)``", " ".join(name for name, _ in found))
    choices = get_args(get_type_hints(kind)[field])
    if sorted(named) != sorted(choices):
        raise ConfigError(
            f"the docstring of {kind.__name__} must describe each {field} once, {', '.join(choices)}, in the form of "
            f"the others; found {', '.join(named)}"
        )
    return {name.replace("``", "`"): " ".join(text.split()).replace("``", "`") for name, text in found}


def _name(name: str, default: str) -> str:
    return f"`{name}`" + (" (default)" if name == default else "")


def _plain(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(_plain, value)) or "[]"
    return json.dumps(value).strip('"')


def _allowed(kind: types.Type) -> str:
    """Words for what a type allows."""
    match kind:
        case types.StrType():
            text = "names"
        case types.LiteralType(values=values):
            text = ", ".join(f"`{value}`" for value in sorted(map(str, values)))
        case types.BoolType():
            text = "true, false"
        case types.FloatType() | types.IntType():
            ends = ((">", kind.gt), (">=", kind.ge), ("<", kind.lt), ("<=", kind.le))
            text = " and ".join(f"{sign} {end:g}" for sign, end in ends if end is not None)
        case types.VarTupleType(item_type=item):
            text = f"list: {_allowed(item)}"
        case types.UnionType(types=members):
            text = " or ".join(map(_allowed, members))
        case types.NoneType():
            text = "null"
        case types.StructType():
            text = "mapping"
        case _:
            raise ConfigError(f"docs/environment.py has no words for settings of type {kind}: add a case to _allowed")
    return text


if __name__ == "__main__":
    write_text(PAGE, page())
