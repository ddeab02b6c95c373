# SPDX-License-Identifier: BSD-3-Clause
"""A small experiment as plain data: toy.yaml."""

import copy
from typing import Any

from tests.support.tables import table

PLAIN: dict[str, Any] = table(__file__, "toy.yaml")


def toy(**changes: Any) -> dict[str, Any]:
    """The toy with values at keys such as `axes.k.values` (written with two underscores for each dot)."""
    plain = copy.deepcopy(PLAIN)
    for key, value in changes.items():
        *parents, last = key.split("__")
        at = plain
        for part in parents:
            at = at[part]
        at[last] = value
    return plain
