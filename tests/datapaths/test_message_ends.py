# SPDX-License-Identifier: BSD-3-Clause
"""The ends of message transports, by a transport that does what tests say (tests/native/test_transport.h)."""

from typing import Any

import numpy as np
import pytest

from ncc.core.scenario import Scenario
from ncc.core.topologies import ManyToOne
from ncc.core.topology import Program
from ncc.core.units import GBPS, US
from ncc.envs.native.extension import filled
from ncc.envs.ns3 import Ns3Datapath
from ncc.envs.packetsim import PacketsimDatapath
from tests.datapaths.runs import MSS, Run, Simulator, drops, fixed, flow, run, with_spec
from tests.datapaths.test_same_packets import random_case, random_topology, run_alike

WIRE_S = 1538 * 8 / GBPS
"""Time of a full packet on the wire."""
WORD_S = (46 + 38) * 8 / GBPS
LINK_S = 10 * US
RTT_S = 2 * WIRE_S + 2 * WORD_S + 4 * LINK_S
"""From a packet to its ACK, over both links."""
SWITCH: dict[str, Any] = {"rate_bps": GBPS, "delay_s": LINK_S, "buffer_bytes": 400_000, "mark_threshold_bytes": 0}
ALONE = ManyToOne(senders=1, **SWITCH)
NS = 1e-9


def asking(simulator: Simulator, **params: int) -> Simulator:
    """The simulator with the message transport of tests in place of any other."""
    return with_spec(simulator, transport="test_transport", params=list(params.items()))


def lone(simulator: Simulator, pkts: int, *, lost: tuple[int, ...] = (), **params: int) -> Run:
    """A flow alone that loses the nth packets of data at the port to its receiver."""
    scenario = fixed(ALONE, flow("s0", "receiver", pkts * MSS))
    return run(asking(simulator, **params), scenario, prepare=drops(scenario, tor__receiver=lost))


@pytest.mark.parametrize("size_bytes", [1, MSS, MSS + 1, 20 * MSS])
def test_a_window_is_as_fast_as_its_wire(simulator: Simulator, size_bytes: int) -> None:
    done = run(asking(simulator, window_pkts=20), fixed(ALONE, flow("s0", "receiver", size_bytes, 1e-4)))
    full, last_s = (size_bytes - 1) // MSS, ((size_bytes - 1) % MSS + 1 + 78) * 8 / GBPS
    wires_s = (full + 1) * WIRE_S + last_s if full else 2 * last_s  # behind a full one, it waits for the second wire
    assert done.fct_s[0] == pytest.approx(wires_s + 2 * LINK_S, abs=2 * NS)
    assert done.records.flows.sent_pkts[0] == full + 1


def test_each_permission_is_one_transmission(simulator: Simulator) -> None:
    """With one at a time, each packet but the last takes a round trip."""
    done = lone(simulator, 5, window_pkts=1)
    assert done.fct_s[0] == pytest.approx(4 * RTT_S + 2 * WIRE_S + 2 * LINK_S, abs=20 * NS)


def test_a_permission_waits_for_its_time(simulator: Simulator) -> None:
    """The first two may go at 0.5 ms, and their ACKs permit the others at 1 and 1.5 ms."""
    done = lone(simulator, 4, window_pkts=2, pace_ns=500_000)
    assert done.fct_s[0] == pytest.approx(3 * 0.5e-3 + 2 * WIRE_S + 2 * LINK_S, abs=2 * NS)
    assert lone(simulator, 4, window_pkts=2).fct_s[0] < 2 * RTT_S


@pytest.mark.parametrize(("lost", "timeouts"), [((1,), 1), ((8,), 1), ((3, 5), 1), ((1, 9), 2)])
def test_what_was_lost_goes_again_after_silence(simulator: Simulator, lost: tuple[int, ...], timeouts: int) -> None:
    """The flow has 8 packets; the 9th at the port is the first that is sent again."""
    done = lone(simulator, 8, lost=lost, timeout_ns=2_000_000)
    assert done.records.flows.retransmitted_pkts[0] == len(lost)
    assert done.records.flows.timeouts[0] == timeouts
    silence_s = (2**timeouts - 1) * 2e-3  # twice as long after each
    assert silence_s < done.fct_s[0] < silence_s + 4 * RTT_S


def test_a_probe_tells_of_every_hole(simulator: Simulator) -> None:
    """It comes behind the last packet of the window; what it finds missing is sent once, a round trip later."""
    done = lone(simulator, 8, lost=(1, 2, 5, 8), probe=1, timeout_ns=50_000_000)
    assert done.records.flows.retransmitted_pkts[0] == 4
    assert done.records.flows.timeouts[0] == 0
    assert done.fct_s[0] < 14 * WIRE_S + 2 * RTT_S


def test_the_first_word_voids_what_has_not_left(simulator: Simulator) -> None:
    """The PROBE that was to follow the window of 100 packets follows those that have left instead."""
    plain = lone(simulator, 100, window_pkts=100)
    done = lone(simulator, 100, window_pkts=100, revoke=1, probe=1)
    words = done.records.ports.tx_pkts - plain.records.ports.tx_pkts
    assert words.tolist() == [1, 1, 1, 1]  # it and its answer, on each link
    found = lone(simulator, 100, lost=(3,), window_pkts=100, revoke=1, probe=1, timeout_ns=50_000_000)
    assert found.records.flows.retransmitted_pkts[0] == 1
    assert found.fct_s[0] < plain.fct_s[0] + 2 * WIRE_S


def test_a_receiver_takes_turns_and_serves_the_shortest(simulator: Simulator) -> None:
    """Pulls of a host are `turn_ns` apart, whichever flow they are for; the flow with less missing is served first."""
    topology = ManyToOne(senders=2, **SWITCH)
    flows = flow("s0", "receiver", 60 * MSS), flow("s1", "receiver", 20 * MSS)
    done = run(asking(simulator, window_pkts=4, turn_ns=50_000), fixed(topology, *flows))
    pulled = (60 - 4) + (20 - 4)
    assert done.fct_s.max() == pytest.approx(pulled * 50e-6, rel=0.1)
    assert done.fct_s[1] < 0.4 * done.fct_s[0]


def test_a_limit_holds_below_a_message_transport(simulator: Simulator) -> None:
    scenario = fixed(ALONE, flow("s0", "receiver", 200 * MSS))
    done = run(asking(simulator, window_pkts=200), scenario, limits=np.full(scenario.n_agents, 1e8))
    assert done.fct_s[0] == pytest.approx((200 - 2) * 1500 * 8 / 1e8, rel=0.01)  # but for the bucket


def test_data_is_late_from_when_there_is_some(simulator: Simulator) -> None:
    """Permissions of the first ACKs are left over when the last packet has left, and nothing is late.

    The NACK of packets 0 to 5 comes then, and fills the host's queue; that of packet 7 comes a word later.
    """
    scenario = fixed(ALONE, flow("s0", "receiver", 12 * MSS))
    lost = drops(scenario, tor__receiver=(1, 2, 3, 4, 5, 6, 8))
    sender = asking(simulator, window_pkts=12, probe=1, timeout_ns=50_000_000, late=1)
    done = run(sender, scenario, prepare=lost, limits=np.full(scenario.n_agents, 1e8))
    left_over = (12 + 11 + 7) - (12 + 7)  # permissions: the window, an ACK each but the last, and NACKs; transmissions
    assert done.records.flows.wasted_credits[0] == pytest.approx(WORD_S / NS + left_over, abs=2)


@pytest.mark.parametrize("seed", range(8))
def test_both_simulators_carry_the_same_messages(seed: int) -> None:
    """Random networks that lose every kind of packet, or trim; in half of them beside TCP."""
    random = np.random.default_rng(6000 + seed)
    name, params = [("test_program", {"drop_one_in": 97}), ("trim", {"over_bytes": 4500})][seed // 2 % 2]
    topology = random_topology(random).replace(
        programs=(Program(name="codel"),), control_first=False, shared_buffer_bytes=0, red=None
    )
    scenario, _ = random_case(random, topology, routings=["symmetric"], transport={"handshake": False})
    settings = {"window_pkts": 6, "turn_ns": 20_000 * (seed % 3), "pace_ns": 700 * (seed % 2), "probe": seed // 4}
    sides = []
    for each in (PacketsimDatapath, Ns3Datapath):
        own = filled(each.extension().StackSpec(), transport="test_transport", params=list(settings.items()))
        program = filled(each.extension().ProgramSpec(), name=name, params=list(params.items()))
        side = with_spec(asking(each, **settings), programs=[[program]])
        sides.append(with_stack(with_spec(each, programs=[[program]]), own) if seed % 2 else side)
    done = run_alike(scenario, "newreno", max_epochs=1000, simulators=sides)
    assert np.isfinite(done.fct_s).all()


def with_stack(simulator: Simulator, stack: Any) -> Simulator:
    """The simulator with a stack for every second flow."""

    class Changed(simulator):  # type: ignore[valid-type, misc]
        @classmethod
        def spec_of(cls, scenario: Scenario, flows: Any, *rest: Any) -> Any:
            spec = filled(super().spec_of(scenario, flows, *rest), stacks=[stack])
            spec.set_stack_of((np.arange(len(flows)) % 2).astype(np.uint8))
            return spec

    return Changed
