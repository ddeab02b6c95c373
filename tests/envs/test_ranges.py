# SPDX-License-Identifier: BSD-3-Clause
"""Ranges of a training, and the parts of another network that lie outside of them."""

from typing import Any

import pytest

from ncc.core.errors import ConfigError
from ncc.core.scenario import Nic, Scenario
from ncc.core.value import from_dict
from ncc.envs.families import AnyDraw, Choice, Families, Family, LogUniform, Uniform, ranges_of_training
from ncc.envs.ranges import TrainedRanges, trained_ranges
from tests.envs.cases import listed, plain, poisson, rack


def families() -> Families:
    varies: dict[str, AnyDraw] = {
        "topology.hosts": Choice(values=(2, 8)),
        "topology.uplink_rate_bps": LogUniform(low=1e8, high=4e9),
        "topology.buffer_bytes": LogUniform(low=100_000, high=1_000_000, whole=True),
        "workload.traffic.load_frac": Uniform(low=0.3, high=0.9),
        "period_s": Choice(values=(1e-4, 2e-4)),
    }
    return Families(hosts_per_slot=16, epochs=7, of={"racks": Family(scenario=plain(rack()), varies=varies)})


def network(**topology: Any) -> Scenario:
    scenario = rack()
    return scenario.replace(topology=scenario.topology.replace(**topology), period_s=1e-4)


def test_ranges_are_those_of_the_families() -> None:
    ranges = ranges_of_training(rack(), families())
    assert ranges.hosts == (2, 8)
    assert list(ranges.uplink_frac) == pytest.approx([0.1, 4.0])
    assert ranges.host_rate_bps == (1e9, 1e9)
    assert list(ranges.load_frac) == pytest.approx([0.3, 0.9])
    assert ranges.period_s == (1e-4, 2e-4)
    assert ranges.buffer_bytes == (1e5, 1e6)
    assert 0 < ranges.base_rtt_s[0] < ranges.base_rtt_s[1]


def test_without_families_they_are_those_of_the_scenario() -> None:
    ranges = ranges_of_training(rack(), Families())
    assert ranges == trained_ranges([rack()])
    assert ranges.hosts == (4, 4)
    assert ranges.outside(rack()) == ()


@pytest.mark.parametrize(
    ("topology", "says"),
    [
        ({"hosts": 9}, "the number of hosts in a neighbourhood is 9, and training met 2 to 8"),
        ({"uplink_rate_bps": 5e7}, "the uplink's rate over a host's is 0.05, and training met 0.1 to 4"),
        ({"buffer_bytes": 2_000_000}, "the uplink's buffer is 2,000 KB, and training met 100 to 1,000 KB"),
    ],
)
def test_what_lies_outside_is_said(topology: dict[str, Any], says: str) -> None:
    ranges = ranges_of_training(rack(), families())
    assert ranges.outside(network()) == ()
    assert says in ranges.outside(network(**topology))


def test_a_load_counts_where_there_is_one() -> None:
    ranges = ranges_of_training(rack(), families())
    lone = network().replace(workload=(("lone", listed((0.0, "h0", 1000))),))
    assert trained_ranges([lone]).load_frac == (0, 0)
    assert ranges.outside(lone) == ()
    assert any("load" in said for said in ranges.outside(network().replace(workload=(("much", poisson(0.95)),))))


def test_a_policy_trained_with_sizes_has_not_met_backlogs() -> None:
    blind = network().replace(nic=Nic(knows="backlog"))
    assert ranges_of_training(rack(), families()).outside(blind) == (
        "hosts know the backlog of their flows, and training met their sizes",
    )
    assert "training met their backlog" in trained_ranges([blind]).outside(network())[0]
    both = trained_ranges([network(), blind])
    assert both.outside(blind) == both.outside(network()) == ()
    before = {name: value for name, value in both.to_dict().items() if name != "knows"}
    assert from_dict(TrainedRanges, before, "trained").knows == ("sizes",), "policies made before hosts could differ"


def test_ranges_must_rise() -> None:
    falling = trained_ranges([rack()]).to_dict() | {"hosts": [5, 4]}
    with pytest.raises(ConfigError, match=r"trained.hosts must be \(least, most\), got \(5, 4\)"):
        from_dict(TrainedRanges, falling, "trained")
