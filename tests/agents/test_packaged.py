# SPDX-License-Identifier: BSD-3-Clause
"""Policies of the package and of runs: the one that a controller runs, its stack and its warnings."""

from pathlib import Path

import pytest

from ncc.agents.policy import load_policy, save_policy
from ncc.core.errors import ConfigError, ResultError
from ncc.harness.atomic import file_digest
from ncc.harness.controller import Controller, PolicyLimit
from ncc.harness.datapath import HostStack
from ncc.results.notebook import scenario_of
from ncc.run.controllers import load_controller
from ncc.run.limiters import Decider, LimiterFactory
from tests.support.experiments import small_rack
from tests.support.policies import package, write_policy


def test_a_scenario_outside_of_the_training_is_warned_of(tmp_path: Path) -> None:
    small = small_rack()
    package(tmp_path / "packed", small)
    factory = LimiterFactory(None, tmp_path / "packed")
    learned = Controller(name="learned", limit=PolicyLimit(pretrained="ncc"))
    assert factory.warnings(learned, small) == ()
    assert factory.warnings(Controller(name="dctcp"), small) == ()
    slower = small.replace(period_s=2 * small.period_s)
    (said,) = factory.warnings(learned, slower)
    assert (
        said == f"the period of decisions is {2e3 * small.period_s:g} ms, and training met {1e3 * small.period_s:g} ms"
    )


def test_a_policy_that_does_not_say_what_it_was_trained_on_is_warned_of(tmp_path: Path) -> None:
    path = write_policy(tmp_path / "policy.ncc", small_rack())
    policy, meta = load_policy(path)
    save_policy(path, policy.layers, {key: value for key, value in meta.items() if key != "trained"})
    learned = Controller(name="learned", limit=PolicyLimit(path="policy.ncc"))
    assert LimiterFactory(tmp_path).warnings(learned, small_rack()) == (
        "policy.ncc does not say on which networks it was trained",
    )


def learned(**limit: object) -> Controller:
    return Controller(name="ncc", limit=PolicyLimit(pretrained="ncc", **limit))  # type: ignore[arg-type]


def test_without_a_run_the_package_s_policy_is_taken_and_with_one_the_run_s(tmp_path: Path) -> None:
    scenario, folder, run = small_rack(), tmp_path / "pretrained", tmp_path / "run"
    packed = package(folder, scenario, action=3, stack=HostStack(transport="newreno"))
    alone = LimiterFactory(None, folder)
    assert alone.path("ncc", PolicyLimit(pretrained="ncc")) == packed
    assert alone.inputs(learned()) == {"policy": file_digest(packed)}
    assert alone.resolved(learned()).stack.transport == "newreno", "what it was trained on"
    assert alone.resolved(learned(stack="own")).stack.transport == "dctcp"
    assert alone.inputs(load_controller("dctcp")) == {}
    named = LimiterFactory(run, folder)
    with pytest.raises(ResultError, match=r"there is no policy file .*run/policy\.ncc"):
        named.resolved(learned())
    own = write_policy(run / "policy.ncc", scenario, action=4)
    assert named.path("ncc", PolicyLimit(pretrained="ncc")) == own
    assert named.resolved(learned()).stack.transport == "dctcp"
    assert named.inputs(learned()) != alone.inputs(learned())


def test_weights_follow_from_what_hosts_know(tmp_path: Path) -> None:
    scenario, folder = small_rack(), tmp_path / "pretrained"
    services = scenario.replace(nic=scenario.nic.replace(knows="services"))
    packed = package(folder, scenario)
    factory = LimiterFactory(None, folder)
    assert factory.resolved(learned(), services) == factory.resolved(learned(), scenario), "there is no other"
    theirs = package(folder, services, name="ncc_services", action=3, stack=HostStack(transport="newreno"))
    for asked, path, transport in ((scenario, packed, "dctcp"), (services, theirs, "newreno")):
        found = factory.resolved(learned(), asked)
        assert factory.inputs(found) == {"policy": file_digest(path)}
        assert found.stack.transport == transport
        assert factory.resolved(found, asked) == found
    assert factory.warnings(learned(), services) == ()
    write_policy(tmp_path / "run" / "policy.ncc", scenario)
    assert LimiterFactory(tmp_path / "run", folder).resolved(learned(), services).limit == learned().limit


def test_where_hosts_know_backlogs_the_policy_of_sizes_does_not_decide() -> None:
    scenario = scenario_of("incast", "scenario.period_s=1e-4", "scenario.nic.knows=backlog")
    factory, ncc = LimiterFactory(None), load_controller("ncc")
    assert isinstance(ncc.limit, PolicyLimit)
    assert factory.resolved(ncc, scenario).limit == ncc.limit
    assert factory.decider(ncc, scenario)[0] is Decider.RECEIVERS
    assert factory.warnings(ncc, scenario)[-1] == Decider.RECEIVERS.value
    assert factory.decider(load_controller("trained"), scenario)[0] is Decider.LOCAL
    assert factory.decider(ncc, scenario.replace(nic=scenario.nic.replace(knows="sizes")))[0] is Decider.ITSELF


def test_without_either_it_is_said_what_to_do(tmp_path: Path) -> None:
    factory = LimiterFactory(None, tmp_path)
    with pytest.raises(ConfigError, match=r"none called 'ncc' came with ncc \(it has: none\); name the .*ncc.export"):
        factory.resolved(learned())
    package(tmp_path, small_rack(), name="other")
    with pytest.raises(ConfigError, match=r"\(it has: other\)"):
        factory.resolved(learned())
    with pytest.raises(ConfigError, match="name the run that made it: run=<folder>"):
        factory.resolved(load_controller("ncc_untrained"))
    with pytest.raises(ConfigError, match=r"PolicyLimit.pretrained: .*got 'a/b'"):
        PolicyLimit(pretrained="a/b")
