# SPDX-License-Identifier: BSD-3-Clause
"""Every controller of the table on both simulators: the same packets, number by number. A new one joins by itself."""

from typing import Any

import pytest

from ncc.baselines.registry import controllers
from ncc.core.scenario import Scenario
from ncc.core.topologies import Dumbbell, Rack
from ncc.envs.ns3 import Ns3Datapath
from ncc.envs.packetsim import PacketsimDatapath
from tests.datapaths.runs import fixed, flow, run
from tests.datapaths.test_same_packets import check_equal


def dumbbell(size_bytes: int = 3_000_000, **topology: Any) -> Scenario:
    """Two long flows into a bottleneck of half their speed."""
    flows = [flow(f"s{i}", f"r{i}", size_bytes, i * 1e-3) for i in range(2)]
    return fixed(Dumbbell(pairs=2, host_rate_bps=2e9, **topology), *flows)


def rack() -> Scenario:
    """An incast of short flows between long ones."""
    long = [flow(f"h{i}", "r0", 1_000_000) for i in range(4)]
    short = [flow(f"h{i % 8}", "r1", 20_000, 1e-3 + (i // 8) * 2e-3) for i in range(32)]
    return fixed(Rack(hosts=8, buffer_bytes=60_000, mark_threshold_bytes=20_000), *long, *short)


SCENARIOS = {
    "marks": dumbbell(),
    "drops": dumbbell(mark_threshold_bytes=0, buffer_bytes=100_000),
    "delay": dumbbell(1_000_000, mark_threshold_bytes=0, delay_s=1e-3, buffer_bytes=300_000),
    "rack": rack(),
}


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
@pytest.mark.parametrize("name", sorted(controllers()))
def test_a_controller_does_the_same_on_both_simulators(name: str, scenario: Scenario) -> None:
    ours, theirs = (run(each, scenario, name) for each in (PacketsimDatapath, Ns3Datapath))
    check_equal(ours.records.flows, theirs.records.flows, "of flows")
    check_equal(ours.records.ports, theirs.records.ports, "of ports")
    for epoch, (one, two) in enumerate(zip(ours.epochs, theirs.epochs, strict=True)):
        check_equal(one, two, f"of epoch {epoch}")
    assert ours.epochs[-1].flows_finished == len(ours.flows)
