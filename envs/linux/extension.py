# SPDX-License-Identifier: BSD-3-Clause
"""The extension modules of the Linux datapath. The .cc files document their functions and classes.

`_linux` turns reports of connections into signals, and sets limits; `_bpf` loads programs into the kernel.
"""

import mmap
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncc.core.errors import DatapathError
from ncc.core.extras import load_extension
from ncc.envs.linux import layout

LIVE_COLUMNS = ("slot", "generation", "left_bytes", "unsent_bytes", "delivered_bytes")
"""Columns of live connections that `Connections` writes."""


def extension() -> Any:
    """Load the extension module `_linux`.

    Its functions copy no array: one of the wrong type raises `TypeError`.

    Raises:
        DatapathError: it is not built; the message says how.
    """
    return load_extension("ncc.envs.linux._linux")


def bpf() -> Any:
    """Load the extension module `_bpf` (objects.cc).

    Raises:
        DatapathError: it is not built, or libbpf is not installed; the message says what to do.
    """
    remedy = "install clang, libbpf-dev and libbpf1, then run `make build` or reinstall ncc"
    return load_extension("ncc.envs.linux._bpf", remedy=remedy)


def open_object(path: Path, sections: Mapping[str, bytes] = MappingProxyType({}), data: bytes | None = None) -> Any:
    """Load the programs of a file into the kernel.

    Args:
        path: BPF object file.
        sections: contents of read-only data sections, by name.
        data: bytes of an object to load in place of the file's.

    Raises:
        DatapathError: the kernel refuses them.
    """
    opened = bpf().Object(str(path), data)
    try:
        for name, content in sections.items():
            opened.set(name, content)
        opened.load()
    except BaseException:
        opened.close()
        raise
    return opened


def memory(opened: Any, name: str, row: np.dtype[np.void]) -> NDArray[np.void]:
    """Return the rows [entries] of a map of a loaded object, in memory shared with the kernel."""
    fd, row_bytes, entries = opened.shape(name)
    if row.itemsize != row_bytes:
        raise DatapathError(
            f"Map {name} has rows of {row_bytes} bytes and ncc expects {row.itemsize}: the BPF objects are of another "
            "version; rebuild them with make build."
        )
    size = -(-row_bytes * entries // mmap.PAGESIZE) * mmap.PAGESIZE
    return np.frombuffer(mmap.mmap(fd, size), row, entries)


def reports_of(rows: NDArray[Any]) -> Any:
    """Wrap rows [n_slots] of `layout.REPORT` for `collect` and `Connections`."""
    return extension().Reports(
        rows=rows.view(np.uint8).reshape(len(rows), rows.itemsize),
        offsets={name: int(field[1]) for name, field in (layout.REPORT.fields or {}).items()},
        live=layout.LIVE,
        ended=layout.FINISHED,
    )
