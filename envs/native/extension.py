# SPDX-License-Identifier: BSD-3-Clause
"""The extension module of a simulator; `bind.h` describes its functions and classes."""

from typing import Any, TypeAlias

Extension: TypeAlias = Any
"""An extension module of a simulator."""
Spec: TypeAlias = Any
"""Class `Spec` of the module: a run as plain numbers (spec.h)."""
Network: TypeAlias = Any
"""Class `Network` of the module: a simulation that has been built."""


def filled(struct: Any, **fields: Any) -> Any:
    """Return a struct of an extension module with these fields set."""
    for name, value in fields.items():
        setattr(struct, name, value)
    return struct
