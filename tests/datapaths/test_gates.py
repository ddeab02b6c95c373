# SPDX-License-Identifier: BSD-3-Clause
"""Gates: knowledge of receivers, and obedience of their senders."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.measurement import Measurement
from ncc.core.receivers import Grants
from ncc.core.scenario import Nic, Scenario, Transport
from ncc.core.topologies import ManyToOne
from ncc.core.units import US
from ncc.envs.native.base import NativeDatapath
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.datapath import HostStack
from tests.datapaths.runs import Run, Simulator, drops, engine, fixed, flow, run
from tests.datapaths.test_same_packets import random_flows, random_port, random_topology, random_transport

STAR = ManyToOne(senders=3, rate_bps=1e9, delay_s=5 * US)
HOLD = HostStack(hold=True)
RECEIVER, S0, S1 = 1, 2, 3
"""Nodes of the star."""

Tell = Callable[[int, Measurement], Grants | None]


def grant(*rows: tuple[int, int, float, float, int]) -> Grants:
    """Messages (source, destination, start, rate, window)."""
    src, dst, start_s, rate_bps, window = (np.array(column) for column in zip(*rows, strict=True))
    return Grants(src, dst, start_s.astype(float), rate_bps.astype(float), window)


def told(simulator: Simulator, scenario: Scenario, tell: Tell, stack: HostStack = HOLD, **how: Any) -> Run:
    return run(simulator, scenario, stack, tell=tell, **how)


def star(*sizes: int, **settings: Any) -> Scenario:
    flows = [flow(f"s{i}", "receiver", size) for i, size in enumerate(sizes)]
    return fixed(STAR, *flows, **({"period_s": 1e-4, "neighbourhoods": "receivers"} | settings))


def test_a_held_flow_begins_at_the_start_that_it_is_told(simulator: Simulator) -> None:
    def tell(epoch: int, _: Measurement) -> Grants | None:
        return grant((S0, RECEIVER, 3e-3, np.inf, 0)) if epoch == 1 else None

    early, held = (told(simulator, star(20_000), tell, stack) for stack in (HostStack(), HOLD))
    assert early.fct_s[0] < 5e-4
    # The first packet leaves at 3 ms: 14 packets cross two links of 1 Gbit/s and two of 5 us.
    assert 3e-3 + 14 * 1538 * 8e-9 < held.fct_s[0] < 3e-3 + 4e-4
    assert held.records.flows.timeouts[0] == 0, "data that is held cannot be lost"
    assert early.records.flows.sent_pkts[0] == held.records.flows.sent_pkts[0]


@pytest.mark.parametrize("recovery", ["classic", "modern"])
def test_holding_for_many_timeouts_is_no_timeout(simulator: Simulator, recovery: str) -> None:
    transport = Transport(min_rto_s=1e-3, initial_rto_s=1e-3, recovery=recovery)  # type: ignore[arg-type]
    done = told(
        simulator,
        star(200_000, transport=transport),
        lambda epoch, _: grant((S0, RECEIVER, 50e-3, np.inf, 0)) if epoch == 1 else None,
    )
    assert done.records.flows.timeouts[0] == 0
    assert done.records.flows.retransmitted_pkts[0] == 0
    assert 50e-3 < done.fct_s[0] < 55e-3


def test_the_rate_of_a_pair_is_that_of_its_packets(simulator: Simulator) -> None:
    """100 Mbit/s of IP packets for one sender; the other has what it likes."""
    done = told(
        simulator,
        star(300_000, 300_000),
        lambda epoch, _: grant((S0, RECEIVER, 0.0, 100e6, 0)) if epoch == 2 else None,
        HostStack(),
    )
    slow, fast = done.fct_s
    assert slow > 3 * fast
    rate_bps = done.column("throughput_bps")[:, 0]  # of IP packets, to all destinations
    steady = rate_bps[15:100].mean()
    assert steady == pytest.approx(100e6, rel=0.03)
    assert done.records.flows.timeouts.sum() == 0


@pytest.mark.parametrize("recovery", ["classic", "modern"])
def test_a_window_bounds_what_is_not_acknowledged(simulator: Simulator, recovery: str) -> None:
    """2 packets in an RTT: 206 packets need more than 100 round trips."""
    scenario = star(300_000, transport=Transport(recovery=recovery))  # type: ignore[arg-type]
    done = told(simulator, scenario, lambda epoch, _: grant((S0, RECEIVER, 0.0, np.inf, 2)) if epoch == 1 else None)
    rtt_s = float(done.records.flows.rtt_min_s[0])
    assert done.fct_s[0] > 100 * rtt_s
    free = told(simulator, scenario, lambda epoch, _: grant((S0, RECEIVER, 0.0, np.inf, 0)) if epoch == 1 else None)
    assert free.fct_s[0] < 0.7 * done.fct_s[0]


def test_what_is_told_ends_with_the_last_flow_of_the_pair(simulator: Simulator) -> None:
    scenario = fixed(
        STAR,
        flow("s0", "receiver", 14_600),
        flow("s0", "receiver", 146_000, 0.01),
        period_s=1e-4,
        neighbourhoods="receivers",
    )
    done = told(
        simulator,
        scenario,
        lambda epoch, _: grant((S0, RECEIVER, 0.0, 50e6, 1)) if epoch == 1 else None,
        HostStack(),
    )
    assert done.fct_s[1] < 2e-3


def test_edges_are_what_has_been_heard_of_and_not_received(simulator: Simulator) -> None:
    done = told(simulator, star(100_000, 50_000), lambda *_: None, HostStack())
    first, second = done.epochs[0].edges, done.epochs[1].edges
    assert len(first) == 0, "nothing has arrived at time 0"
    assert [*zip(second.src, second.dst, second.flows, strict=True)] == [(S0, RECEIVER, 1), (S1, RECEIVER, 1)]
    np.testing.assert_array_equal(second.waiting_bytes + second.received_bytes, [100_000, 50_000])
    np.testing.assert_array_equal(second.next_bytes, second.waiting_bytes)
    # A SYN of 78 bytes on the wire crosses two links of 1 Gbit/s and 5 us.
    np.testing.assert_allclose(second.age_s, 1e-4 - (2 * 5e-6 + 2 * 78 * 8e-9), atol=1e-6)
    received = [m.edges.received_bytes[m.edges.src == S0].sum() for m in done.epochs[1:-1]]
    assert np.all(np.diff(received[: len(received) - 1]) >= 0)
    assert len(done.epochs[-1].edges) == 0


def test_without_a_handshake_a_note_tells_of_a_flow(simulator: Simulator) -> None:
    scenario = star(20_000, transport=Transport(recovery="classic", handshake=False))
    done = told(
        simulator,
        scenario,
        lambda _, m: grant((S0, RECEIVER, 2e-3, np.inf, 0)) if len(m.edges) and m.epoch == 1 else None,
    )
    assert 2e-3 < done.fct_s[0] < 2.5e-3
    # A note of 52 + 38 bytes crosses two links of 1 Gbit/s and 5 us.
    assert done.epochs[1].edges.age_s[0] == pytest.approx(1e-4 - (2 * 5e-6 + 2 * 90 * 8e-9), abs=1e-6)


def test_messages_are_packets_and_take_the_time_of_one(simulator: Simulator) -> None:
    """The receiver's port carries one packet of 52 bytes more for each message; an oracle's carries none."""
    tx_bytes, fcts = [], []
    for stack, n in ((HOLD, 1), (HOLD, 3), (HostStack(hold=True, messages="instant"), 1)):
        done = told(
            simulator,
            star(20_000, period_s=1e-3),
            lambda epoch, _, n=n: grant(*[(S0, RECEIVER, 0.0, np.inf, 0)] * n) if epoch == 1 else None,  # type: ignore[misc]
            stack,
        )
        port = star(1).network().host_link(RECEIVER)
        ports = done.records.ports.tx_bytes
        index = 2 * star(1).network().links.index(port) + (port.a != RECEIVER)
        tx_bytes.append(ports[index])
        fcts.append(done.fct_s[0])
    assert tx_bytes[1] - tx_bytes[0] == 2 * 52
    assert tx_bytes[0] - tx_bytes[2] == 52
    assert fcts[0] - fcts[2] == pytest.approx(2 * 5e-6 + 2 * 90 * 8e-9, abs=1e-6)


def test_an_oracle_knows_of_flows_at_once(simulator: Simulator) -> None:
    done = told(
        simulator,
        star(20_000, period_s=1e-4),
        lambda epoch, _: grant((S0, RECEIVER, 0.0, np.inf, 0)) if epoch == 1 else None,
        HostStack(hold=True, messages="instant"),
    )
    assert done.epochs[1].edges.age_s[0] == pytest.approx(1e-4, abs=1e-9)


def test_a_lost_message_leaves_the_flow_to_its_patience(simulator: Simulator) -> None:
    """A message that never comes, as for a receiver that died: no host waits for longer than two periods."""
    scenario = fixed(STAR, flow("s0", "receiver", 20_000), period_s=1e-3, neighbourhoods="receivers")
    done = told(simulator, scenario, lambda *_: None)
    assert 2e-3 < done.fct_s[0] < 2e-3 + 1e-3
    queue_s = STAR.buffer_bytes * 8e-9
    noted = told(simulator, scenario.replace(transport=Transport(recovery="classic", handshake=False)), lambda *_: None)
    assert 2e-3 + queue_s < noted.fct_s[0] < 2e-3 + queue_s + 1e-3
    assert done.records.flows.timeouts[0] == 0


@pytest.mark.parametrize(
    ("rows", "named"),
    [
        ((0, RECEIVER, 0.0, 1e9, 0), "src must be a host"),
        ((S0, 99, 0.0, 1e9, 0), "dst must be a host"),
        ((S0, S0, 0.0, 1e9, 0), "tells itself nothing"),
        ((S0, RECEIVER, np.nan, 1e9, 0), "start_s must be a time"),
        ((S0, RECEIVER, np.inf, 1e9, 0), "start_s must be a time"),
        ((S0, RECEIVER, 0.0, 0.0, 0), "rate_bps must be above 0"),
        ((S0, RECEIVER, 0.0, np.nan, 0), "rate_bps must be above 0"),
        ((S0, RECEIVER, 0.0, 1e9, -1), "window_pkts must be from 0"),
    ],
)
def test_a_message_that_says_nothing_is_refused(rows: tuple[int, int, float, float, int], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        grant(rows).check(STAR.build())


def test_columns_of_unequal_length_are_refused() -> None:
    good = grant((S0, RECEIVER, 0.0, 1e9, 0))
    with pytest.raises(ConfigError, match="one length"):
        Grants(good.src, good.dst, good.start_s, np.zeros(2), good.window_pkts).check(STAR.build())


def test_messages_need_receivers(simulator: Simulator) -> None:
    scenario = star(20_000, neighbourhoods="uplink")
    with pytest.raises(ConfigError, match="hold needs receivers"):
        told(simulator, scenario, lambda *_: None)
    with pytest.raises(ConfigError, match="Grants need receivers"):
        told(simulator, scenario, lambda *_: grant((S0, RECEIVER, 0.0, 1e9, 0)), HostStack())


def test_receivers_alone_leave_hosts_without_limits(datapath: NativeDatapath) -> None:
    scenario = star(20_000)
    datapath.start(scenario, scenario.flows(1), HOLD, 1)
    with pytest.raises(ConfigError, match="hosts have no limits"):
        datapath.step(np.full(scenario.n_agents, 1e9))
    both = scenario.replace(neighbourhoods="both")
    datapath.start(both, both.flows(1), HOLD, 1)
    datapath.step(np.full(scenario.n_agents, 1e9))


@pytest.mark.parametrize("transport", ["dctcp", "cubic", "bbr"])
def test_gates_that_nobody_uses_change_no_packet(simulator: Simulator, transport: str) -> None:
    random = np.random.default_rng(5)
    network = STAR.build()
    flows = random_flows(random, network)
    with_gates, without = (
        told(
            simulator,
            fixed(STAR, *flows, period_s=1e-4, neighbourhoods=where),
            lambda *_: None,
            HostStack(transport=transport),
        )
        for where in ("receivers", "uplink")
    )
    np.testing.assert_array_equal(with_gates.records.flows.finish_s, without.records.flows.finish_s)
    np.testing.assert_array_equal(with_gates.records.ports.queue_max_bytes, without.records.ports.queue_max_bytes)


@pytest.mark.parametrize("seed", range(3000, 3016))
def test_both_simulators_hold_alike(seed: int) -> None:
    """Random networks, random messages: the same packets, and the same edges."""
    from ncc.envs.ns3 import Ns3Datapath

    random = np.random.default_rng(seed)
    topology = random_topology(random)
    network = topology.build()
    transport = random_transport(random, 0.0).replace(connections_per_pair=seed % 2, handshake=bool(seed % 3))
    settings: dict[str, Any] = {
        "transport": transport,
        "period_s": 3.7e-4,
        "nic": Nic(bucket_bytes=2 * transport.mtu_bytes, small_queue_bytes=4 * transport.mtu_bytes),
    }
    faults = {"sharing_unsynchronised": seed % 3 == 1, "sharing_delay_periods": 1 + seed % 2, "sharing_loss_frac": 0.1}
    scenario = fixed(topology, *random_flows(random, network), neighbourhoods="both", **settings, **faults)
    dropped = drops(scenario, **{random_port(random, network): int(random.integers(1, 60))})

    def tell_as(draw: np.random.Generator) -> Tell:
        def tell(_: int, m: Measurement) -> Grants | None:
            n = len(m.edges)
            which = draw.permutation(n)[: int(draw.integers(0, n + 1))]
            if len(which) == 0:
                return None
            return Grants(
                m.edges.src[which],
                m.edges.dst[which],
                m.time_s + draw.choice([-1e-3, 0.0, 1.1e-4, 2.5e-3], len(which)),
                draw.choice([3e7, 2e8, 9e8, np.inf], len(which)),
                draw.choice([0, 1, 3, 10], len(which)),
            )

        return tell

    hold, instant = bool(seed % 4), seed % 5 == 0
    answer_frac = (seed % 3) / 4 if hold and not instant else None
    stack = HostStack(hold=hold, answer_frac=answer_frac, messages="instant" if instant else "packets")
    pair = [
        told(each, scenario, tell_as(np.random.default_rng(seed)), stack, prepare=dropped, max_epochs=2000)
        for each in (PacketsimDatapath, Ns3Datapath)
    ]
    ours, theirs = pair
    np.testing.assert_allclose(ours.records.flows.finish_s, theirs.records.flows.finish_s, atol=2e-9, rtol=0)
    np.testing.assert_array_equal(ours.records.ports.tx_bytes, theirs.records.ports.tx_bytes)
    for a, b in zip(ours.epochs, theirs.epochs, strict=True):
        for name in ("src", "dst", "flows"):
            np.testing.assert_array_equal(getattr(a.edges, name), getattr(b.edges, name))
        np.testing.assert_allclose(a.edges.age_s, b.edges.age_s, atol=1e-8)
        np.testing.assert_array_equal(a.edges.waiting_bytes, b.edges.waiting_bytes)
        np.testing.assert_array_equal(a.held_flows, b.held_flows)


def test_every_packet_and_message_is_accounted_for() -> None:
    scenario = star(100_000, 100_000, 100_000)
    datapath = PacketsimDatapath()
    datapath.start(scenario, scenario.flows(1), HOLD, 1)
    for epoch in range(60):
        if epoch % 3 == 1:
            datapath.tell(grant(*[(src, RECEIVER, 5e-4 * src, 5e8, 0) for src in (2, 3, 4)]))
        datapath.step(np.full(scenario.n_agents, np.inf))
    audit = engine(datapath).audit()
    assert audit["sent"] == audit["arrived"] + audit["dropped"] + audit["in_hosts"] + audit["on_links"]
    assert audit["dropped"] == 0
    assert isinstance(datapath.finish().flows.finish_s, np.ndarray)
    assert engine(datapath).messages >= 3
    datapath.close()
