# SPDX-License-Identifier: BSD-3-Clause
"""Flow lists: rates and loads within their confidence intervals, the structure of each kind, and determinism."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncc.core.errors import ConfigError
from ncc.core.flows import FlowTable, check_columns
from ncc.core.topologies import ManyToOne, Rack, TwoDatacentres
from ncc.core.traffic import Traffic
from ncc.core.workload import (
    Fixed,
    Flow,
    Incast,
    Permutation,
    Poisson,
    Workload,
    check_fits,
    draw_flows,
    offered_load,
)

RACK = Rack().build()
BACKGROUND = Poisson(distribution="hadoop", load_frac=0.6, sources="hosts", destinations="remotes")
BURSTS = Incast(events_per_s=200, fan_in=8, bytes_per_server=20_000, sources="remotes", destinations="hosts")


def columns(flows: FlowTable, component: int) -> list[list[float]]:
    mine = flows.traffic == component
    return [getattr(flows, name)[mine].tolist() for name in ("start_s", "src", "dst", "size_bytes")]


def test_poisson_arrival_rate_and_load() -> None:
    duration_s = 4.0
    flows = draw_flows((("background", BACKGROUND),), RACK, duration_s, seed=1)
    # 0.6 of a 4 Gbit/s uplink in flows of 120 420.75 bytes on average.
    expected = 0.6 * 4e9 / (8 * 120_420.75) * duration_s
    assert BACKGROUND.arrivals_per_s(RACK) * duration_s == pytest.approx(expected)
    assert abs(len(flows) - expected) < 4 * np.sqrt(expected)
    # A compound Poisson sum has variance n E[size^2]; allow 4 standard deviations.
    offered = flows.size_bytes.sum()
    deviation = np.sqrt(expected * np.mean(flows.size_bytes.astype(float) ** 2))
    assert abs(offered - 0.6 * 4e9 / 8 * duration_s) < 4 * deviation


def test_poisson_gaps_are_exponential() -> None:
    from scipy import stats

    flows = draw_flows((("background", BACKGROUND),), RACK, 4.0, seed=2)
    gaps = np.diff(flows.start_s)
    assert stats.kstest(gaps, "expon", args=(0, 1 / BACKGROUND.arrivals_per_s(RACK))).pvalue > 0.001


def test_poisson_pairs_are_uniform() -> None:
    from scipy import stats

    flows = draw_flows((("background", BACKGROUND),), RACK, 4.0, seed=3)
    for column, group in ((flows.src, RACK.group("hosts")), (flows.dst, RACK.group("remotes"))):
        counts = [int((column == host).sum()) for host in group]
        assert sum(counts) == len(flows)
        assert stats.chisquare(counts).pvalue > 0.001


def test_poisson_names_the_link_of_its_load_and_loads_add_up() -> None:
    down = BACKGROUND.replace(link="core->tor", sources="remotes", destinations="hosts", load_frac=0.25)
    assert offered_load((("up", BACKGROUND), ("down", down)), RACK) == {
        RACK.port("tor->core"): pytest.approx(0.6),
        RACK.port("core->tor"): pytest.approx(0.25),
    }
    assert offered_load((("a", BACKGROUND), ("b", BACKGROUND)), RACK) == {RACK.port("tor->core"): pytest.approx(1.2)}


def test_nobody_sends_to_itself() -> None:
    inside = BACKGROUND.replace(destinations="hosts")
    flows = draw_flows((("inside", inside),), Rack(hosts=2).build(), 1.0, seed=1)
    assert len(flows) > 100
    assert (flows.src != flows.dst).all()


@pytest.mark.parametrize("fan_in", [1, 4, 6])
def test_incast_structure(fan_in: int) -> None:
    bursts = BURSTS.replace(fan_in=fan_in)
    flows = draw_flows((("bursts", bursts),), RACK, 2.0, seed=5)
    assert len(flows) % fan_in == 0
    events = len(flows) // fan_in
    assert abs(events - 400) < 4 * np.sqrt(400)
    start = flows.start_s.reshape(events, fan_in)
    assert (start == start[:, :1]).all()
    assert (flows.dst.reshape(events, fan_in) == flows.dst.reshape(events, fan_in)[:, :1]).all()
    assert (flows.size_bytes == 20_000).all()
    for servers in flows.src.reshape(events, fan_in):
        # 4 remotes: all different while there are enough, and then round after round.
        counts = np.unique(servers, return_counts=True)[1]
        assert len(counts) == min(fan_in, 4)
        assert counts.max() - counts.min() <= 1


def test_incast_leaves_the_receiver_out() -> None:
    bursts = BURSTS.replace(sources="hosts", destinations="hosts", fan_in=15)
    flows = draw_flows((("bursts", bursts),), RACK, 1.0, seed=5)
    assert (flows.src != flows.dst).all()
    servers = flows.src.reshape(-1, 15)
    assert all(len(set(row)) == 15 for row in servers.tolist())


def test_incast_jitter_spreads_starts_within_the_run() -> None:
    bursts = BURSTS.replace(jitter_s=0.2, fan_in=4)
    flows = draw_flows((("bursts", bursts),), RACK, 1.0, seed=5)
    assert len(np.unique(flows.start_s)) == len(flows)
    assert flows.start_s.max() < 1.0


@given(hosts=st.integers(2, 20), seed=st.integers(0, 1000))
def test_permutation_is_a_derangement(hosts: int, seed: int) -> None:
    network = ManyToOne(senders=hosts).build()
    flows = draw_flows((("p", Permutation(hosts="senders", size_bytes=5)),), network, 1.0, seed)
    assert sorted(flows.src) == sorted(flows.dst) == sorted(network.group("senders"))
    assert (flows.src != flows.dst).all()


def test_fixed_list_is_the_same_for_every_seed() -> None:
    listed = (
        Flow(start_s=0.5, src="h1", dst="r0", size_bytes=7),
        Flow(start_s=0.25, src="r0", dst="h0", size_bytes=9),
    )
    for seed in (1, 2):
        flows = draw_flows((("list", Fixed(flows=listed)),), RACK, 1.0, seed)
        names = [node.name for node in RACK.nodes]
        assert flows.start_s.tolist() == [0.25, 0.5]
        assert [names[i] for i in flows.src] == ["r0", "h1"]
        assert [names[i] for i in flows.dst] == ["h0", "r0"]
        assert flows.size_bytes.tolist() == [9, 7]


@given(seed=st.integers(0, 2**40), duration_s=st.floats(1e-6, 0.2))
def test_every_list_is_ordered_whole_nanoseconds_within_the_run(seed: int, duration_s: float) -> None:
    flows = draw_flows((("background", BACKGROUND), ("bursts", BURSTS)), RACK, duration_s, seed)
    check_columns(flows)
    assert (np.diff(flows.start_s) >= 0).all()
    assert ((flows.start_s >= 0) & (flows.start_s < duration_s)).all()
    ns = flows.start_s * 1e9
    assert np.allclose(ns, np.rint(ns), rtol=0, atol=1e-4)
    assert (flows.size_bytes >= 1).all()
    assert set(flows.traffic.tolist()) <= {0, 1}
    assert [flows.start_s.dtype, flows.src.dtype, flows.size_bytes.dtype] == [np.float64, np.int64, np.int64]


def test_equal_arguments_give_equal_lists_and_other_seeds_others() -> None:
    workload: Workload = (("background", BACKGROUND), ("bursts", BURSTS))
    one, two, other = (draw_flows(workload, RACK, 0.5, seed) for seed in (1, 1, 2))
    for component in (0, 1):
        assert columns(one, component) == columns(two, component)
        assert columns(one, component) != columns(other, component)


def test_a_component_is_not_disturbed_by_another() -> None:
    alone = draw_flows((("background", BACKGROUND),), RACK, 0.5, seed=1)
    beside = draw_flows((("bursts", BURSTS), ("background", BACKGROUND)), RACK, 0.5, seed=1)
    assert columns(alone, 0) == columns(beside, 1)


def test_flow_lists_never_change() -> None:
    # Results of old runs can be compared with new ones only while a seed means the same flows.
    flows = draw_flows((("background", BACKGROUND),), RACK, 0.01, seed=1)
    assert len(flows) == 25
    assert flows.start_s[:2].tolist() == [0.000141552, 0.001621494]
    assert flows.size_bytes[:3].tolist() == [1222, 842, 982]


@pytest.mark.parametrize(
    ("traffic", "message"),
    [
        (BACKGROUND.replace(sources="host"), "workload.x.sources: Unknown host group 'host'"),
        (BACKGROUND.replace(destinations="host"), "workload.x.destinations: Unknown host group 'host'"),
        (BACKGROUND.replace(link="tor->cor"), "workload.x.link: Unknown port"),
        (BACKGROUND.replace(load_frac=1e6), "workload.x.load_frac asks for about .* at most 5000000 are allowed"),
        (BURSTS.replace(events_per_s=1e9), "workload.x.events_per_s asks for"),
        (BURSTS.replace(jitter_s=1.0), r"workload.x.jitter_s must be below duration_s \(1.0 s\)"),
        (Permutation(hosts="remote", size_bytes=1), "workload.x.hosts: Unknown host group"),
        (Permutation(hosts="hosts", size_bytes=1, start_s=2.0), "workload.x.start_s must be below duration_s"),
        (
            Fixed(flows=(Flow(start_s=0, src="h0", dst="hx", size_bytes=1),)),
            r"workload.x.flows\[0\].dst: Unknown host 'hx'",
        ),
        (Fixed(flows=(Flow(start_s=0, src="h0", dst="h0", size_bytes=1),)), r"flows\[0\].dst: 'h0' sends to itself"),
        (Fixed(flows=(Flow(start_s=1, src="h0", dst="r0", size_bytes=1),)), r"flows\[0\].start_s must be below"),
    ],
)
def test_what_does_not_fit_is_named(traffic: Traffic, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_fits((("x", traffic),), RACK, 1.0)  # type: ignore[arg-type]


def test_single_hosts_cannot_talk_to_themselves() -> None:
    network = TwoDatacentres(hosts=1).build()
    for traffic, message in (
        (BACKGROUND.replace(sources="dc0", destinations="dc0"), "same single host"),
        (BURSTS.replace(sources="dc0", destinations="dc0"), "no host other than a receiver"),
        (Permutation(hosts="dc0", size_bytes=1), "takes at least 2"),
    ):
        with pytest.raises(ConfigError, match=message):
            check_fits((("x", traffic),), network, 1.0)


def test_an_empty_or_ambiguous_workload_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least one traffic component"):
        check_fits((), RACK, 1.0)
    with pytest.raises(ConfigError, match="two components of one name: a, a"):
        check_fits((("a", BURSTS), ("a", BURSTS)), RACK, 1.0)


def test_unequal_columns_are_refused() -> None:
    flows = draw_flows((("background", BACKGROUND),), RACK, 0.01, seed=1)
    broken = FlowTable(flows.start_s[1:], flows.src, flows.dst, flows.size_bytes, flows.traffic)
    with pytest.raises(ValueError, match="FlowTable columns differ in shape"):
        check_columns(broken)
