# SPDX-License-Identifier: BSD-3-Clause
"""Hosts that predict how long flows are from earlier ones of the same service."""

from typing import Any

import numpy as np
import pytest

from ncc.core.scenario import Nic, Scenario
from ncc.core.topologies import AnyTopology, Dumbbell
from ncc.core.units import US
from ncc.core.workload import Fixed, Flow
from ncc.harness.datapath import HostStack
from tests.datapaths.runs import CLASSIC, MSS, Simulator, flow, run
from tests.datapaths.test_same_packets import (
    random_case,
    random_limits,
    random_topology,
    run_alike,
)

PATH = Dumbbell(pairs=2, host_rate_bps=2e9, delay_s=25 * US)
KB = 1000
LATER_S = 0.5
PERIOD_S = 1e-4
LIMIT = np.array([500e6, np.inf])


def of_services(topology: AnyTopology, *services: list[Flow], **settings: Any) -> Scenario:
    """A scenario whose services have these flows."""
    workload = tuple((f"service{i}", Fixed(flows=tuple(flows))) for i, flows in enumerate(services))
    values: dict[str, Any] = {
        "name": "services",
        "duration_s": 1.0,
        "period_s": PERIOD_S,
        "transport": CLASSIC,
    } | settings
    return Scenario(topology=topology, workload=workload, **values)


def ten(host: str, size_bytes: int) -> list[Flow]:
    """Flows of a service, each over before the next."""
    return [flow(host, "r0", size_bytes, 0.03 * i) for i in range(10)]


def size_told(simulator: Simulator, nic: Nic, learnt_by: str) -> float:
    """Size of a flow of 300 KB that s0 tells its neighbours, after ten such of a host."""
    scenario = of_services(PATH, [*ten(learnt_by, 300 * KB), flow("s0", "r0", 300 * KB, LATER_S)], nic=nic)
    done = run(simulator, scenario, limits=LIMIT, max_epochs=6000)
    sent = done.column("throughput_bps")[:, 0] * PERIOD_S / 8 * MSS / 1500
    now = round(LATER_S / PERIOD_S)  # the first epoch of the flow
    assert done.column("queued_flows")[now, 0] == 1
    return float(done.column("next_bytes")[now, 0] + sent[now])


@pytest.mark.parametrize(
    ("nic", "learnt_by", "told"),
    [
        (Nic(knows="sizes"), "s0", 300 * KB),
        (Nic(knows="backlog"), "s0", 22 * MSS),
        (Nic(knows="services"), "s0", 300 * KB),
        (Nic(knows="services"), "s1", 2 * 22 * MSS),
        (Nic(knows="services", learns_from="neighbourhood"), "s1", 300 * KB),
    ],
)
def test_hosts_tell_what_they_can_know(simulator: Simulator, nic: Nic, learnt_by: str, told: int) -> None:
    """A host that has met nothing of a service supposes that as much again follows as is known."""
    assert size_told(simulator, nic, learnt_by) == pytest.approx(told, rel=0.1)


def test_the_shorter_service_goes_first(simulator: Simulator) -> None:
    """A flow of 400 KB has begun when long ones come: by what is known they are shorter."""
    long, short = ten("s0", 1500 * KB), ten("s0", 400 * KB)
    long += [flow("s0", "r0", 1500 * KB, LATER_S + 3e-3) for _ in range(3)]
    short.append(flow("s0", "r0", 400 * KB, LATER_S))

    def took_s(nic: Nic) -> float:
        scenario = of_services(PATH, long, short, nic=nic, period_s=1e-3)
        done = run(simulator, scenario, HostStack(order="sjf"), limits=LIMIT)
        return float(done.fct_s[done.flows.start_s == LATER_S][0])

    with_sizes, backlog, services = (took_s(Nic(knows=knows)) for knows in ("sizes", "backlog", "services"))
    assert services < 1.2 * with_sizes
    assert services < 0.8 * backlog


@pytest.mark.parametrize("seed", range(2100, 2104))
def test_both_simulators_predict_the_same(seed: int) -> None:
    random = np.random.default_rng(seed)
    nic = {"knows": "services", "learns_from": "neighbourhood" if seed % 2 else "host", "first_write_pkts": 2}
    transport = {"connections_per_pair": seed % 2}
    scenario, lost = random_case(random, random_topology(random), transport=transport, nic=nic, period_s=3.7e-4)
    ((_, traffic),) = scenario.workload
    assert isinstance(traffic, Fixed)
    parts = (traffic.replace(flows=traffic.flows[i::2]) for i in range(2))
    services = tuple((f"service{i}", part) for i, part in enumerate(parts) if part.flows)
    limits, stack = random_limits(random, scenario.n_agents), HostStack(transport="dctcp", order="srpt")
    run_alike(scenario.replace(workload=services), stack, limits=limits, max_epochs=2000, prepare=lost)
