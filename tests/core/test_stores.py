# SPDX-License-Identifier: BSD-3-Clause
"""Requests for objects of a store, with and without PICC's placement."""

from typing import Any

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.flows import FlowTable, Graph, Streams
from ncc.core.graph import check_graph, fed_rows, queries_of
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
            "neighbourhoods": "receivers" if settings.get("sicc") is not None else "uplink",
        }
    )


def test_hubs_need_receivers() -> None:
    plain = rack(sicc={}).to_dict() | {
        "workload": dict(rack(sicc={}).to_dict()["workload"]),
        "neighbourhoods": "uplink",
    }
    with pytest.raises(ConfigError, match=r"workload.it sets the rates of hubs, which needs receivers"):
        scenario_from_dict(plain)


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
        ({"objects": 10**12}, "objects times copies must be at most 20000000, got 3000000000000"),
        ({"copies": 10**6}, "objects times copies must be at most 20000000, got 300000000"),
        ({"picc": {"logged": 10**9}}, "picc.logged times asked must be at most 20000000, got 60000000000"),
        ({"correlated": 3}, "correlated must divide popular"),
        ({"requests": 10**6}, "requests asks for about"),
        ({"picc": {}, "sicc": {}}, "picc and Store.sicc are two ways to ask"),
        ({"sicc": {"packed": False}}, "packed false needs hubs without a tree"),
        ({"sicc": {"use_frac": 0.0}}, "use_frac"),
        ({"sicc": {}, "writes": {"chunk_bytes": 1000, "every_s": 1e-3}}, "writes must be at_once with sicc"),
        ({"sicc": {}, "copies": 40}, "copies must be at most the 39 servers other than the front end, got 40"),
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


def through_hubs(**settings: Any) -> tuple[FlowTable, Graph, Streams]:
    flows = rack(sicc=settings).flows(1)
    check_graph(flows)
    assert flows.graph is not None
    assert flows.streams is not None
    return flows, flows.graph, flows.streams


def test_hubs_bring_the_same_objects_and_are_told_equal_shares_of_the_line() -> None:
    (direct, of_direct), (flows, graph, streams) = drawn(), through_hubs()
    for request in range(5):
        hubs = (graph.request == request) & (streams.query_rate_bps > 0)
        assert (
            flows.size_bytes[hubs].sum() == direct.size_bytes[(of_direct.request == request) & of_direct.answer].sum()
        )
        assert hubs.sum() == 4
        assert streams.query_rate_bps[hubs] == pytest.approx(0.97 * 10e9 / 4)


def test_a_hub_asks_the_servers_of_its_rack_and_passes_on_what_comes() -> None:
    flows, _, streams = through_hubs()
    network = rack().network()
    leaf = {host: name for name in range(4) for host in network.group(f"leaf{name}")}
    fed, legs = fed_rows(streams), streams.feeds >= 0
    assert [leaf[host] for host in flows.src[legs]] == [leaf[host] for host in flows.dst[legs]]
    assert (flows.src[fed[legs]] == flows.dst[legs]).all()
    own = flows.size_bytes - np.bincount(fed[legs], flows.size_bytes[legs], len(flows))
    hubs = streams.stream >= 0
    most = np.array([flows.size_bytes[(fed == row) & legs].max(initial=0) for row in np.flatnonzero(hubs)])
    assert (own[hubs] >= most).all(), "the hub has most objects"


def test_without_redirection_the_drawn_copies_are_asked() -> None:
    direct, of_direct = drawn()
    flows, _, streams = through_hubs(redirect=False)
    network = rack().network()
    leaf = np.zeros(len(network.nodes), np.int64)
    for name in range(4):
        leaf[list(network.group(f"leaf{name}"))] = name
    answers, hubs = of_direct.answer, streams.query_rate_bps > 0
    drawn_bytes = np.bincount(leaf[direct.src[answers]], direct.size_bytes[answers])
    assert np.bincount(leaf[flows.src[hubs]], flows.size_bytes[hubs]).tolist() == drawn_bytes.tolist()


def test_a_small_buffer_makes_a_tree() -> None:
    """Eq. 3.1: 1,000 bytes hold 2 packets of 500."""
    topology = {"kind": "leaf_spine", "leaves": 4, "spines": 1, "hosts_per_leaf": 10, "buffer_bytes": 1500}
    store = rack(sicc={}).to_dict()
    flows = scenario_from_dict(
        {
            "name": "small",
            "topology": topology | {"mark_threshold_bytes": 0},
            "workload": {"it": dict(store["workload"])["it"]},
            "neighbourhoods": "receivers",
            "duration_s": 0.01,
            "drain_s": None,
        }
    ).flows(1)
    assert flows.streams is not None
    assert flows.graph is not None
    check_graph(flows)
    streams, first = flows.streams, flows.graph.request == 0
    hubs, tops = (streams.stream >= 0) & first, (streams.query_rate_bps > 0) & first
    assert (hubs.sum(), tops.sum()) == (4, 3)
    (child,) = np.flatnonzero(hubs & ~tops)
    parent = fed_rows(streams)[child]
    assert flows.dst[child] == flows.src[parent]
    assert flows.size_bytes[parent] > flows.size_bytes[child]


def test_without_packing_an_object_is_a_flow() -> None:
    flows, _, streams = through_hubs(packed=False, tree=False)
    tops = streams.query_rate_bps > 0
    assert set(flows.size_bytes[tops]) == {500}
    assert tops.sum() == 5 * 60
    assert (streams.feeds < 0).all()


def test_overloaded_hubs_send_at_a_tenth_and_bring_less() -> None:
    flows, _, streams = through_hubs(overloaded_frac=0.5)
    rates = streams.query_rate_bps[streams.query_rate_bps > 0]
    assert set(np.round(rates / rates.max(), 6)) == {0.1, 1.0}
    slow, fast = (flows.size_bytes[streams.query_rate_bps == rate].mean() for rate in (rates.min(), rates.max()))
    assert slow < 0.5 * fast
