# SPDX-License-Identifier: BSD-3-Clause
"""Units: SI in every name (`_s`, `_bps` = bits per second, `_bytes`); conversions happen here only.

Plain configuration, from YAML, a command line or a program, may contain ``10Gbps``, ``1ms``, ``512KB`` or ``80%``
instead of a number. KB is 1000 bytes and KiB is 1024, as the IEC defines them.
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from ncc.core.errors import ConfigError, hint

BITS_PER_BYTE = 8
NS_PER_S = 1_000_000_000

GBPS = 1e9
US = 1e-6
MS = 1e-3

IP_HEADER_BYTES = 20
TCP_HEADER_BYTES = 20
"""TCP header without options: the scenarios run without timestamps (1 ms granularity in ns-3)."""
HEADER_BYTES = IP_HEADER_BYTES + TCP_HEADER_BYTES


def bdp_bytes(rate_bps: float, rtt_s: float) -> float:
    """Bandwidth-delay product in bytes."""
    return rate_bps * rtt_s / BITS_PER_BYTE


def to_ns(seconds: float) -> int:
    """Round seconds to whole nanoseconds."""
    return round(seconds * NS_PER_S)


_PREFIXES = {"": "1", "k": "1e3", "M": "1e6", "G": "1e9", "T": "1e12"}
_SCALES: dict[str, dict[str, str]] = {
    "rate": {f"{prefix}{bits}": scale for bits in ("bps", "bit/s") for prefix, scale in _PREFIXES.items()},
    "time": {"ns": "1e-9", "us": "1e-6", "µs": "1e-6", "ms": "1e-3", "s": "1", "min": "60", "h": "3600"},
    "size": {
        "B": "1", "kB": "1e3", "KB": "1e3", "MB": "1e6", "GB": "1e9",
        "KiB": str(2**10), "MiB": str(2**20), "GiB": str(2**30),
    },
    "number of packets": {"pkts": "1", "pkt": "1"},
    "fraction": {"%": "0.01"},
}  # fmt: skip
"""Units by the quantity that they measure, and their size in SI. Sizes are decimal texts, because products of floats
are inexact: 1.3 ms would not be 0.0013."""
_KEYS = {
    "bps": ("rate", "1"), "kbps": ("rate", "1e3"), "mbps": ("rate", "1e6"), "gbps": ("rate", "1e9"),
    "s": ("time", "1"), "ms": ("time", "1e-3"), "us": ("time", "1e-6"), "ns": ("time", "1e-9"),
    "bytes": ("size", "1"), "pkts": ("number of packets", "1"), "frac": ("fraction", "1"),
}  # fmt: skip
"""Units that end keys, or stand before `_per_` and no unit of time: what they measure, and their size in SI."""
_UNIT = "|".join(_KEYS)
_TIME = "|".join(_SCALES["time"])
_KEY = re.compile(rf"(?:(?<!_per)_(?P<last>{_UNIT})|(?:^|[._])(?P<per>{_UNIT})_per_(?!(?:{_TIME})$)\w+)$")
_QUANTITY = re.compile(r"\s*(?P<number>[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)\s*(?P<unit>[^\W\d_]+(/s)?|%)\s*")
_BYTE_RATE = re.compile(r"(?P<prefix>[kKmMgGtT]?)B([pP][sS]|/[sS])")


def without_units(data: Any, where: str) -> Any:
    """Replace each quantity in plain data, such as ``10Gbps``, by a number in the unit of its key (here `_bps`).

    The suffix of a key gives the unit, as in `rate_bps` and `capacity_mbps`; so does `bytes_per_server`. It holds for
    everything below the key, in lists too, down to keys with a suffix of their own. In a pair [name, value] the name
    counts as the value's key.

    Args:
        where: the user's name for the data, for errors; may be empty.

    Raises:
        ConfigError: a unit that does not fit its key or is unknown.
    """
    return _read(data, where, None)


def _read(data: Any, where: str, unit: str | None) -> Any:
    if isinstance(data, Mapping):
        return {key: _read(value, f"{where}.{key}".lstrip("."), _unit_of(key) or unit) for key, value in data.items()}
    if isinstance(data, str):
        return data if unit is None else _number(data, where, *_KEYS[unit])
    if isinstance(data, list | tuple):
        pair = _unit_of(data[0]) if len(data) == 2 else None
        return [_read(value, where, (pair if i == 1 else None) or unit) for i, value in enumerate(data)]
    return data


def _unit_of(key: Any) -> str | None:
    match = _KEY.search(key) if isinstance(key, str) else None
    return match and (match["last"] or match["per"])


def _number(text: str, where: str, measure: str, size: str) -> Any:
    """Convert a quantity to a number of units of the key, which have this size in SI."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return text
    unit, units = match["unit"], _SCALES[measure]
    if measure == "rate":  # there are no millibits, so gbps is as clear as Gbps
        if in_bytes := _BYTE_RATE.fullmatch(unit):
            bits = Decimal(match["number"]) * BITS_PER_BYTE
            raise ConfigError(
                f"{where} is in bits per second: {text} is bytes per second; write {bits.normalize():f}"
                f"{in_bytes['prefix']}bps"
            )
        unit = next((known for known in units if known.lower() == unit.lower()), unit)
    if unit not in units:
        other = next((kind for kind, scales in _SCALES.items() if unit in scales), "")
        near = "" if other else hint(unit, units)
        raise ConfigError(
            f"{where} is a {measure} and cannot be {text!r}{other and f', a {other}'}"
            f"{f'.{near} Its' if near else '; its'} units are {', '.join(units)}"
        )
    exact = Decimal(match["number"]) * Decimal(units[unit]) / Decimal(size)
    whole = (measure in ("size", "number of packets") or size != "1") and exact == int(exact)
    return int(exact) if whole else float(exact)
