# SPDX-License-Identifier: BSD-3-Clause
"""The settings that a sweep varies: lists of values, which are crossed, and ranges, which are drawn from."""

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from ncc.core.errors import ConfigError
from ncc.core.seeding import generator
from ncc.core.value import Value, from_dict

SPACE = "space."
Point = dict[str, Any]
"""One value for every key."""
LONGEST_NAME = 120
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NEXT_KEY = re.compile(r""",(?=\s*["']?[+~]*[\w./@-]+=)""")
"""A comma of a list of overrides that the next override follows, and not one within a value."""
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9.+_-]+")
_HOW = "write a list of values, such as [1, 2], or a range, such as {low: 0.1, high: 1, log: true}"


class Range(Value, frozen=True):
    """Drawn evenly from low to high; of whole numbers, whole numbers, both ends included."""

    low: int | float
    high: int | float
    log: bool = False
    """Evenly in the logarithm."""

    def check(self) -> None:
        if self.low >= self.high:
            raise ConfigError(f"low must be less than high, got {self.low} and {self.high}")
        if self.log and self.low <= 0:
            raise ConfigError(f"low must be above 0 where log is true, got {self.low}")

    def draw(self, seed: int, *purpose: str | int) -> int | float:
        """A number, the same for the same arguments; to six digits, so that it can be read and typed."""
        rng = generator(seed, *purpose)
        whole = isinstance(self.low, int) and isinstance(self.high, int)
        if whole and not self.log:
            return int(rng.integers(int(self.low), int(self.high), endpoint=True))
        if self.log:
            value = math.exp(rng.uniform(math.log(self.low), math.log(self.high)))
        else:
            value = rng.uniform(self.low, self.high)
        value = round(value) if whole else float(f"{value:.6g}")
        return min(max(value, self.low), self.high)


Space = dict[str, list[Any] | Range]
"""Values to try, by key of `ncc train`."""


def space_from(plain: Mapping[str, Any], typed: Mapping[str, Any]) -> Space:
    """The space that a YAML and the command line describe.

    Args:
        plain: nested or with dots in its keys.
        typed: by key with dots; goes before `plain`.

    Raises:
        ConfigError: nothing is varied, a key has neither a list nor a range, or one that is empty or says a value
            twice.
    """
    entries = {**_flat(plain, ""), **typed}
    if not entries:
        raise ConfigError("space is empty: say what is to be tried, for instance 'space.seed=[1, 2, 3]'")
    if "" in entries:
        raise ConfigError("space has an entry without a key: write space.<key>=[a, b], with a key of ncc train")
    return {key: _entry(key, value) for key, value in entries.items()}


def typed_entry(argument: str) -> tuple[str, Any]:
    """Key and value of `space.<key>=<value>` as typed."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    key, _, value = argument.removeprefix(SPACE).partition("=")
    try:
        # A key of groups, such as env/reward, is one to Hydra only where it knows the group: the value alone is read.
        read = OverridesParser.create().parse_override(f"value={value}")
    except HydraException:
        raise ConfigError(f"cannot read {argument!r}; write space.<key>=[a, b], in quotes for the shell") from None
    if read.is_sweep_override():
        raise ConfigError(f"space.{key} needs brackets around its values: 'space.{key}=[{value}]'")
    return key, read.value()


def points(space: Space, samples: int | None, seed: int) -> list[Point]:
    """Every combination: for each draw of all ranges together, the grid of all lists. Equal ones are given once.

    More samples leave the earlier ones as they are.

    Raises:
        ConfigError: `samples` is missing although there is a range, or given although there is none.
    """
    ranges = [key for key, entry in space.items() if isinstance(entry, Range)]
    if ranges and samples is None:
        raise ConfigError(f"space.{ranges[0]} is a range: say how often to draw from it, samples=<number>")
    if not ranges and samples is not None:
        raise ConfigError("samples says how often ranges are drawn from, and space has none: leave it null")
    found: dict[str, Point] = {}
    for i in range(samples or 1):
        values = (
            [entry.draw(seed, "sweep", key.replace("/", "."), i)] if isinstance(entry, Range) else entry
            for key, entry in space.items()
        )
        for combination in product(*values):
            point = dict(zip(space, combination, strict=True))
            found.setdefault(json.dumps(point), point)
    return list(found.values())


def override(key: str, value: Any) -> str:
    """`key=value` as Hydra reads it."""
    return f"{key}={_written(value)}"


def point_name(point: Point) -> str:
    """A folder's name: keys by their last part where that tells them apart, each with its value."""
    short = [key.rpartition(".")[2] for key in point]
    keys = short if len(set(short)) == len(short) else list(point)
    whole = "_".join(f"{key}-{_written(value)}" for key, value in zip(keys, point.values(), strict=True))
    name = _NOT_IN_NAMES.sub("-", whole)[:LONGEST_NAME]
    if name == whole:
        return name
    return f"{name}-{hashlib.sha256(json.dumps(point).encode()).hexdigest()[:8]}"


def quoted_list(argument: str) -> str:
    """`train=[agent=a3c,seed=1]` with quotes around its elements, which Hydra wants where there is a `=` in them."""
    key, _, value = argument.partition("=")
    if not (value.startswith("[") and value.endswith("]")):
        return argument
    elements = [element.strip() for element in _NEXT_KEY.split(value[1:-1])]
    return f"{key}=[{','.join(_quoted(element) for element in elements if element)}]"


def _flat(plain: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for key, value in plain.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value and not {"low", "high", "log"} & set(value):
            entries.update(_flat(value, f"{name}."))
        else:
            entries[name] = value
    return entries


def _entry(key: str, value: Any) -> list[Any] | Range:
    if isinstance(value, Mapping) and value:
        try:
            return from_dict(Range, value, f"space.{key}")
        except ConfigError as error:
            text = str(error)
            raise ConfigError(text if text.startswith("space.") else f"space.{key}: {text}") from None
    if not isinstance(value, list):
        raise ConfigError(f"space.{key} is {value!r}: {_HOW}")
    if not value:
        raise ConfigError(f"space.{key} has no values: {_HOW}")
    texts = [json.dumps(element) for element in value]
    if twice := next((text for text in texts if texts.count(text) > 1), None):
        raise ConfigError(f"space.{key} has {twice} twice: leave one out")
    return value


def _written(value: Any) -> str:
    """A value in Hydra's grammar."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value if _PLAIN.fullmatch(value) and value.lower() not in ("null", "true", "false") else _quoted(value)
    if isinstance(value, Mapping):
        return f"{{{','.join(f'{key}:{_written(element)}' for key, element in value.items())}}}"
    if isinstance(value, Sequence):
        return f"[{','.join(map(_written, value))}]"
    return repr(value)


def _quoted(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text
    escaped = text.replace("\\'", "\\\\'").replace("'", "\\'")
    return f"'{escaped}'"
