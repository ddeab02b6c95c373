# SPDX-License-Identifier: BSD-3-Clause
"""The Parquet columns of a result, and the conversion between them and a `Run`.

Every column's meaning is written into the file as Arrow field metadata (`description`). NaN is stored as null.
"""

from dataclasses import fields
from typing import Any

import numpy as np
import pyarrow as pa

from ncc.core.errors import ResultError
from ncc.core.flows import FlowRecords, FlowTable, Graph, PortRecords, columns_of
from ncc.core.measurement import COLUMNS, PROGRESS, Epochs
from ncc.core.scenario import Scenario
from ncc.core.signals import SIGNALS
from ncc.harness.run import Run
from ncc.metrics.fct import fct_s, fct_slowdown, ideal_fct_s

DESCRIPTIONS = {
    "controller": "name of the controller under test",
    "seed": "evaluation seed; equal seeds have equal flows whatever the controller",
    "flow": "index of the flow in its run, in order of start",
    "src": "node id of the sender",
    "dst": "node id of the receiver",
    "src_name": "name of the sender",
    "dst_name": "name of the receiver",
    "size_bytes": "payload",
    "traffic": "index of the workload component",
    "traffic_name": "name of the workload component",
    "request": "number of the request that the flow is part of; -1: none",
    "answer": "true if the flow answers a query",
    "group": "group of the request's graph that the flow is in; -1: none",
    "after": "group whose end the flow waited for; -1: none",
    "think_s": "time from then to the flow's start",
    "fct_s": "finish_s - start_s; null if never delivered",
    "ideal_fct_s": "time of the flow alone in the network (definition: ncc.metrics.fct)",
    "fct_slowdown": "fct_s / ideal_fct_s; null if never delivered",
    "host": "node id of the host",
    "host_name": "name of the host",
    "area": "index of the host's neighbourhood",
    "port": "directed port: 2 * link for a to b, 2 * link + 1 for b to a",
    "port_name": "`from->to` by node name",
    "rate_bps": "line rate of the port",
    **{signal.name: signal.description for signal in SIGNALS.values()},
}
"""Meanings of all columns, by name: identifiers of rows, computed values, and signals."""


def tables(run: Run) -> dict[str, pa.Table]:
    """Convert a run to the tables `flows` (a row per flow), `epochs` (per period and host) and `ports` (per port)."""
    return {"flows": _flows(run), "epochs": _epochs(run), "ports": _ports(run)}


def flows_from(table: pa.Table) -> tuple[FlowTable, FlowRecords]:
    """Convert the table `flows` back to the flows and records of the run."""
    columns = {f.name: numpy_column(table, f.name) for f in fields(FlowTable) if f.name not in ("graph", "streams")}
    graph = Graph(**_columns(table, Graph)) if "request" in table.column_names else None
    return FlowTable(**columns, graph=graph), FlowRecords(**_columns(table, FlowRecords))


def ports_from(table: pa.Table) -> PortRecords:
    """Convert the table `ports` back to the records of the run."""
    return PortRecords(**_columns(table, PortRecords))


def epochs_from(table: pa.Table, scenario: Scenario) -> Epochs:
    """Convert the table `epochs` back to arrays [n_epochs, n_agents], [n_epochs, n_neighbourhoods] and [n_epochs]."""
    network = scenario.network()
    first_host = [network.agent_area.index(area) for area in range(len(network.neighbourhoods))]
    columns = {}
    for name in (*COLUMNS, *PROGRESS):
        grid = numpy_column(table, name).reshape(-1, scenario.n_agents)
        scope = SIGNALS[name].scope
        if scope != "host":
            grid = grid[:, 0 if scope == "network" else first_host]
        columns[name] = np.ascontiguousarray(grid)
    return Epochs(time_s=columns.pop("time_s"), columns=columns)


def numpy_column(table: pa.Table, name: str) -> Any:
    """Copy a column to a numpy array; null becomes NaN.

    Raises:
        ResultError: no such column.
    """
    if name not in table.column_names:
        raise ResultError(f"another version of ncc wrote the table, which has no column {name}: run it again")
    return np.array(table.column(name).to_numpy())


def _flows(run: Run) -> pa.Table:
    names = [node.name for node in run.scenario.network().nodes]
    columns = {
        **_identity(run, len(run.flows)),
        "flow": np.arange(len(run.flows)),
        **columns_of(run.flows),
        "src_name": _categories(run.flows.src, names),
        "dst_name": _categories(run.flows.dst, names),
        "traffic_name": _categories(run.flows.traffic, [name for name, _ in run.scenario.workload]),
        **columns_of(run.records.flows),
        "start_s": run.flows.start_s,
        "fct_s": fct_s(run.flows, run.records.flows),
        "ideal_fct_s": ideal_fct_s(run.scenario, run.flows),
        "fct_slowdown": fct_slowdown(run.scenario, run.flows, run.records.flows),
    }
    return _table(columns)


def _epochs(run: Run) -> pa.Table:
    network = run.scenario.network()
    n_hosts, n_epochs = len(network.agent_hosts), len(run.epochs.time_s)
    hosts, areas = np.array(network.agent_hosts), np.array(network.agent_area)
    columns: dict[str, Any] = {
        **_identity(run, n_epochs * n_hosts),
        "time_s": np.repeat(run.epochs.time_s, n_hosts),
        "host": np.tile(hosts, n_epochs),
        "host_name": _categories(np.tile(hosts, n_epochs), [node.name for node in network.nodes]),
        "area": np.tile(areas, n_epochs),
    }
    for name, grid in run.epochs.columns.items():
        scope = SIGNALS[name].scope
        if scope == "network":
            columns[name] = np.repeat(grid, n_hosts)
        else:
            columns[name] = (grid[:, areas] if scope == "uplink" else grid).ravel()
    return _table(columns)


def _ports(run: Run) -> pa.Table:
    network = run.scenario.network()
    ports = range(2 * len(network.links))
    columns = {
        **_identity(run, len(ports)),
        "port": np.array(ports),
        "port_name": pa.array([network.port_name(port) for port in ports]),
        "rate_bps": np.array([network.port_rate_bps(port) for port in ports], dtype=np.float64),
        **columns_of(run.records.ports),
    }
    return _table(columns)


def _identity(run: Run, n: int) -> dict[str, Any]:
    name = _categories(np.zeros(n, dtype=np.int32), [run.controller.name])
    return {"controller": name, "seed": np.full(n, run.seed, dtype=np.int64)}


def _columns(table: pa.Table, kind: type[Graph | FlowRecords | PortRecords]) -> dict[str, Any]:
    return {f.name: numpy_column(table, f.name) for f in fields(kind)}


def _categories(index: Any, names: list[str]) -> pa.Array:
    """Make a column of names from indices into `names`; each name is stored once."""
    return pa.DictionaryArray.from_arrays(pa.array(index.astype(np.int32)), pa.array(names, pa.string()))


def _table(columns: dict[str, Any]) -> pa.Table:
    arrays = [c if isinstance(c, pa.Array) else pa.array(c, from_pandas=True) for c in columns.values()]
    described = [
        pa.field(name, array.type, metadata={"description": DESCRIPTIONS[name]})
        for name, array in zip(columns, arrays, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=pa.schema(described))
