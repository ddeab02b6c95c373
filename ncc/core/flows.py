# SPDX-License-Identifier: BSD-3-Clause
"""Flow tables: the flows to send (drawn once, shared by every controller) and their results."""

from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ncc.core.signals import SIGNALS, FlowRecords, PortRecords

__all__ = [
    "BoolArray",
    "FloatArray",
    "FlowRecords",
    "FlowTable",
    "Graph",
    "IntArray",
    "PortRecords",
    "Streams",
    "check_columns",
    "columns_of",
    "records",
]

T = TypeVar("T", FlowRecords, PortRecords)
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Graph:
    """Requests of a flow table as a graph (docs/requests.md); all columns have shape [n_flows].

    Requests and groups are numbered from 0. A flow may wait for a group: it starts `think_s` after all flows of the
    group are complete. A *wait* is a row without bytes from a host to itself. It sends nothing and is complete when it
    would start.
    """

    request: IntArray
    """Number of the request that the flow is part of; -1: none."""
    answer: BoolArray
    """True if the flow answers a query. It uses the query's connection, so it needs no handshake, and its receiver
    knows of it."""
    group: IntArray
    """Group that the flow is in; -1: none."""
    after: IntArray
    """Group that the flow waits for, which has a lower number than its own; -1: none, it starts at `start_s`."""
    think_s: FloatArray
    """Time in seconds from the end of that group to the flow's start, at least 1 ns; 0 if it waits for none."""


@dataclass(frozen=True)
class Streams:
    """Streams of a graph, which hosts forward while they arrive; all columns have shape [n_flows].

    The bytes that a flow delivers may be written, as they arrive, into a later flow of its receiver. All other bytes of
    that flow are its sender's own and available from its start.
    """

    stream: IntArray
    """Number of the stream that this flow carries, by which other flows feed it; -1: none does."""
    feeds: IntArray
    """Stream into which the flow's receiver writes the arriving bytes; its number is below the flow's own. -1: none.
    """
    query_rate_bps: FloatArray
    """Rate of IP packets of data that the flow's query set for its sender, until a grant changes it
    (`ncc.core.receivers.Grants.rate_bps`); 0: none. It holds for all flows of the pair of hosts."""


@dataclass(frozen=True)
class FlowTable:
    """Flows in order of their drawn start; all columns have shape [n_flows]."""

    start_s: FloatArray
    """Arrival at the sending host, a whole number of nanoseconds, >= 0. Before a run, a flow that waits for a group has
    its request's earliest start here; after it, NaN if it never started."""
    src: IntArray
    """Node id of the sender."""
    dst: IntArray
    """Node id of the receiver."""
    size_bytes: IntArray
    """Payload in bytes, >= 1; 0 for a wait (`Graph`)."""
    traffic: IntArray
    """Index of the workload component that the flow belongs to."""
    graph: Graph | None = None
    """Requests; None: there are none."""
    streams: Streams | None = None
    """Streams that are passed on; None: there are none, as after a run."""

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


def columns_of(table: FlowTable | FlowRecords | PortRecords) -> dict[str, Any]:
    """Return all columns by name, with those of the graph and its streams if there are any."""
    columns = dict(vars(table))
    parts = [columns.pop(name, None) for name in ("graph", "streams")]
    return columns | {name: column for part in parts if part is not None for name, column in vars(part).items()}


def check_columns(table: FlowTable | FlowRecords | PortRecords) -> None:
    """Raise `ValueError` unless all columns are one-dimensional and of one length."""
    lengths = {name: np.shape(column) for name, column in columns_of(table).items()}
    if len(set(lengths.values())) != 1 or any(len(shape) != 1 for shape in lengths.values()):
        raise ValueError(f"{type(table).__name__} columns differ in shape: {lengths}")
