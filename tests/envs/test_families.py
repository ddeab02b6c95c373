# SPDX-License-Identifier: BSD-3-Clause
"""Families of scenarios: the same draws every time, within the given ranges, and errors by name."""

import json
from typing import Any

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.keys import set_key
from ncc.envs.families import Choice, Families, Family, LogUniform, Uniform, check_families, families_from
from ncc.envs.observation import ObservationSpec
from ncc.envs.ranges import TrustedRanges
from tests.envs.cases import listed, plain, rack

POOLED = ObservationSpec(neighbours="pooled")
VARIES: dict[str, Any] = {
    "topology.hosts": Choice(values=(2, 4, 8)),
    "topology.buffer_bytes": LogUniform(low=100_000, high=1_000_000, whole=True),
    "workload.traffic.load_frac": Uniform(low=0.3, high=0.9),
    "period_s": Choice(values=(1e-4, 2e-4)),
}


def families(**settings: Any) -> Families:
    return Families(
        hosts_per_slot=16, epochs=7, of={"racks": Family(scenario=plain(rack()), varies=VARIES)}, **settings
    )


def test_equal_arguments_give_equal_scenarios_and_others_others() -> None:
    drawn = [families().draw(*at) for at in ((3, 0, 0), (3, 0, 0), (4, 0, 0), (3, 1, 0), (3, 0, 1))]
    assert drawn[0] == drawn[1]
    assert len({scenario.digest() for scenario in drawn}) == 4


def test_what_varies_is_in_its_range_and_the_rest_is_as_written() -> None:
    drawn = [families().draw(1, slot, episode) for slot in range(4) for episode in range(15)]
    assert {scenario.n_agents for scenario in drawn} == {2, 4, 8}
    assert {scenario.period_s for scenario in drawn} == {1e-4, 2e-4}
    assert {scenario.topology.to_dict()["uplink_rate_bps"] for scenario in drawn} == {2e9}
    for scenario in drawn:
        assert scenario.name == "racks"
        assert scenario.duration_s == pytest.approx(7 * scenario.period_s)
        whole = scenario.topology.to_dict()["buffer_bytes"]
        assert isinstance(whole, int)
        assert 100_000 <= whole <= 1_000_000
        ((_, traffic),) = scenario.workload
        assert 0.3 <= traffic.to_dict()["load_frac"] <= 0.9


def test_another_key_changes_none_of_the_others() -> None:
    more = {**VARIES, "topology.delay_s": LogUniform(low=5e-6, high=40e-6)}
    fuller = Families(hosts_per_slot=16, epochs=7, of={"racks": Family(scenario=plain(rack()), varies=more)})
    one, other = families().draw(1, 2, 3), fuller.draw(1, 2, 3)
    delay_s = one.topology.to_dict()["delay_s"]
    assert other.topology.to_dict() == {**one.topology.to_dict(), "delay_s": other.topology.to_dict()["delay_s"]}
    assert other.topology.to_dict()["delay_s"] != delay_s
    assert other.workload == one.workload


def test_ranges_are_spread_as_they_say() -> None:
    rng = np.random.default_rng(0)
    logs = np.log10([LogUniform(low=1, high=10_000).sample(rng) for _ in range(4000)])
    assert np.histogram(logs, bins=4, range=(0, 4))[0] == pytest.approx([1000] * 4, abs=100)
    levels = [Uniform(low=0, high=4).sample(rng) for _ in range(4000)]
    assert np.histogram(levels, bins=4, range=(0, 4))[0] == pytest.approx([1000] * 4, abs=100)
    assert np.bincount([Uniform(low=0, high=3, whole=True).sample(rng) for _ in range(4000)]) == pytest.approx(
        [1000] * 4, abs=100
    )
    # k stands for [k, k + 1): log2 of 2, 3/2 and 4/3, over log2 of 4.
    whole = [LogUniform(low=1, high=3, whole=True).sample(rng) for _ in range(4000)]
    assert np.bincount(whole)[1:] == pytest.approx([2000, 1170, 830], abs=120)


def test_weights_decide_how_often() -> None:
    of = {
        "often": Family(scenario=plain(rack()), weight=3),
        "seldom": Family(scenario=plain(rack()), weight=1),
    }
    both = Families(hosts_per_slot=4, of=of)
    picked = [both.pick(1, slot, episode) for slot in range(500) for episode in (0, 1)]
    assert picked.count("often") == pytest.approx(750, abs=60)
    turned = Families(hosts_per_slot=4, of=dict(reversed(of.items())))
    assert [turned.pick(1, slot, 2) for slot in range(50)] == [both.pick(1, slot, 2) for slot in range(50)]


def test_plain_data_and_back() -> None:
    made = families()
    again = families_from(json.loads(made.to_json()))
    assert again.digest() == made.digest()
    assert again.draw(1, 2, 3) == made.draw(1, 2, 3)
    assert families_from({}) == Families()


@pytest.mark.parametrize(
    ("varies", "said"),
    [
        (
            {"topology.hostz": {"kind": "choice", "values": [4]}},
            r"families\.of\.a\.varies: .*'hostz'.*Did you mean 'hosts'",
        ),
        ({"topologie.hosts": {"kind": "choice", "values": [4]}}, r"families\.of\.a\.varies: .*Did you mean 'topology'"),
        (
            {"workload.web.load_frac": {"kind": "choice", "values": [1]}},
            r"families\.of\.a.*'workload\.web'.*known: traffic",
        ),
        (
            {"duration_s": {"kind": "choice", "values": [1]}},
            r"families\.of\.a\.varies cannot have 'duration_s': .*epochs",
        ),
        (
            {"period_s": {"kind": "choise", "values": [1]}},
            r"families\.of\.a\.varies\.period_s.*kind.*Did you mean 'choice'",
        ),
        ({"period_s": {"kind": "choice", "values": []}}, r"families\.of\.a\.varies\.period_s"),
        ({"period_s": {"kind": "uniform", "low": 2, "high": 1}}, r"period_s.*low must not exceed high"),
        ({"period_s": {"kind": "log_uniform", "low": 0, "high": 1}}, r"period_s.*low must be above 0"),
        (
            {"topology.hosts": {"kind": "uniform", "low": 1.5, "high": 4, "whole": True}},
            r"topology\.hosts.*whole number",
        ),
    ],
)
def test_keys_and_ranges_are_refused_by_name(varies: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        families_from({"of": {"a": {"scenario": plain(rack()), "varies": varies}}})


def test_a_bad_scenario_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"families\.of\.a\.scenario\.topology has no field 'hostz'"):
        families_from({"of": {"a": {"scenario": {**plain(rack()), "topology": {"kind": "rack", "hostz": 4}}}}})


@pytest.mark.parametrize(
    ("varies", "said"),
    [
        ({"topology.hosts": Choice(values=(4, 7))}, r"family 'a' with topology\.hosts 7: networks of 7 hosts .* 16;"),
        ({"topology.hosts": Choice(values=(4, 1))}, r"family 'a' with topology\.hosts 1: scenario\.topology\.hosts"),
        ({"topology.hosts": Choice(values=(4, 32))}, r"family 'a' with topology\.hosts 32: .*divides it"),
        ({"topology.buffer_bytes": Uniform(low=100, high=1e5, whole=True)}, r"'a' with topology\.buffer_bytes 100:"),
        ({"period_s": LogUniform(low=1e-6, high=1e-3)}, r"family 'a' with period_s 1e-06: scenario\.period_s"),
        ({"workload.traffic.distribution": Choice(values=("hadoop", "hadop"))}, r"'a' with .*Did you mean 'hadoop'"),
    ],
)
def test_what_could_be_drawn_is_refused_before_it_is(varies: dict[str, Any], said: str) -> None:
    bad = Families(hosts_per_slot=16, of={"a": Family(scenario=plain(rack()), varies=varies)})
    with pytest.raises(ConfigError, match=said):
        check_families(bad, POOLED)


def test_what_is_no_environment_is_refused() -> None:
    lists = Families(hosts_per_slot=4, of={"a": Family(scenario=plain(rack(listed((0.0, "h0", 1000)))))})
    with pytest.raises(ConfigError, match=r"family 'a': scenario\.workload is a finite list"):
        check_families(lists, POOLED)
    with pytest.raises(ConfigError, match=r"family 'a': scenario\.workload is a finite list"):
        lists.draw(1, 0, 0)
    two = {"kind": "dumbbell", "pairs": 2}
    flow = {"kind": "poisson", "distribution": "hadoop", "load_frac": 0.5, "sources": "senders"}
    dumbbell = {**plain(rack()), "topology": two, "workload": {"traffic": {**flow, "destinations": "receivers"}}}
    assert check_families(Families(hosts_per_slot=4, of={"a": Family(scenario=dumbbell)}), POOLED) == 16
    with pytest.raises(ConfigError, match=r"names no family"):
        check_families(Families(), POOLED)
    with pytest.raises(ConfigError, match=r"names no family"):
        Families().draw(1, 0, 0)


def test_families_that_leave_the_ranges_of_their_policy_are_refused() -> None:
    within = TrustedRanges(hosts=(2, 8), uplink_frac=(0.5, 4), rtt_periods=(0.01, 10), buffer_periods=(0.1, 100))
    assert check_families(families(), POOLED, within) == 16
    with pytest.raises(
        ConfigError, match=r"family 'racks' draws .* is 8, and its policy is trusted with 2 to 4; widen"
    ):
        check_families(families(), POOLED, within.replace(hosts=(2, 4)))
    with pytest.raises(ConfigError, match=r"over a host's is 2, and its policy is trusted with 4 to 8"):
        check_families(families(), POOLED, within.replace(uplink_frac=(4, 8)))
    with pytest.raises(
        ConfigError, match=r"hosts know the sizes of their flows, and its policy is trusted with their backlog"
    ):
        check_families(families(), POOLED, within.replace(knows=("backlog",)))


def test_a_number_by_powers_of_other_keys() -> None:
    varies = {
        **VARIES,
        "topology.mark_threshold_bytes": Uniform(low=0.1, high=0.5, whole=True, by={"topology.buffer_bytes": 1}),
        "workload.traffic.load_frac": Uniform(low=2, high=4, by={"topology.hosts": -1, "period_s": 0}),
    }
    made = Families(hosts_per_slot=16, of={"a": Family(scenario=plain(rack()), varies=varies)})
    for slot in range(5):
        drawn = made.draw(1, slot, 0)
        ((_, traffic),) = drawn.workload
        topology = drawn.topology.to_dict()
        assert 2 <= traffic.to_dict()["load_frac"] * topology["hosts"] <= 4
        assert 0.099 <= topology["mark_threshold_bytes"] / topology["buffer_bytes"] <= 0.501
    with pytest.raises(ConfigError, match=r"key 'topology.host': part 'host'"):
        Family(scenario=plain(rack()), varies={"period_s": Uniform(low=1, high=2, by={"topology.host": -1})})


def test_hosts_of_all_networks_must_see_alike() -> None:
    assert check_families(families(), POOLED) == 16
    with pytest.raises(ConfigError, match=r"11 numbers in family 'racks' with 2 hosts.*17 .*neighbours to pooled"):
        check_families(families(), ObservationSpec())


def test_keys_are_set_by_their_dotted_name() -> None:
    there: dict[str, Any] = {"a": {"b": {"c": 1}}}
    set_key(there, "a.b.c", 2, new=False)
    set_key(there, "a.d", 3)
    assert there == {"a": {"b": {"c": 2}, "d": 3}}
    with pytest.raises(ConfigError, match=r"key 'a\.e': part 'e'; known: b, d"):
        set_key(there, "a.e", 0, new=False)
    with pytest.raises(ConfigError, match=r"key 'a\.e': part 'e'; known: b, d"):
        set_key(there, "a.e.f", 0)
    with pytest.raises(ConfigError, match=r"key 'a\.d\.x': a\.d has no keys of its own"):
        set_key(there, "a.d.x", 0)
