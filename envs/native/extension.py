# SPDX-License-Identifier: BSD-3-Clause
"""The extension module of a simulator, whose functions and classes `bind.h` describes."""

from functools import cache
from importlib import import_module
from typing import Any, TypeAlias

from ncc.core.errors import DatapathError
from ncc.core.extras import require_extra

Extension: TypeAlias = Any
"""The module."""
Spec: TypeAlias = Any
"""Its class `Spec`: a run as plain numbers, which spec.h explains."""
Network: TypeAlias = Any
"""Its class `Network`: a simulation that has been built."""
ParamRow = tuple[str, int, int, int, str]
"""Name, default, least, greatest, help."""


@cache
def load(module: str, extra: str | None = None) -> Extension:
    """An extension module, loaded on first use.

    Args:
        module: its full name.
        extra: the extra that brings the libraries which it is linked with.

    Raises:
        MissingExtraError: the extra is not installed.
        DatapathError: it is not built; the message says how.
    """
    try:
        return import_module(module)
    except ImportError as error:
        if extra is not None:
            require_extra(extra, f"datapath={extra}")
        raise DatapathError(
            f"The extension {module} cannot be loaded ({error}): run `make build` in a checkout, or reinstall ncc "
            "(with the packages it depends on)."
        ) from error
