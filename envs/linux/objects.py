# SPDX-License-Identifier: BSD-3-Clause
"""Built files of the Linux datapath: programs for the kernel (`*.bpf.o`) and helper programs."""

import re
from functools import cache
from pathlib import Path

import ncc.envs.linux
from ncc.core.errors import ConfigError, DatapathError, UnknownNameError

SUFFIX = ".bpf.o"
_SHIM = "shim_"
NAME_BYTES = 15
"""Longest name of a congestion control in the kernel: TCP_CA_NAME_MAX without the terminating zero."""


@cache
def folder() -> Path:
    """Return the folder of the built files.

    Raises:
        DatapathError: nothing was built; the message says what the build lacked.
    """
    for entry in ncc.envs.linux.__path__:
        found = Path(entry) / "objects"
        if found.is_dir():
            return found
    raise DatapathError(
        "The Linux datapath's programs were not built: install clang, libbpf-dev and gcc, then run `make build` (in a "
        "checkout) or reinstall ncc."
    )


def bpf_objects() -> dict[str, Path]:
    """Return the programs for the kernel by name; empty if none was built."""
    try:
        return require_built()
    except DatapathError:
        return {}


def require_built() -> dict[str, Path]:
    """Return the programs for the kernel by name.

    Raises:
        DatapathError: none was built; the message says what the build lacked.
    """
    built = {path.name.removesuffix(SUFFIX): path for path in sorted(folder().glob(f"*{SUFFIX}"))}
    if not built:
        raise DatapathError(
            "The Linux datapath's programs for the kernel were not built: install clang and libbpf-dev, then run "
            "`make build` (in a checkout) or reinstall ncc."
        )
    return built


def bpf_object(name: str) -> Path:
    """Return the path of a program for the kernel.

    Raises:
        DatapathError: none was built.
        UnknownNameError: there is no program of that name.
    """
    built = require_built()
    if name not in built:
        raise UnknownNameError("BPF object", name, built)
    return built[name]


def helper(name: str) -> Path:
    """Return the path of a helper program.

    Raises:
        DatapathError: it was not built.
    """
    path = folder() / name
    if not path.is_file():
        raise DatapathError(
            f"The Linux datapath's helper program {name} was not built: install gcc, then run `make build` (in a "
            "checkout) or reinstall ncc."
        )
    return path


def controllers() -> tuple[str, ...]:
    """List the controllers of `baselines/` that were compiled for the kernel."""
    return tuple(name.removeprefix(_SHIM) for name in bpf_objects() if name.startswith(_SHIM))


def controller_object(controller: str) -> Path:
    """Return the path of the program that runs a controller in the kernel.

    Raises:
        DatapathError: none was built.
        UnknownNameError: that controller was not built.
    """
    built = controllers()
    if built and controller not in built:
        raise UnknownNameError("controller in the kernel", controller, built)
    return bpf_object(_SHIM + controller)


def congestion_name(controller: str) -> str:
    """Return the TCP_CONGESTION name by which a socket selects `controller`."""
    return f"ncc_{controller}"


def check_name(name: str) -> None:
    """Raise `ConfigError` unless `name` can be the name of a congestion control."""
    if not re.fullmatch(rf"[a-z0-9_]{{1,{NAME_BYTES}}}", name):
        raise ConfigError(
            f"A congestion control's name must be 1 to {NAME_BYTES} small letters, digits and _, got {name!r}"
        )


def renamed(path: Path, controller: str, name: str) -> bytes:
    """Return the program at `path`, which registers `controller`, changed so that it registers it as `name`.

    Raises:
        ConfigError: `name` cannot be the name of a congestion control.
        DatapathError: the program does not contain its own name exactly once.
    """
    check_name(name)
    before, after = (text.encode().ljust(NAME_BYTES + 1, b"\0") for text in (congestion_name(controller), name))
    data = path.read_bytes()
    if (found := data.count(before)) != 1:
        raise DatapathError(
            f"BPF object {path.name} holds its name {found} times, not once: rebuild it with make build."
        )
    return data.replace(before, after)
