# SPDX-License-Identifier: BSD-3-Clause
"""Ideal FCT by hand and against a packet-by-packet store-and-forward network."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncc.core.flows import FlowTable
from ncc.core.scenario import Nic, Scenario, Transport
from ncc.core.topologies import LeafSpine
from ncc.envs.packetsim import PacketsimDatapath
from ncc.metrics.fct import base_rtt_s, fct_s, fct_slowdown, ideal_fct_s
from tests.datapaths.runs import fixed, flow, run
from tests.metrics.examples import HOST, flow_records, flow_table, rack

# A packet of headers alone is 78 bytes on the wire: 624 ns at 1 Gbps, 156 ns at 4 Gbps. Three hops of 10 us each way.
HANDSHAKE_NS = 2 * (30_000 + 624 + 156 + 156)


def packet_by_packet_ns(scenario: Scenario, src: int, dst: int, size_bytes: int) -> int:
    """Each packet through each hop, one after the other."""
    network, transport = scenario.network(), scenario.transport
    ports = network.path(src, dst)
    free = [0] * len(ports)
    arrival = 0
    while size_bytes > 0:
        payload = min(size_bytes, transport.mss_bytes)
        size_bytes -= payload
        arrival = 0
        for hop, port in enumerate(ports):
            wire = payload + 40 + transport.frame_overhead_bytes
            free[hop] = max(free[hop], arrival) + int(wire * 8e9 / network.port_rate_bps(port))
            arrival = free[hop] + round(network.links[port // 2].delay_s * 1e9)
    return arrival


def test_one_byte_by_hand() -> None:
    scenario = rack()
    # 79 bytes on the wire: 632 ns at 1 Gbps, 158 ns at 4.
    ideal = ideal_fct_s(scenario, flow_table([0.0], [1]))
    assert ideal[0] * 1e9 == pytest.approx(HANDSHAKE_NS + 30_000 + 632 + 158 + 158, abs=1e-3)


def test_without_a_handshake_there_is_none_in_the_ideal() -> None:
    ideal = ideal_fct_s(rack(transport=Transport(recovery="classic", handshake=False)), flow_table([0.0], [1]))
    assert ideal[0] * 1e9 == pytest.approx(30_000 + 632 + 158 + 158, abs=1e-3)


def test_with_connections_open_from_the_start_there_is_no_handshake_in_the_ideal() -> None:
    flows = flow_table([0.0, 0.0], [1, 100_000])
    without = ideal_fct_s(rack(transport=Transport(recovery="classic", handshake=False)), flows)
    assert (
        ideal_fct_s(rack(transport=Transport(recovery="classic", connections_per_pair=1)), flows).tobytes()
        == without.tobytes()
    )


def test_base_rtt_by_hand() -> None:
    # A full packet there, a pure ACK back.
    there, back = 30_000 + 12_304 + 2 * 3076, 30_000 + 624 + 2 * 156
    assert base_rtt_s(rack(), HOST, HOST + 2) * 1e9 == pytest.approx(there + back, abs=1e-3)


def test_frame_overhead_and_mtu_come_from_the_scenario() -> None:
    scenario = rack(
        transport=Transport(recovery="classic", mtu_bytes=9000, frame_overhead_bytes=0),
        nic=Nic(bucket_bytes=18_000, small_queue_bytes=18_000),
    )
    # 2 packets of 9000 bytes: 72 us each at 1 Gbps, 18 us at 4; the handshake's are 40 bytes: 320 and 80 ns.
    ideal = ideal_fct_s(scenario, flow_table([0.0], [2 * 8960]))
    assert ideal[0] * 1e9 == pytest.approx(2 * (30_000 + 480) + 30_000 + 2 * 72_000 + 2 * 18_000, abs=1e-3)


rates = st.sampled_from([1e8, 1e9, 2.5e9, 4e9, 1e10, 4e10, 1e11])


@given(host=rates, uplink=rates, remote=rates, sizes=st.lists(st.integers(1, 60_000), min_size=1, max_size=6))
def test_agrees_with_a_network_run_packet_by_packet(
    host: float, uplink: float, remote: float, sizes: list[int]
) -> None:
    scenario = rack(
        host_rate_bps=host,
        uplink_rate_bps=uplink,
        remote_rate_bps=remote,
        transport=Transport(recovery="classic", handshake=False),
    )
    ideal = ideal_fct_s(scenario, flow_table([0.0] * len(sizes), sizes))
    exact = [packet_by_packet_ns(scenario, HOST, HOST + 2, size) for size in sizes]
    np.testing.assert_allclose(ideal * 1e9, exact, atol=1e-3, rtol=0)


def test_a_sprayed_flow_has_all_paths_at_once() -> None:
    """Four spines of 250 Mbit/s carry as much as a host's link of 1 Gbit/s."""
    topology = LeafSpine(leaves=2, spines=4, hosts_per_leaf=1, host_rate_bps=1e9, spine_rate_bps=250e6)
    ideal_s, took_s = {}, {}
    for size_bytes in (1460, 5_000_000):
        for routing in ("ecmp", "spray"):
            scenario = fixed(topology, flow("h0_0", "h1_0", size_bytes), routing=routing)
            done = run(PacketsimDatapath, scenario, "newreno")
            ideal_s[size_bytes, routing] = ideal_fct_s(scenario, done.flows)[0]
            took_s[size_bytes, routing] = done.fct_s[0]
    assert all(took_s[key] > ideal_s[key] for key in ideal_s)
    assert ideal_s[1460, "spray"] == ideal_s[1460, "ecmp"]
    assert ideal_s[5_000_000, "ecmp"] > 5e6 * 8 / 250e6
    assert 5e6 * 8 / 1e9 < ideal_s[5_000_000, "spray"] < 1.1 * 5e6 * 8 / 1e9
    assert took_s[5_000_000, "spray"] < 1.5 * ideal_s[5_000_000, "spray"]


FABRIC = LeafSpine(leaves=3, spines=2, hosts_per_leaf=2, host_rate_bps=1e9)


@pytest.mark.parametrize(
    "scenario",
    [
        rack().replace(topology=FABRIC),
        rack().replace(topology=FABRIC, routing="entropy"),
        rack(host_rate_bps=1e9, remote_rate_bps=3e9),
    ],
    ids=["fabric", "entropy", "hosts and remotes"],
)
def test_flows_of_many_paths_keep_their_places(scenario: Scenario) -> None:
    hosts = scenario.network().hosts
    rng = np.random.default_rng(0)
    src = rng.choice(hosts, 200)
    dst = np.array([rng.choice([h for h in hosts if h != s]) for s in src])
    size = rng.integers(1, 10**5, 200)
    table = FlowTable(np.zeros(200), src, dst, size, np.zeros(200, np.int64))
    ideal = ideal_fct_s(scenario, table)
    for i in range(0, 200, 17):
        one = FlowTable(np.zeros(1), src[i : i + 1], dst[i : i + 1], size[i : i + 1], np.zeros(1, np.int64))
        assert ideal[i] == ideal_fct_s(scenario, one)[0]
    assert ideal_fct_s(scenario, flow_table([], [])).shape == (0,)


def test_slowdown_counts_from_arrival() -> None:
    scenario = rack()
    flows = flow_table([0.25, 0.25], [146_000, 146_000])
    ideal = ideal_fct_s(scenario, flows)[0]
    records = flow_records([0.25 + 3 * ideal, math.nan])
    slowdown = fct_slowdown(scenario, flows, records)
    assert slowdown[0] == pytest.approx(3)
    assert math.isnan(slowdown[1])


def test_an_unfinished_flow_counts_with_the_time_it_had() -> None:
    scenario = rack()
    flows = flow_table([0.0, 0.0, 0.999_999], [1, 146_000, 146_000])
    records = flow_records([0.5, math.nan, math.nan])
    assert fct_s(flows, records, until_s=1.0) == pytest.approx([0.5, 1.0, 1e-6])
    slowdown = fct_slowdown(scenario, flows, records, until_s=1.0)
    assert slowdown[1] == pytest.approx(1.0 / ideal_fct_s(scenario, flows)[1])
    assert slowdown[2] == 1.0  # less than ideal so far says nothing
