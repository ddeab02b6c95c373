# SPDX-License-Identifier: BSD-3-Clause
"""FlashPass, and first windows that were not asked for (Aeolus): worked examples, losses, both simulators alike."""

from typing import Any

import numpy as np
import pytest

from ncc.core.topologies import ManyToOne
from ncc.core.topology import Program
from ncc.core.units import GBPS, MS, US
from ncc.envs.native.base import NativeDatapath
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.datapath import HostStack
from tests.datapaths.runs import MSS, SHAPED_FRAC, Simulator, carrying, drops, engine, flow, run
from tests.datapaths.test_expresspass import CREDITS_SHARE, loses
from tests.datapaths.test_same_packets import random_flows, random_topology, run_alike

SELECTIVE = (Program(name="selective"),)


def star(senders: int, delay_s: float = 5 * US, **settings: Any) -> ManyToOne:
    values = {"rate_bps": 10 * GBPS, "delay_s": delay_s, "mark_threshold_bytes": 0, "shaped_frac": SHAPED_FRAC}
    return ManyToOne(senders=senders, **(values | settings))


def stack(transport: str = "flashpass", **params: int) -> HostStack:
    values = {"jitter_permille": 0, "timeout_ns": 2_000_000} | params
    return HostStack(transport=transport, params=tuple(values.items()))


def test_data_leaves_exactly_when_its_request_said(simulator: Simulator) -> None:
    """The request of the only packet leaves at 1 ns; the packet `wait` later, over two idle links."""
    done = run(simulator, carrying(star(1), flow("s0", "receiver", MSS)), stack(wait_ns=300_000))
    assert done.fct_s[0] == pytest.approx(1e-9 + 300e-6 + 2 * (1538 * 0.8e-9 + 5 * US), abs=2e-9)


def test_rehearsed_data_of_unequal_delays_does_not_crush(simulator: Simulator) -> None:
    """The two flows of `test_credits_of_unequal_delays_crush`."""
    n = 1541
    topology = star(3, 1 * US, last_delay_s=2 * MS, buffer_bytes=10**8, shaped_frac=CREDITS_SHARE)
    flows = flow("s2", "receiver", n * MSS), flow("s1", "receiver", n * MSS, 3 * MS)
    done = run(simulator, carrying(topology, *flows, shaped_frac=CREDITS_SHARE), stack(timeout_ns=100_000_000))
    assert done.records.ports.queue_max_bytes.max() <= 2 * 1500
    assert done.records.ports.dropped_data_pkts.sum() == 0


def test_words_and_data_are_no_faster_than_the_shaped_queue() -> None:
    """Requests and packets fill the line for 20 ms. With gaps of 1297 in place of 1297.6 ns, packets would pile up."""
    topology = star(1, shaped_frac=CREDITS_SHARE)
    scenario = carrying(topology, flow("s0", "receiver", 15_413 * MSS), shaped_frac=CREDITS_SHARE)
    done = run(PacketsimDatapath, scenario, stack())
    assert done.records.ports.queue_max_bytes.max() <= 2 * 1500


def test_many_flows_lose_requests_and_no_data(simulator: Simulator) -> None:
    flows = [flow(f"s{i}", "receiver", 400 * MSS, i * 3e-6) for i in range(8)]
    done = run(simulator, carrying(star(8, buffer_bytes=40_000), *flows), stack(jitter_permille=100))
    assert done.records.ports.shaped_dropped_pkts.sum() > 100
    assert done.records.ports.dropped_data_pkts.sum() == 0
    assert done.records.flows.retransmitted_pkts.sum() == 0


def test_credits_that_come_late_are_used(simulator: Simulator) -> None:
    """At 1 Gbit/s words wait longer than `slack_ns` in queues. Their data goes at once, and all of the line is used."""
    topology = star(8, rate_bps=GBPS, buffer_bytes=20_000)
    flows = [flow(f"s{i}", "receiver", 100 * MSS) for i in range(8)]
    done = run(simulator, carrying(topology, *flows), stack(jitter_permille=100, timeout_ns=200_000_000))
    assert done.fct_s.max() < 1.2 * 800 * 1706 * 8 / GBPS
    assert done.records.ports.dropped_data_pkts.sum() == 0


def test_a_late_sender_asks_at_the_pace_of_its_data() -> None:
    """At 10 Mbit/s of 10 Gbit/s, a packet leaves every 1.2 ms: there are few requests more than packets."""
    scenario = carrying(star(1), flow("s0", "receiver", 60 * MSS))
    done = run(PacketsimDatapath, scenario, stack(), limits=np.full(scenario.n_agents, 1e7))
    assert done.records.flows.credits[0] < 10 * 60


@pytest.mark.parametrize(("transport", "words"), [("flashpass", 9), ("expresspass", 1)])
def test_a_first_window_fills_the_first_round_trip(simulator: Simulator, transport: str, words: int) -> None:
    """A short flow then takes its own time on the wire, and that of its requests, instead of a round trip more."""
    scenario = carrying(star(1, 20 * US, programs=SELECTIVE), flow("s0", "receiver", 10 * MSS))
    asked = run(simulator, scenario, stack(transport))
    blind = run(simulator, scenario, stack(transport, blind_pkts=1000))
    assert blind.fct_s[0] == pytest.approx((11 * 1538 + words * 84) * 0.8e-9 + 40 * US, abs=3e-9)
    assert asked.fct_s[0] > blind.fct_s[0] + 40 * US
    assert blind.records.flows.retransmitted_pkts[0] == 0


@pytest.mark.parametrize("transport", ["flashpass", "expresspass"])
def test_first_windows_lose_to_what_was_asked_for(simulator: Simulator, transport: str) -> None:
    """Eight first windows meet at a port, which keeps two packets of them and drops the rest; all flows end."""
    flows = [flow(f"s{i}", "receiver", 60 * MSS) for i in range(8)]
    topology = star(8, 20 * US, programs=SELECTIVE)
    done = run(simulator, carrying(topology, *flows), stack(transport, blind_pkts=1000))
    assert 100 < done.records.ports.dropped_data_pkts.sum() <= done.records.flows.retransmitted_pkts.sum()
    assert done.records.flows.timeouts.sum() == 0
    assert np.isfinite(done.fct_s).all()


@pytest.mark.parametrize("nth", [1, 2, 3, 6, 19, 20, 21, 22])
@pytest.mark.parametrize(("port", "control"), [("tor->receiver", True), ("tor->receiver", False), ("tor->s0", True)])
@pytest.mark.parametrize(
    ("transport", "blind"), [("flashpass", 0), ("flashpass", 8), ("expresspass", 0), ("expresspass", 8)]
)
def test_one_packet_of_any_kind_is_lost(transport: str, blind: int, port: str, control: bool, nth: int) -> None:
    """A word to the receiver; data; a word to the sender: the flow and both ends end."""
    scenario = carrying(star(1, programs=SELECTIVE), flow("s0", "receiver", 20 * MSS))
    datapath = PacketsimDatapath()
    datapath.start(scenario, scenario.flows(1), stack(transport, blind_pkts=blind), 1)
    loses(scenario, port, nth, control=control)(datapath)
    for _ in range(100):
        datapath.step(np.array([np.inf]))
    assert np.isfinite(datapath.finish().flows.finish_s[0])
    assert engine(datapath).live_connections == 0
    datapath.close()


def test_requests_that_were_lost_are_not_certain() -> None:
    """The first two are lost, and where expendable words find no room (`selective_pkts`), so would be all others."""
    scenario = carrying(star(1, selective_pkts=0), flow("s0", "receiver", MSS))
    for nth in 1, 2:

        def prepare(datapath: NativeDatapath, most: int = nth) -> None:
            for each in range(1, most + 1):
                loses(scenario, "tor->receiver", each, control=True)(datapath)

        assert run(PacketsimDatapath, scenario, stack(), prepare=prepare).fct_s[0] < 0.01


def test_a_small_flow_asks_seldom_on_a_long_way() -> None:
    """An RTT of 40 ms takes 29,000 requests; a flow of one packet has the answer of at most 65 on their way."""
    scenario = carrying(star(1, 10 * MS), flow("s0", "receiver", MSS))
    done = run(PacketsimDatapath, scenario, stack(timeout_ns=200_000_000))
    assert done.fct_s[0] == pytest.approx(60e-3, rel=2e-3)
    assert done.records.flows.credits[0] <= 65


@pytest.mark.parametrize("transport", ["flashpass", "expresspass"])
def test_a_repair_that_is_lost_goes_again(transport: str) -> None:
    """The tenth packet and one of the next are lost, and this one is in one of the runs the tenth's repair."""
    scenario = carrying(star(1), flow("s0", "receiver", 400 * MSS))
    clean = run(PacketsimDatapath, scenario, stack(transport))
    for nth in range(11, 80):
        done = run(PacketsimDatapath, scenario, stack(transport), prepare=drops(scenario, tor__receiver=(10, nth)))
        assert done.records.flows.timeouts[0] == 0
        assert done.records.flows.retransmitted_pkts[0] == 2
        assert done.fct_s[0] < clean.fct_s[0] + 100 * US


@pytest.mark.parametrize("seed", range(6))
def test_both_simulators_do_the_same(seed: int) -> None:
    random = np.random.default_rng(8000 + seed)
    topology = random_topology(random).replace(
        shaped_frac=SHAPED_FRAC, control_first=False, shared_buffer_bytes=0, red=None, programs=SELECTIVE
    )
    scenario = carrying(topology, *random_flows(random, topology.build()))
    ports = [i for i in range(2 * len(scenario.network().links)) if scenario.network().port_buffer(i) is not None]
    port = scenario.network().port_name(int(random.choice(ports)))
    lost = loses(scenario, port, int(random.integers(1, 30)), control=bool(seed % 2))
    transport = ["flashpass", "flashpass", "expresspass"][seed % 3]
    params = {"jitter_permille": 100, "blind_pkts": 1000 * (seed % 3)}
    done = run_alike(scenario, stack(transport, **params), max_epochs=3000, prepare=lost)
    assert np.isfinite(done.fct_s).all()
