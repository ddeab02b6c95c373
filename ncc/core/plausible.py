# SPDX-License-Identifier: BSD-3-Clause
"""Checks of values that are allowed but look like a mistake: a load of 80, a delay of 10 s. They need confirmation.

The type of a field states its usual range, ``Annotated[float, Meta(ge=0), usual(high=0.5)]``; the method `unusual` of a
value states what is unusual about several fields together.
"""

from collections.abc import Iterator, Mapping
from math import inf
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from msgspec import Meta

from ncc.core.errors import ConfigError

CONSENT = "consent"
"""Configuration key by which users confirm values that look like a mistake."""


def usual(low: float = -inf, high: float = inf) -> Meta:
    """Make the annotation of a field's usual range, which is narrower than the range that its type allows."""
    return Meta(extra={"usual": (low, high)})


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
    return next((found for part in parts if (found := _bounds(part)) != (-inf, inf)), (-inf, inf))
