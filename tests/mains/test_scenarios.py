# SPDX-License-Identifier: BSD-3-Clause
"""Every YAML in configs/scenario is a scenario that can be run, and what it does not set can be set from outside."""

from pathlib import Path

import numpy as np
import pytest

from ncc.core.distributions import DISTRIBUTIONS, distribution
from ncc.core.errors import ConfigError
from ncc.core.scenario import Scenario, scenario_from_dict
from ncc.core.topology import Red
from ncc.core.value import doubts
from ncc.core.workload import Poisson
from ncc.envs.scenarios import make_scenario, scenario_names
from ncc.run.compose import composed
from ncc.run.config_files import with_scenario_files
from ncc.study.load import load_experiment
from ncc.study.points import grid_of


def scenario(name: str, *overrides: str) -> Scenario:
    return scenario_from_dict(composed("train", [f"scenario={name}", *overrides])["scenario"])


@pytest.mark.parametrize("name", scenario_names())
def test_a_scenario_is_called_as_its_file_and_has_flows(name: str) -> None:
    """And a name means the same to Python."""
    made = scenario(name)
    assert made.name == name
    assert made == make_scenario(name)
    flows = made.flows(1)
    assert len(flows) > 0
    assert not list(doubts(made, "scenario"))
    network = made.network()
    assert all(network.path(src, dst) for src, dst in zip(flows.src[:100], flows.dst[:100], strict=True))


def test_the_union_of_the_four_services_is_web_search() -> None:
    services = [part for _, part in scenario("services").workload if isinstance(part, Poisson)]
    assert services == [
        part
        for cell in grid_of("ncc_blind", *load_experiment("ncc_blind"), "full").cells
        if (cell.contender, cell.point) == ("dctcp", ("four services",))
        for _, part in cell.scenario.workload
    ]
    tables = [distribution(part.distribution) for part in services]
    shares = np.array([part.load_frac / table.mean_bytes for part, table in zip(services, tables, strict=True)])
    size, upto = DISTRIBUTIONS["websearch"].columns
    union = shares @ [np.interp(size, *table.columns) for table in tables] / shares.sum()
    np.testing.assert_allclose(union, upto, atol=1e-3)
    assert sum(part.load_frac for part in services) == pytest.approx(0.8, abs=1e-4)


def test_base_rtts_are_those_of_the_papers() -> None:
    """bai2020 section V-A: 80 us; saeed2020 section 5.2: 14 us; zeng2022 section 3.1.2: 200 us and 10 ms."""

    def rtt_s(name: str, src: str, dst: str) -> float:
        network = scenario(name).network()
        ids = {node.name: i for i, node in enumerate(network.nodes)}
        return 2 * sum(network.links[port // 2].delay_s for port in network.path(ids[src], ids[dst]))

    assert rtt_s("leaf_spine", "h0_0", "h7_15") == pytest.approx(80e-6)
    assert rtt_s("fat_tree", "h0_0_0", "h7_3_3") == pytest.approx(14e-6, rel=0.01)
    assert rtt_s("two_datacentres", "h0_0", "h0_23") == pytest.approx(200e-6)
    assert rtt_s("two_datacentres", "h0_0", "h1_0") == pytest.approx(10e-3)


def test_paths_that_look_alike_are_scenarios_of_their_own(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a-b.yaml", "a_b.yaml", "a b.yaml")]
    for path in paths:
        path.write_text(f"defaults: [incast]\nname: made\nduration_s: 0.{paths.index(path) + 1}\n")
    names = with_scenario_files("scenario=" + ",".join(map(str, paths))).removeprefix("scenario=").split(",")
    assert [scenario(name).duration_s for name in names] == [0.1, 0.2, 0.3]


def test_a_nested_value_that_is_null_can_be_given_and_taken_away() -> None:
    red = "scenario.topology.red={min_bytes:10000,max_bytes:50000}"
    assert scenario("rack", red).topology.red == Red(min_bytes=10_000, max_bytes=50_000, max_prob_frac=0.1)
    assert scenario("rack", red, "scenario.topology.red=null").topology.red is None
    with pytest.raises(ConfigError, match=r"scenario.topology.red.max_bytes is missing"):
        scenario("rack", "scenario.topology.red={min_bytes:10000}")
