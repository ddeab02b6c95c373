# SPDX-License-Identifier: BSD-3-Clause
"""Checks of the parameters of `baselines/` before a run on any datapath: names and ranges."""

from ncc.core.errors import ConfigError, UnknownNameError
from ncc.envs.native.extension import ParamRow

Params = tuple[tuple[str, int], ...]


def check_params(whose: str, rows: list[ParamRow], given: Params) -> None:
    """Raise `UnknownNameError` or `ConfigError` unless every parameter exists, once, and is in its range."""
    ranges = {name: (low, high) for name, _, low, high, _ in rows}
    names = [name for name, _ in given]
    if twice := [name for name in ranges if names.count(name) > 1]:
        raise ConfigError(f"Parameter {twice[0]} of {whose} is given {names.count(twice[0])} times: give it once")
    for name, value in given:
        if name not in ranges:
            raise UnknownNameError(f"parameter of {whose}", name, ranges)
        low, high = ranges[name]
        if not low <= value <= high:
            raise ConfigError(f"Parameter {name} of {whose} must be from {low} to {high}, got {value}")


def with_defaults(rows: list[ParamRow], given: Params) -> dict[str, int]:
    """Return every parameter's value by name, in table order: the given value, or the default."""
    return {name: dict(given).get(name, default) for name, default, *_ in rows}
