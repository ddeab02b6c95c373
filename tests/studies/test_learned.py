# SPDX-License-Identifier: BSD-3-Clause
"""The policy that multiplies a formula, asked what it does: its limits, and what groups of numbers are worth to it."""

from pathlib import Path

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.scenario import Scenario
from ncc.envs.observation import SharedObserver, names_of
from ncc.envs.scales import scales_of
from ncc.results.learned import Learned, load_learned
from ncc.results.notebook import replayed, scenario_of, watched_run
from ncc.run.controllers import load_controller
from studies.learned import (
    GROUPS,
    Importance,
    blinded,
    importance_bars,
    main,
)
from studies.waiting import VIEW, Waiting, waiting, waiting_limits
from tests.results.test_learned import by_queue, observations
from tests.results.test_plot import is_drawn

FORMULA = "local_hold"


@pytest.fixture(scope="module")
def incast() -> Scenario:
    size = ("scenario.topology.senders=8", "scenario.workload.queries.fan_in=8", "scenario.duration_s=0.05")
    return scenario_of("incast", "scenario.period_s=1e-4", *size)


@pytest.fixture(scope="module")
def learned() -> Learned:
    return load_learned(load_controller("ncc"))[1]


@pytest.fixture(scope="module")
def met(incast: Scenario) -> Waiting:
    return waiting(["ncc", FORMULA], [incast] * 4)


def test_a_multiple_of_a_formula_is_what_the_run_had(learned: Learned, incast: Scenario) -> None:
    _, measurements, limits = watched_run(incast, "trained")  # at the uplink alone: receivers lift limits
    np.testing.assert_array_equal(replayed(incast, "trained", measurements), limits[: len(measurements) - 1])
    observer = SharedObserver(learned.observation)
    observer.reset(incast)
    obs = np.array([observer.observe(m) for m in measurements[:-1]])
    share = np.minimum(limits / scales_of(incast).link_rate_bps, 1)
    there = learned.on(incast)
    assert there.chosen(obs) == pytest.approx(share)
    assert np.exp(there.log_rate(obs)) == pytest.approx(share)
    assert there.log_rate(obs, obs[::-1]) != pytest.approx(np.log(share)), "its network is told something else"


def test_a_formula_needs_a_network_of_equals(learned: Learned) -> None:
    obs = np.zeros((1, learned.policy.obs_dim), dtype=np.float32)
    with pytest.raises(ConfigError, match=r"ncc multiplies a formula, which takes the network's rates"):
        learned.log_rate(obs)


def test_every_number_is_in_one_group() -> None:
    grouped = [entry for entries in GROUPS.values() for entry in entries]
    assert sorted(grouped) == sorted(names_of(VIEW, 0))


def test_a_blinded_policy_always_sees_the_same() -> None:
    policy, obs = by_queue(), observations()
    at, stand = policy.at("queued_bytes"), np.full(16, 0.25)
    set_by_hand = obs.copy()
    set_by_hand[:, at] = 0.25
    blind = type(policy.policy)(blinded(policy, at, stand))
    assert blind.logits(obs) == pytest.approx(policy.policy.logits(set_by_hand), abs=1e-6)


def test_formulas_are_asked_on_what_the_policy_met(met: Waiting, incast: Scenario) -> None:
    waits = met.busy & met.known
    assert waits.sum() > 100
    assert ((met.periods_before > 0) == (met.hosts_before > 0))[waits].all()
    assert met.hosts_before.max() == 7, "of eight hosts"
    begun = met.busy & ~met.known
    assert met.limits[FORMULA][begun] == pytest.approx(0.097), "a tenth of what it shares out"
    assert (met.limits[FORMULA][~met.busy] == 1).all()
    assert all(len(limits) == len(met.busy) for limits in met.limits.values())
    with pytest.raises(ConfigError, match="none of these networks has a flow"):
        waiting([FORMULA], [incast.replace(duration_s=1e-4)])


def test_figures_show_something(met: Waiting, tmp_path: Path) -> None:
    waiting_limits(met, tmp_path / "w.png")
    found = Importance("ncc", ("one", "other"), np.array([0.1, 2.0]), np.array([[1.0, 0.9, 1.1], [1.4, 1.2, 1.5]]))
    assert found.ranked.tolist() == [1, 0]
    importance_bars(found, tmp_path / "i.png")
    nobody = Waiting(met.limits, met.busy & False, met.known, met.periods_before, met.hosts_before)
    waiting_limits(nobody, tmp_path / "n.png")
    assert all(is_drawn(tmp_path / f"{name}.png") for name in "win")


def test_it_prints_the_most_important_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ncc", "--networks", "1", "--seed", "3"]) == 0
    within, head, *rows = capsys.readouterr().out.splitlines()
    assert within == "1 of 1 networks are inside its ranges"
    assert "mean FCT without it" in head
    assert len(rows) == 15
    assert main(["dctcp", "--networks", "1"]) == 2
