# SPDX-License-Identifier: BSD-3-Clause
"""Ports that pause what comes over their links (PFC): nothing is lost, and the same on every simulator."""

from typing import Any

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.scenario import Transport
from ncc.core.topologies import LeafSpine, ManyToOne, TwoDatacentres
from ncc.core.topology import Program
from ncc.envs.native.extension import filled
from ncc.envs.packetsim import PacketsimDatapath
from tests.datapaths.runs import MSS, Simulator, fixed, flow, run
from tests.datapaths.test_same_packets import (
    run_alike,
)

FRAME_BYTES = 1538
AT_ONCE = Transport(recovery="classic", initial_window_pkts=1000, min_rto_s=0.5, initial_rto_s=0.5)


def pfc(xoff_bytes: int = 6000, **params: int) -> tuple[Program, ...]:
    return (Program(name="pfc", params=(("xoff_bytes", xoff_bytes), *params.items())),)


def incast(senders: int, programs: tuple[Program, ...]) -> ManyToOne:
    return ManyToOne(
        senders=senders, delay_s=2e-6, buffer_bytes=800_000, mark_threshold_bytes=0, programs=programs
    )  # fmt: skip


def test_64_to_1_loses_nothing_and_pauses_alike() -> None:
    flows = [flow(f"s{i}", "receiver", 100_000) for i in range(64)]

    def scenario(programs: tuple[Program, ...]) -> Any:
        return fixed(incast(64, programs), *flows, transport=AT_ONCE)

    assert run(PacketsimDatapath, scenario(()), "newreno").records.ports.dropped_pkts.sum() > 1000
    paused = run_alike(scenario(pfc()), "newreno").records
    assert paused.ports.dropped_pkts.sum() == 0
    assert paused.flows.retransmitted_pkts.sum() == 0
    assert (paused.ports.paused_s > 0).sum() == 64
    # The receiver's line never idles: the last flow is over when it has carried all of them.
    assert np.nanmax(paused.flows.finish_s) < 1.01 * 64 * (100_000 / MSS) * FRAME_BYTES * 8e-9


def test_each_of_two_is_paused_for_half_of_the_time(simulator: Simulator) -> None:
    """Both could fill the line. What one could have sent while it was paused is what the other did send."""
    packets = 800
    programs = pfc(90_000, xon_gap_bytes=60_000)  # long pauses, as a far end finishes its packet in each
    done = run(
        simulator,
        fixed(incast(2, programs), *(flow(f"s{i}", "receiver", packets * MSS) for i in range(2)), transport=AT_ONCE),
        "newreno",
    )
    one_packet_s = FRAME_BYTES * 8e-9
    paused_s = done.records.ports.paused_s[done.records.ports.paused_s > 0]
    # But for what waits at first and at the end, at most xoff and its headroom.
    np.testing.assert_allclose(paused_s, packets * one_packet_s, rtol=0.02, atol=64 * one_packet_s)
    np.testing.assert_allclose(done.fct_s, 2 * packets * one_packet_s, rtol=0.01, atol=64 * one_packet_s)


def test_a_pause_spreads_to_the_switch_before(simulator: Simulator) -> None:
    """Over a fabric, where the port to the receiver is two switches away from the hosts that are paused."""
    topology = LeafSpine(
        leaves=3, spines=1, hosts_per_leaf=4, host_rate_bps=1e9, spine_rate_bps=2e9, buffer_bytes=200_000,
        mark_threshold_bytes=0, programs=pfc(),
    )  # fmt: skip
    flows = [flow(f"h{leaf}_{i}", "h2_0", 400_000) for leaf in range(2) for i in range(4)]
    done = run(simulator, fixed(topology, *flows, transport=AT_ONCE), "newreno")
    assert done.records.ports.dropped_pkts.sum() == 0
    paused = {topology.build().port_name(int(i)) for i in np.flatnonzero(done.records.ports.paused_s)}
    assert {"leaf2->spine0", "spine0->leaf0", "leaf0->h0_0"} <= paused


def ring(simulator: Simulator, **params: int) -> Any:
    """Five switches in a circle, a host at each, which sends two switches on: each link waits for the next one."""
    n, module = 5, simulator.extension()
    host, port = module.QueueSpec(), filled(module.QueueSpec(), buffer_bytes=100_000, programs=0 if params else -1)

    def link(a: int, b: int, *queue: Any) -> Any:
        return filled(module.LinkSpec(), a=a, b=b, rate_bps=1e9, delay_ns=1000, queue=queue)

    around = [link(n + i, n + (i + 1) % n, port, port) for i in range(n)]
    spec = filled(
        module.Spec(),
        is_host=[1] * n + [0] * n,
        programs=[[filled(module.ProgramSpec(), name="pfc", params=list(params.items()))]] if params else [],
        links=[*(link(i, n + i, host, port) for i in range(n)), *around],
        transport="newreno",
        initial_window_pkts=1000,
    )
    spec.set_flows(np.zeros(n, np.int64), np.arange(n), (np.arange(n) + 2) % n, np.full(n, 3_000_000))
    return module.Network(spec)


def steps(network: Any, n: int = 200) -> None:
    for _ in range(n):
        network.step(np.zeros(0))


def test_a_cycle_of_pauses_is_a_deadlock_and_says_so(simulator: Simulator) -> None:
    paused = ring(simulator, xoff_bytes=1500, xon_gap_bytes=1500)
    with pytest.raises(RuntimeError, match=r"deadlock: ports 10, 12, 14, 16, 18 .* have paused each other"):
        steps(paused)
    del paused
    steps(ring(simulator))


def test_a_long_link_on_a_tree_is_no_deadlock(simulator: Simulator) -> None:
    """Over 4.85 ms a port is paused long after the far end has let it go on."""
    topology = TwoDatacentres(
        hosts=4, switches=4, rate_bps=3e8, wan_rate_bps=1e9, buffer_bytes=2_000_000, mark_threshold_bytes=0,
        programs=pfc(),
    )  # fmt: skip
    flows = [flow(f"h0_{i}", "h1_0", 1_000_000) for i in range(4)]
    done = run(simulator, fixed(topology, *flows, transport=AT_ONCE), "newreno", max_epochs=1000)
    assert np.isfinite(done.fct_s).all()
    assert done.records.ports.dropped_pkts.sum() == 0


def test_pauses_without_headroom_are_refused(simulator: Simulator) -> None:
    def refused(topology: ManyToOne, match: str) -> None:
        with pytest.raises(ConfigError, match=match):
            run(simulator, fixed(topology, flow("s0", "receiver", MSS)), "newreno")

    # Each of 64 links may bring xoff, three packets, two frames and what 4 us carry: 6000 + 4500 + 168 + 500.
    tight = incast(64, pfc()).replace(buffer_bytes=64 * 11_168 - 1)
    refused(tight, r"no headroom at port tor->receiver: .* may bring 714752 bytes .* buffer_bytes to at least that")
    run(simulator, fixed(tight.replace(buffer_bytes=64 * 11_168), flow("s0", "receiver", MSS)), "newreno")
    refused(incast(2, pfc()).replace(shared_buffer_bytes=100_000), r"pfc keeps .* shared_buffer_bytes makes them drop")
    for owner in ("pfabric", "trim"):
        refused(incast(2, (*pfc(), Program(name=owner))), rf"pfc keeps .* {owner} makes them drop")
