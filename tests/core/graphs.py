# SPDX-License-Identifier: BSD-3-Clause
"""A star whose workload is a graph of requests, and tables of a few flows."""

from typing import Any

import numpy as np

from ncc.core.flows import FlowTable, Graph
from ncc.core.graph import check_graph
from ncc.core.scenario import Scenario, scenario_from_dict


def star(**workload: dict[str, Any]) -> Scenario:
    """A star of 8 senders and a receiver with these components."""
    topology = {"kind": "many_to_one", "senders": 8}
    return scenario_from_dict(
        {"name": "star", "topology": topology, "duration_s": 0.01, "drain_s": None, "workload": workload}
    )


def fan_out(**settings: Any) -> dict[str, Any]:
    plain = {"kind": "fan_out", "fan_in": 3, "answer_bytes": 1000, "sources": "senders", "destinations": "receiver"}
    return plain | settings


def hub_store(asked: int) -> dict[str, Any]:
    """A store whose objects come through SICC's hubs, with requests for `asked` objects."""
    sizes = {"asked": asked, "objects": 300, "popular": 20, "object_bytes": 500}
    return {"kind": "store", "sources": "hosts", "destinations": "hosts", "sicc": {}} | sizes


def collective(algorithm: str, **settings: Any) -> dict[str, Any]:
    return {"kind": "collective", "algorithm": algorithm, "hosts": "senders", "size_bytes": 8000} | settings


def drawn(**workload: dict[str, Any]) -> tuple[FlowTable, Graph]:
    flows = star(**workload).flows(1)
    check_graph(flows)
    assert flows.graph is not None
    return flows, flows.graph


def table(**columns: Any) -> FlowTable:
    """Three flows in a chain, with some columns changed."""
    given: dict[str, Any] = {
        "start_s": [0.0] * 3, "src": [1, 2, 3], "dst": [2, 3, 4], "size_bytes": [100] * 3, "traffic": [0] * 3,
        "request": [0] * 3, "answer": [False] * 3, "group": [0, 1, 2], "after": [-1, 0, 1],
        "think_s": [0.0, 1e-6, 1e-6],
    }  # fmt: skip
    arrays: dict[str, Any] = {name: np.array(column) for name, column in (given | columns).items()}
    graph = Graph(**{name: arrays.pop(name) for name in ("request", "answer", "group", "after", "think_s")})
    return FlowTable(**arrays, graph=graph)
