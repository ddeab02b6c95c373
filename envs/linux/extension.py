# SPDX-License-Identifier: BSD-3-Clause
"""The extension module of the Linux datapath. The .cc files beside this one say what its functions and classes take.

It is compiled from the same headers as the kernel's programs, and needs no privileges.
"""

from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncc.core.errors import DatapathError
from ncc.envs.linux import layout

LIVE_COLUMNS = (
    "slot",
    "generation",
    "host",
    "began_ns",
    "last_left_ns",
    "left_bytes",
    "unsent_bytes",
    "delivered_bytes",
)
"""Columns of live connections that `Connections` writes."""


@cache
def extension() -> Any:
    """The extension module, loaded on first use.

    Its functions raise `ValueError` for unknown names and for arrays that do not fit each other, and `TypeError` for
    arrays of the wrong kind, of which they make no copy.

    Raises:
        DatapathError: it is not built; the message says how.
    """
    try:
        return import_module("ncc.envs.linux._linux")
    except ImportError as error:
        raise DatapathError(
            f"The extension ncc.envs.linux._linux cannot be loaded ({error}): run `make build` in a checkout, or "
            "reinstall ncc."
        ) from error


def reports_of(rows: NDArray[Any]) -> Any:
    """The reports in rows [n_slots] of `layout.REPORT`, as `collect` and `Connections` read them."""
    return extension().Reports(
        rows=rows.view(np.uint8).reshape(len(rows), rows.itemsize),
        offsets={name: int(field[1]) for name, field in (layout.REPORT.fields or {}).items()},
        live=layout.LIVE,
        ended=layout.FINISHED,
    )
