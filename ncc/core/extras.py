# SPDX-License-Identifier: BSD-3-Clause
"""Checks that optional packages and extension modules are installed; errors say how to install a missing one."""

import importlib.util
import shlex
from functools import cache
from importlib import import_module
from typing import Any

from ncc.core.errors import ConfigError, DatapathError

EXTRAS: dict[str, dict[str, str]] = {
    "ns3": {"ns": "ns3"},
    "torch": {"torch": "torch", "tensorboard": "tensorboard"},
    "rllib": {"ray": "ray[rllib]", "torch": "torch", "tensorboard": "tensorboard"},
    "export": {"onnx": "onnx", "onnxruntime": "onnxruntime"},
    "ns3gym": {"zmq": "pyzmq", "google.protobuf": "protobuf"},
    "sb3": {"stable_baselines3": "stable-baselines3", "sb3_contrib": "sb3-contrib"},
    "sweep": {"optuna": "optuna"},
    "placement": {"networkx": "networkx"},
}
"""Packages to install, by extra and by the module that ncc imports from them."""


def install_command(extra: str) -> str:
    """The command that installs the packages of an extra, whether ncc came from a checkout, a wheel or an index."""
    return f"pip install {shlex.join(EXTRAS[extra].values())} (the extra {extra})"


class MissingExtraError(ConfigError):
    """A package of an extra that is not installed; the message says how to install it."""


def is_installed(module: str) -> bool:
    """True if there is a module of this name; it is not imported. A folder without ``__init__.py`` does not count."""
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:  # the parent package of a submodule is missing
        return False
    return spec is not None and spec.origin is not None


def require_extra(extra: str, what: str, *modules: str) -> None:
    """Check that an extra is installed.

    Args:
        extra: key of `EXTRAS`.
        what: the part of ncc that needs the extra, as the subject of the error's sentence.
        modules: modules of the extra that are needed; all of them if none is named.

    Raises:
        MissingExtraError: one of these modules is not installed.
    """
    packages = EXTRAS[extra]
    missing = [packages[module].partition("[")[0] for module in modules or packages if not is_installed(module)]
    if missing:
        raise MissingExtraError(f"{what} needs {' and '.join(missing)}, not installed here: {install_command(extra)}")


@cache
def load_extension(
    module: str, extra: str | None = None, remedy: str = "run `make build` in a checkout, or reinstall ncc"
) -> Any:
    """Load an extension module of ncc, once per process.

    Args:
        module: full name of the module.
        extra: extra of ncc with the libraries that the module is linked with; None: it needs no extra.
        remedy: advice that ends the error's message: how to get the module.

    Raises:
        MissingExtraError: the extra is not installed.
        DatapathError: the module cannot be loaded, for instance because it is not built.
    """
    try:
        return import_module(module)
    except ImportError as error:
        if extra is not None:
            require_extra(extra, f"datapath={extra}")
        raise DatapathError(f"The extension {module} cannot be loaded ({error}): {remedy}.") from error
