# SPDX-License-Identifier: BSD-3-Clause
"""Requests for objects of a store, with and without PICC's placement."""

from typing import Any

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.flows import FlowTable, Graph
from ncc.core.graph import check_graph, queries_of
from ncc.core.scenario import Scenario, scenario_from_dict


def rack(**settings: Any) -> Scenario:
    """Four racks of 10 hosts, and a store of 300 objects of which 20 are popular."""
    topology = {"kind": "leaf_spine", "leaves": 4, "spines": 1, "hosts_per_leaf": 10}
    store = {
        "kind": "store", "asked": 60, "objects": 300, "popular": 20, "object_bytes": 500, "requests": 5,
        "sources": "hosts", "destinations": "hosts",
    }  # fmt: skip
    return scenario_from_dict(
        {
            "name": "store",
            "topology": topology,
            "duration_s": 0.01,
            "drain_s": None,
            "workload": {"it": store | settings},
        }
    )


def drawn(seed: int = 1, **settings: Any) -> tuple[FlowTable, Graph]:
    flows = rack(**settings).flows(seed)
    check_graph(flows)
    queries_of(flows)
    assert flows.graph is not None
    return flows, flows.graph


def test_a_server_answers_with_all_its_objects_at_once() -> None:
    flows, graph = drawn()
    for request in range(5):
        answers = (graph.request == request) & graph.answer
        assert flows.size_bytes[answers].sum() == 60 * 500
        assert len(set(flows.src[answers].tolist())) == answers.sum() < 40
    assert len(set(flows.dst[graph.answer].tolist())) == 1
    assert not set(flows.src[graph.answer].tolist()) & set(flows.dst[graph.answer].tolist())


@pytest.mark.parametrize("theta", [1, 1000])
def test_picc_asks_fewer_servers_for_the_same_objects(theta: int) -> None:
    (random, of_random), (placed, of_placed) = drawn(), drawn(picc={"theta": theta})
    for request in range(5):
        sums = [
            flows.size_bytes[(graph.request == request) & graph.answer].sum()
            for flows, graph in ((random, of_random), (placed, of_placed))
        ]
        assert sums[0] == sums[1]
    servers = [int(graph.answer.sum()) for graph in (of_random, of_placed)]
    assert servers[1] < servers[0] * (0.9 if theta == 1 else 0.4)


def test_clusters_bring_what_is_asked_for_together_to_one_server() -> None:
    settings: dict[str, Any] = {"correlated": 5, "popular_frac": 1.0, "asked": 20}
    alone = drawn(picc={"theta": 1}, **settings)[1]
    clustered = drawn(picc={"theta": 1, "cluster_weight": 10.0}, **settings)[1]
    assert clustered.answer.sum() < 0.7 * alone.answer.sum()
    assert clustered.answer.sum() <= 5 * 4 + 5, "about a server for each of the at most four groups of a request"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"copies": 40}, "copies must be at most the 39 servers other than the front end, got 40"),
        ({"popular": 300}, "popular must be from 1 to objects - 1"),
        ({"correlated": 3}, "correlated must divide popular"),
        ({"requests": 10**6}, "requests asks for about"),
        (
            {"objects": 2000, "popular": 600, "picc": {"cluster_weight": 1.0}},
            "cluster_weight needs at most 500 popular",
        ),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        rack(**settings)


def test_copies_are_on_different_servers() -> None:
    flows, graph = drawn(copies=39, objects=301, popular=1, asked=301, requests=1, picc={"theta": 1})
    assert graph.answer.sum() <= 39
    assert np.unique(flows.src[graph.answer]).size == graph.answer.sum()
