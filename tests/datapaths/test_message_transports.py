# SPDX-License-Identifier: BSD-3-Clause
"""NDP, EQDS, Homa and pFabric's host: worked examples; and with ExpressPass and FlashPass, losses of every packet."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ncc.core.scenario import Scenario
from ncc.core.topologies import AnyTopology, ManyToOne, Rack
from ncc.core.topology import Program, Red
from ncc.core.units import GBPS, US
from ncc.envs.native.base import NativeDatapath
from ncc.envs.native.extension import filled
from ncc.envs.ns3 import Ns3Datapath
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.datapath import HostStack
from tests.datapaths.runs import MSS, SHAPED_FRAC, Simulator, carrying, drops, engine, flow, run, with_spec
from tests.datapaths.test_same_packets import random_flows, random_topology, run_alike

WIRE_S = 1538 * 8 / (10 * GBPS)
"""Time of a full packet on the wire."""
TRIMS: dict[str, Any] = {"programs": (Program(name="trim"),), "control_first": True}
MARKS: dict[str, Any] = TRIMS | {
    "mark_on_departure": True, "red": Red(min_bytes=3000, max_bytes=12_000, max_prob_frac=1.0),
}  # fmt: skip
SHAPED: dict[str, Any] = {"shaped_frac": SHAPED_FRAC}
SELECTIVE: dict[str, Any] = SHAPED | {"programs": (Program(name="selective"),)}
CASES: dict[str, tuple[HostStack, dict[str, Any]]] = {
    "ndp": (HostStack(transport="ndp", params=(("window_pkts", 20),)), TRIMS),
    "eqds": (HostStack(transport="eqds", params=(("window_pkts", 20),)), TRIMS),
    "nscc": (HostStack(transport="nscc", params=(("choice", 0),)), MARKS),
    "rccc": (HostStack(transport="rccc", params=(("choice", 0),)), MARKS),
    "homa": (HostStack(transport="homa", params=(("rtt_pkts", 12),), order="srpt"), {"classes": 8}),
    "homa_one": (HostStack(transport="homa", params=(("overcommit", 1),)), {"classes": 8}),
    "homa_aeolus": (
        HostStack(transport="homa", params=(("rtt_pkts", 12), ("expendable", 1)), order="srpt"),
        {"classes": 8, "programs": (Program(name="selective"),)},
    ),
    "pfabric_host": (
        HostStack(transport="pfabric_host", params=(("rto_ns", 200_000),), tags="remaining", order="srpt"),
        {"programs": (Program(name="pfabric"),), "buffer_bytes": 36_000},
    ),
    "expresspass": (HostStack(transport="expresspass", params=(("timeout_ns", 2_000_000),)), SHAPED),
    "expresspass_aeolus": (
        HostStack(transport="expresspass", params=(("timeout_ns", 2_000_000), ("blind_pkts", 20))), SELECTIVE,
    ),
    "flashpass": (HostStack(transport="flashpass", params=(("timeout_ns", 2_000_000),)), SHAPED),
    "flashpass_aeolus": (
        HostStack(transport="flashpass", params=(("timeout_ns", 2_000_000), ("blind_pkts", 20))), SELECTIVE,
    ),
}  # fmt: skip
"""A stack for each transport, and what its ports need."""
UNASKED = ["ndp", "eqds", "homa", "pfabric_host"]
"""Those whose first packets go at once."""


def star(name: str, senders: int, delay_s: float = 1 * US) -> ManyToOne:
    settings = {"rate_bps": 10 * GBPS, "delay_s": delay_s, "mark_threshold_bytes": 0}
    return ManyToOne(senders=senders, **(settings | CASES[name][1]))


@pytest.mark.parametrize("name", UNASKED)
@pytest.mark.parametrize("size_bytes", [1, MSS, MSS + 1, 12 * MSS, 13 * MSS, 100_000, 10_000_000])
def test_a_message_alone_takes_its_time_on_the_wire(simulator: Simulator, name: str, size_bytes: int) -> None:
    done = run(simulator, carrying(star(name, 1), flow("s0", "receiver", size_bytes)), CASES[name][0])
    full, last_s = (size_bytes - 1) // MSS, ((size_bytes - 1) % MSS + 1 + 78) * 8 / (10 * GBPS)
    wires_s = (full + 1) * WIRE_S + last_s if full else 2 * last_s  # behind a full one, it waits for the second wire
    assert done.fct_s[0] == pytest.approx(wires_s + 2 * US, rel=5e-4, abs=2e-9)
    assert done.records.flows.retransmitted_pkts[0] == done.records.flows.timeouts[0] == 0


@pytest.mark.parametrize("name", ["ndp", "eqds"])
def test_pulls_keep_an_incast_s_line_full(simulator: Simulator, name: str) -> None:
    """Eight first windows meet and are trimmed; pulled at the line's pace, the flows take their time on the wire."""
    flows = [flow(f"s{i}", "receiver", 400 * MSS) for i in range(8)]
    done = run(simulator, carrying(star(name, 8), *flows), CASES[name][0])
    assert done.records.ports.trimmed_pkts.sum() > 20
    assert done.records.ports.dropped_pkts.sum() == 0
    assert done.records.flows.timeouts.sum() == 0
    assert 1.0 < done.fct_s.max() / (3200 * WIRE_S) < 1.11
    assert done.fct_s.min() > 0.7 * done.fct_s.max()  # pulled in turn


@pytest.mark.parametrize("name", ["ndp", "eqds"])
def test_a_pull_takes_the_time_of_what_it_brings(simulator: Simulator, name: str) -> None:
    """The second of each flow's two packets has 378 of 1538 bytes on the wire: its pull takes a quarter of the time."""
    flows = [flow(f"s{i}", "receiver", MSS + 300) for i in range(32)]
    done = run(simulator, carrying(star(name, 32), *flows), CASES[name][0])
    assert done.records.flows.timeouts.sum() == 0
    assert 1.0 < done.fct_s.max() / (32 * (WIRE_S + 378 * 0.8e-9)) < 1.2


def test_homa_serves_the_message_with_the_least_left(simulator: Simulator) -> None:
    flows = flow("s0", "receiver", 2000 * MSS), flow("s1", "receiver", 200 * MSS, 200 * US)
    done = run(simulator, carrying(star("homa", 2), *flows), CASES["homa"][0])
    assert done.fct_s[1] < 1.1 * 200 * WIRE_S
    assert done.fct_s[0] == pytest.approx(2200 * WIRE_S, rel=0.02)
    assert done.records.flows.timeouts.sum() == 0


def test_ports_drop_homa_s_first_windows_before_what_it_granted(simulator: Simulator) -> None:
    """The PROBE behind each of eight first windows tells what was dropped: nobody waits for the 1 ms of silence."""
    flows = [flow(f"s{i}", "receiver", 12 * MSS) for i in range(8)]
    done = run(simulator, carrying(star("homa_aeolus", 8), *flows), CASES["homa_aeolus"][0])
    lost = done.records.ports.dropped_data_pkts.sum()
    assert 50 < lost <= done.records.flows.retransmitted_pkts.sum()
    assert done.records.flows.timeouts.sum() == 0
    assert done.fct_s.max() < 1.2 * 96 * WIRE_S


def test_homa_asks_again_in_turn(simulator: Simulator) -> None:
    """Most first packets of 32 messages find no room; asked for by all at once, they would find none again."""
    topology = star("homa", 32, 10 * US).replace(rate_bps=GBPS, buffer_bytes=100_000)
    done = run(simulator, carrying(topology, *[flow(f"s{i}", "receiver", 22 * MSS) for i in range(32)]), "homa")
    lost = done.records.ports.dropped_pkts.sum()
    assert 0 < lost < 32 * 7
    assert done.records.flows.retransmitted_pkts.sum() < 1.1 * lost
    assert done.fct_s.max() < 1e-3 + 1.05 * 32 * 22 * 10 * WIRE_S  # the first silence, and the data


def test_homa_waits_for_what_is_behind_more_urgent_messages(simulator: Simulator) -> None:
    """The second message's granted packets wait in a later class for 2 ms: none of them goes again."""
    flows = flow("s0", "receiver", 2000 * MSS), flow("s1", "receiver", 1700 * MSS, 100 * US)
    done = run(simulator, carrying(star("homa", 2), *flows), CASES["homa"][0])
    assert done.records.flows.timeouts.sum() == done.records.flows.retransmitted_pkts.sum() == 0


@pytest.mark.parametrize("name", ["ndp", "eqds"])
def test_what_is_lost_with_its_header_is_pulled_again(simulator: Simulator, name: str) -> None:
    """Headers of most of 60 first windows find no room. After one silence each packet is pulled once."""
    done = run(simulator, carrying(star(name, 60), *[flow(f"s{i}", "receiver", 100 * MSS) for i in range(60)]), name)
    lost = done.records.ports.dropped_pkts.sum() + done.records.ports.trimmed_pkts.sum()
    assert done.records.ports.dropped_pkts.sum() > 100
    assert done.records.flows.retransmitted_pkts.sum() <= 1.05 * lost
    assert done.fct_s.max() < 1e-3 + 1.05 * 60 * 100 * WIRE_S


def test_homa_shares_with_those_that_it_overcommits_to(simulator: Simulator) -> None:
    """The sender of the shorter message is limited to a fifth of the line: the other message gets the rest."""
    flows = [flow("s0", "receiver", 600 * MSS), flow("s1", "receiver", 1000 * MSS)]
    took_s = [
        run(simulator, carrying(star(name, 2), *flows), CASES[name][0], limits=np.array([2e9, np.inf])).fct_s[1]
        for name in ("homa_one", "homa")
    ]
    assert took_s[1] < 0.5 * took_s[0]


def test_pfabric_delays_a_short_flow_by_a_packet_at_most(simulator: Simulator) -> None:
    name = "pfabric_host"
    short = flow("s1", "receiver", 10 * MSS, 300 * US)
    alone = run(simulator, carrying(star(name, 2), short), CASES[name][0]).fct_s[0]
    done = run(simulator, carrying(star(name, 2), flow("s0", "receiver", 1000 * MSS), short), CASES[name][0])
    assert alone <= done.fct_s[1] <= alone + WIRE_S + 2e-9
    assert done.fct_s[0] < 1.05 * 1010 * WIRE_S


def test_a_small_message_is_granted_no_more_than_it_has(simulator: Simulator) -> None:
    name = "pfabric_host"
    done = run(simulator, carrying(star(name, 1), flow("s0", "receiver", MSS)), CASES[name][0])
    assert done.records.flows.wasted_credits[0] == 0
    assert done.records.flows.control_bytes[0] == 46  # its ACK


def test_both_ends_of_eqds_know_what_goes_unasked() -> None:
    """The receiver's link is four times as fast as the sender's, which is what counts."""
    topology = Rack(hosts=2, delay_s=10 * US, mark_threshold_bytes=0, **TRIMS)
    done = run(PacketsimDatapath, carrying(topology, flow("h0", "r0", 30 * MSS)), "eqds")
    assert done.records.flows.timeouts[0] == 0


def test_a_probe_names_what_is_missing_at_the_end_before_older_holes() -> None:
    """The port loses 79 of 160 unasked packets one by one, and the last."""
    name = "expresspass_aeolus"
    scenario = carrying(star(name, 1, 50 * US), flow("s0", "receiver", 160 * MSS))
    stack = CASES[name][0].replace(params=(("timeout_ns", 50_000_000), ("blind_pkts", 1000)))
    lost = drops(scenario, tor__receiver=(*range(1, 158, 2), 160))
    done = run(PacketsimDatapath, scenario, stack, prepare=lost)
    assert done.records.flows.timeouts[0] == 0


def test_a_probe_does_not_overtake_data() -> None:
    """The sender's timer is shorter than its packets take at a limit of 100 Mbit/s: none of them goes again."""
    scenario = carrying(star("expresspass", 1), flow("s0", "receiver", 20 * MSS))
    stack = CASES["expresspass"][0].replace(params=(("timeout_ns", 100_000),))
    done = run(PacketsimDatapath, scenario, stack, limits=np.full(scenario.n_agents, 1e8))
    assert done.records.flows.timeouts[0] > 0
    assert done.records.flows.credits[0] - done.records.flows.wasted_credits[0] == 20


def lossy(simulator: Simulator, one_in: int, *beside: str) -> Simulator:
    """The simulator with ports that drop one in so many packets by chance, before these programs."""
    made = simulator.extension().ProgramSpec
    programs = [filled(made(), name="test_program", params=[("drop_one_in", one_in)])]
    programs += [filled(made(), name=name) for name in beside]
    return with_spec(simulator, programs=[programs])


def with_program(topology: AnyTopology, name: str) -> tuple[AnyTopology, list[str]]:
    """The topology with what a transport needs and at least one program at each port; names of the programs."""
    needs = {"programs": (Program(name="codel"),), "control_first": False} | CASES[name][1]
    beside = [each.name for each in CASES[name][1].get("programs", ())]
    return topology.replace(**({"shared_buffer_bytes": 0, "red": None, "mark_threshold_bytes": 0} | needs)), beside


@pytest.mark.parametrize("frac", [1, 0.5, 0.1, 0.01, 0.001])
@pytest.mark.parametrize("name", CASES)
def test_data_leaves_at_the_host_s_limit(simulator: Simulator, name: str, frac: float) -> None:
    """A limit far below the line takes the pace of data alone: words go on, and nothing goes twice."""
    pkts = max(int(1000 * frac), 60)
    scenario = carrying(star(name, 1), flow("s0", "receiver", pkts * MSS))
    done = run(simulator, scenario, CASES[name][0], limits=np.full(scenario.n_agents, frac * 10 * GBPS))
    line_frac = min(frac, 1500 / 1538 * (1538 / 1622 if "pass" in name else 1))
    assert done.fct_s[0] == pytest.approx(pkts * 1500 * 8 / (line_frac * 10 * GBPS), rel=0.1)
    assert done.records.flows.retransmitted_pkts[0] <= 2  # of a first window that ports drop
    assert done.records.ports.tx_pkts.sum() < 15 * pkts / min(1, 10 * frac)


@pytest.mark.parametrize("one_in", [4, 7, 31])
@pytest.mark.parametrize("name", CASES)
def test_every_flow_ends_whatever_is_lost(name: str, one_in: int) -> None:
    random = np.random.default_rng(one_in)
    topology, beside = with_program(Rack(hosts=8, host_rate_bps=10 * GBPS, buffer_bytes=100_000), name)
    flows = []
    for start_s in np.sort(random.uniform(0, 5e-3, 60)):
        src, dst = random.choice(8, 2, replace=False)
        size = int(random.choice([1, MSS, 5000, 50_000, 500_000]))
        flows.append(flow(f"h{src}", f"h{dst}", size, float(round(start_s, 9))))
    scenario = carrying(topology, *flows)
    datapath = lossy(PacketsimDatapath, one_in, *beside)()
    datapath.start(scenario, scenario.flows(1), CASES[name][0], 1)
    left, epochs = 60, 0
    while left and epochs < 5000:
        left, epochs = 60 - datapath.step(np.full(scenario.n_agents, np.inf)).flows_finished, epochs + 1
    assert left == 0
    for _ in range(500):
        datapath.step(np.full(scenario.n_agents, np.inf))
    assert engine(datapath).live_connections == 0
    datapath.close()


def loses_all(scenario: Scenario, port: str) -> Callable[[NativeDatapath], None]:
    """For `prepare`: drop the first 5000 packets and the first 5000 words at a port."""

    def prepare(datapath: NativeDatapath) -> None:
        for nth in range(1, 5001):
            for control in False, True:
                engine(datapath).plan_fault(scenario.network().port(port), nth, drop=True, control=control)

    return prepare


@pytest.mark.parametrize("port", ["tor->receiver", "tor->s0"])
@pytest.mark.parametrize("name", [each for each in CASES if each != "pfabric_host"])
def test_ends_that_hear_nothing_say_less_and_less(name: str, port: str) -> None:
    """One of the ends hears nothing for 0.4 s: fewer packets leave in the second half of it than in the first."""
    scenario = carrying(star(name, 1), flow("s0", "receiver", 60 * MSS))
    datapath = PacketsimDatapath()
    datapath.start(scenario, scenario.flows(1), CASES[name][0], 1)
    loses_all(scenario, port)(datapath)
    sent = [0]
    for _ in range(2):
        for _ in range(200):
            datapath.step(np.full(scenario.n_agents, np.inf))
        sent.append(int(engine(datapath).port_records()["tx_pkts"].sum()))
    assert engine(datapath).live_connections == 1
    assert 0 < sent[2] - sent[1] < 0.8 * sent[1] < 2500
    datapath.close()


def test_pfabric_probes_from_the_fifth_timeout_on() -> None:
    """All is lost for 10 ms: a window, a packet at each of four timeouts, and from then on a word at each."""
    name = "pfabric_host"
    scenario = carrying(star(name, 1), flow("s0", "receiver", 20 * MSS)).replace(period_s=1e-3)
    datapath = PacketsimDatapath()
    datapath.start(scenario, scenario.flows(1), CASES[name][0], 1)
    loses_all(scenario, "tor->receiver")(datapath)
    for _ in range(10):
        datapath.step(np.full(scenario.n_agents, np.inf))
    nic, words = scenario.network().port("s0->tor"), 10_000 // 200 - 1 - 4
    assert engine(datapath).port_records()["tx_bytes"][nic] == 16 * 1500 + words * 46
    datapath.close()


def test_pfabric_starts_slowly_after_a_probe() -> None:
    """All packets before the first PROBE are lost. Its ACK opens a window of 1. A round trip later the window is 2, and
    slow start ends. Then it grows by 1 for each full window: the 20 packets go in rounds of 1, 2, 3, 4, 5 and 5."""
    name = "pfabric_host"
    scenario = carrying(star(name, 1, 10 * US), flow("s0", "receiver", 20 * MSS))
    done = run(PacketsimDatapath, scenario, CASES[name][0], prepare=drops(scenario, tor__receiver=range(1, 17)))
    assert done.records.flows.timeouts[0] == 5
    assert done.records.flows.control_bytes[0] == 46 * (20 + 2)  # an ACK each, and the PROBE and its ACK
    word_s = 84 * 8 / (10 * GBPS)
    probed_s, round_s = 4 * word_s + 40 * US, 2 * WIRE_S + 2 * word_s + 40 * US
    last_s = 4 * WIRE_S + 2 * WIRE_S + 20 * US  # the last ACK of a round is four packets behind the first
    assert done.fct_s[0] == pytest.approx(5 * 200 * US + probed_s + 5 * round_s + last_s, abs=1e-7)


def test_pfabric_does_not_take_a_header_for_its_data() -> None:
    """Ports that trim, which it does not ask for: what was trimmed goes again."""
    made = PacketsimDatapath.extension().ProgramSpec
    trims = [filled(made(), name="trim", params=[("over_bytes", 6000)])]
    topology, _ = with_program(star("pfabric_host", 8), "pfabric_host")
    scenario = carrying(topology, *[flow(f"s{i}", "receiver", 30 * MSS) for i in range(8)])
    done = run(with_spec(PacketsimDatapath, programs=[trims]), scenario, CASES["pfabric_host"][0])
    assert done.records.ports.trimmed_pkts.sum() > 50
    assert np.isfinite(done.fct_s).all()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", [*UNASKED, "homa_aeolus"])
def test_both_simulators_do_the_same(name: str, seed: int) -> None:
    """Random networks that lose data and words; with limits in a third of them."""
    random = np.random.default_rng(9000 + seed)
    topology, beside = with_program(random_topology(random), name)
    routing = "spray" if name in ("ndp", "eqds") and seed else "ecmp"
    scenario = carrying(topology, *random_flows(random, topology.build()), routing=routing)
    limits = np.where(random.random(scenario.n_agents) < 0.5, 2e8, np.inf) if seed == 2 else None
    sides = [lossy(each, 61, *beside) for each in (PacketsimDatapath, Ns3Datapath)]
    done = run_alike(scenario, CASES[name][0], max_epochs=3000, simulators=sides, limits=limits)
    assert np.isfinite(done.fct_s).all()
    assert done.records.flows.retransmitted_pkts.sum() > 0
