# SPDX-License-Identifier: BSD-3-Clause
"""Keys of plain configuration by their dotted names, such as ``topology.mark_threshold_bytes``."""

from typing import Any

from ncc.core.errors import ConfigError, UnknownNameError


def get_key(plain: dict[str, Any], key: str) -> Any:
    """Return the value of a key, given by its full dotted name.

    Raises:
        ConfigError: a part does not exist; the message names it and those that exist.
    """
    at: Any = plain
    for part in key.split("."):
        if not isinstance(at, dict) or part not in at:
            raise UnknownNameError(f"key {key!r}: part", part, at if isinstance(at, dict) else {})
        at = at[part]
    return at


def set_key(plain: dict[str, Any], key: str, value: Any, *, new: bool = True) -> None:
    """Set the value of a key, given by its full dotted name.

    The parts of the name before the last must exist. The last may be new only if `new` is true.

    Raises:
        ConfigError: a part does not exist (the message names it and those that exist), or has no keys of its own.
    """
    *parents, last = key.split(".")
    at: Any = get_key(plain, ".".join(parents)) if parents else plain
    if not isinstance(at, dict):
        raise ConfigError(f"key {key!r}: {'.'.join(parents) or 'it'} has no keys of its own")
    if not new and last not in at:
        raise UnknownNameError(f"key {key!r}: part", last, at)
    at[last] = value
