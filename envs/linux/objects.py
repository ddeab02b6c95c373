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
def folder() -> Path | None:
    """Return the folder of the programs for the kernel and helper programs; None if nothing was built."""
    folders = [path for path in (Path(entry) / "objects" for entry in ncc.envs.linux.__path__) if path.is_dir()]
    return folders[0] if folders else None


def bpf_objects() -> dict[str, Path]:
    """Return the programs for the kernel by name; empty if none was built."""
    built = folder()
    paths = sorted(built.glob(f"*{SUFFIX}")) if built else ()
    return {path.name.removesuffix(SUFFIX): path for path in paths}


def require_built() -> dict[str, Path]:
    """Return the programs for the kernel by name; raise `DatapathError` if none was built."""
    if not (built := bpf_objects()):
        raise DatapathError(
            "The Linux datapath's programs for the kernel were not built: install clang and libbpf-dev, then run "
            "`make build` (in a checkout) or reinstall ncc."
        )
    return built


def helper(name: str) -> Path:
    """Return the path of a compiled program, `traffic` or `delay`; raise `DatapathError` if it was not built."""
    if (built := folder()) is None or not (built / name).is_file():
        raise DatapathError(
            f"The Linux datapath's helper program {name} was not built: install gcc, then run `make build` (in a "
            "checkout) or reinstall ncc."
        )
    return built / name


def controllers() -> tuple[str, ...]:
    """List the controllers of `baselines/` that were compiled for the kernel."""
    return tuple(name.removeprefix(_SHIM) for name in bpf_objects() if name.startswith(_SHIM))


def controller_object(controller: str) -> Path:
    """Return the path of the program that runs a controller in the kernel.

    Raises:
        DatapathError: none was built.
        UnknownNameError: that controller was not built.
    """
    built = require_built()
    if _SHIM + controller not in built:
        raise UnknownNameError("controller in the kernel", controller, controllers())
    return built[_SHIM + controller]


def congestion_name(controller: str) -> str:
    """Return the TCP_CONGESTION name of `controller`, cut to the kernel's longest name."""
    return f"ncc_{controller}"[:NAME_BYTES]


def check_name(name: str) -> None:
    """Raise `ConfigError` unless `name` can be the name of a congestion control."""
    if not re.fullmatch(rf"[a-z0-9_]{{1,{NAME_BYTES}}}", name):
        raise ConfigError(
            f"A congestion control's name must be 1 to {NAME_BYTES} small letters, digits and _, got {name!r}"
        )


def renamed(path: Path, controller: str, name: str) -> bytes:
    """Return the bytes of the program at `path`, changed to register `controller` as `name`.

    Raises:
        ConfigError: `name` cannot be the name of a congestion control.
    """
    check_name(name)
    before, after = (text.encode().ljust(NAME_BYTES + 1, b"\0") for text in (congestion_name(controller), name))
    return path.read_bytes().replace(before, after)
