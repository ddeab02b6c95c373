# SPDX-License-Identifier: BSD-3-Clause
"""Traffic of experiments: queries answered by many at once, and flows that never end."""

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.scenario import Scenario
from ncc.core.topologies import Dumbbell, ManyToOne, MultiHop, SingleSwitch
from ncc.core.topology import Topology
from ncc.core.workload import AnyTraffic, Long, Queries, endless

RACK = ManyToOne(senders=4)
QUERIES = Queries(fan_in=3, response_bytes=1000, interval_s=0.01, sources="senders", destinations="receiver")
LONG = Long(sources="senders", destinations="receiver", flows=2)


def scenario(traffic: AnyTraffic, duration_s: float = 0.05, **settings: object) -> Scenario:
    return Scenario(name="case", topology=RACK, workload=(("one", traffic),), duration_s=duration_s).replace(**settings)


def test_every_query_is_answered_by_fan_in_servers_with_equal_parts() -> None:
    flows = scenario(QUERIES).flows(1)
    assert len(flows) == 15
    assert np.unique(flows.start_s).tolist() == pytest.approx([0, 0.01, 0.02, 0.03, 0.04])
    assert set(flows.size_bytes.tolist()) == {333}
    assert QUERIES.query_of(flows.start_s).tolist() == [query for query in range(5) for _ in range(3)]


def test_answers_come_within_the_jitter_and_still_belong_to_their_query() -> None:
    late = QUERIES.replace(jitter_s=0.009, fan_in=40)
    flows = scenario(late).flows(1)
    after = flows.start_s - 0.01 * late.query_of(flows.start_s)
    assert np.bincount(late.query_of(flows.start_s)).tolist() == [40] * 5
    assert 0 <= after.min() < 0.002
    assert 0.007 < after.max() < 0.009


def test_more_answers_than_servers_take_turns() -> None:
    flows = scenario(QUERIES.replace(fan_in=10), 0.01).flows(1)
    assert sorted(np.unique(flows.src, return_counts=True)[1].tolist()) == [2, 2, 3, 3]


def test_long_flows_outlast_the_run_and_join_when_told() -> None:
    flows = scenario(LONG.replace(flows=3, first=3, start_s=0.01, spread_s=0.02)).flows(1)
    senders = RACK.build().group("senders")
    assert sorted(flows.src.tolist()) == sorted([senders[3], senders[0], senders[1]])
    assert ((flows.start_s >= 0.01) & (flows.start_s < 0.03)).all()
    assert set(flows.size_bytes.tolist()) == {10 * 6_250_000}
    assert endless((("one", LONG),), flows).all()
    assert not endless((("one", QUERIES),), flows).any()


def test_long_flows_stay_within_a_group_by_a_shift() -> None:
    """Hosts 1 and 2 of six send to 4 and 5: three further on."""
    network = Dumbbell(pairs=6)
    senders = network.build().group("senders")
    within = Long(sources="senders", destinations="senders", flows=2, first=1, shift=3)
    flows = scenario(within, topology=network).flows(1)
    assert set(zip(flows.src.tolist(), flows.dst.tolist(), strict=True)) == {
        (senders[1], senders[4]),
        (senders[2], senders[5]),
    }


@pytest.mark.parametrize(
    ("traffic", "changes", "said"),
    [
        (QUERIES, {"jitter_s": 0.01}, "Queries.jitter_s must be below interval_s"),
        (QUERIES, {"response_bytes": 2}, "Queries.response_bytes must be at least fan_in"),
        (QUERIES, {"sources": "receiver"}, "holds the receiver"),
        (QUERIES, {"interval_s": 1e-12}, "interval_s asks for"),
        (LONG, {"sources": "sender"}, "sources: Unknown"),
        (LONG, {"sources": "receiver"}, "'receiver' would send to itself"),
        (LONG, {"start_s": 0.05}, "must be below duration_s"),
    ],
)
def test_what_cannot_be_drawn_is_refused(traffic: AnyTraffic, changes: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        scenario(traffic.replace(**changes))


def test_what_never_ends_is_not_waited_for() -> None:
    with pytest.raises(ConfigError, match="one never ends"):
        scenario(LONG, drain_s=None)


def test_receivers_of_a_single_switch_share_a_pool_of_their_own() -> None:
    network = SingleSwitch(shared_buffer_bytes=3_000_000, buffer_bytes=128_000, ports_per_pool=8).build()
    pools = {name: {_pool(network, host) for host in network.group(name)} for name in ("receivers", "senders")}
    assert pools == {"receivers": {0}, "senders": {1, 2, 3}}
    assert network.port_name(network.neighbourhoods[0].uplink_port) == "switch->r0"


def _pool(network: Topology, host: int) -> int | None:
    buffer = network.host_link(host).b_buffer
    assert buffer is not None
    return buffer.pool


def test_two_bottlenecks_in_a_row() -> None:
    network = MultiHop(near=2, cross=3, far=1, trunk_mark_threshold_bytes=97_500).build()
    assert [network.port_name(area.uplink_port) for area in network.neighbourhoods] == ["edge0->core", "edge1->r1"]
    s1, s3, (r1,) = (network.group(name) for name in ("s1", "s3", "r1"))
    assert [network.port_name(port) for port in network.path(s1[0], r1)][1:] == [
        "edge0->core",
        "core->edge1",
        "edge1->r1",
    ]
    assert [network.port_name(port) for port in network.path(s3[0], r1)][1:] == ["edge1->r1"]
    marks = {name: network.port_buffer(network.port(name)) for name in ("edge0->core", "edge1->r1")}
    assert [buffer.mark_threshold_bytes for buffer in marks.values() if buffer] == [97_500, 30_000]
    with pytest.raises(ConfigError, match="trunk_mark_threshold_bytes must be below what a queue may take"):
        MultiHop(trunk_mark_threshold_bytes=512_000)
