# SPDX-License-Identifier: BSD-3-Clause
"""Requests through real sockets: who starts when, on which connection, and what a front end lets out."""

import subprocess
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ncc.core.errors import ConfigError, DatapathError
from ncc.core.flows import FlowTable, Graph
from ncc.core.graph import Rows, after_run, queries_of
from ncc.core.scenario import Scenario, scenario_from_dict
from ncc.envs.linux import namespaces, stack, traffic
from ncc.envs.linux.datapath import LinuxDatapath
from ncc.harness.datapath import HostStack
from ncc.metrics.requests import qct_s
from studies.random_graphs import table
from tests.core.graphs import hub_store
from tests.linux.patience import patiently
from tests.support.linux import TRAFFIC, needs

SERVERS, REQUESTS = 15, 6
THINK_S, SERVICE_S = 4e-3, 1e-3
ASK: dict[str, Any] = {
    "kind": "fan_out",
    "fan_in": SERVERS,
    "answer_bytes": 3000,
    "requests": REQUESTS,
    "think_s": THINK_S,
    "service_s": SERVICE_S,
    "sources": "senders",
    "destinations": "receiver",
}
DCTCP = HostStack(transport="dctcp")


def hosts_16(workload: dict[str, Any] = ASK, **transport: Any) -> Scenario:
    """Requests of one host to 15 servers, over connections that are open."""
    ports = {"rate_bps": 2e7, "delay_s": 1e-5, "buffer_bytes": 100_000, "mark_threshold_bytes": 30_000}
    plain = {"connections_per_pair": 1, "delayed_ack_pkts": 1, "min_rto_s": 0.04}
    return scenario_from_dict(
        {
            "name": "hosts_16",
            "topology": {"kind": "many_to_one", "senders": SERVERS, **ports},
            "duration_s": 0.01,
            "drain_s": None,
            "period_s": 4e-3,
            "workload": {"it": workload},
            "transport": plain | transport,
        }
    )


def graph_of(flows: FlowTable) -> Graph:
    assert flows.graph is not None
    return flows.graph


class Ran:
    """A run to its end: its flows as they were drawn, their starts and ends, and the last measurement."""

    def __init__(self, datapath: LinuxDatapath, scenario: Scenario, flows: FlowTable, stack: HostStack) -> None:
        last = patiently(lambda: datapath.start(scenario, flows, stack, 1))
        while last.flows_finished < len(flows):
            assert last.time_s < 60
            last = datapath.step(np.full(scenario.n_agents, np.inf))
        self.records, self.last, self.flows = datapath.finish(), last, flows
        self.start_s, self.finish_s = self.records.flows.start_s, self.records.flows.finish_s
        self.sent_pkts = int(self.records.ports.tx_pkts[[2 * i for i in range(SERVERS + 1)]].sum())
        assert not datapath.facts["failed_flows"]


@needs(*TRAFFIC)
@pytest.mark.parametrize("control", ["dctcp", "linux::cubic"])
def test_what_waits_starts_after_what_it_waits_for_on_connections_that_are_open(
    datapath: LinuxDatapath, control: str
) -> None:
    scenario = hosts_16()
    ran = Ran(datapath, scenario, scenario.flows(1), HostStack(transport=control))
    flows, graph = ran.flows, graph_of(ran.flows)
    query_of = queries_of(flows)
    answers = np.flatnonzero(graph.answer)
    waited_s = ran.start_s[answers] - ran.finish_s[query_of[answers]]
    assert waited_s.min() >= SERVICE_S
    for request in range(1, REQUESTS):
        before = ran.finish_s[answers[graph.request[answers] == request - 1]].max()
        asked = ran.start_s[(graph.request == request) & ~graph.answer]
        assert (asked >= before + THINK_S).all()
    counts = ran.records.flows
    assert ran.sent_pkts == counts.sent_pkts.sum() + len_acks(counts), "no SYN"
    assert datapath.fallbacks == ()
    assert (ran.last.flows_started, ran.last.flows_finished) == (len(flows), len(flows))
    kept, records = after_run(flows, ran.records.flows)
    assert qct_s(kept, records).min() > SERVICE_S + (SERVERS * 3000 * 8) / 2e7


@needs(*TRAFFIC)
def test_connections_to_several_hosts_may_have_one_port(
    datapath: LinuxDatapath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel gives a host's port to two connections if their destinations differ."""
    settings = stack.of_host
    few = {"net/ipv4/ip_local_port_range": f"10000 {10000 + SERVERS}"}
    monkeypatch.setattr(stack, "of_host", lambda *of: settings(*of) | few)
    scenario = hosts_16()
    ran = Ran(datapath, scenario, scenario.flows(1), DCTCP)
    assert (ran.last.flows_started, ran.last.flows_finished) == (len(ran.flows), len(ran.flows))


def len_acks(counts: Any) -> int:
    """ACKs of flows, one for each packet (`delayed_ack_pkts` 1)."""
    return int(counts.sent_pkts.sum())


@needs(*TRAFFIC)
def test_waits_join_groups_and_take_their_time(datapath: LinuxDatapath) -> None:
    scenario, rows = hosts_16(), Rows()
    network = scenario.network()
    one, other, third = network.group("senders")[:3]
    sent, joined, later = rows.groups(2), rows.group(), rows.group()
    rows.add([one, other], third, [20_000, 60_000], group=sent, request=0)
    rows.wait(third, after=sent, group=joined, request=0)
    rows.wait(third, after=joined, think_s=0.02, group=later, request=0)
    rows.add(third, one, 5000, after=later, think_s=0.01, request=0)
    ran = Ran(datapath, scenario, table(rows), DCTCP)
    flows, graph = ran.flows, graph_of(ran.flows)
    ends = ran.finish_s[np.isin(graph.group, sent)]
    last = np.flatnonzero(graph.after == later)
    assert ran.start_s[last[0]] >= ends.max() + 0.03
    assert (ran.finish_s[flows.size_bytes == 0] >= ends.max()).sum() >= 2
    assert ran.last.flows_finished == len(flows)


def outstanding(ran: Ran) -> np.ndarray:
    """Queries that had left and were not answered when each query left, itself included."""
    query_of = queries_of(ran.flows)
    answers = np.flatnonzero(query_of >= 0)
    left, came = np.sort(ran.start_s[query_of[answers]]), np.sort(ran.finish_s[answers])
    return np.arange(1, len(left) + 1) - np.searchsorted(came, left, side="left")


@needs(*TRAFFIC)
def test_a_front_end_keeps_its_window_and_its_pace(datapath: LinuxDatapath) -> None:
    scenario = hosts_16()
    stack = HostStack(transport="dctcp", front="fixed", front_params=(("window", 3),))
    fixed = Ran(datapath, scenario, scenario.flows(1), stack)
    assert outstanding(fixed).max() == 3
    all_at_once = Ran(datapath, scenario, scenario.flows(1), DCTCP)
    assert outstanding(all_at_once).max() == SERVERS
    fits = Ran(datapath, scenario, scenario.flows(1), HostStack(transport="dctcp", front="fits"))
    query_of = queries_of(fits.flows)
    first = np.sort(fits.start_s[query_of[query_of >= 0]])[:SERVERS]
    assert np.diff(first).min() >= 0.9 * (1538 + 156) * 8 / 2e7


def test_answers_need_connections_that_are_open() -> None:
    scenario = hosts_16(connections_per_pair=0)
    said = "connections_per_pair must be at least 1 on linux, where answers of requests take connections"
    with pytest.raises(ConfigError, match=said):
        LinuxDatapath().start(scenario, scenario.flows(1), DCTCP, 1)
    flows = hosts_16().flows(1)
    graph = graph_of(flows)
    cycle = replace(flows, graph=replace(graph, after=np.maximum(graph.after, graph.group)))
    with pytest.raises(ConfigError, match="the graph may have a cycle"):
        LinuxDatapath().start(hosts_16(), cycle, DCTCP, 1)


def test_streams_that_hosts_pass_on_are_refused() -> None:
    rack = {"kind": "leaf_spine", "leaves": 2, "spines": 1, "hosts_per_leaf": 4}
    store = hub_store(asked=20)
    plain = hosts_16().to_dict() | {"topology": rack, "workload": {"it": store}, "neighbourhoods": "receivers"}
    scenario = scenario_from_dict(plain)
    with pytest.raises(ConfigError, match="streams that hosts pass on, such as those of SICC's hubs, do not run on"):
        LinuxDatapath().start(scenario, scenario.flows(1), DCTCP, 1)


@needs(*TRAFFIC)
def test_an_answer_that_begins_with_a_handshake_is_a_fallback(datapath: LinuxDatapath) -> None:
    """Two answers of each server at once, and one connection for them."""
    scenario = hosts_16(ASK | {"fan_in": 2 * SERVERS, "requests": 1, "answer_bytes": 30_000})
    Ran(datapath, scenario, scenario.flows(1), DCTCP)
    (said,) = datapath.fallbacks
    assert said.endswith("began with a handshake: raise Scenario.transport.connections_per_pair")
    roomy = scenario.replace(transport=scenario.transport.replace(connections_per_pair=2))
    Ran(datapath, roomy, roomy.flows(1), DCTCP)
    assert datapath.fallbacks == ()


@needs(*TRAFFIC)
def test_a_connection_that_ends_early_ends_the_run(datapath: LinuxDatapath) -> None:
    scenario = hosts_16(ASK | {"answer_bytes": 5_000_000})
    patiently(lambda: datapath.start(scenario, scenario.flows(1), DCTCP, 1))
    run = datapath._run
    assert run is not None
    everyone = np.full(scenario.n_agents, np.inf)
    while not (run._traffic.flows["state"] == traffic.HANDED).any():
        datapath.step(everyone)
    receiver = scenario.network().group("receiver")[0]
    with namespaces.inside(run._rack.namespace(receiver)):
        subprocess.run(["ss", "-K", "sport", "=", str(traffic.PORT)], capture_output=True, check=True)

    def goes_on() -> None:
        until = time.monotonic() + 20
        while time.monotonic() < until:
            datapath.step(everyone)

    with pytest.raises(DatapathError, match=r"The connection of flow \d+ ended early \(.*\), and its request cannot"):
        goes_on()
