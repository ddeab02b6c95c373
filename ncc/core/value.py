# SPDX-License-Identifier: BSD-3-Clause
"""Frozen values with one definition of schema, defaults, ranges and JSON, and what is wrong with plain data for them.

A `Value` is an immutable, hashable record. Its fields are checked when it is made, in Python or from YAML or JSON.
Ranges are written once, in the field's type: ``Annotated[int, Meta(ge=1)]``. A value that is allowed but looks like a
mistake, such as a load of 80 or a delay of 10 s, needs confirmation: the type of a field states its usual range,
``Annotated[float, Meta(ge=0), usual(high=0.5)]``; the method `unusual` of a value states what is unusual about several
fields together.
"""

import hashlib
import math
import re
import reprlib
from abc import ABCMeta
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Self, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Meta

from ncc.core.errors import ConfigError, hint
from ncc.core.units import without_units


def usual(low: float = -math.inf, high: float = math.inf) -> Meta:
    """Make the annotation of a field's usual range, which is narrower than the range that its type allows."""
    return Meta(extra={"usual": (low, high)})


Positive = Annotated[float, Meta(gt=0)]
NonNegative = Annotated[float, Meta(ge=0)]
Fraction = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=1, le=2**53)]
"""Whole numbers from 1 up to the largest that a float holds exactly."""
Natural = Annotated[int, Meta(ge=0, le=2**53)]
LineRate = Annotated[float, Meta(ge=1e3, le=1e13), usual(1e6, 4e12)]
"""Bits per second, 1 kbps to 10 Tbps."""
Delay = Annotated[float, Meta(ge=0, le=10), usual(high=0.5)]
"""Seconds of one-way propagation."""
Name = Annotated[str, Meta(min_length=1, pattern=r"^[A-Za-z0-9_:+-][A-Za-z0-9_.:+-]*$")]
"""Name that can also be a folder's: letters, digits and any of _ . : + -, without a dot at the beginning."""

CONSENT = "consent"
"""Configuration key by which users confirm values that look like a mistake."""
_MISSING = object()
_PLACE = re.compile(r"^(?P<text>.*?)(?: - at `\$(?P<path>.*)`)?$", re.DOTALL)
_STEP = re.compile(r"\.(?P<name>[^.\[]+)|\[(?P<index>\d+)\]|\[\.\.\.\]")

T = TypeVar("T")


class AbstractValue(msgspec.StructMeta, ABCMeta):
    """Metaclass of values with abstract methods: a class that does not define all of them has no instances."""


class Value(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all frozen values; a subclass adds cross-field checks in `check`."""

    def __post_init__(self) -> None:
        for field in _fields(type(self)):
            value = getattr(self, field.name)
            if value is msgspec.UNSET:  # only a field that may be unset, and is, has it
                continue
            where = f"{type(self).__name__}.{field.name}"
            if isinstance(value, float) and not math.isfinite(value):
                raise ConfigError(f"{where} must be finite, got {value}")
            try:
                checked = msgspec.convert(value, field.type)
            except msgspec.ValidationError as error:
                raise ConfigError(f"{where}: {error}, got {value!r}") from None
            # Equal values get equal text: 1 and 1.0, 0.0 and -0.0, [1] and (1,) are stored in the same form.
            canonical = checked + 0.0 if isinstance(checked, float) else checked
            msgspec.structs.force_setattr(self, field.name, canonical)
        self.check()

    def check(self) -> None:
        """Raise `ConfigError` if fields contradict each other."""

    def unusual(self) -> Iterable[str]:
        """List probable mistakes that only several fields together show; a subclass may override this.

        Each is a clause that begins with the name of a field, as in "load_frac is 80, which ...".
        """
        return ()

    def replace(self, **changes: Any) -> Self:
        """Copy the value with some fields changed, and check the copy; quantities may have units, as in "20ms".

        Raises:
            ConfigError: the changed value is not allowed.
        """
        texts = {name: change for name, change in changes.items() if isinstance(change, str)}
        return msgspec.structs.replace(self, **{**changes, **without_units(texts, type(self).__name__)})

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain dicts, lists and numbers, with defaults filled in."""
        built: dict[str, Any] = msgspec.to_builtins(self)
        return built

    def to_json(self) -> str:
        """Convert to canonical JSON: equal values give equal text."""
        return msgspec.json.encode(self, order="sorted").decode()

    def digest(self) -> str:
        """Sixteen hex digits that identify the value across processes and machines."""
        return digest_of(self.to_dict())


def digest_of(plain: Any) -> str:
    """Compute the digest of a value (`Value.digest`) from its plain form."""
    return hashlib.sha256(msgspec.json.encode(plain, order="sorted")).hexdigest()[:16]


@cache
def _fields(kind: type[Value]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(kind)


def from_dict(kind: type[T], data: Mapping[str, Any], where: str) -> T:
    """Build a value of `kind` from plain data, in which quantities may have units (`ncc.core.units.without_units`).

    Args:
        where: the user's name for the data, such as ``scenario``; errors name fields as ``scenario.period_s``.

    Raises:
        ConfigError: a field is unknown, is missing or has a wrong value; the message says what is allowed.
    """
    data = without_units(data, where)
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(explain(kind, data, where, str(error))) from None


def from_json(kind: type[T], text: str | bytes, where: str) -> T:
    """Build a value of `kind` from JSON text; `where` is the user's name for it.

    Raises:
        ConfigError: the text is not a JSON object, or as in `from_dict`.
    """
    try:
        data = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{where} is not valid JSON: {error}") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{where} must be a JSON object, got {type(data).__name__}")
    return from_dict(kind, data, where)


def kinds(union: Any) -> dict[str, type[Any]]:
    """The classes of a tagged union by their tags; a single class counts as a union."""
    members = get_args(union) or (union,)
    return {str(member.__struct_config__.tag): member for member in members}


def part_of(values: tuple[T, ...], part: str, what: str) -> tuple[T, ...]:
    """Select the part of `values` that the text ``first:count`` names; `first` is counted from 0.

    Raises:
        ConfigError: `part` has another form or goes beyond the values; the message begins with `what`.
    """
    if found := re.fullmatch(r"(\d{1,9}):(\d{1,9})", part, re.ASCII):
        first, count = map(int, found.groups())
        if 0 < count <= len(values) - first:
            return values[first : first + count]
    raise ConfigError(f"{what}: a part is first:count within 0 to {len(values) - 1}, such as 0:{len(values)}")


def require_plausible(parts: Mapping[str, Any], consent: Any, add: str = f"{CONSENT}=true") -> None:
    """Refuse values that look like a mistake, unless `consent` is true.

    Args:
        parts: values to check, by the names that users know, such as ``scenario``.
        consent: True if such values are intended.
        add: setting that gives consent, for the message.

    Raises:
        ConfigError: a value looks like a mistake (the message names the first such field, what is usual and how to
            insist), or `consent` is not true or false.
    """
    if not isinstance(consent, bool):
        raise ConfigError(f"{CONSENT} must be true or false, got {consent!r}")
    if not consent:
        for where, part in parts.items():
            for doubt in doubts(part, where):
                raise ConfigError(f"{doubt}; if that is meant, add {add}")


def doubts(value: Any, where: str) -> Iterator[str]:
    """Yield the probable mistakes in a value and its parts, each as a clause that begins with `where`."""
    if isinstance(value, msgspec.Struct):
        for field in msgspec.structs.fields(value):
            given = getattr(value, field.name)
            low, high = _bounds(field.type)
            if isinstance(given, int | float) and not low <= given <= high:
                limit = f"at most {high:g}" if given > high else f"at least {low:g}"
                yield f"{where}.{field.name} is {given:g}, where {limit} is usual"
            yield from doubts(given, f"{where}.{field.name}")
        for doubt in value.unusual() if hasattr(value, "unusual") else ():
            yield f"{where}.{doubt}"
    elif isinstance(value, tuple):
        for i, entry in enumerate(value):
            named = isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], str)
            yield from doubts(entry[1] if named else entry, f"{where}.{entry[0]}" if named else f"{where}[{i}]")


def _bounds(kind: Any) -> tuple[float, float]:
    if get_origin(kind) is Annotated:
        kind, *metas = get_args(kind)
        for meta in metas:
            if isinstance(meta, Meta) and meta.extra:
                low, high = meta.extra["usual"]
                return low, high
    parts = get_args(kind) if get_origin(kind) in (Union, UnionType) else ()
    return next((found for part in parts if (found := _bounds(part)) != (-math.inf, math.inf)), (-math.inf, math.inf))


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
