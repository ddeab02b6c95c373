# SPDX-License-Identifier: BSD-3-Clause
"""Times at which applications write the bytes of their flows."""

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta

from ncc.core.flows import IntArray
from ncc.core.units import to_ns
from ncc.core.value import Value


class Writes(Value, frozen=True):
    """An application that writes a flow piece by piece, as a streaming application does."""

    chunk_bytes: Annotated[int, Meta(ge=1, lt=2**32)]
    """Size of a piece. Bytes that are not written can be neither sent nor known. Simulators count written bytes in
    whole packets, except at the end of the flow."""
    every_s: Annotated[float, Meta(ge=1e-6, le=60)]
    """Time between two pieces; the first one is written at the flow's arrival."""


AnyWrites = Literal["at_once"] | Writes


def pieces(writes: Sequence[AnyWrites], of: IntArray) -> tuple[IntArray, IntArray] | None:
    """Return each flow's bytes per piece (0: all at once) and ns between two pieces, both [n_flows].

    The result is None if every flow is written at once.

    Args:
        writes: setting of each component of the workload.
        of: index of each flow's component [n_flows].
    """
    written = [(0, 0) if each == "at_once" else (each.chunk_bytes, to_ns(each.every_s)) for each in writes]
    if not any(chunk_bytes for chunk_bytes, _ in written):
        return None
    of_flow: IntArray = np.array(written, np.int64)[of]
    return of_flow[:, 0].copy(), of_flow[:, 1].copy()
