# SPDX-License-Identifier: BSD-3-Clause
"""The arrays in which an extension module leaves what it measured."""

from itertools import chain
from typing import Any, TypeVar

import numpy as np

from ncc.core.flows import FloatArray, IntArray
from ncc.core.measurement import Measurement, Measurements
from ncc.core.topology import Topology
from ncc.core.units import NS_PER_S

_HOST_FLOATS = (
    "rate_limit_bps",
    "throughput_bps",
    "goodput_bps",
    "rtt_s",
    "wait_s",
    "queued_bytes",
    "next_bytes",
    "active_per_byte",
    "active_left",
)
_HOST_COUNTS = ("rtt_samples", "queued_flows", "active_flows")
_UPPER_FLOATS = ("upper_throughput_bps", "upper_queue_bytes", "upper_queue_mean_bytes", "upper_queue_delay_s")
_UPPER_COUNTS = ("upper_marked_pkts", "upper_dropped_pkts")
_COLUMNS = _HOST_FLOATS + _HOST_COUNTS + _UPPER_FLOATS + _UPPER_COUNTS
_PROGRESS = ("now_ns", "epoch", "flows_started", "flows_finished")
_FIELDS = ("time_s", *_PROGRESS[1:], *_COLUMNS)
"""Columns are views, [columns] or [n_networks, columns]."""

T = TypeVar("T", Measurement, Measurements)

Arrays = tuple[FloatArray, IntArray, FloatArray, IntArray, IntArray]


class Blocks:
    """Fresh arrays for one epoch: of one network [k, columns], or of several [n_networks, k, columns].

    Rows are in the order of records.h. A measurement made of them keeps views, so an epoch takes new blocks.
    """

    def __init__(self, topology: Topology, *networks: int) -> None:
        agents, uppers = len(topology.agent_hosts), len(topology.neighbourhoods)
        self.arrays: Arrays = (
            np.empty((*networks, len(_HOST_FLOATS), agents)),
            np.empty((*networks, len(_HOST_COUNTS), agents), np.int64),
            np.empty((*networks, len(_UPPER_FLOATS), uppers)),
            np.empty((*networks, len(_UPPER_COUNTS), uppers), np.int64),
            np.empty((*networks, len(_PROGRESS)), np.int64),
        )
        """As `Network.measure` takes them."""

    def measurement(self) -> Measurement:
        """Of the one network."""
        now_ns, epoch, started, finished = self.arrays[4].tolist()
        return self._made(Measurement, now_ns / NS_PER_S, epoch, started, finished)

    def measurements(self) -> Measurements:
        """Of several networks."""
        now_ns, epoch, started, finished = self.arrays[4].T
        return self._made(Measurements, now_ns / NS_PER_S, epoch, started, finished)

    def _made(self, kind: type[T], *scalars: Any) -> T:
        # All fields at once: the initialiser of a frozen dataclass sets them one by one, which takes longer than
        # everything else here. `_FIELDS` is held against the dataclass by a test.
        blocks = self.arrays[:4]
        rows = blocks if blocks[0].ndim == 2 else [block.swapaxes(0, 1) for block in blocks]
        made = object.__new__(kind)
        made.__dict__.update(zip(_FIELDS, chain(scalars, *rows), strict=True))
        return made
