# SPDX-License-Identifier: BSD-3-Clause
"""The extension module of a simulator; `bind.h` describes its functions and classes."""

from functools import cache
from importlib import import_module
from typing import Any, TypeAlias

from ncc.core.errors import DatapathError
from ncc.core.extras import require_extra

Extension: TypeAlias = Any
"""An extension module of a simulator."""
Spec: TypeAlias = Any
"""Class `Spec` of the module: a run as plain numbers (spec.h)."""
Network: TypeAlias = Any
"""Class `Network` of the module: a simulation that has been built."""
ParamRow = tuple[str, int, int, int, str]
"""A parameter: name, default, least value, greatest value, help."""


@cache
def load(module: str, extra: str | None = None) -> Extension:
    """Load an extension module, once per process.

    Args:
        module: full name of the module.
        extra: extra of ncc with the libraries that it is linked with.

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
