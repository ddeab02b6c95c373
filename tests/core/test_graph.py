# SPDX-License-Identifier: BSD-3-Clause
"""Graphs of requests: what workloads draw, and what is refused before anything runs."""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.flows import FlowTable, Graph, Streams
from ncc.core.graph import check_graph, queries_of
from ncc.core.scenario import Scenario, scenario_from_dict
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.datapath import HostStack


def star(**workload: dict[str, Any]) -> Scenario:
    """A star of 8 senders and a receiver with these components."""
    topology = {"kind": "many_to_one", "senders": 8}
    return scenario_from_dict(
        {"name": "star", "topology": topology, "duration_s": 0.01, "drain_s": None, "workload": workload}
    )


def fan_out(**settings: Any) -> dict[str, Any]:
    plain = {"kind": "fan_out", "fan_in": 3, "answer_bytes": 1000, "sources": "senders", "destinations": "receiver"}
    return plain | settings


def collective(algorithm: str, **settings: Any) -> dict[str, Any]:
    return {"kind": "collective", "algorithm": algorithm, "hosts": "senders", "size_bytes": 8000} | settings


def drawn(**workload: dict[str, Any]) -> tuple[FlowTable, Graph]:
    flows = star(**workload).flows(1)
    check_graph(flows)
    assert flows.graph is not None
    return flows, flows.graph


def test_a_fan_out_asks_all_servers_and_waits_for_all_answers() -> None:
    flows, graph = drawn(ask=fan_out(requests=2, think_s=1e-3, service_s=1e-5))
    (first, second) = (flows.size_bytes[graph.request == number] for number in range(2))
    assert first.tolist() == second.tolist() == [40] * 3 + [1000] * 3
    answers = np.flatnonzero(graph.answer)
    for answer in answers:
        (query,) = np.flatnonzero(graph.group == graph.after[answer])
        assert (flows.src[answer], flows.dst[answer]) == (flows.dst[query], flows.src[query])
    assert graph.think_s[answers] == pytest.approx(1e-5)
    later = np.flatnonzero((graph.request == 1) & ~graph.answer)
    assert set(graph.after[later]) == set(graph.group[answers[:3]])
    assert graph.think_s[later] == pytest.approx(1e-3)
    assert len(set(flows.dst[:3])) == 3


def test_a_ring_sends_a_share_to_the_next_host_when_one_has_come() -> None:
    flows, graph = drawn(ring=collective("ring", n=4))
    assert len(flows) == 6 * 4
    assert set(flows.size_bytes) == {2000}
    for row in np.flatnonzero(graph.after >= 0):
        (before,) = np.flatnonzero(graph.group == graph.after[row])
        assert flows.dst[before] == flows.src[row]


def test_halving_and_doubling_sends_half_and_half_of_it() -> None:
    flows, graph = drawn(halving=collective("halving_doubling"))
    assert Counter(flows.size_bytes.tolist()) == {4000: 16, 2000: 16, 1000: 16}
    for row in np.flatnonzero(graph.after >= 0):
        (before,) = np.flatnonzero(graph.group == graph.after[row])
        assert flows.dst[before] == flows.src[row]


@pytest.mark.parametrize("window", [0, 1, 3])
def test_all_to_all_sends_to_each_host_once(window: int) -> None:
    flows, graph = drawn(all=collective("all_to_all", window=window))
    assert len({*zip(flows.src.tolist(), flows.dst.tolist(), strict=True)}) == len(flows) == 8 * 7
    assert Counter((graph.after < 0).tolist())[True] == 8 * (window or 7)


def senders_to(flows: FlowTable, graph: Graph, row: int) -> set[int]:
    """Hosts whose flows a flow waits for, through joins."""
    waits = [graph.after[row]]
    found = set()
    while waits:
        for before in np.flatnonzero(graph.group == waits.pop()):
            if flows.size_bytes[before] > 0:
                found.add(int(flows.src[before]))
            elif graph.after[before] >= 0:
                waits.append(graph.after[before])
    return found


@pytest.mark.parametrize("pieces", [1, 3])
def test_a_tree_goes_up_when_both_children_have_and_down_when_the_parent_has(pieces: int) -> None:
    flows, graph = drawn(tree=collective("tree", n=7, pieces=pieces))
    host = star(tree=collective("tree")).network().group("senders")
    rank = {node: number for number, node in enumerate(host)}
    sends = np.flatnonzero(flows.size_bytes)
    ways = Counter((rank[int(flows.src[row])], rank[int(flows.dst[row])]) for row in sends)
    edges = [(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (2, 6)]
    assert ways == Counter({way: pieces for edge in edges for way in (edge, edge[::-1])})
    assert set(flows.size_bytes[sends]) == {-(-8000 // pieces)}
    firsts = dict[tuple[int, int], int]()
    for row in sends:
        firsts.setdefault((rank[int(flows.src[row])], rank[int(flows.dst[row])]), int(row))
    assert senders_to(flows, graph, firsts[1, 0]) == {host[3], host[4]}
    assert senders_to(flows, graph, firsts[0, 2]) == {host[1], host[2]}
    assert senders_to(flows, graph, firsts[2, 6]) == {host[0]}
    assert graph.after[firsts[5, 2]] < 0


def test_hosts_with_children_in_one_tree_have_none_in_the_other() -> None:
    flows, graph = drawn(trees=collective("double_tree"))
    sends = flows.size_bytes > 0
    assert set(flows.size_bytes[sends]) == {4000}
    assert len(flows) == 2 * 2 * 7
    sent = np.bincount(flows.src[sends], minlength=10)[flows.src[sends].min() :][:8]
    assert sent.max() == 4, "once up and twice down in one tree, once up in the other"
    assert graph.request.max() == 0


def test_a_stage_computes_one_batch_after_the_other_and_sends_it_on() -> None:
    flows, graph = drawn(train=collective("pipeline", n=3, pieces=4, compute_s=1e-3))
    sends, waits = flows.size_bytes > 0, flows.size_bytes == 0
    hosts = star(train=collective("pipeline")).network().group("senders")[:3]
    ways = Counter(zip(flows.src[sends].tolist(), flows.dst[sends].tolist(), strict=True))
    assert ways == {(hosts[0], hosts[1]): 4, (hosts[1], hosts[2]): 4}
    assert set(flows.size_bytes[sends]) == {2000}
    computing = waits & (graph.think_s == 1e-3)
    assert Counter(flows.src[computing].tolist()) == dict.fromkeys(hosts, 4)


def test_a_round_waits_for_the_one_before_and_for_every_hosts_computation() -> None:
    flows, graph = drawn(all=collective("all_to_all", rounds=2, compute_s=1e-3, n=4))
    waits = np.flatnonzero(flows.size_bytes == 0)
    computing = waits[graph.think_s[waits] == 1e-3]
    assert sorted(flows.src[computing]) == sorted(set(flows.src))
    second = np.flatnonzero(graph.request == 1)
    assert set(graph.after[second]) == set(graph.group[computing])


def test_requests_and_groups_of_components_are_apart() -> None:
    flows, graph = drawn(
        a=fan_out(), b=collective("ring"), c={"kind": "permutation", "hosts": "senders", "size_bytes": 9}
    )
    of = [set(graph.request[flows.traffic == part]) for part in range(3)]
    assert of == [{0}, {1}, {-1}]
    groups = [set(graph.group[flows.traffic == part]) for part in range(3)]
    assert not groups[0] & groups[1]
    assert groups[2] == {-1}


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


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"after": [2, 0, 1]}, "flow 0 of the requests waits for a group that is not before its own, so the graph may"),
        ({"after": [-1, 1, 1]}, "flow 1 of the requests waits for a group that is not before its own"),
        ({"group": [-1, 1, 2]}, "flow 1 of the requests waits for a group that nobody completes"),
        ({"think_s": [0.0, 3601.0, 1e-6]}, "flow 1 of the requests has a think_s that is not from 1 ns to 3600 s"),
        ({"think_s": [0.0, 1e-6, 0.0]}, "flow 2 of the requests has a think_s that is not from 1 ns"),
        ({"think_s": [0.0, 1e-6, np.nan]}, "flow 2 of the requests has a think_s that is not from 1 ns"),
        ({"group": [0, 1, 7]}, "flow 2 of the requests has a group that is not -1 or a number below that of flows"),
        ({"size_bytes": [100, 0, 100]}, "flow 1 of the requests must have bytes and go to another host, or be a wait"),
        ({"dst": [2, 3, 3]}, "flow 2 of the requests must have bytes and go to another host, or be a wait"),
        (
            {"request": [0, 1, 2], "group": [0, 1, 1], "after": [-1, 0, 0]},
            "flow 1 of the requests is in a group of another request",
        ),
    ],
)
def test_a_graph_that_cannot_be_run_is_refused_by_its_row(columns: dict[str, Any], said: str) -> None:
    scenario = star(ask=fan_out())
    with pytest.raises(ConfigError, match=said):
        PacketsimDatapath().start(scenario, table(**columns), HostStack(), 1)
    PacketsimDatapath().start(scenario, table(), HostStack(), 1)


@pytest.mark.parametrize("size_bytes", [0, 100])
def test_a_table_without_a_graph_has_no_waits(size_bytes: int) -> None:
    plain = replace(table(dst=[2, 2, 4], size_bytes=[100, size_bytes, 100]), graph=None)
    with pytest.raises(ConfigError, match="flow 1 goes from a host to itself, and only a graph of requests has such"):
        PacketsimDatapath().start(star(ask=fan_out()), plain, HostStack(), 1)


def test_a_column_of_another_length_is_refused() -> None:
    flows = table()
    assert flows.graph is not None
    short = replace(flows, graph=replace(flows.graph, after=flows.graph.after[:2]))
    with pytest.raises(ValueError, match="FlowTable columns differ in shape"):
        PacketsimDatapath().start(star(ask=fan_out()), short, HostStack(), 1)


@pytest.mark.parametrize(
    ("workload", "said"),
    [
        (fan_out(think_s=3601), "think_s"),
        (fan_out(requests=10**6), "workload.it.requests asks for about 6e\\+06 flows; at most 5000000 are allowed"),
        (fan_out(front_ends=2), "front_ends must be at most the 1 hosts of destinations, got 2"),
        (fan_out(sources="receiver"), "sources: group 'receiver' has no host other than one that asks"),
        (fan_out(sources="nobody"), "workload.it.sources: Unknown host group 'nobody'"),
        (collective("ring", n=9), "n must be at most the 8 hosts of 'senders', got 9"),
        (collective("ring", hosts="receiver"), "hosts: group 'receiver' has one host; a collective takes at least 2"),
        (collective("halving_doubling", n=6), "n must be a power of 2 for halving_doubling, got 6"),
        (collective("ring", window=2), "window must be 0 for ring, whose steps wait for each other"),
        (collective("ring", rounds=10**6), "workload.it.rounds asks for about"),
        (collective("ring", pieces=2), "pieces must be 1 for ring; only tree, double_tree, pipeline send in pieces"),
        (collective("tree", pieces=8001), "pieces must be at most size_bytes \\(8000\\), a byte each, got 8001"),
        (collective("pipeline", pieces=8000, rounds=100), "workload.it.rounds asks for about"),
        (collective("ringg"), "algorithm"),
    ],
)
def test_a_workload_that_cannot_be_drawn_is_refused(workload: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        star(it=workload)


def ycsb(workload: str, **settings: Any) -> dict[str, Any]:
    plain = {"kind": "ycsb", "workload": workload, "sources": "senders", "destinations": "receiver"}
    return plain | settings


@pytest.mark.parametrize(
    ("workload", "trips"),
    [
        ("A", {(40, 1000): 0.5, (140, 1): 0.5}),
        ("B", {(40, 1000): 0.95, (140, 1): 0.05}),
        ("C", {(40, 1000): 1.0}),
        ("D", {(40, 1000): 0.95, (1040, 1): 0.05}),
        ("F", {(40, 1000): 2 / 3, (140, 1): 1 / 3}),
    ],
)
def test_ycsb_asks_and_answers_what_its_operations_move(workload: str, trips: dict[tuple[int, int], float]) -> None:
    flows, graph = drawn(store=ycsb(workload, operations=1500))
    queries = np.flatnonzero(~graph.answer)
    answer_of = {int(graph.after[row]): row for row in np.flatnonzero(graph.answer)}
    met = Counter(
        (int(flows.size_bytes[row]), int(flows.size_bytes[answer_of[int(graph.group[row])]])) for row in queries
    )
    assert met.keys() == trips.keys()
    for trip, share in trips.items():
        assert met[trip] / len(queries) == pytest.approx(share, abs=0.03)


def test_ycsb_scans_up_to_a_hundred_records() -> None:
    flows, graph = drawn(store=ycsb("E", operations=1500))
    scanned = flows.size_bytes[graph.answer & (flows.size_bytes > 1)]
    assert set(scanned % 1000) == {0}
    assert (scanned.min(), scanned.max()) == (1000, 100_000)
    assert scanned.mean() == pytest.approx(50_500, rel=0.05)


def test_a_record_is_on_one_host_and_no_client_asks_its_own() -> None:
    flows, graph = drawn(store=ycsb("C", operations=500, records=8, destinations="senders", clients=8))
    queries = ~graph.answer
    asked = np.array([np.bincount(flows.dst[queries & (flows.src == client)], minlength=10) for client in range(10)])
    clients = asked[asked.sum(axis=1) > 0]
    assert len(clients) == 8
    most = [set(np.argsort(row)[::-1][:2].tolist()) for row in clients]
    popular = np.bincount(flows.dst[queries]).argmax()
    assert all(
        popular in two for client, two in zip(np.flatnonzero(asked.sum(axis=1)), most, strict=True) if client != popular
    )
    assert np.diag(asked).sum() == 0


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"records": 10**8}, "store.records must be `int` <= 10000000, got 100000000"),
        ({"records": 1, "destinations": "senders"}, "records must be at least 2, since a client may be on the host"),
        ({"operations": 10**7}, "operations asks for about 4e\\+07 flows"),
        ({"workload": "G"}, "workload"),
    ],
)
def test_a_store_that_cannot_be_asked_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        star(store={**ycsb("C"), **settings})


def test_a_client_asks_popular_records_most_and_one_operation_after_the_other() -> None:
    flows, graph = drawn(store=ycsb("C", operations=2000, records=8))
    asked = np.sort(np.bincount(flows.dst[~graph.answer], minlength=10))[::-1][:8]
    shares = np.arange(1.0, 9) ** -0.99
    assert asked / asked.sum() == pytest.approx(shares / shares.sum(), abs=0.03)
    later = np.flatnonzero(~graph.answer)[1:]
    assert (graph.after[later] >= 0).all()
    assert len(set(graph.request.tolist())) == 2000


@pytest.mark.parametrize(
    ("job", "profile", "shuffles", "moved_bytes"),
    [
        ("sort", "small", 1, 3.2e6),
        ("terasort", "tiny", 1, 3.2e6),
        ("wordcount", "small", 1, 16e6),
        ("pagerank", "small", 3, 5e5),
    ],
)
def test_a_job_moves_its_input_from_all_to_all(job: str, profile: str, shuffles: int, moved_bytes: float) -> None:
    flows, graph = drawn(job={"kind": "hibench", "job": job, "profile": profile, "hosts": "senders"})
    assert len(flows) == shuffles * 8 * 7
    assert flows.size_bytes.sum() / shuffles == pytest.approx(moved_bytes * 7 / 8, rel=1e-3)
    assert len(set(graph.group.tolist())) == shuffles
    assert set(graph.request) == {0}


def test_each_answer_knows_its_query() -> None:
    flows, graph = drawn(ask=fan_out(requests=2))
    query_of = queries_of(flows)
    assert np.array_equal(query_of >= 0, graph.answer)
    for answer in np.flatnonzero(graph.answer):
        query = query_of[answer]
        assert graph.group[query] == graph.after[answer]
        assert (flows.src[query], flows.dst[query]) == (flows.dst[answer], flows.src[answer])


@pytest.mark.parametrize("column", ["after", "group"])
def test_an_answer_without_a_query_of_its_own_is_refused_where_a_front_end_counts(column: str) -> None:
    flows, graph = drawn(ask=fan_out(requests=2))
    changed = getattr(graph, column).copy()
    first, second = np.flatnonzero(graph.answer if column == "after" else ~graph.answer)[:2]
    changed[second] = changed[first]  # two answers of one query, or two queries before one answer
    broken = replace(flows, graph=replace(graph, **{column: changed}))
    with pytest.raises(ConfigError, match=r"must be the only answer to one query of its receiver.*one_all"):
        queries_of(broken)


def test_dfsioe_passes_each_file_on_to_two_more_hosts() -> None:
    flows, graph = drawn(job={"kind": "hibench", "job": "dfsioe", "profile": "tiny", "hosts": "senders"})
    sends = np.flatnonzero(flows.size_bytes)
    assert flows.size_bytes.sum() == 2 * 16 * 1_000_000
    assert set(flows.size_bytes[sends]) == {65_536, 1_000_000 % 65_536}
    assert len(sends) == 2 * 16 * 16
    passed = [
        row for row in sends if flows.src[row] in {int(flows.dst[before]) for before in flows_before(graph, int(row))}
    ]
    assert len(passed) >= 16 * 16, "a second host waits for a piece before it passes it on"


def flows_before(graph: Graph, row: int) -> list[int]:
    """Rows that a row waits for, through one join."""
    before = np.flatnonzero((graph.group == graph.after[row]) & (graph.group >= 0))
    joined = graph.after[before]
    return [*before.tolist(), *np.flatnonzero(np.isin(graph.group, joined[joined >= 0])).tolist()]


def test_a_sort_takes_two_hosts_and_dfsioe_three() -> None:
    for job, least in (("sort", 2), ("dfsioe", 3)):
        with pytest.raises(ConfigError, match=f"hosts: group 'receiver' has 1 hosts; {job} takes at least {least}"):
            star(job={"kind": "hibench", "job": job, "hosts": "receiver"})


def relayed(**columns: Any) -> FlowTable:
    """A query to a hub, its stream of 300 bytes, and a flow of 200 that feeds it, with some columns changed."""
    flows = table(src=[1, 2, 3], dst=[2, 1, 2], size_bytes=[40, 300, 200], group=[0, 1, 2], after=[-1, 0, 0])
    given: dict[str, Any] = {"stream": [-1, 0, -1], "feeds": [-1, -1, 0], "told_bps": [0.0, 1e9, 0.0]}
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
        ({"told_bps": [0.0, -1.0, 0.0]}, "flow 1 of the requests has a told_bps that is not a rate"),
        ({"told_bps": [0.0, np.inf, 0.0]}, "flow 1 of the requests has a told_bps that is not a rate"),
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
    store = {
        "kind": "store", "asked": 30, "objects": 300, "popular": 20, "object_bytes": 500, "sources": "hosts",
        "destinations": "hosts", "sicc": {},
    }  # fmt: skip
    plain = {"topology": rack, "duration_s": 0.01, "drain_s": None, "neighbourhoods": "receivers"}
    flows = scenario_from_dict({"name": "two", "workload": {"one": store, "two": store}, **plain}).flows(1)
    check_graph(flows)
    assert flows.streams is not None
    assert (flows.streams.stream >= 0).sum() == 2 * 3
