# SPDX-License-Identifier: BSD-3-Clause
"""Extension modules in C++: neural networks of tanh layers with their gradients, and the formula LOCAL."""

from functools import cache
from importlib import import_module
from typing import Any

from ncc.core.errors import ConfigError


@cache
def extension(name: str) -> Any:
    """Return the module of this name.

    Raises:
        ConfigError: it is not built.
    """
    try:
        return import_module(f"{__name__}.{name}")
    except ImportError as error:
        raise ConfigError(
            f"The extension {__name__}.{name} cannot be loaded ({error}): run `make build` in a checkout, or reinstall "
            "ncc."
        ) from error
