# SPDX-License-Identifier: BSD-3-Clause
"""Prague and others through DualPI2: who waits, who is marked, and the same on both simulators."""

import numpy as np
import pytest

from ncc.core.scenario import Scenario
from ncc.core.topologies import Dumbbell
from ncc.core.topology import Program
from ncc.core.workload import Fixed
from ncc.harness.datapath import ComponentStack, HostStack
from tests.datapaths.runs import CLASSIC, MSS, flow
from tests.datapaths.test_same_packets import random_case, random_topology, run_alike

FAST_PARAMS = (("target_ns", 1_500_000), ("update_ns", 1_000_000), ("threshold_ns", 100_000))
FAST = (Program(name="dualpi2", params=FAST_PARAMS),)
"""For RTTs of some milliseconds."""
PRAGUE_TOO = ComponentStack(component="l4s", transport="prague", params=(("rtt_ns", 0),))


def shared(classic: str, *, buffer_bytes: int = 1_000_000) -> tuple[Scenario, HostStack]:
    """Two flows of Prague and two others over a line of 100 Mbit/s, with RTTs of 4 ms."""
    topology = Dumbbell(
        pairs=4, host_rate_bps=1e9, bottleneck_rate_bps=1e8, delay_s=0.67e-3, buffer_bytes=buffer_bytes,
        mark_threshold_bytes=0, programs=FAST,
    )  # fmt: skip
    size = 2000 * MSS
    workload = tuple(
        (name, Fixed(flows=tuple(flow(f"s{i}", f"r{i}", size, i * 1e-3) for i in pairs)))
        for name, pairs in (("l4s", (0, 1)), ("others", (2, 3)))
    )
    scenario = Scenario(name="test", topology=topology, workload=workload, duration_s=4.0, transport=CLASSIC)
    return scenario, HostStack(transport=classic, components=(PRAGUE_TOO,))


@pytest.mark.parametrize("classic", ["cubic", "newreno", "annulus_cubic"])
def test_flows_with_and_without_l4s_share_alike_on_both_simulators(classic: str) -> None:
    """The last one has no ECN: its packets are dropped."""
    scenario, stack = shared(classic)
    done = run_alike(scenario, stack, max_epochs=8000)
    ports = done.records.ports
    port = scenario.network().port("left->right")
    assert (ports.dropped_pkts[port] > 0) == (classic == "annulus_cubic")
    marked = done.records.flows.ce_pkts
    assert (marked[:2] > 0).all()
    assert (marked[2:] > 0).tolist() == [classic != "annulus_cubic"] * 2
    l4s_s, others_s = done.fct_s[:2].mean(), done.fct_s[2:].mean()
    assert 0.5 < others_s / l4s_s < 2


def test_l4s_waits_less_than_others() -> None:
    """RTTs in epochs of both: 4 ms and at most some hundred microseconds, beside 4 ms and about 1.5."""
    scenario, stack = shared("cubic")
    done = run_alike(scenario, stack, max_epochs=8000)
    rtt_s = done.records.flows.rtt_mean_s - 4.1e-3
    assert (rtt_s[:2] < 0.7e-3).all()
    assert (rtt_s[2:] > 1e-3).all()


@pytest.mark.parametrize("seed", range(6))
def test_random_networks_are_the_same_on_both_simulators(seed: int) -> None:
    random = np.random.default_rng(8000 + seed)
    settings = {"control_first": False, "shared_buffer_bytes": 0, "red": None, "mark_threshold_bytes": 0}
    topology = random_topology(random).replace(programs=FAST, **settings)
    scenario, lost = random_case(random, topology)
    run_alike(scenario, ["prague", "cubic", "dctcp"][seed % 3], max_epochs=2000, prepare=lost)


def test_step_marks_hold_prague_as_they_hold_dctcp() -> None:
    """Without DualPI2 it is a DCTCP that grows while it is cut."""
    topology = Dumbbell(pairs=2, bottleneck_rate_bps=1e9, delay_s=20e-6)
    flows = Fixed(flows=tuple(flow(f"s{i}", f"r{i}", 3000 * MSS) for i in range(2)))
    scenario = Scenario(
        name="test", topology=topology, workload=(("flows", flows),), duration_s=1.0, transport=CLASSIC
    )  # fmt: skip
    done = run_alike(scenario, "prague")
    assert done.records.ports.dropped_pkts.sum() == 0
    assert done.records.flows.ce_pkts.min() > 0
