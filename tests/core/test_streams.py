# SPDX-License-Identifier: BSD-3-Clause
"""Streams of a graph that hosts pass on: what is refused, and what joins of components leave apart."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.flows import FlowTable, Streams
from ncc.core.graph import check_graph
from ncc.core.scenario import scenario_from_dict
from tests.core.graphs import hub_store, table


def relayed(**columns: Any) -> FlowTable:
    """A query to a hub, its stream of 300 bytes, and a flow of 200 that feeds it, with some columns changed."""
    flows = table(src=[1, 2, 3], dst=[2, 1, 2], size_bytes=[40, 300, 200], group=[0, 1, 2], after=[-1, 0, 0])
    given: dict[str, Any] = {"stream": [-1, 0, -1], "feeds": [-1, -1, 0], "query_rate_bps": [0.0, 1e9, 0.0]}
    names = ("src", "dst", "size_bytes")
    plain: dict[str, Any] = {name: np.array(columns.pop(name)) for name in names if name in columns}
    streams = Streams(**{name: np.array(column) for name, column in (given | columns).items()})
    return replace(flows, **plain, streams=streams)


def test_a_stream_that_is_passed_on_is_accepted() -> None:
    check_graph(relayed())


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"size_bytes": [40, 199, 200]}, "flow 1 of the requests is fed more bytes than it has"),
        ({"feeds": [-1, -1, 1]}, "flow 2 of the requests feeds a stream that no flow is"),
        ({"feeds": [-1, -1, 9]}, "flow 2 of the requests has a stream that is not -1 or a number below that of flows"),
        ({"stream": [0, 0, -1]}, "flow 0 of the requests is the same stream as another flow"),
        ({"stream": [-1, 0, 0], "feeds": [-1, -1, -1]}, "flow 1 of the requests is the same stream as another"),
        ({"stream": [-1, 0, 1], "feeds": [-1, 1, 0]}, "flow 1 of the requests feeds a stream that is not before its"),
        ({"dst": [2, 1, 4]}, "flow 2 of the requests feeds a stream of another host than its receiver"),
        ({"query_rate_bps": [0.0, -1.0, 0.0]}, "flow 1 of the requests has a query_rate_bps that is not a rate"),
        ({"query_rate_bps": [0.0, np.inf, 0.0]}, "flow 1 of the requests has a query_rate_bps that is not a rate"),
    ],
)
def test_streams_that_cannot_be_passed_on_are_refused(columns: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_graph(relayed(**columns))


def test_streams_need_a_graph() -> None:
    with pytest.raises(ConfigError, match="needs a graph of requests"):
        check_graph(replace(relayed(), graph=None))


def test_streams_of_components_are_numbered_anew() -> None:
    rack = {"kind": "leaf_spine", "leaves": 3, "spines": 1, "hosts_per_leaf": 4}
    store = hub_store(asked=30)
    plain = {"topology": rack, "duration_s": 0.01, "drain_s": None, "neighbourhoods": "receivers"}
    flows = scenario_from_dict({"name": "two", "workload": {"one": store, "two": store}, **plain}).flows(1)
    check_graph(flows)
    assert flows.streams is not None
    assert (flows.streams.stream >= 0).sum() == 2 * 3
