# SPDX-License-Identifier: BSD-3-Clause
"""Programs at ports, classes, ranks and tags: their effect, worked by hand, and the same on every simulator."""

from typing import Any

import numpy as np
import pytest

from ncc.core.errors import ConfigError, UnknownNameError
from ncc.core.scenario import Scenario, Transport
from ncc.core.topologies import Dumbbell, LeafSpine, ManyToOne
from ncc.core.topology import Program
from ncc.envs.linux.rack import check_rack
from ncc.envs.linux.stack import check_stack
from ncc.envs.native.extension import filled
from ncc.envs.ns3 import Ns3Datapath
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.datapath import HostStack
from tests.datapaths.runs import MSS, Run, Simulator, fixed, flow, run, with_spec
from tests.datapaths.test_same_packets import (
    random_case,
    random_stack,
    random_topology,
    run_alike,
)

RWNDQ = (Program(name="rwndq"),)
PFABRIC = (Program(name="pfabric"),)
REMAINING = HostStack(transport="newreno", tags="remaining")
EACH_ACK = Transport(recovery="classic", delayed_ack_pkts=1, min_rto_s=2e-3, initial_rto_s=2e-3)


def rwndq_dumbbell(flows: int, *, size_bytes: int = 10**9, **settings: Any) -> Scenario:
    """The paper's: 11 Gbit/s into 10, 100 us, 83 packets (section V)."""
    topology = Dumbbell(
        pairs=flows, host_rate_bps=11e9, bottleneck_rate_bps=10e9, delay_s=100e-6 / 6, buffer_bytes=83 * 1500,
        mark_threshold_bytes=0, programs=RWNDQ,
    )  # fmt: skip
    made = [flow(f"s{i}", f"r{i}", size_bytes, i * 1e-6) for i in range(flows)]
    return fixed(topology, *made, routing="symmetric", transport=EACH_ACK, **settings)


@pytest.mark.parametrize("flows", [5, 50])
def test_rwndq_holds_its_queue_at_the_target(flows: int) -> None:
    done = run(PacketsimDatapath, rwndq_dumbbell(flows), "newreno", max_epochs=200, until_done=False)
    queue_pkts = done.column("uplink_queue_mean_bytes")[100:, 0] / 1500
    assert abs(queue_pkts.mean() - 16.6) < 1.5
    goodput = done.column("goodput_bps")[100:].mean(axis=0)
    assert goodput.sum() > 0.999 * 10e9 * MSS / 1538
    assert goodput.sum() ** 2 / (flows * (goodput**2).sum()) > 0.999
    assert done.records.ports.dropped_pkts.sum() == 0


def test_rwndq_as_printed_overshoots_with_many_flows() -> None:
    scenario = rwndq_dumbbell(50)
    printed = scenario.topology.replace(programs=(Program(name="rwndq", params=(("as_printed", 1),)),))
    done = run(PacketsimDatapath, scenario.replace(topology=printed), "newreno", max_epochs=50, until_done=False)
    assert done.records.ports.dropped_pkts.sum() > 100


def with_hooks(simulator: Simulator, **params: int) -> Simulator:
    """The simulator with the tests' own program (tests/native/test_program.h) in place of every RWNDQ."""
    program = filled(simulator.extension().ProgramSpec(), name="test_program", params=list(params.items()))
    return with_spec(simulator, programs=[[program]])


def test_every_hook_has_its_effect(simulator: Simulator) -> None:
    scenario = fixed(
        Dumbbell(pairs=1, host_rate_bps=2e9, programs=RWNDQ), flow("s0", "r0", 600 * MSS), routing="symmetric"
    )

    def done(**params: int) -> Run:
        return run(with_hooks(simulator, **params), scenario, "dctcp")

    plain = done()
    assert done(drop_every=100).records.ports.dropped_pkts.sum() >= 3 * (600 // 100)
    # Packets are marked from half the port's own threshold on, as they leave: the queue stays shorter.
    marked = done(mark_over_bytes=15_000).records
    assert marked.flows.ce_pkts[0] > 0
    assert marked.ports.queue_max_bytes.max() < plain.records.ports.queue_max_bytes.max()
    # One packet at a time, from the first timer on; what is below a packet counts as one.
    slow = [done(window_bytes=window, timer_ns=2_000_000).fct_s[0] for window in (1, 1500)]
    assert slow[0] == slow[1] > plain.fct_s[0]


@pytest.mark.parametrize("seed", range(2))
def test_both_simulators_call_every_hook_alike(seed: int) -> None:
    random = np.random.default_rng(2000 + seed)
    hooks = {"drop_every": 97, "mark_over_bytes": 5000, "window_bytes": 9000, "timer_ns": 200_000}
    sides = [with_hooks(each, **hooks) for each in (PacketsimDatapath, Ns3Datapath)]
    scenario, lost = random_case(random, random_topology(random).replace(programs=RWNDQ), routings=["symmetric"])
    run_alike(scenario, random_stack(random), max_epochs=2000, prepare=lost, simulators=sides)


def test_a_packet_that_pushes_out_all_others_is_sent_once(simulator: Simulator) -> None:
    """A buffer of one packet, in which the shorter flow's takes the place of the longer one's."""
    topology = ManyToOne(senders=2, buffer_bytes=1500, mark_threshold_bytes=0, programs=PFABRIC)
    flows = flow("s0", "receiver", 300 * MSS), flow("s1", "receiver", 100 * MSS, 2e-4)
    done = run(simulator, fixed(topology, *flows, transport=EACH_ACK), REMAINING)
    assert done.records.ports.dropped_pkts.sum() > 0
    assert np.isfinite(done.fct_s).all()


def test_the_most_urgent_flow_is_served_alone(simulator: Simulator) -> None:
    """Two flows meet in a queue of pFabric: the shorter one's completion time is what it is alone."""
    topology = ManyToOne(senders=2, buffer_bytes=36_000, mark_threshold_bytes=0, programs=PFABRIC)
    long, short = flow("s0", "receiver", 3_000_000), flow("s1", "receiver", 100 * MSS, 5e-3)
    alone = run(simulator, fixed(topology, short), REMAINING).fct_s[0]
    together = run(simulator, fixed(topology, long, short), REMAINING)
    one_packet_s = 1538 * 8e-9
    # It waits for at most the packet in transmission, once, and then follows itself as it would alone.
    assert alone <= together.fct_s[1] <= alone + one_packet_s
    plain = topology.replace(programs=())
    assert run(simulator, fixed(plain, long, short), REMAINING).fct_s[1] > 1.2 * alone
    # The long one ends when the line has carried both, but for what it takes to begin and to repair.
    assert together.fct_s[0] < 1.1 * (3_000_000 + 100 * MSS) / MSS * one_packet_s


def test_what_ranks_higher_pushes_out_what_ranks_lower(simulator: Simulator) -> None:
    # 24 packets of the buffer are full of the long flow's; the short one's first window takes their places.
    topology = ManyToOne(senders=2, buffer_bytes=36_000, mark_threshold_bytes=0, programs=PFABRIC)
    flows = flow("s0", "receiver", 3_000_000), flow("s1", "receiver", 30 * MSS, 5e-3)
    done = run(
        simulator, fixed(topology, *flows, transport=Transport(recovery="classic", initial_window_pkts=30)), REMAINING
    )
    assert done.records.ports.dropped_data_pkts.sum() > 0
    assert done.records.flows.retransmitted_pkts[1] == 0
    assert done.records.flows.retransmitted_pkts[0] > 0


def test_a_class_overtakes_those_after_it(simulator: Simulator) -> None:
    """By its size the longer flow has a lower class: only its packet in transmission delays the shorter one."""
    topology = ManyToOne(senders=2, buffer_bytes=400_000, mark_threshold_bytes=0, classes=2)
    flows = flow("s0", "receiver", 2_000_000), flow("s1", "receiver", 9_000, 4e-3)
    stack = HostStack(transport="newreno", tags="by_size", tag_params=(("from_2_bytes", 0),))
    alone = run(simulator, fixed(topology, flows[1]), stack).fct_s[0]
    assert run(simulator, fixed(topology, *flows), stack).fct_s[1] < alone + 2 * 1538 * 8e-9
    untagged = run(simulator, fixed(topology, *flows), "newreno").fct_s[1]
    assert untagged > 1.4 * alone


def test_symmetric_routes_bring_acks_back_the_same_way(simulator: Simulator) -> None:
    # A flow keeps one spine busy with data, and its ACKs come back over it; by ECMP some take the other.
    topology = LeafSpine(leaves=2, spines=2, hosts_per_leaf=4)
    flows = [flow(f"h0_{i}", f"h1_{i}", 200_000) for i in range(4)]
    network = topology.build()

    def lone_acks(routing: str) -> int:
        done = run(simulator, fixed(topology, *flows, routing=routing)).records.ports.tx_pkts
        up = [int(done[network.port(f"leaf0->spine{i}")]) for i in range(2)]
        down = [int(done[network.port(f"spine{i}->leaf0")]) for i in range(2)]
        return sum(back for out, back in zip(up, down, strict=True) if out == 0) + abs(
            (up[0] > up[1]) - (down[0] > down[1])
        )

    assert lone_acks("symmetric") == 0
    assert lone_acks("ecmp") > 0


def test_sprayed_packets_take_spines_in_turn(simulator: Simulator) -> None:
    topology = LeafSpine(leaves=2, spines=4, hosts_per_leaf=4)
    network = topology.build()
    done = run(simulator, fixed(topology, flow("h0_0", "h1_0", 400 * MSS), routing="spray"))
    assert done.records.flows.retransmitted_pkts[0] == 0
    for leaf in range(2):  # data up from leaf 0, ACKs from leaf 1
        up = [int(done.records.ports.tx_pkts[network.port(f"leaf{leaf}->spine{i}")]) for i in range(4)]
        assert sum(up) >= 200
        assert max(up) - min(up) <= 1


def started(scenario: Scenario, stack: HostStack = HostStack()) -> None:  # noqa: B008 - frozen
    PacketsimDatapath().start(scenario, scenario.flows(1), stack, 1)


FLOW = flow("s0", "r0", 10_000)
BAD: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "routes": (
        {"programs": RWNDQ},
        {},
        "Program rwndq needs ACKs to return .*routing is ecmp: set it to symmetric",
    ),
    "counts": (
        {"programs": RWNDQ},
        {"routing": "symmetric", "transport": Transport(recovery="classic", connections_per_pair=1)},
        "rwndq counts flows .* set Scenario.transport.handshake to true and connections_per_pair to 0",
    ),
    "two owners": (
        {"programs": (*PFABRIC, Program(name="trim"))},
        {},
        "pfabric and trim both own the queue of a port: leave one",
    ),
    "twice": (
        {"programs": (*RWNDQ, Program(name="rwndq", params=(("m", 1),)))},
        {"routing": "symmetric"},
        "Program rwndq is named twice for a port: leave one of them out",
    ),
    "both ways": (
        {"programs": (Program(name="letflow"), *RWNDQ)},
        {"routing": "symmetric"},
        "rwndq needs ACKs .* program letflow chooses the path of each packet: leave one",
    ),
    "classes": ({"programs": PFABRIC, "classes": 2}, {}, "pfabric owns the queue .* classes would too: leave one"),
    "a pool": ({"programs": PFABRIC, "shared_buffer_bytes": 10_000}, {}, "which shared_buffer_bytes would too"),
    "range": (
        {"programs": (Program(name="rwndq", params=(("target_pct", 91),)),)},
        {"routing": "symmetric"},
        "Parameter target_pct of program rwndq must be a whole number from 1 to 90 .* got 91",
    ),
}


for owner in ("fq_codel", "dwrr", "dualpi2"):
    alone, beside = (Program(name=owner),), (Program(name=owner), *PFABRIC)
    BAD[f"{owner} and classes"] = {"programs": alone, "classes": 2}, {}, f"{owner} owns .* classes would too"
    BAD[f"{owner} and pfabric"] = {"programs": beside}, {}, f"{owner} and pfabric both own the queue"
for chooser in ("spray", "symmetric"):
    said = f"letflow chooses among ways .*Scenario.routing {chooser}: set it to ecmp"
    BAD[f"letflow and {chooser}"] = {"programs": (Program(name="letflow"),)}, {"routing": chooser}, said


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_is_refused_with_the_remedy(name: str) -> None:
    topology, settings, said = BAD[name]
    with pytest.raises(ConfigError, match=said):
        started(fixed(Dumbbell(pairs=1, **topology), FLOW, **settings))


def test_unknown_names_are_listed() -> None:
    with pytest.raises(UnknownNameError, match=r"program of a switch 'red'.*pfabric.*rwndq"):
        started(fixed(Dumbbell(pairs=1, programs=(Program(name="red"),)), FLOW))
    with pytest.raises(UnknownNameError, match=r"tags 'srpt'.*pias"):
        started(fixed(Dumbbell(pairs=1), FLOW), HostStack(tags="srpt"))


def test_linux_refuses_by_name_what_it_does_not_run() -> None:
    for name in ("pfabric", "letflow", "conga", "dualpi2", "int"):
        with pytest.raises(ConfigError, match=f"does not run program {name}: leave it out .* it runs qcn and rwndq"):
            check_rack(Dumbbell(pairs=1, programs=(Program(name=name),)).build(), Transport(recovery="classic"))
    with pytest.raises(ConfigError, match="runs one program at a port, got 2"):
        check_rack(Dumbbell(pairs=1, programs=2 * RWNDQ).build(), Transport(recovery="classic"))
    wrong = Program(name="rwndq", params=(("target_pct", 91),))
    with pytest.raises(ConfigError, match=r"must be a whole number from 1 to 90 .* got 91"):
        check_rack(Dumbbell(pairs=1, programs=(wrong,)).build(), Transport(recovery="classic"))
    with pytest.raises(ConfigError, match="every flow must open its own connection"):
        check_rack(Dumbbell(pairs=1, programs=RWNDQ).build(), Transport(recovery="classic", connections_per_pair=1))
    for name in ("dcqcn", "hpcc", "powertcp", "prague"):
        with pytest.raises(ConfigError, match=rf"Controller {name} needs a timer, telemetry or ECT\(1\), which"):
            check_stack(HostStack(transport=name))
    with pytest.raises(UnknownNameError, match=r"tags 'srpt'.*pias"):
        check_stack(HostStack(transport="cubic", tags="srpt"))
    with pytest.raises(ConfigError, match="after_1_pkts of tags pias must be a whole number from 0"):
        check_stack(HostStack(transport="cubic", tags="pias", tag_params=(("after_1_pkts", -1),)))
