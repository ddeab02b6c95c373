# SPDX-License-Identifier: BSD-3-Clause
"""Networks: every spec is well formed, counts follow the papers' formulas, and contradictions are refused."""

from itertools import pairwise

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncc.core import topologies as spec
from ncc.core.errors import ConfigError, UnknownNameError
from ncc.core.topology import Buffer, Group, Link, Node, NodeKind, Pool, Red, Topology
from ncc.core.topology_spec import TopologySpec
from ncc.core.units import GBPS, US
from ncc.core.value import kinds

SPECS: dict[str, TopologySpec] = {kind: cls() for kind, cls in kinds(spec.AnyTopology).items()}


def graph(network: Topology) -> nx.Graph:
    made = nx.Graph()
    for link in network.links:
        made.add_edge(link.a, link.b, capacity=link.rate_bps)
    return made


@pytest.mark.parametrize("kind", sorted(SPECS))
class TestEverySpec:
    def test_is_one_network_without_parallel_links(self, kind: str) -> None:
        network = SPECS[kind].build()
        made = graph(network)
        assert nx.is_connected(made)
        assert made.number_of_nodes() == len(network.nodes)
        assert made.number_of_edges() == len(network.links)
        assert len({node.name for node in network.nodes}) == len(network.nodes)

    def test_hosts_have_one_link_and_only_switch_ends_have_buffers(self, kind: str) -> None:
        network = SPECS[kind].build()
        hosts = set(network.hosts)
        assert [sum(host in (link.a, link.b) for link in network.links) for host in hosts] == [1] * len(hosts)
        ends = [(end, b) for link in network.links for end, b in ((link.a, link.a_buffer), (link.b, link.b_buffer))]
        assert all((end in hosts) == (buffer is None) for end, buffer in ends)
        assert all(group.hosts and set(group.hosts) <= hosts for group in network.groups)
        assert all(len(set(group.hosts)) == len(group.hosts) for group in network.groups)

    def test_switch_ports_have_the_spec_s_buffer(self, kind: str) -> None:
        network = SPECS[kind].build()
        for area in network.neighbourhoods:
            buffer = network.port_buffer(area.uplink_port)
            wan = kind == "regions"  # whose uplinks are the WAN's
            assert buffer == Buffer(size_bytes=200_000 if wan else 512_000, mark_threshold_bytes=0 if wan else 30_000)

    def test_agents_are_hosts_of_their_neighbourhood(self, kind: str) -> None:
        network = SPECS[kind].build()
        assert set(network.agent_hosts) <= set(network.hosts)
        assert len(network.agent_hosts) == len(network.agent_area) == len(set(network.agent_hosts))
        for host, area in zip(network.agent_hosts, network.agent_area, strict=True):
            assert host in network.neighbourhoods[area].hosts

    def test_paths_are_shortest_and_symmetric(self, kind: str) -> None:
        network = SPECS[kind].build()
        made = graph(network)
        hosts = network.hosts
        for src, dst in zip(hosts, hosts[1:] + hosts[:1], strict=True):
            there, back = network.path(src, dst), network.path(dst, src)
            assert len(there) == nx.shortest_path_length(made, src, dst)
            assert tuple(port ^ 1 for port in reversed(there)) == back
            names = [network.port_name(port) for port in there]
            assert names[0].startswith(network.nodes[src].name + "->")
            assert names[-1].endswith("->" + network.nodes[dst].name)
            for one, two in pairwise(names):
                assert one.split("->")[1] == two.split("->")[0]

    def test_ports_are_found_by_name(self, kind: str) -> None:
        network = SPECS[kind].build()
        for port in range(2 * len(network.links)):
            assert network.port(network.port_name(port)) == port

    def test_uplink_leads_away_from_its_hosts(self, kind: str) -> None:
        network = SPECS[kind].build()
        for area in network.neighbourhoods:
            outside = [host for host in network.hosts if host not in area.hosts]
            ports = {port for src in area.hosts[:2] for dst in outside for port in network.path(src, dst)}
            assert area.uplink_port in ports


@pytest.mark.parametrize(
    ("made", "capacity_bps"),
    [
        (spec.Rack(uplink_rate_bps=4 * GBPS), 4 * GBPS),
        (spec.ManyToOne(senders=3, rate_bps=2 * GBPS), 2 * GBPS),
        (spec.LeafSpine(leaves=2, spines=3, hosts_per_leaf=4, spine_rate_bps=5 * GBPS), 15 * GBPS),
        (spec.FatTree(k=4, rate_bps=10 * GBPS), 20 * GBPS),
        (spec.SingleSwitch(senders=4, receivers=3, rate_bps=1 * GBPS), 3 * GBPS),
    ],
    ids=lambda value: getattr(value, "__struct_config__", None) and type(value).__name__,
)
def test_a_neighbourhood_may_send_by_all_ways_up(made: TopologySpec, capacity_bps: float) -> None:
    network = made.build()
    assert [network.uplink_capacity_bps(area) for area in network.neighbourhoods] == [capacity_bps] * len(
        network.neighbourhoods
    )


@given(st.integers(2, 5), st.integers(1, 4), st.integers(1, 5))
def test_leaf_spine_counts(leaves: int, spines: int, hosts: int) -> None:
    network = spec.LeafSpine(leaves=leaves, spines=spines, hosts_per_leaf=hosts).build()
    assert len(network.hosts) == leaves * hosts
    assert len(network.nodes) == leaves * hosts + leaves + spines
    assert len(network.links) == leaves * hosts + leaves * spines
    assert len(network.neighbourhoods) == leaves
    first, last = network.group("leaf0")[0], network.group(f"leaf{leaves - 1}")[0]
    assert len(network.path(first, last)) == 4


def test_hosts_of_a_leaf_spine_may_add_to_the_delay_of_their_links() -> None:
    network = spec.LeafSpine(delay_s=1 * US, host_delay_s=19 * US).build()
    first, last = network.group("leaf0")[0], network.group("leaf7")[0]
    assert sum(network.links[port // 2].delay_s for port in network.path(first, last)) == pytest.approx(40 * US)
    alike = spec.LeafSpine(delay_s=1 * US).build()
    assert {link.delay_s for link in alike.links} == {1 * US}


def test_a_part_of_a_group_has_a_name_too() -> None:
    network = spec.Rack(hosts=10).build()
    hosts = network.group("hosts")
    assert network.group("hosts:0:8") + network.group("hosts:8:2") == hosts
    for part in ("hosts:8:3", "hosts:0:0", "hosts:1", "hosts:-1:2", "hosts::", "hosts:0:" + 5000 * "9"):
        with pytest.raises(ConfigError, match="a part is first:count within 0 to 9, such as 0:10"):
            network.group(part)
    with pytest.raises(UnknownNameError, match="Unknown host group 'host'"):
        network.group("host:0:1")


@pytest.mark.parametrize("k", [2, 4, 6])
def test_fat_tree_counts(k: int) -> None:
    # Al-Fares et al., section 3: k^3/4 hosts, k^2/4 core switches, k pods of k switches, 3 k^3/4 links.
    network = spec.FatTree(k=k).build()
    assert len(network.hosts) == k**3 // 4
    switches = [node.name for node in network.nodes if node.kind is NodeKind.SWITCH]
    assert sum(name.startswith("core") for name in switches) == k**2 // 4
    assert len(switches) == k**2 // 4 + k * k
    assert len(network.links) == 3 * k**3 // 4
    degree = dict(graph(network).degree())
    assert all(degree[i] == k for i, node in enumerate(network.nodes) if node.kind is NodeKind.SWITCH)


@pytest.mark.parametrize("k", [2, 4, 6])
def test_fat_tree_has_full_bisection(k: int) -> None:
    # Rearrangeably non-blocking: half of the pods can send to the other half at the full rate of all their hosts.
    rate = 10 * GBPS
    network = spec.FatTree(k=k, rate_bps=rate).build()
    made = graph(network).to_directed()
    for host in network.hosts:
        pod = int(network.nodes[host].name[1:].split("_")[0])
        ends = ("source", host) if pod < k // 2 else (host, "sink")
        made.add_edge(*ends, capacity=rate)
    assert nx.maximum_flow_value(made, "source", "sink") == pytest.approx(rate * len(network.hosts) / 2)


def test_regions_are_linked_pair_by_pair() -> None:
    network = spec.Regions(hosts=2, delay_s=1e-6).build()
    delays_s = {(0, 1): 0.02, (0, 2): 0.03, (1, 2): 0.04}
    for (i, j), delay_s in delays_s.items():
        port = network.port(f"border{i}->border{j}")
        assert network.links[port // 2].delay_s == delay_s
        assert network.port_buffer(port).mark_threshold_bytes == 0  # type: ignore[union-attr]
        way = network.path(network.group(f"dc{i}")[0], network.group(f"dc{j}")[1])
        assert [network.port_name(each) for each in way][1] == f"border{i}->border{j}"
    assert len(spec.Regions(wan_delays_s=(0.1,) * 6).build().neighbourhoods) == 4


def test_two_datacentres_mark_inside_only() -> None:
    network = spec.TwoDatacentres().build()
    wan = network.port_buffer(network.port("border0->border1"))
    assert wan is not None
    assert wan.mark_threshold_bytes == 0
    assert wan.size_bytes == 15_000_000


def test_borders_may_be_deep_towards_their_datacentre_too() -> None:
    for shared_bytes in (500_000, 0):
        network = spec.TwoDatacentres(
            deep_borders=True, buffer_bytes=5000, shared_buffer_bytes=shared_bytes, mark_threshold_bytes=3000
        ).build()
        wan = network.port_buffer(network.port("border0->border1"))
        for i in (0, 1):
            assert network.port_buffer(network.port(f"border{i}->tor{i}")) == wan
            up = network.port_buffer(network.port(f"tor{i}->border{i}"))
            assert up is not None
            assert (up.size_bytes, up.mark_threshold_bytes) == (5000, 3000)


def test_a_datacentre_of_two_switches() -> None:
    network = spec.TwoDatacentres(hosts=6, switches=2).build()
    assert [[network.nodes[host].name for host in area.hosts] for area in network.neighbourhoods] == [
        [f"h{i}_{j}" for j in js] for i in (0, 1) for js in ((0, 1, 2), (3, 4, 5))
    ]
    assert [network.port_name(area.uplink_port) for area in network.neighbourhoods] == [
        f"tor{i}_{k}->border{i}" for i in (0, 1) for k in (0, 1)
    ]
    near, far = network.group("dc0"), network.group("dc1")
    assert [len(network.path(near[0], to)) for to in (near[2], near[3], far[0])] == [2, 4, 5]


def pools(network: Topology) -> dict[int, list[str]]:
    """Names of the ports of each pool."""
    found: dict[int, list[str]] = {}
    for port in range(2 * len(network.links)):
        buffer = network.port_buffer(port)
        if buffer is not None and buffer.pool is not None:
            found.setdefault(buffer.pool, []).append(network.port_name(port))
    return found


def test_pools_of_the_tomahawk_leaf_spine() -> None:
    """bai2020 section V-A: 8 ports a pool; a leaf has 8 up ports in one and 16 down ports in two, a spine has one."""
    network = spec.LeafSpine(
        buffer_bytes=128_000, shared_buffer_bytes=3_000_000, dt_alpha=4, ports_per_pool=8, mark_threshold_bytes=720_000
    ).build()
    by_pool = pools(network)
    assert network.pools == (Pool(size_bytes=3_000_000, alpha=4.0),) * len(by_pool)
    switches = [{name.split("->")[0] for name in names} for names in by_pool.values()]
    assert all(len(switch) == 1 for switch in switches)
    owners = [next(iter(switch)) for switch in switches]
    assert [owners.count(f"leaf{i}") for i in range(8)] == [3] * 8
    assert [owners.count(f"spine{i}") for i in range(8)] == [1] * 8
    assert {len(names) for names in by_pool.values()} == {8}
    assert [f"leaf3->spine{i}" for i in range(8)] in by_pool.values()
    assert network.reach_bytes(network.port("leaf0->spine0")) == 128_000 + 2_400_000


@pytest.mark.parametrize("kind", sorted(SPECS))
@pytest.mark.parametrize("ports_per_pool", [0, 1, 3])
def test_every_spec_shares_its_buffers(kind: str, ports_per_pool: int) -> None:
    red = Red(min_bytes=1000, max_bytes=90_000, max_prob_frac=0.5)
    given = SPECS[kind].replace(
        buffer_bytes=0, shared_buffer_bytes=200_000, ports_per_pool=ports_per_pool, red=red, control_first=True
    )
    network = given.build()
    by_pool = pools(network)
    assert sorted(by_pool) == list(range(len(network.pools)))
    assert all(len({name.split("->")[0] for name in names}) == 1 for names in by_pool.values())  # of one switch
    assert {len(names) for names in by_pool.values()} <= set(range(1, (ports_per_pool or 1000) + 1))
    for port in range(2 * len(network.links)):
        buffer = network.port_buffer(port)
        if buffer is None or network.port_name(port).startswith(("border", "wan")):
            continue
        assert (buffer.size_bytes, buffer.red, buffer.control_first) == (0, red, True)
        assert network.reach_bytes(port) == 100_000
    shared = {name for names in by_pool.values() for name in names}
    assert "border0->border1" not in shared
    if ports_per_pool == 0:  # one pool for each switch, but for the WAN of `pods` and its borders
        without = ("border", "wan") if kind == "pods" else ()
        switches = [node.name for node in network.nodes if node.kind is NodeKind.SWITCH]
        assert len(network.pools) == sum(not name.startswith(without) for name in switches)


NODES = (Node(name="a", kind=NodeKind.HOST), Node(name="s", kind=NodeKind.SWITCH), Node(name="b", kind=NodeKind.HOST))
PORT = Buffer(size_bytes=10_000)
LINKS = (
    Link(a=0, b=1, rate_bps=1e9, delay_s=0.0, b_buffer=PORT),
    Link(a=2, b=1, rate_bps=1e9, delay_s=0.0, b_buffer=PORT),
)


def test_no_path() -> None:
    parted = Topology(nodes=NODES, links=LINKS[:1] + LINKS[1:], groups=(), neighbourhoods=())
    assert [parted.port_name(port) for port in parted.path(0, 2)] == ["a->s", "s->b"]
    nodes = (*NODES, Node(name="t", kind=NodeKind.SWITCH))
    away = (LINKS[0], Link(a=2, b=3, rate_bps=1e9, delay_s=0.0, b_buffer=PORT))
    with pytest.raises(ConfigError, match="no path from a to b"):
        Topology(nodes=nodes, links=away, groups=(), neighbourhoods=()).path(0, 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: spec.TwoDatacentres(hosts=5, switches=2), r"hosts must be a multiple of switches \(2\), got 5"),
        (
            lambda: spec.Regions(wan_delays_s=(0.1, 0.1)),
            r"delay for each pair of datacentres \(1, 3, 6, 10, ...\), got 2",
        ),
        (lambda: spec.FatTree(k=3), "k must be even, got 3"),
        (lambda: Link(a=0, b=1, rate_bps=0.0, delay_s=0.0), r"Link.rate_bps: Expected `float` >= 1000.0, got 0.0"),
        (
            lambda: spec.Rack(shared_buffer_bytes=1000, buffer_bytes=100, mark_threshold_bytes=600),
            r"Rack.mark_threshold_bytes must be below what a queue may take \(600; 0 switches marking off\), got 600",
        ),
        (lambda: Red(min_bytes=0, max_bytes=2**32), "Red.max_bytes must be above min_bytes"),
        (lambda: Red(min_bytes=9, max_bytes=9), r"Red.max_bytes must be above min_bytes \(9\) by less than 4 GiB"),
        (lambda: spec.Rack(hosts=1), r"Rack.hosts: Expected `int` >= 2, got 1"),
        (lambda: spec.Rack(buffer_bytes=100), r"Rack.mark_threshold_bytes must be below buffer_bytes \(100"),
        (lambda: spec.FatTree(k=100).build(), "more than 20000 nodes; make it smaller"),
        (lambda: spec.LeafSpine(leaves=1000, spines=1000, hosts_per_leaf=1).build(), "more than 100000 links"),
    ],
)
def test_absurd_specs_are_refused(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(ConfigError, match=message):
        make()


def test_other_leaves_are_beyond_by_any_spine_and_other_datacentres_too() -> None:
    fabric = spec.LeafSpine(leaves=2, spines=2, hosts_per_leaf=2).build()
    _, limited = fabric.limited_to
    for i, area in enumerate(fabric.neighbourhoods):
        others = set(fabric.hosts) - set(area.hosts)
        assert not limited[i, list(area.hosts)].any()
        assert limited[i, list(others)].all()
        assert fabric.uplink_capacity_bps(area) == 2 * fabric.port_rate_bps(area.uplink_port)


def test_receivers_need_a_port_down_to_them() -> None:
    """Two hosts on one link: the only queue to the other is the sender's own."""
    network = Topology(
        nodes=(Node(name="a", kind=NodeKind.HOST), Node(name="b", kind=NodeKind.HOST)),
        links=(Link(a=0, b=1, rate_bps=1e9, delay_s=1e-6),),
        groups=(Group(name="hosts", hosts=(0, 1)),),
        neighbourhoods=(),
    )
    with pytest.raises(ConfigError, match="host b has no down port: no switch is before it"):
        network.down_port(1)


def test_pods_have_the_ways_of_its_paper() -> None:
    """128 servers, four to one, a quarter of each pod's bandwidth to the border, 14 us and 20 ms there and back."""
    made = spec.Pods(delay_s=1.25e-6).build()
    assert spec.Pods(delay_s=1.25e-6, host_rate_bps=10 * GBPS).build() == made
    slow = spec.Pods(host_rate_bps=1 * GBPS).build()
    assert {slow.host_link(host).rate_bps for host in slow.group("hosts")} == {1 * GBPS}
    assert {slow.links[i].rate_bps for i in range(len(slow.links))} == {1 * GBPS, 5 * GBPS, 10 * GBPS, 20 * GBPS}
    assert len(made.group("hosts")) == 128
    names = [made.port_name(port) for port in range(2 * len(made.links))]
    up = [sum(name.startswith(f"agg0_{i}->core") for name in names) for i in range(4)]
    assert up == [2, 2, 2, 2]
    rates = {name: made.port_rate_bps(port) for port, name in enumerate(names)}
    inside = sum(rate for name, rate in rates.items() if name.startswith("agg0_") and "core" in name)
    border = sum(rate for name, rate in rates.items() if name.startswith("agg0_") and name.endswith("->border0"))
    assert 32 * 10e9 / inside == 4
    assert border / inside == 0.25
    one, other, far = made.group("tor0_0")[0], made.group("tor1_0")[0], made.group("far")[0]
    ways = list(nx.all_shortest_paths(graph(made), one, other))
    assert len(ways) == 8
    assert not [node for way in ways for node in way if made.nodes[node].name.startswith(("border", "wan"))]
    for end, rtt_s in ((other, 14e-6), (far, 20e-3)):
        delays_s = [made.links[port // 2].delay_s for port in made.path(one, end)]
        assert 2 * sum(delays_s) == pytest.approx(rtt_s, rel=0.002)


def test_a_fat_tree_s_first_links_to_cores_may_be_slow() -> None:
    network = spec.FatTree(k=4, rate_bps=10 * GBPS, slow_links=6).build()
    slow = [(network.nodes[link.a].name, network.nodes[link.b].name) for link in network.links if link.rate_bps < 5e9]
    assert [a for a, _ in slow] == ["agg0_0", "agg0_0", "agg0_1", "agg0_1", "agg1_0", "agg1_0"]
    assert {link.rate_bps for link in network.links} == {10 * GBPS, 2.5 * GBPS}
    with pytest.raises(ConfigError, match=r"slow_links must be at most the 16 links to cores, got 17"):
        spec.FatTree(k=4, slow_links=17)
