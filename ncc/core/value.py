# SPDX-License-Identifier: BSD-3-Clause
"""Frozen values with one definition of schema, defaults, ranges and JSON.

A `Value` is an immutable, hashable record. Its fields are checked when it is made, in Python or from YAML or JSON.
Ranges are written once, in the field's type: ``Annotated[int, Meta(ge=1)]``.
"""

import hashlib
import math
import re
from abc import ABCMeta
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Annotated, Any, Self, TypeVar, get_args

import msgspec
from msgspec import Meta

from ncc.core.errors import ConfigError
from ncc.core.explain import explain
from ncc.core.plausible import usual
from ncc.core.units import without_units

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
