# SPDX-License-Identifier: BSD-3-Clause
"""Requests on simulators: flows that start when others are complete, waits, answers, and the same on both."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ncc.core.graph import Rows, queries_of
from ncc.core.scenario import Scenario
from ncc.core.topologies import ManyToOne
from ncc.envs.ns3 import Ns3Datapath
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.controller import Controller
from ncc.harness.datapath import HostStack
from ncc.harness.limiter import Unlimited
from ncc.harness.results import load_run, save_run
from ncc.harness.run import Run, run_once
from studies.random_graphs import KINDS, Case, differing, drawn, run, table
from tests.core.graphs import fan_out
from tests.datapaths.runs import SIMULATED, Simulator
from tests.datapaths.stars import DELAY_S, RATE_BPS, star

FULL_S = 1538 * 8 / RATE_BPS
ACK_S = 78 * 8 / RATE_BPS


def times_ns(simulator: Simulator, scenario: Scenario, rows: Rows) -> tuple[list[int], list[int]]:
    """Starts and ends of all rows."""
    records = run(simulator(), Case(scenario, table(rows), HostStack(transport="newreno")))
    starts, ends = (np.rint(1e9 * column).astype(int).tolist() for column in (records.start_s, records.finish_s))
    return starts, ends


@SIMULATED
def test_a_flow_starts_when_all_of_a_group_are_complete_and_some_time_has_passed(simulator: Simulator) -> None:
    rows, scenario = Rows(), star()
    first, host = rows.group(), scenario.network().hosts
    rows.add(host[1], host[0], 1000, group=first)
    rows.add(host[2], host[0], 50_000, group=first, start_s=5e-6)
    rows.add(host[0], host[1], 1000, after=first, think_s=7e-6, start_s=5e-6)
    rows.add(host[0], host[2], 1000, after=first, start_s=5e-6)
    starts, ends = times_ns(simulator, scenario, rows)
    last = max(ends[:2])
    assert starts == [0, 5_000, last + 7_000, last + 1]


@SIMULATED
def test_a_wait_sends_nothing_and_is_complete_when_it_is_due(simulator: Simulator) -> None:
    rows, scenario = Rows(), star()
    host, computed = scenario.network().hosts[1], rows.group()
    rows.wait(host, start_s=2e-6, group=computed)
    rows.wait(host, after=computed, think_s=3e-6, group=(joined := rows.group()), start_s=2e-6)
    rows.add(host, scenario.network().hosts[0], 1000, after=joined, think_s=1e-6, start_s=2e-6)
    records = run(simulator(), Case(scenario, table(rows), HostStack(transport="newreno")))
    assert np.rint(1e9 * records.start_s).tolist() == [2_000, 5_000, 6_000]
    assert np.rint(1e9 * records.finish_s)[:2].tolist() == [2_000, 5_000]
    assert records.sent_pkts.tolist() == [0, 0, 1]


@SIMULATED
def test_an_answer_needs_no_handshake(simulator: Simulator) -> None:
    scenario = star(handshake=True)
    host = scenario.network().hosts

    def took_ns(*, answer: bool) -> int:
        rows = Rows()
        asked = rows.group()
        rows.add(host[0], host[1], 40, group=asked)
        rows.add(host[1], host[0], 1000, after=asked, answer=answer)
        starts, ends = times_ns(simulator, scenario, rows)
        return ends[1] - starts[1]

    headers_s = 2 * (2 * DELAY_S + 2 * ACK_S)
    assert took_ns(answer=False) - took_ns(answer=True) == pytest.approx(1e9 * headers_s, abs=200)


@pytest.mark.parametrize("kind", KINDS)
def test_random_flows_with_losses_are_the_same_on_both_simulators(kind: str) -> None:
    sent_again = 0
    for seed in range(24):
        case = drawn(seed, kind)
        ours, theirs = (run(each(), case) for each in (PacketsimDatapath, Ns3Datapath))
        assert differing(ours, theirs) == [], seed
        sent_again += int(ours.retransmitted_pkts.sum())
    assert sent_again > 200


@pytest.mark.parametrize("seed", [1379, 1395, 2784])
def test_marks_are_answered_from_the_first_packet_of_a_flow_on_an_open_connection(seed: int) -> None:
    """In these tables ECN-Echo comes while the first packet of a flow is missing; CWR follows (RFC 3168, 6.1.2)."""
    case = drawn(seed, "kept")
    ours, theirs = (run(each(), case) for each in (PacketsimDatapath, Ns3Datapath))
    assert differing(ours, theirs) == []


PATH_S = 2 * DELAY_S + FULL_S


def wire_s(pkts: int) -> float:
    """Time of full packets on a line, with as many ACKs of the other direction."""
    return pkts * (FULL_S + ACK_S)


IDEAL_S: dict[str, Callable[[int, int], float]] = {
    "ring": lambda n, share: 2 * (n - 1) * (wire_s(share) + PATH_S),
    "halving_doubling": lambda n, share: (
        2 * sum(wire_s(share * apart) + PATH_S for apart in (1 << k for k in range(n.bit_length() - 1)))
    ),
    "all_to_all": lambda n, share: (n - 1) * wire_s(share) + PATH_S,
    "all_to_all in steps": lambda n, share: (n - 1) * (wire_s(share) + PATH_S),
    "tree": lambda n, share: 2 * (n.bit_length() - 1) * (2 * n * share * FULL_S + PATH_S),  # ACKs go alone
}
"""Times of collectives of n hosts, each with n shares of so many full packets: wire times and one-way paths."""


def collective_s(simulator: Simulator, n: int, share: int, algorithm: str, **settings: Any) -> float:
    """Time of a collective on a star, until the last row is complete."""
    workload = {"kind": "collective", "algorithm": algorithm, "hosts": "senders", "size_bytes": n * share * 1460}
    scenario = star(n, workload | settings)
    records = run(simulator(), Case(scenario, scenario.flows(1), HostStack(transport="newreno")))
    return float(records.finish_s.max())


@SIMULATED
@pytest.mark.parametrize("n", [4, 8, 16, 32])
@pytest.mark.parametrize("algorithm", ["ring", "halving_doubling", "all_to_all", "all_to_all in steps"])
def test_a_collective_takes_the_time_of_its_closed_form(simulator: Simulator, algorithm: str, n: int) -> None:
    share = 100
    window = {"window": 1} if algorithm == "all_to_all in steps" else {}
    took_s = collective_s(simulator, n, share, algorithm.split(maxsplit=1)[0], **window)
    assert took_s == pytest.approx(IDEAL_S[algorithm](n, share), rel=2e-3)


@SIMULATED
@pytest.mark.parametrize("n", [3, 7, 15, 31])
def test_a_tree_takes_the_time_of_its_closed_form(simulator: Simulator, n: int) -> None:
    assert collective_s(simulator, n, 20, "tree") == pytest.approx(IDEAL_S["tree"](n, 20), rel=0.015)


def test_two_trees_in_pieces_move_what_one_link_carries_in_two_thirds_of_the_time() -> None:
    """A host with children moves 3 S each way in one tree, and in two of S/2 each 2 S."""
    one_s, two_s = (collective_s(PacketsimDatapath, 15, 100, each, pieces=50) for each in ("tree", "double_tree"))
    assert two_s >= 2 * wire_s(1500)
    assert two_s / one_s == pytest.approx(2 / 3, rel=0.15)


@SIMULATED
@pytest.mark.parametrize("compute_s", [1e-3, 1e-4])
@pytest.mark.parametrize(("stages", "batches"), [(4, 8), (8, 32)])
def test_a_pipeline_takes_the_time_of_its_closed_form(
    simulator: Simulator, stages: int, batches: int, compute_s: float
) -> None:
    pkts = 100
    workload = {"algorithm": "pipeline", "pieces": batches, "size_bytes": batches * pkts * 1460, "compute_s": compute_s}
    scenario = star(stages, {"kind": "collective", "hosts": "senders"} | workload)
    records = run(simulator(), Case(scenario, scenario.flows(1), HostStack(transport="newreno")))
    message_s = pkts * (FULL_S + ACK_S) + PATH_S
    ideal_s = stages * compute_s + (stages - 1) * message_s + (batches - 1) * max(compute_s, message_s)
    assert records.finish_s.max() == pytest.approx(ideal_s, rel=0.015)


@pytest.mark.parametrize("algorithm", ["ring", "tree", "double_tree", "pipeline", "all_to_all"])
def test_collectives_are_the_same_on_both_simulators(algorithm: str) -> None:
    settings = {"pieces": 4} if algorithm in ("tree", "double_tree", "pipeline") else {}
    workload = {"algorithm": algorithm, "size_bytes": 400_000, "rounds": 2, "compute_s": 1e-4, "places": "random"}
    scenario = star(8, {"kind": "collective", "hosts": "senders"} | workload | settings, handshake=True)
    case = Case(scenario, scenario.flows(1), HostStack(transport="dctcp"))
    ours, theirs = (run(each(), case) for each in (PacketsimDatapath, Ns3Datapath))
    assert differing(ours, theirs) == []


def judged(scenario: Scenario) -> Run:
    controller = Controller(name="newreno", stack=HostStack(transport="newreno"))
    return run_once(PacketsimDatapath(), scenario, controller, Unlimited(), 1, flow_seed=1).require_valid()


def test_a_run_has_the_starts_that_its_flows_had_and_no_waits() -> None:
    workload = {"kind": "collective", "algorithm": "all_to_all", "hosts": "senders", "size_bytes": 8000, "rounds": 3}
    run = judged(star(workload=workload))
    assert len(run.flows) == 3 * 4 * 3
    assert run.flows.graph is not None
    began_s, ended_s = (
        [column[run.flows.graph.request == number] for number in range(3)]
        for column in (run.flows.start_s, run.records.flows.finish_s)
    )
    assert [len(set(of.tolist())) for of in began_s] == [1, 1, 1]
    assert began_s[1][0] - ended_s[0].max() == pytest.approx(3e-9)
    assert np.array_equal(run.flows.start_s, run.records.flows.start_s)


def test_a_run_comes_back_from_disk_with_its_requests(tmp_path: Path) -> None:
    run = judged(star())
    save_run(run, tmp_path / "run", config={})
    back = load_run(tmp_path / "run")
    assert run.flows.graph is not None
    assert back.flows.graph is not None
    for name, column in vars(run.flows.graph).items():
        assert np.array_equal(getattr(back.flows.graph, name), column), name
        assert getattr(back.flows.graph, name).dtype == column.dtype
    assert np.array_equal(back.flows.start_s, run.flows.start_s)


def test_receivers_know_of_an_answer_without_a_note() -> None:
    scenario = star().replace(neighbourhoods="receivers")
    flows = scenario.flows(1)
    assert flows.graph is not None
    plain = replace(flows, graph=replace(flows.graph, answer=np.zeros(len(flows), np.bool_)))
    notes = []
    for each in (flows, plain):
        datapath = PacketsimDatapath()
        measurement = datapath.start(scenario, each, HostStack(), 1)
        while measurement.flows_finished < len(each):
            measurement = datapath.step(np.full(scenario.n_agents, np.inf))
        assert datapath._network is not None
        notes.append(datapath._network.messages)
    assert notes == [3, 6]


@SIMULATED
def test_an_answer_begins_as_its_query_says(simulator: Simulator) -> None:
    """With starts in SYN-ACKs it begins at once, as the port is free; without, its patience ends after two periods."""
    scenario = star(handshake=True).replace(neighbourhoods="receivers", period_s=1e-3)
    flows = scenario.flows(1)
    assert flows.graph is not None
    took_s = []
    for answer_frac in (0.5, None):
        records = run(simulator(), Case(scenario, flows, HostStack(hold=True, answer_frac=answer_frac)))
        took_s.append((records.finish_s - records.start_s)[flows.graph.answer])
    assert took_s[0].max() < 3 * FULL_S + 3 * DELAY_S
    assert took_s[1].min() > 2 * scenario.period_s


@SIMULATED
def test_answers_that_overflow_the_port_begin_later(simulator: Simulator) -> None:
    """30 answers of 10 packets meet at a buffer of 40, and none is lost before the first grant can come."""
    scenario = star(30, fan_out(fan_in=30, answer_bytes=14_600), handshake=True)
    topology = ManyToOne(senders=30, buffer_bytes=60_000, rate_bps=RATE_BPS, delay_s=DELAY_S, mark_threshold_bytes=0)
    scenario = scenario.replace(neighbourhoods="receivers", topology=topology)
    records = run(simulator(), Case(scenario, scenario.flows(1), HostStack(hold=True, answer_frac=0.5)))
    assert records.retransmitted_pkts.sum() == 0


def asked(simulator: Simulator, front: str, *params: tuple[str, int], n: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Starts of the n queries of a request in order, and ends of their answers in the same order, in ns."""
    scenario = star(n, fan_out(fan_in=n))
    flows = scenario.flows(1)
    records = run(simulator(), Case(scenario, flows, HostStack(transport="newreno", front=front, front_params=params)))
    query_of = queries_of(flows)
    answers = np.flatnonzero(query_of >= 0)
    starts, ends = (np.rint(1e9 * column).astype(int) for column in (records.start_s, records.finish_s))
    order = np.argsort(starts[query_of[answers]], kind="stable")
    return starts[query_of[answers]][order], ends[answers][order]


@SIMULATED
def test_a_front_end_has_a_fixed_number_of_queries_outstanding(simulator: Simulator) -> None:
    starts, ends = asked(simulator, "fixed", ("window", 3))
    assert starts[:3].tolist() == [0, 0, 0]
    assert starts[3:].tolist() == (np.sort(ends)[:-3] + 1).tolist(), "each leaves 1 ns after an answer"


@SIMULATED
def test_a_front_end_s_pace_is_kept(simulator: Simulator) -> None:
    """Before the first answer, an answer counts as a full packet: 1,538 bytes and 156 for its query at 10 Gbit/s."""
    starts, ends = asked(simulator, "fits", n=6)
    assert (starts < ends.min()).sum() >= 2
    assert set(np.diff(starts[starts < ends.min()]).tolist()) == {int((1538 + 156) * 0.8)}


@SIMULATED
def test_one_all_and_a_window_for_all_are_the_same(simulator: Simulator) -> None:
    alike = [asked(simulator, front, *params) for front, params in (("one_all", ()), ("fixed", (("window", 100),)))]
    assert np.array_equal(alike[0], alike[1])
