# SPDX-License-Identifier: BSD-3-Clause
"""Random small scenarios on packetsim: no packet is lost from the books, and nothing but the seed decides a run."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ncc.core.errors import ConfigError
from ncc.core.flows import FlowRecords, PortRecords
from ncc.core.measurement import Measurement
from ncc.core.scenario import Nic, Scenario, Transport
from ncc.core.topologies import AnyTopology, Dumbbell, FatTree, LeafSpine, ManyToOne, Rack, TwoDatacentres
from ncc.core.topology import Red
from ncc.core.workload import AnyTraffic, Fixed, Flow, Incast, Permutation
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.datapath import HostStack
from ncc.harness.networks import networks
from tests.datapaths.runs import engine

EPOCHS = 12
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
            sack=draw(st.booleans()),
            limited_transmit=draw(st.booleans()),
            delayed_ack_pkts=draw(st.integers(1, 4)),
            receive_buffer_bytes=draw(st.sampled_from([2, 20, 400])) * mtu_bytes,
        ),
        nic=Nic(bucket_bytes=2 * mtu_bytes, small_queue_bytes=draw(st.integers(1, 6)) * mtu_bytes),
    )


stacks = st.sampled_from(PacketsimDatapath().transports()).map(lambda name: HostStack(transport=name))
Result = tuple[list[Measurement], FlowRecords, PortRecords]


def limits(scenario: Scenario, seed: int) -> np.ndarray:
    """[EPOCHS, n_agents], the same for the same arguments."""
    rng = np.random.default_rng(seed)
    return rng.choice([1e6, 1e8, 1e9, np.inf], (EPOCHS, scenario.n_agents))


def result(scenario: Scenario, stack: HostStack, seed: int) -> Result:
    """A run of some epochs; the books are checked after each."""
    datapath = PacketsimDatapath()
    datapath.start(scenario, scenario.flows(seed), stack, seed)
    measured = []
    for row in limits(scenario, seed):
        measured.append(datapath.step(row))
        audit = engine(datapath).audit()
        assert audit["sent"] == audit["arrived"] + audit["dropped"] + audit["in_hosts"] + audit["on_links"]
        assert audit["dropped"] == datapath.finish().ports.dropped_pkts.sum()
    records = datapath.finish()
    return measured, records.flows, records.ports


def assert_equal(one: object, two: object) -> None:
    """Bit for bit."""
    assert type(one) is type(two)
    for field in fields(one):  # type: ignore[arg-type]
        a, b = np.asarray(getattr(one, field.name)), np.asarray(getattr(two, field.name))
        assert a.tobytes() == b.tobytes(), field.name


def assert_same(one: Result, two: Result) -> None:
    for a, b in zip(one[0], two[0], strict=True):
        assert_equal(a, b)
    assert_equal(one[1], two[1])
    assert_equal(one[2], two[2])


@settings(max_examples=40)
@given(scenarios(), stacks, st.integers(0, 2**63))
def test_the_books_balance_and_threads_and_repeats_change_nothing(
    scenario: Scenario, stack: HostStack, seed: int
) -> None:
    alone = result(scenario, stack, seed)
    with ThreadPoolExecutor(2) as pool:
        for other in [pool.submit(result, scenario, stack, seed) for _ in range(2)]:
            assert_same(other.result(), alone)


@settings(max_examples=20)
@given(scenarios(), stacks, st.integers(1, 4), st.integers(1, 3))
def test_a_batch_of_any_size_gives_what_each_network_gives_alone(
    scenario: Scenario, stack: HostStack, n: int, threads: int
) -> None:
    batch = networks(PacketsimDatapath, n, threads=threads)
    alone = [result(scenario, stack, seed)[0] for seed in range(n)]
    for seed in range(n):
        batch.start(seed, scenario, scenario.flows(seed), stack, seed)
    rows = np.stack([limits(scenario, seed) for seed in range(n)])
    for epoch in range(EPOCHS):
        measured = batch.step(rows[:, epoch])
        for name in ("throughput_bps", "rtt_s", "queued_bytes", "upper_queue_mean_bytes", "flows_finished"):
            wanted = np.array([getattr(each[epoch], name) for each in alone])
            assert np.array_equal(np.reshape(getattr(measured, name), wanted.shape), wanted), name
    batch.close()


@given(
    scenarios(),
    st.sampled_from(["start_s", "src", "dst", "size_bytes"]),
    st.one_of(st.floats(allow_nan=False, width=32), st.integers(-(2**62), 2**62).map(float)),
)
def test_a_flow_table_with_any_number_in_it_runs_or_is_refused(scenario: Scenario, column: str, value: float) -> None:
    flows = scenario.flows(1)
    if not len(flows):
        return
    values = getattr(flows, column).copy()
    values[len(values) // 2] = value if column == "start_s" else int(np.clip(value, -(2.0**62), 2.0**62))
    changed = type(flows)(**{f.name: getattr(flows, f.name) for f in fields(flows)} | {column: values})
    datapath = PacketsimDatapath()
    try:
        with np.errstate(invalid="ignore", over="ignore"):
            datapath.start(scenario, changed, HostStack(), 1)
    except ConfigError as error:
        assert str(error).count(". ") == 0  # noqa: PT017 - either outcome is right, this is about the error's
        return
    for row in limits(scenario, 1)[:3]:
        datapath.step(row)
