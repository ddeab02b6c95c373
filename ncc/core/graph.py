# SPDX-License-Identifier: BSD-3-Clause
"""Graphs of requests (`ncc.core.flows.Graph`): made row by row, joined, checked, and brought up to date after a run."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ncc.core.errors import ConfigError
from ncc.core.flows import BoolArray, FlowRecords, FlowTable, Graph, IntArray, Streams
from ncc.core.units import NS_PER_S

MAX_THINK_S = 3600.0
"""Longest time between the end of a group and a flow that waits for it."""
NONE = -1
_TABLES = ("graph", "streams")
"""Fields of `FlowTable` that are tables themselves."""
_COLUMNS = {
    "start_s": np.float64,
    "src": np.int64,
    "dst": np.int64,
    "size_bytes": np.int64,
    "request": np.int64,
    "answer": np.bool_,
    "group": np.int64,
    "after": np.int64,
    "think_s": np.float64,
    "stream": np.int64,
    "feeds": np.int64,
    "query_rate_bps": np.float64,
}
_FREE: dict[str, Any] = {"request": NONE, "answer": False, "group": NONE, "after": NONE, "think_s": 0.0}
"""Columns of a flow that is part of no graph."""
_ALONE: dict[str, Any] = {"stream": NONE, "feeds": NONE, "query_rate_bps": 0.0}
"""Columns of a flow that is not forwarded and whose query sets no rate."""
_NUMBERS = {"request": "request", "group": "group", "after": "group", "stream": "stream", "feeds": "stream"}
"""Columns of numbers, and the column in which these are given to flows."""


class Rows:
    """Rows of a graph, appended some at a time; groups are numbered in the order in which they are made."""

    def __init__(self) -> None:
        self._parts: list[tuple[int, dict[str, npt.ArrayLike]]] = []
        self._n = 0
        self.n_groups = self.n_streams = 0
        self.request = 0
        """Number of the request whose rows are appended."""

    def groups(self, n: int) -> IntArray:
        """Make n groups; return their numbers [n]."""
        self.n_groups += n
        return np.arange(self.n_groups - n, self.n_groups)

    def group(self) -> int:
        """Make a group; return its number."""
        return int(self.groups(1)[0])

    def streams(self, n: int) -> IntArray:
        """Make n streams; return their numbers [n]."""
        self.n_streams += n
        return np.arange(self.n_streams - n, self.n_streams)

    def add(self, src: npt.ArrayLike, dst: npt.ArrayLike, size_bytes: npt.ArrayLike, **columns: npt.ArrayLike) -> None:
        """Append rows; each argument is a number for all of them or an array, and names of others are columns.

        A row that waits for a group starts at least 1 ns after it.
        """
        given = {"src": src, "dst": dst, "size_bytes": size_bytes, **columns}
        if unknown := given.keys() - _COLUMNS.keys():
            raise TypeError(f"rows of a graph have no column {min(unknown)}")
        (n,) = np.broadcast_shapes((1,), *(np.shape(column) for column in given.values()))
        self._parts.append((n, given))
        self._n += n

    def wait(self, host: npt.ArrayLike, **columns: npt.ArrayLike) -> None:
        """Append waits at hosts."""
        self.add(host, host, 0, **columns)

    def columns(self) -> dict[str, np.ndarray]:
        """Return the columns of all rows."""
        free = {"start_s": 0.0, **_FREE, **_ALONE}
        made: dict[str, np.ndarray] = {
            name: np.full(self._n, free.get(name, 0), kind) for name, kind in _COLUMNS.items()
        }
        at = 0
        for n, given in self._parts:
            for name, column in given.items():
                made[name][at : at + n] = column
            at += n
        made["think_s"] = np.where(made["after"] >= 0, np.maximum(made["think_s"], 1 / NS_PER_S), made["think_s"])
        return made


def join(rows: Rows, hosts: IntArray, *groups: IntArray, start_s: float = 0.0) -> IntArray:
    """Append waits at hosts [n], each for several groups; return the groups [n] that are then complete.

    Args:
        groups: groups [n] to wait for; -1: complete from the start.
        start_s: earliest start of the request.
    """
    given = np.stack(groups)
    complete: IntArray = given.max(axis=0)
    several = (given >= 0).sum(axis=0) > 1
    complete[several] = rows.groups(int(several.sum()))
    for which in given:
        waits = several & (which >= 0)
        rows.wait(hosts[waits], after=which[waits], group=complete[waits], start_s=start_s)
    return complete


def joined(parts: list[dict[str, np.ndarray]]) -> tuple[Graph | None, Streams | None]:
    """Join the graphs of a workload's components, in order; numbers are given anew. None for what no component has.

    Args:
        parts: columns of the rows of each component; those without a graph have only `src` and the like.
    """
    if not any("group" in part for part in parts):
        return None, None
    first = dict.fromkeys(_NUMBERS.values(), 0)
    columns: dict[str, list[np.ndarray]] = {name: [] for name in _FREE | _ALONE}
    for part in parts:
        n = len(part["src"])
        for name, free in (_FREE | _ALONE).items():
            column = part.get(name, np.full(n, free))
            columns[name].append(
                np.where(column >= 0, column + first[_NUMBERS[name]], NONE) if name in _NUMBERS else column
            )
        for name in first:
            first[name] += int(part[name].max(initial=NONE)) + 1 if name in part else 0
    whole: dict[str, Any] = {name: np.concatenate(column).astype(_COLUMNS[name]) for name, column in columns.items()}
    streams = Streams(**{name: whole.pop(name) for name in _ALONE})
    passed_on = (streams.feeds >= 0).any() or (streams.query_rate_bps > 0).any()
    return Graph(**whole), streams if passed_on else None


def check_graph(flows: FlowTable) -> None:
    """Raise `ConfigError` for a graph that cannot be run, or a wait without a graph, naming a row and its fault."""
    graph = flows.graph
    waits = flows.src == flows.dst
    if graph is None:
        if waits.any():
            raise ConfigError(
                f"flow {int(np.argmax(waits))} goes from a host to itself, and only a graph of requests has such rows "
                "(waits): name another host, or give the table a graph"
            )
        if flows.streams is not None:
            raise ConfigError("a flow table with streams that are passed on needs a graph of requests")
        return
    n_groups = int(max(graph.group.max(initial=NONE), graph.after.max(initial=NONE))) + 1

    def refuse(bad: BoolArray, text: str) -> None:
        if bad.any():
            raise ConfigError(f"flow {int(np.argmax(bad))} of the requests {text}")

    after = graph.after
    refuse(
        (np.minimum(graph.group, after) < NONE) | (np.maximum(graph.group, after) >= len(flows)),
        "has a group that is not -1 or a number below that of flows",
    )
    refuse(
        (graph.request < NONE) | (graph.request >= len(flows)),
        "has a request that is not -1 or a number below that of flows",
    )
    refuse((after >= 0) & (graph.group >= 0) & (after >= graph.group), (
        "waits for a group that is not before its own, so the graph may have a cycle: number groups in the order in "
        "which they are complete"
    ))  # fmt: skip
    has_flows = np.zeros(n_groups + 1, np.bool_)
    has_flows[graph.group] = True
    refuse((after >= 0) & ~has_flows[after], "waits for a group that nobody completes: put a flow or a wait in it")
    refuse(
        (after >= 0) & ~((graph.think_s >= 1 / NS_PER_S) & (graph.think_s <= MAX_THINK_S)),
        f"has a think_s that is not from 1 ns to {MAX_THINK_S:g} s",
    )
    refuse(waits != (flows.size_bytes == 0), "must have bytes and go to another host, or be a wait without bytes")
    request_of = np.full(n_groups + 1, NONE)
    sends = ~waits & (graph.group >= 0)
    np.maximum.at(request_of, graph.group[sends], graph.request[sends])
    refuse(
        sends & (graph.request != request_of[graph.group]),
        "is in a group of another request: give each request groups of its own, and join them with waits",
    )
    if flows.streams is not None:
        _check_streams(flows, flows.streams, refuse)


def _check_streams(flows: FlowTable, streams: Streams, refuse: Callable[[BoolArray, str], None]) -> None:
    """Refuse flows by streams that cannot be passed on; `refuse(bad, text)` names the first bad row."""
    stream, feeds = streams.stream, streams.feeds
    refuse((np.minimum(stream, feeds) < NONE) | (np.maximum(stream, feeds) >= len(flows)), (
        "has a stream that is not -1 or a number below that of flows"
    ))  # fmt: skip
    refuse((stream >= 0) & (np.bincount(stream[stream >= 0], minlength=len(flows))[stream] > 1), (
        "is the same stream as another flow: give each stream one flow"
    ))  # fmt: skip
    to = fed_rows(streams)
    refuse((feeds >= 0) & (to < 0), "feeds a stream that no flow is")
    refuse((feeds >= 0) & (stream >= 0) & (feeds >= stream), (
        "feeds a stream that is not before its own, so streams may feed each other: number those that are fed first"
    ))  # fmt: skip
    refuse((to >= 0) & (flows.src[to] != flows.dst), "feeds a stream of another host than its receiver")
    refuse((to >= 0) & (flows.size_bytes == 0), "feeds a stream and has no bytes")
    fed_bytes = np.bincount(to[to >= 0], flows.size_bytes[to >= 0], len(flows))
    refuse(fed_bytes > flows.size_bytes, (
        "is fed more bytes than it has: its size must be that of the flows that feed it and what its sender has itself"
    ))  # fmt: skip
    refuse(~((streams.query_rate_bps >= 0) & np.isfinite(streams.query_rate_bps)), (
        "has a query_rate_bps that is not a rate in bits/s, or 0 for none"
    ))  # fmt: skip


def fed_rows(streams: Streams) -> IntArray:
    """Return the row of the flow that each flow feeds, [n_flows]; -1: none."""
    row_of = np.full(max(len(streams.stream), int(streams.feeds.max(initial=NONE)) + 1) + 1, NONE)
    row_of[streams.stream] = np.arange(len(streams.stream))
    row_of[NONE] = NONE
    rows: IntArray = row_of[streams.feeds]
    return rows


def queries_of(flows: FlowTable) -> IntArray:
    """Return the row of the query that each answer of a graph follows, [n_flows]; -1 for rows that are no answer.

    Raises:
        ConfigError: an answer does not follow one query from its receiver to its sender, which has no other answer.
    """
    graph, none = flows.graph, np.full(len(flows), NONE)
    if graph is None:
        return none
    answers = np.flatnonzero(graph.answer)
    n_groups = int(max(graph.group.max(initial=NONE), graph.after.max(initial=NONE))) + 1
    members = np.bincount(graph.group[graph.group >= 0], minlength=n_groups + 1)
    row_of = np.full(n_groups + 1, NONE)
    row_of[graph.group] = np.arange(len(flows))
    row_of[NONE] = NONE
    query = row_of[graph.after[answers]]
    fits = (query >= 0) & (members[graph.after[answers]] == 1)
    fits &= (flows.src[query] == flows.dst[answers]) & (flows.dst[query] == flows.src[answers]) & ~graph.answer[query]
    fits &= np.bincount(query[fits], minlength=len(flows))[query] == 1
    if not fits.all():
        raise ConfigError(
            f"flow {int(answers[np.argmin(fits)])} of the requests must be the only answer to one query of its "
            "receiver, by which a front end counts: set stack.front to one_all, or give each query one answer"
        )
    none[answers] = query
    return none


def after_run(flows: FlowTable, records: FlowRecords) -> tuple[FlowTable, FlowRecords]:
    """Return the flows of a run with the starts that they had, and their records, both without waits.

    A flow that never started has the start NaN; without requests, all flows have the starts that were drawn.
    """
    if flows.graph is None:
        return flows, replace(records, start_s=flows.start_s)
    flows, kept = replace(flows, start_s=records.start_s, streams=None), flows.size_bytes > 0
    if kept.all():  # the columns of a long run are large
        return flows, records

    def rows(table: Any) -> Any:
        return replace(table, **{name: column[kept] for name, column in vars(table).items() if name not in _TABLES})

    graph: Graph = rows(flows.graph)
    return replace(rows(flows), graph=graph), rows(records)
