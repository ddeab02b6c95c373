# SPDX-License-Identifier: BSD-3-Clause
"""Flow tables: the flows to send (drawn once, shared by every controller) and their results."""

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class FlowTable:
    """Flows in order of start; all columns have shape [n_flows]."""

    start_s: FloatArray
    """Arrival at the sending host, a whole number of nanoseconds, >= 0."""
    src: IntArray
    """Node id of the sender."""
    dst: IntArray
    """Node id of the receiver."""
    size_bytes: IntArray
    """Payload in bytes, >= 1."""
    traffic: IntArray
    """Index of the workload component that the flow belongs to."""

    def __len__(self) -> int:
        return len(self.start_s)


@dataclass(frozen=True)
class FlowRecords:
    """Result of each flow of a `FlowTable`, row by row; all columns have shape [n_flows]."""

    finish_s: FloatArray
    """Simulated time at which the receiver had every byte; NaN if it never did."""
    sent_pkts: IntArray
    """Data packets that left the host, retransmissions included."""
    retransmitted_pkts: IntArray
    timeouts: IntArray
    """Retransmission timeouts (RFC 6298), connection set-up included."""
    ce_pkts: IntArray
    """Data packets that arrived with Congestion Experienced."""
    rtt_mean_s: FloatArray
    """Mean of the sender's RTT samples; NaN without one."""
    rtt_min_s: FloatArray


@dataclass(frozen=True)
class PortRecords:
    """Totals of every directed port over the run; all columns have shape [2 * n_links]."""

    tx_pkts: IntArray
    tx_bytes: IntArray
    """Bytes of IP packets that left the port."""
    dropped_pkts: IntArray
    dropped_data_pkts: IntArray
    """Dropped packets with payload."""
    marked_pkts: IntArray
    queue_delay_sum_s: FloatArray
    """Sum over transmitted packets of the time between joining the port's queue and starting transmission."""
    queue_max_bytes: IntArray


def check_columns(table: FlowTable | FlowRecords | PortRecords) -> None:
    """Raise `ValueError` unless all columns are one-dimensional and of one length."""
    lengths = {f.name: np.shape(getattr(table, f.name)) for f in fields(table)}
    if len(set(lengths.values())) != 1 or any(len(shape) != 1 for shape in lengths.values()):
        raise ValueError(f"{type(table).__name__} columns differ in shape: {lengths}")
