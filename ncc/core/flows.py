# SPDX-License-Identifier: BSD-3-Clause
"""Flow tables: the flows to send (drawn once, shared by every controller) and their results."""

from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ncc.core.signals import SIGNALS, FlowRecords, PortRecords

__all__ = ["BoolArray", "FloatArray", "FlowRecords", "FlowTable", "IntArray", "PortRecords", "check_columns", "records"]

T = TypeVar("T", FlowRecords, PortRecords)
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


def records(kind: type[T], **measured: Any) -> T:
    """Make records of flows or ports from the columns that a datapath measured, all of one length.

    Columns that it did not measure are NaN, or -1 if they are counts.
    """
    n = len(next(iter(measured.values())))
    missing = [SIGNALS[f.name] for f in fields(kind) if f.name not in measured]
    columns: dict[str, Any] = {s.name: np.full(n, -1, np.int64) if s.count else np.full(n, np.nan) for s in missing}
    return kind(**measured, **columns)


def check_columns(table: FlowTable | FlowRecords | PortRecords) -> None:
    """Raise `ValueError` unless all columns are one-dimensional and of one length."""
    lengths = {f.name: np.shape(getattr(table, f.name)) for f in fields(table)}
    if len(set(lengths.values())) != 1 or any(len(shape) != 1 for shape in lengths.values()):
        raise ValueError(f"{type(table).__name__} columns differ in shape: {lengths}")
