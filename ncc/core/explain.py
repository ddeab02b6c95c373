# SPDX-License-Identifier: BSD-3-Clause
"""Translation of msgspec's validation messages into sentences with the setting, its value, and what is allowed.

A message of msgspec has an error and a path (``$.workload[0][1].kind``). This module follows the path through the type
and the data.
"""

import re
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from ncc.core.errors import hint

_MISSING = object()
_PLACE = re.compile(r"^(?P<text>.*?)(?: - at `\$(?P<path>.*)`)?$", re.DOTALL)
_STEP = re.compile(r"\.(?P<name>[^.\[]+)|\[(?P<index>\d+)\]|\[\.\.\.\]")


def explain(kind: Any, data: Any, where: str, message: str) -> str:
    """Make one sentence of the `message` of a `msgspec.ValidationError` raised while converting `data` to `kind`.

    `where` is the user's name for `data`, e.g. ``scenario``. A list of (name, value) pairs is shown as the mapping
    that it stands for: ``scenario.workload.background.load_frac``.
    """
    match = _PLACE.match(message)
    text, path = (match["text"], match["path"] or "") if match else (message, "")
    place, types, value, parents = where, members(kind, data), data, members(kind, data)
    for step in _STEP.finditer(path):
        parents = types
        if step["name"] is not None:
            place += f".{step['name']}"
        elif step["index"] is not None:
            place = _name_pair(place, types, value, int(step["index"]))
        value = _child(value, step)
        types = [member for kind in _follow(types, step) for member in members(kind, value)]
    structs = [t for t in types if isinstance(t, type) and issubclass(t, msgspec.Struct)]
    if text.startswith("Invalid enum value"):
        options = [str(option) for kind in types if get_origin(kind) is Literal for option in get_args(kind)]
        return f"{place} cannot be {value!r}{_allowed(options, str(value))}"
    return _sentence(place, text, value, structs, parents)


def _sentence(place: str, text: str, value: Any, structs: list[type[msgspec.Struct]], parents: list[Any]) -> str:
    if text.startswith("Object contains unknown field"):
        names = {f.encode_name for t in structs for f in msgspec.structs.fields(t)}
        tags = {t.__struct_config__.tag_field for t in structs if t.__struct_config__.tag_field}
        unknown = text.split("`")[1]
        return f"{place} has no field {unknown!r}{_allowed(names | tags, unknown)}"
    if text.startswith("Object missing required field"):
        field = text.split("`")[1]
        tagged = [t for t in structs if t.__struct_config__.tag_field == field]
        return f"{place}.{field} is missing{_allowed(_tags(tagged), None) if tagged else ''}"
    if text.startswith("Invalid value"):
        tags = _tags([t for t in parents if isinstance(t, type) and issubclass(t, msgspec.Struct)])
        return f"{place} cannot be {value!r}{_allowed(tags, str(value))}"
    if text.startswith("Expected"):
        expected = text.partition(", got `")[0].removeprefix("Expected ")
        given = "" if value is _MISSING else f", got {reprlib.repr(value)}"
        return f"{place} must be {expected}{given}"
    for struct in structs:  # an error of the class's own `check`, which begins with the name of the class
        if text.startswith(f"{struct.__name__}."):
            return place + text.removeprefix(struct.__name__)
    return f"{place}: {text}"


def _allowed(names: Iterable[str], given: str | None) -> str:
    names = sorted(names)
    near = hint(given, names) if given else ""
    return f".{near} Allowed: {', '.join(names)}" if near else f"; allowed: {', '.join(names)}"


def _tags(structs: Iterable[type[msgspec.Struct]]) -> set[str]:
    return {str(t.__struct_config__.tag) for t in structs if t.__struct_config__.tag is not None}


def members(kind: Any, value: Any) -> list[Any]:
    """List the types that `kind` allows, without None; if `value` has the tag of one of them, that one only."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) not in (Union, UnionType):
        return [kind]
    kinds = [member for arg in get_args(kind) if arg is not NoneType for member in members(arg, value)]
    if isinstance(value, Mapping):
        configs = [(t, getattr(t, "__struct_config__", None)) for t in kinds]
        named = [t for t, c in configs if c is not None and c.tag_field and value.get(c.tag_field) == c.tag]
        return named or kinds
    return kinds


def _follow(types: list[Any], step: re.Match[str]) -> list[Any]:
    kinds = []
    for kind in types:
        if step["name"] is not None and isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            kinds += [f.type for f in msgspec.structs.fields(kind) if f.encode_name == step["name"]]
        elif step["index"] is not None and get_args(kind):
            kinds.append(_item_type(kind, int(step["index"])))
    return kinds


def _item_type(kind: Any, index: int) -> Any:
    args = get_args(kind)
    return args[index] if _is_pair(kind) else args[0]


def _is_pair(kind: Any) -> bool:
    args = get_args(kind)
    return get_origin(kind) is tuple and len(args) == 2 and args[1] is not Ellipsis


def _name_pair(place: str, types: list[Any], value: Any, index: int) -> str:
    """Add an entry of a list to `place`: by its name in a list of (name, value) pairs, else by its index."""
    if any(_is_pair(kind) for kind in types):
        return place  # the pair already has its name
    pairs = any(_is_pair(_item_type(kind, index)) for kind in types if get_args(kind))
    entry = _item(value, index)
    if pairs and isinstance(entry, Sequence) and entry and isinstance(entry[0], str):
        return f"{place}.{entry[0]}"
    return f"{place}[{index}]"


def _child(value: Any, step: re.Match[str]) -> Any:
    if step["name"] is not None:
        return value.get(step["name"], _MISSING) if isinstance(value, Mapping) else _MISSING
    return _item(value, int(step["index"])) if step["index"] is not None else _MISSING


def _item(value: Any, index: int) -> Any:
    if isinstance(value, Sequence) and not isinstance(value, str) and index < len(value):
        return value[index]
    return _MISSING
