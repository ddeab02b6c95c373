# SPDX-License-Identifier: BSD-3-Clause
"""Graphs of requests: what workloads draw, and what is refused before anything runs."""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.flows import FlowTable, Graph
from ncc.core.graph import Rows, after_run, queries_of
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.datapath import HostStack
from tests.core.graphs import collective, drawn, fan_out, star, table
from tests.metrics.examples import flow_records


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
        ({"request": [0, 0, 10**12]}, "flow 2 of the requests has a request that is not -1 or a number below that of"),
        ({"request": [0, -7, 0]}, "flow 1 of the requests has a request that is not -1 or a number below that of"),
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


def test_after_a_run_flows_have_the_starts_that_they_had_and_waits_are_gone() -> None:
    """Columns of a run without waits are large and not copied."""
    for wait in (True, False):
        flows = table(dst=[2, 2, 4], size_bytes=[100, 0, 100]) if wait else table()
        started_s = np.array([0.0, 2e-3, np.nan])
        kept, found = after_run(flows, replace(flow_records([1e-3, 3e-3, np.nan]), start_s=started_s))
        rows = [0, 2] if wait else [0, 1, 2]
        assert kept.graph is not None
        for part in (kept.src, kept.graph.group, kept.graph.think_s):
            assert len(part) == len(rows)
        assert kept.src.tolist() == [1 + row for row in rows]
        assert kept.start_s.tolist() == pytest.approx(started_s[rows].tolist(), nan_ok=True)
        assert found.finish_s.tolist() == pytest.approx([[1e-3, 3e-3, np.nan][row] for row in rows], nan_ok=True)
        assert (kept.src is flows.src) == (not wait)


def test_rows_are_numbers_for_all_or_one_for_each_and_have_known_columns() -> None:
    rows = Rows()
    rows.add([1, 2], 3, [10, 20], group=rows.groups(2))
    rows.add(np.zeros(0, np.int64), 3, 10, after=0)
    rows.wait(3, after=[0, 1], think_s=0.0)
    columns = rows.columns()
    assert columns["src"].tolist() == [1, 2, 3, 3]
    assert columns["size_bytes"].tolist() == [10, 20, 0, 0]
    assert columns["group"].tolist() == [0, 1, -1, -1]
    assert columns["think_s"].tolist() == [0.0, 0.0, 1e-9, 1e-9], "what waits starts at least 1 ns later"
    assert columns["answer"].dtype == np.bool_
    with pytest.raises(TypeError, match="have no column grop"):
        rows.add(1, 2, 10, grop=0)
    with pytest.raises(ValueError, match="shape mismatch"):
        rows.add([1, 2], [3, 4, 5], 10)
