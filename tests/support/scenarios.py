# SPDX-License-Identifier: BSD-3-Clause
"""Random small scenarios of every kind of network."""

from hypothesis import strategies as st

from ncc.core.scenario import Nic, Scenario, Transport
from ncc.core.topologies import AnyTopology, Dumbbell, FatTree, LeafSpine, ManyToOne, Rack, TwoDatacentres
from ncc.core.topology import Red
from ncc.core.workload import AnyTraffic, Fixed, Flow, Incast, Permutation

KIND = {
    "dumbbell": (Dumbbell, {"pairs": st.integers(1, 4)}),
    "rack": (Rack, {"hosts": st.integers(2, 6), "remotes": st.integers(1, 3)}),
    "many_to_one": (ManyToOne, {"senders": st.integers(1, 8)}),
    "leaf_spine": (LeafSpine, {"leaves": st.integers(2, 3), "spines": st.integers(1, 3), "hosts_per_leaf": st.just(2)}),
    "fat_tree": (FatTree, {"k": st.sampled_from([2, 4])}),
    "two_datacentres": (TwoDatacentres, {"hosts": st.integers(1, 3)}),
}


@st.composite
def topologies(draw: st.DrawFn, mtu_bytes: int) -> AnyTopology:
    kind, own = KIND[draw(st.sampled_from(sorted(KIND)))]
    values: dict[str, object] = {name: draw(strategy) for name, strategy in own.items()}
    values["buffer_bytes"] = draw(st.integers(2, 60)) * mtu_bytes
    values["mark_threshold_bytes"] = draw(st.integers(0, 1)) * mtu_bytes
    values["control_first"] = draw(st.booleans())
    values["mark_on_departure"] = draw(st.booleans())
    values["delay_s"] = draw(st.sampled_from([0.0, 1e-9, 1e-5, 1e-3]))
    if draw(st.booleans()):
        values["red"] = Red(min_bytes=mtu_bytes, max_bytes=draw(st.integers(2, 40)) * mtu_bytes)
    if draw(st.booleans()):
        values["shared_buffer_bytes"] = draw(st.integers(1, 100)) * mtu_bytes
        values["dt_alpha"] = draw(st.sampled_from([1 / 64, 1.0, 8.0]))
        values["ports_per_pool"] = draw(st.integers(0, 3))
    return kind(**values)  # type: ignore[no-any-return]


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    mtu_bytes = draw(st.sampled_from([256, 1500, 9000]))
    topology = draw(topologies(mtu_bytes))
    network = topology.build()
    sizes = st.integers(1, 200_000)
    sending, receiving = network.groups[0].name, network.groups[-1].name
    hosts = [network.nodes[host].name for host in network.hosts]
    pairs = st.tuples(st.sampled_from(hosts), st.sampled_from(hosts)).filter(lambda pair: pair[0] != pair[1])
    flows = st.builds(
        lambda pair, size, start: Flow(start_s=start, src=pair[0], dst=pair[1], size_bytes=size),
        pairs,
        sizes,
        st.floats(0, 9e-3),
    )
    kinds: list[st.SearchStrategy[AnyTraffic]] = [
        st.builds(Fixed, flows=st.lists(flows, min_size=1, max_size=12).map(tuple)),
        st.builds(
            Incast,
            events_per_s=st.floats(100, 2000),
            fan_in=st.integers(1, 12),
            bytes_per_server=st.integers(1, 50_000),
            sources=st.just(sending),
            destinations=st.just(receiving),
        ),
    ]
    if len(network.group(sending)) > 1:
        kinds.append(st.builds(Permutation, hosts=st.just(sending), size_bytes=sizes))
    window_pkts = draw(st.sampled_from([2, 20, 400]))
    return Scenario(
        name="random",
        topology=topology,
        workload=tuple((f"part{i}", draw(st.one_of(kinds))) for i in range(draw(st.integers(1, 2)))),
        duration_s=0.01,
        period_s=draw(st.sampled_from([1e-4, 1e-3])),
        transport=Transport(
            mtu_bytes=mtu_bytes,
            initial_window_pkts=draw(st.sampled_from([1, 10, 40])),
            handshake=draw(st.booleans()),
            connections_per_pair=draw(st.integers(0, 3)),
            idle_restart=draw(st.booleans()),
            sack=(sack := draw(st.booleans())),
            recovery=draw(st.sampled_from(["classic", "modern"])) if sack else "classic",
            limited_transmit=draw(st.booleans()),
            delayed_ack_pkts=draw(st.integers(1, 14 if window_pkts > 2 else 2)),
            receive_buffer_bytes=window_pkts * mtu_bytes,
        ),
        nic=Nic(
            bucket_bytes=2 * mtu_bytes,
            small_queue_bytes=draw(st.integers(1, 6)) * mtu_bytes,
            knows=draw(st.sampled_from(("sizes", "backlog"))),
        ),
    )
