# SPDX-License-Identifier: BSD-3-Clause
"""Reading of the settings that a sweep varies, and writing of their values as overrides of `ncc train`."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ncc.core.errors import ConfigError

SPACE = "space."
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NEXT_KEY = re.compile(r""",(?=\s*["']?[+~]*[\w./@-]+=)""")
"""Pattern of a comma between two overrides of a list, not of a comma within a value."""


def typed_entry(argument: str) -> tuple[str, Any]:
    """Read an argument `space.<key>=<value>` of the command line.

    Returns:
        The key and the value.

    Raises:
        ConfigError: the value cannot be read, or has several values without brackets.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    key, _, value = argument.removeprefix(SPACE).partition("=")
    try:
        # Read the value alone: Hydra accepts a key such as env/reward only if it knows the group.
        read = OverridesParser.create().parse_override(f"value={value}")
    except HydraException:
        raise ConfigError(f"cannot read {argument!r}; write space.<key>=[a, b], in quotes for the shell") from None
    if read.is_sweep_override():
        raise ConfigError(f"space.{key} needs brackets around its values: 'space.{key}=[{value}]'")
    return key, read.value()


def quoted_list(argument: str) -> str:
    """Quote the elements of an argument such as `train=[agent=a3c,seed=1]`: Hydra requires that if they contain `=`."""
    key, _, value = argument.partition("=")
    if not (value.startswith("[") and value.endswith("]")):
        return argument
    elements = [element.strip() for element in _NEXT_KEY.split(value[1:-1])]
    return f"{key}=[{','.join(_quoted(element) for element in elements if element)}]"


def flat(plain: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten a nested space to keys with dots. A range, a mapping with `low` or `high`, stays whole."""
    entries: dict[str, Any] = {}
    for key, value in plain.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value and not {"low", "high"} & set(value):
            entries.update(flat(value, f"{name}."))
        else:
            entries[name] = value
    return entries


def written(value: Any) -> str:
    """Format a value as an override in Hydra's grammar."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value if _PLAIN.fullmatch(value) and value.lower() not in ("null", "true", "false") else _quoted(value)
    if isinstance(value, Mapping):
        return f"{{{','.join(f'{key}:{written(element)}' for key, element in value.items())}}}"
    if isinstance(value, Sequence):
        return f"[{','.join(map(written, value))}]"
    return repr(value)


def _quoted(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text
    escaped = text.replace("\\'", "\\\\'").replace("'", "\\'")
    return f"'{escaped}'"
