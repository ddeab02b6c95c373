# SPDX-License-Identifier: BSD-3-Clause
"""The arrays into which an extension module writes the measurements of a period."""

from itertools import chain
from typing import Any, TypeVar

import numpy as np

from ncc.core.flows import FloatArray, IntArray
from ncc.core.measurement import PROGRESS, Measurement, Measurements
from ncc.core.signals import names
from ncc.core.topology import Topology
from ncc.core.units import NS_PER_S

_ROWS = [names(scope, count=count) for scope in ("host", "uplink") for count in (False, True)]
_FIELDS = (*PROGRESS, *chain(*_ROWS))

T = TypeVar("T", Measurement, Measurements)

Arrays = tuple[FloatArray, IntArray, FloatArray, IntArray, IntArray]


class Blocks:
    """Fresh arrays for one period: of one network [signals, n], or of several [n_networks, signals, n].

    Signals have the order of their table: real numbers of hosts, counts of hosts, and the same of uplinks. A
    measurement keeps views of its arrays, so each period takes new blocks.

    Attributes:
        arrays: arguments of `Network.measure`; the last one holds `PROGRESS`, with the time in ns.
    """

    def __init__(self, topology: Topology, *networks: int) -> None:
        n, m = len(topology.agent_hosts), len(topology.neighbourhoods)
        reals, counts, uplink_reals, uplink_counts = map(len, _ROWS)
        self.arrays: Arrays = (
            np.empty((*networks, reals, n)),
            np.empty((*networks, counts, n), np.int64),
            np.empty((*networks, uplink_reals, m)),
            np.empty((*networks, uplink_counts, m), np.int64),
            np.empty((*networks, len(PROGRESS)), np.int64),
        )

    def measurement(self) -> Measurement:
        """Return the measurement of the one network."""
        now_ns, *rest = self.arrays[4].tolist()
        return self.made(Measurement, now_ns / NS_PER_S, *rest)

    def measurements(self) -> Measurements:
        """Return the measurements of several networks."""
        now_ns, *rest = self.arrays[4].T
        return self.made(Measurements, now_ns / NS_PER_S, *rest)

    def made(self, kind: type[T], *progress: Any) -> T:
        """Make a measurement of the arrays and the values of `PROGRESS`."""
        # All fields at once: the initialiser of a frozen dataclass sets them one by one, which takes longer than
        # everything else here.
        blocks = self.arrays[:4]
        rows = blocks if blocks[0].ndim == 2 else [block.swapaxes(0, 1) for block in blocks]
        measurement = object.__new__(kind)
        measurement.__dict__.update(zip(_FIELDS, chain(progress, *rows), strict=True))
        return measurement
