# SPDX-License-Identifier: BSD-3-Clause
"""YCSB and HiBench as graphs of requests: what their operations and jobs move, and what is refused."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.flows import Graph
from tests.core.graphs import drawn, star


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
