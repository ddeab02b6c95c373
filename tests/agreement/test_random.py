# SPDX-License-Identifier: BSD-3-Clause
"""Random small networks, limits and TCP settings on both simulators: every flow, port and epoch must be the same.

Left out is what docs/agreement names as different: windows that the receiver limits, send buffers that end within a
packet, ports that let control packets go first, and packets that meet at one port in the same nanosecond (starts and
delays are odd numbers for that).
"""

from dataclasses import dataclass

import numpy as np
import pytest

from ncc.baselines.registry import controllers
from ncc.core.flows import FloatArray
from ncc.core.measurement import Epochs, Measurement, stack
from ncc.core.scenario import Nic, Scenario, Transport
from ncc.core.topologies import AnyTopology, Dumbbell, FatTree, LeafSpine, ManyToOne, Rack, TwoDatacentres
from ncc.core.topology import Red
from ncc.core.workload import Fixed, Flow
from ncc.envs.make import datapath_factory
from ncc.harness.datapath import Datapath, HostStack, Records

EPOCHS = 1000
CASES = 30


@dataclass(frozen=True)
class Drawn:
    scenario: Scenario
    stack: HostStack
    limits_bps: FloatArray
    """[n, n_agents], taken in turn."""


def drawn(seed: int) -> Drawn:
    rng = np.random.default_rng(seed)
    topology = _topology(rng)
    network = topology.build()
    names = [network.nodes[host].name for host in network.hosts]
    n = int(rng.choice([1, 3, 10, 30]))
    starts_ns = np.sort(rng.choice(4_000_000, n, replace=False))
    flows = []
    for start_ns in starts_ns.tolist():
        src, dst = rng.choice(names, 2, replace=False)
        if isinstance(topology, ManyToOne) and src != "receiver":
            dst = "receiver"
        size_bytes = int(10 ** rng.uniform(0, 6))
        flows.append(Flow(start_s=start_ns * 1e-9, src=str(src), dst=str(dst), size_bytes=size_bytes))
    mtu_bytes = int(rng.choice([1500, 1500, 9000, 577]))
    scenario = Scenario(
        name=f"random_{seed}",
        topology=topology,
        workload=(("fixed", Fixed(flows=tuple(flows))),),
        duration_s=0.01,
        period_s=float(rng.choice([1e-3, 1e-4])),
        decision_latency_s=float(rng.choice([0, 3e-5])),
        transport=Transport(
            mtu_bytes=mtu_bytes,
            frame_overhead_bytes=int(rng.choice([38, 0])),
            initial_window_pkts=int(rng.choice([10, 1, 40])),
            min_rto_s=float(rng.choice([5e-3, 2e-4])),
            sack=bool(rng.random() < 0.7),
            limited_transmit=bool(rng.random() < 0.7),
            dup_ack_pkts=int(rng.choice([3, 3, 1, 5])),
            delayed_ack_pkts=int(rng.choice([2, 1, 4])),
            delayed_ack_s=float(rng.choice([1e-4, 1e-3])),
        ),
        nic=Nic(bucket_bytes=2 * mtu_bytes, small_queue_bytes=int(rng.choice([4, 20])) * mtu_bytes),
    )
    limits_bps = np.full((1, scenario.n_agents), np.inf)
    if rng.random() < 0.4:
        limits_bps = 10 ** rng.uniform(7.5, 9.5, (50, scenario.n_agents))
        limits_bps[rng.random(limits_bps.shape) < 0.3] = np.inf
    names = datapath_factory("packetsim").extension().orders()  # type: ignore[attr-defined]
    stack_ = HostStack(transport=str(rng.choice(list(controllers()))), order=str(rng.choice(names)))
    return Drawn(scenario, stack_, limits_bps)


def _topology(rng: np.random.Generator) -> AnyTopology:
    rate_bps = float(rng.choice([1e8, 1e9, 3.3e9, 1e10]))
    ports: dict[str, object] = {"delay_s": float(rng.choice([1013, 10_007])) * 1e-9}
    ports["buffer_bytes"] = int(rng.choice([20_000, 100_000, 512_000]))
    how = rng.choice(["step", "red", "drop", "shared"])
    ports["mark_threshold_bytes"] = 15_000 if how == "step" else 0
    if how == "red":
        ports["red"] = Red(min_bytes=2000, max_bytes=12_000, max_prob_frac=0.3)
    elif how == "shared":
        ports |= {"shared_buffer_bytes": 100_000, "dt_alpha": 1.0}
    two, three = (int(n) for n in (rng.integers(1, 3), rng.integers(2, 5)))
    made: list[AnyTopology] = [
        Dumbbell(pairs=three, host_rate_bps=2 * rate_bps, bottleneck_rate_bps=rate_bps, **ports),  # type: ignore[arg-type]
        Rack(hosts=three, host_rate_bps=rate_bps, uplink_rate_bps=2 * rate_bps, remotes=2, **ports),  # type: ignore[arg-type]
        ManyToOne(senders=4 * three, rate_bps=rate_bps, **ports),  # type: ignore[arg-type]
        LeafSpine(leaves=2, spines=two, hosts_per_leaf=three, host_rate_bps=rate_bps, **ports),  # type: ignore[arg-type]
        FatTree(k=2 * two, rate_bps=rate_bps, **ports),  # type: ignore[arg-type]
        TwoDatacentres(hosts=two, rate_bps=rate_bps, wan_rate_bps=rate_bps, wan_delay_s=1.01e-4, **ports),  # type: ignore[arg-type]
    ]
    return made[rng.integers(len(made))]


def run(datapath: Datapath, what: Drawn, seed: int) -> tuple[Records, Epochs]:
    flows = what.scenario.flows(1)
    measured: list[Measurement] = [datapath.start(what.scenario, flows, what.stack, seed)]
    while measured[-1].flows_finished < len(flows) and len(measured) < EPOCHS:
        measured.append(datapath.step(what.limits_bps[len(measured) % len(what.limits_bps)]))
    records = datapath.finish()
    datapath.close()
    return records, stack(measured)


@pytest.mark.parametrize("seed", range(CASES))
def test_both_simulators_do_the_same(seed: int) -> None:
    what = drawn(seed)
    (ours, our_epochs), (theirs, their_epochs) = (
        run(datapath_factory(name)(), what, seed) for name in ("packetsim", "ns3")
    )
    for mine, other in ((ours.flows, theirs.flows), (ours.ports, theirs.ports)):
        for name, column in vars(mine).items():
            expected = vars(other)[name]
            # Sums of the same numbers in another order may differ in their last digits; counts and times may not.
            close = np.isclose(column, expected, rtol=1e-9, atol=0, equal_nan=True)
            assert close.all(), (
                f"{name} of {type(mine).__name__} {np.flatnonzero(~close)}: {column[~close]}, {expected[~close]}"
            )
    for name, column in our_epochs.columns.items():
        np.testing.assert_allclose(column, their_epochs.columns[name], rtol=1e-6, atol=1e-9, err_msg=name)


def test_the_draws_cover_what_they_are_for() -> None:
    every = [drawn(seed) for seed in range(CASES)]
    assert len({type(each.scenario.topology) for each in every}) == 6
    assert {each.stack.transport for each in every} == set(controllers())
    assert {len(each.limits_bps) for each in every} == {1, 50}
    ports = [each.scenario.topology for each in every]
    for name in ("red", "shared_buffer_bytes", "mark_threshold_bytes"):
        assert any(getattr(port, name) for port in ports), name
    assert {each.scenario.transport.sack for each in every} == {True, False}
