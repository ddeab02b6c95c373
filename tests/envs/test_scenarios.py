# SPDX-License-Identifier: BSD-3-Clause
"""Scenarios as Python users name them."""

from pathlib import Path
from typing import Any

import pytest

from ncc.core.errors import ConfigError, UnknownNameError
from ncc.core.scenario import scenario_from_dict
from ncc.envs.make import DEFAULT_SCENARIO, env_spec
from ncc.envs.scenarios import make_scenario
from tests.envs.cases import rack


def test_without_a_name_it_is_the_rack() -> None:
    assert make_scenario() == make_scenario("rack") == make_scenario({}) == DEFAULT_SCENARIO


def test_a_mapping_says_what_differs() -> None:
    changed = make_scenario({"topology": {"hosts": 4}, "workload": {"websearch": {"load_frac": 0.3}}, "drain_s": 1.0})
    plain = DEFAULT_SCENARIO.to_dict()
    plain["topology"]["hosts"], plain["workload"][0][1]["load_frac"], plain["drain_s"] = 4, 0.3, 1.0
    assert changed == scenario_from_dict(plain)
    assert (
        make_scenario({"name": "incast", "topology": {"senders": 8}}).topology
        == make_scenario("incast", hosts=8).topology
    )
    own = {"kind": "permutation", "hosts": "hosts", "size_bytes": 1000}
    assert [name for name, _ in make_scenario({"workload": {"own": own}}).workload] == ["own"]
    assert [name for name, _ in make_scenario({"workload": {"own": own, "websearch": {}}}).workload] == [
        "websearch",
        "own",
    ]
    other = make_scenario({"topology": {"kind": "leaf_spine"}, "workload": {"own": own}})
    assert other.topology.to_dict()["mark_threshold_bytes"] == 30_000  # a kind of its own has its own defaults
    assert make_scenario(rack().to_dict()) == rack()


def test_what_is_often_changed_has_a_keyword() -> None:
    spec = env_spec("incast", hosts=8, duration_s=0.2, period_s=2e-3)
    assert (spec.scenario.n_agents, spec.scenario.duration_s, spec.scenario.period_s) == (8, 0.2, 2e-3)
    assert spec.scenario.to_dict()["workload"][0][1]["fan_in"] == 8  # each sender answers once, as with 32
    assert make_scenario("rack", load_frac=0.5).to_dict()["workload"][0][1]["load_frac"] == 0.5
    assert make_scenario("dumbbell", hosts=3).n_agents == 3


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text("defaults: [rack, _self_]\ntopology: {hosts: 4, host_rate_bps: 2.0e9}\nduration_s: 1.0e-1\n")
    found = make_scenario(path)
    assert found == make_scenario(str(path), hosts=4)
    assert (found.n_agents, found.duration_s, found.to_dict()["topology"]["host_rate_bps"]) == (4, 0.1, 2e9)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("incats", r"Unknown scenario 'incats'. Did you mean 'incast'\? Known: .*rack, "),
        ({"topologie": 1}, r"no field 'topologie'. Did you mean 'topology'\? Allowed: "),
        ({"topology": {"host": 3}}, r"scenario.topology has no field 'host'.* Did you mean 'hosts'\?"),
        ("no/such.yaml", r"scenario file no/such.yaml cannot be read: No such file"),
        (3, r"scenario must be a name, a YAML file, a mapping .*, got int"),
    ],
)
def test_what_cannot_be_a_scenario_is_refused_by_name(given: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_scenario(given)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", r"own.yaml is not valid YAML: while parsing"),
        ("- 1", r"own.yaml must be a mapping of a scenario's fields, got list"),
        ("defaults: [{datapath: ns3}]", r"defaults may name a topology .*, got \{'datapath': 'ns3'\}"),
        ("defaults: [rakc]", r"Unknown scenario 'rakc'.* Did you mean 'rack'"),
        ("duration_s: 1.0", r"own.yaml.*topology"),
    ],
)
def test_what_cannot_be_a_file_is_refused_by_name(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        make_scenario(path)


def test_a_keyword_that_a_scenario_has_no_place_for_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"hosts can be given for topologies of kind rack.*'fat_tree' has fat_tree"):
        make_scenario("fat_tree", hosts=4)
    with pytest.raises(ConfigError, match=r"load_frac is of one Poisson component, and scenario 'incast' has 0"):
        make_scenario("incast", load_frac=0.5)
    with pytest.raises(ConfigError, match=r"Rack.hosts.*>= 2, got 1"):
        make_scenario(hosts=1)
    with pytest.raises(UnknownNameError, match="Unknown scenario"):
        env_spec("nowhere")
