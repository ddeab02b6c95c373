# SPDX-License-Identifier: BSD-3-Clause
"""The output of ``ncc <verb> --help`` for verbs whose configuration Hydra composes.

The texts have one source each: a verb's purpose is in its module; examples, groups and keys are comments in
configs/<verb>.yaml; keys within a group are docstrings of the values' fields.
"""

import ast
import inspect
import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, cast, get_args

import msgspec
from omegaconf import OmegaConf
from rich.console import Console

from ncc.cli.verbs import sentence
from ncc.core.errors import UnknownNameError
from ncc.core.options import folded
from ncc.core.scenario import Scenario
from ncc.core.value import Value, members
from ncc.envs.spec import EnvView
from ncc.harness.datapath import HostStack
from ncc.run.compose import learner_configs

WIDEST = 120
"""Largest width in columns; longer lines are hard to read."""
LISTED = 16
"""Largest number of a group's options that are shown; a group with more has the option `list`, which shows them."""
ENTRY = re.compile(r"(?P<indent> *)(?:- )?(?P<key>[a-z_][\w/]*):(?: +(?P<value>[^#\s][^#]*?))?(?: +# (?P<text>.*))?")
UNITS = {"_bps": "bits per second", "_s": "seconds", "_bytes": "bytes", "_pkts": "packets", "_frac": "fraction of 1"}

Line = tuple[str, Any, str]
"""Key, value and text."""


def examples(verb: str) -> list[str]:
    """Command lines in the comment at the start of configs/<verb>.yaml."""
    return [line.removeprefix("# ") for line in _yaml(verb) if line.startswith(f"# ncc {verb}")]


def written(verb: str) -> tuple[dict[str, tuple[str, str]], dict[str, str]]:
    """Read configs/<verb>.yaml: return its groups with default and comment, and its keys with comment.

    Names of nested keys have dots. Keys of a section whose comment begins with "by name" are left out, because users
    choose them.
    """
    groups: dict[str, tuple[str, str]] = {}
    keys: dict[str, str] = {}
    within, closed = "", False
    for entry in filter(None, map(ENTRY.fullmatch, _yaml(verb))):
        key, text = entry["key"], entry["text"] or ""
        if not entry["indent"]:
            within, closed = key, text.startswith("by name")
            keys[key] = text
        elif within == "defaults":
            groups[key] = (entry["value"] or "", text)
        elif len(entry["indent"]) == 2 and not closed:
            keys.pop(within, None)
            keys[f"{within}.{key}"] = text
    groups.pop("hydra")
    return groups, {key: text for key, text in keys.items() if key.partition(".")[0] not in ("defaults", "hydra")}


def show(verb: str, config: Any, choices: Mapping[str, Any], options: Mapping[str, Iterable[str]]) -> None:
    """Print a verb's first page: purpose, examples, groups with their options, keys with their defaults.

    Args:
        config: configuration composed with the overrides.
        choices: chosen option of each group.
        options: all options, by group.
    """
    console = _console()
    groups, keys = written(verb)
    usage = f"usage: ncc {verb} {'[group=option] ' if groups else ''}[key=value] ..."
    console.print(usage, "", sentence(verb), "", "Examples:", sep="\n")
    console.print(*(f"  {line}" for line in examples(verb)), sep="\n", soft_wrap=True)
    lines = []
    for group in (found for top in groups for found in (top, *sorted(g for g in options if g.startswith(f"{top}/")))):
        known = sorted(options.get(group, ()))
        listed = ", ".join(known) if len(known) <= LISTED else f"{len(known) - 1} of them, {group}=list shows all"
        default, text = groups.get(group) or ("null", group.split("/")[-1])
        lines.append((group, choices.get(group) or default, f"{text}: {listed}"))
    if lines:
        _print(console, "Groups, with their options", lines)
    _print(console, "Keys", [(key, OmegaConf.select(config, key), text) for key, text in keys.items()])
    chosen = "" if choices.get("scenario") else "scenario=rack "
    more = f"ncc {verb} {chosen}--help scenario (its keys), " if "scenario" in groups else ""
    console.print(
        f"\nValues may have units: 10Gbps, 1ms, 512KB, 80%. More: {more}--cfg job (all that was composed), "
        "-m (every combination of comma-separated values), --config-dir DIR (YAML files of your own)."
    )


def show_within(config: Any, part: str) -> None:
    """Print every key within `part` of a composed configuration, with its value and text.

    Raises:
        UnknownNameError: there is no such part; the message lists those that exist.
    """
    value = OmegaConf.select(config, part)
    if value is None and part not in config:
        raise UnknownNameError("part of the configuration", part, map(str, config))
    plain = cast(dict[str, Any], OmegaConf.to_container(config, resolve=False))
    lines = [line for line in within(plain) if line[0] == part or line[0].startswith(f"{part}.")]
    _print(_console(), f"Keys within {part}", lines, key_frac=0.6)


def within(plain: Mapping[str, Any]) -> Iterator[Line]:
    """Yield each key of a composed configuration with its value and its text, a docstring in the value's class."""
    agent = plain.get("agent")
    learner = learner_configs().get(agent.get("learner", "")) if isinstance(agent, Mapping) else None
    kinds = {"scenario": Scenario, "env": EnvView, "agent": learner, "stack": HostStack}
    for key, value in plain.items():
        yield from _within(key, value, [kinds[key]] if kinds.get(key) else [], "")


def _within(key: str, value: Any, types: list[Any], text: str) -> Iterator[Line]:
    if not isinstance(value, Mapping) or not value:
        unit = next((unit for suffix, unit in UNITS.items() if key.endswith(suffix)), "")
        yield key, value, text or unit
        return
    structs = [kind for kind in types if isinstance(kind, type) and issubclass(kind, msgspec.Struct)]
    for name, child in value.items():
        fields = [(kind, field) for kind in structs for field in msgspec.structs.fields(kind) if field.name == name]
        child_text = next((field_texts(kind)[name] for kind, _ in fields if name in field_texts(kind)), "")
        member_types = [member for _, field in fields for member in members(field.type, child)]
        if not structs:  # a mapping by name, which its class has as (name, value) pairs
            member_types = [
                member for kind in types for pair in get_args(kind)[:1] for member in members(get_args(pair)[1], child)
            ]
        yield from _within(f"{key}.{name}", child, member_types, child_text)


@cache
def field_texts(kind: type) -> dict[str, str]:
    """First sentence of the docstring of each field of a class, read from the source of the class."""
    texts: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if not issubclass(base, Value):
            continue
        body = ast.parse(inspect.getsource(base)).body[0]
        assert isinstance(body, ast.ClassDef)
        for field, after in zip(body.body, body.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(after, ast.Expr):
                text = " ".join(str(ast.literal_eval(after.value)).replace("``", "`").split())
                texts[field.target.id] = re.split(r"(?<=[a-z)])\. ", text)[0].rstrip(".")
    return texts


def _print(console: Console, title: str, lines: Iterable[Line], key_frac: float = 0.4) -> None:
    entries = [(f"{key}={_plain(value)}", text) for key, value, text in lines]
    column = min(max((len(name) for name, _ in entries), default=0), int(console.width * key_frac))
    console.print()
    console.print(f"{title}:", style="bold")
    for line in folded(entries, width=console.width, column=column, indent=2):
        console.print(line, soft_wrap=True)


def _plain(value: Any) -> str:
    """Format a value nearly as it is typed on a command line."""
    if OmegaConf.is_config(value):
        value = OmegaConf.to_container(value, resolve=False)
    if isinstance(value, dict):
        return f"{{{', '.join(value)}}}"  # --cfg job shows the values
    if isinstance(value, float):
        return f"{value:g}".replace("e+", "e")
    return value if isinstance(value, str) else json.dumps(value).replace('"', "")


def _console() -> Console:
    width = min(shutil.get_terminal_size().columns, WIDEST)
    return Console(width=width, highlight=False, emoji=False, markup=False)


def _yaml(verb: str) -> list[str]:
    return (files("ncc.configs") / f"{verb}.yaml").read_text().splitlines()
