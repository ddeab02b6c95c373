# SPDX-License-Identifier: BSD-3-Clause
"""The search for a formula's constants: its scales, that all candidates meet the same flows, and what it prints."""

from functools import cache

import numpy as np
import pytest
import yaml

from ncc.core.errors import ConfigError
from ncc.core.value import from_dict
from ncc.envs.families import Families
from ncc.harness.controller import Controller, LocalLimit
from ncc.run.compose import load_datapath
from ncc.run.controllers import load_controller
from ncc.study import tuning_local
from ncc.study.random_networks import load_families
from ncc.study.tuning_local import ATTAINED, SEARCHED, Bounds, Search, main


@cache
def families() -> Families:
    return load_families("mixture", ["incast"], epochs=60).replace(drain_epochs=20)


def search(*, blind: bool = False, start: str = "local_hold") -> Search:
    datapath = load_datapath("packetsim").load()
    return Search(load_controller(start), families(), datapath, 1, blind=blind)


def at(of: Search, **constants: float) -> list[float]:
    """The point with the start's constants but these."""
    return [bounds.coordinate({**of.start, **constants}[name]) for name, bounds in of.bounds.items()]


@pytest.mark.parametrize("bounds", [Bounds(0.01, 1, log=True), Bounds(-1, 4)])
def test_coordinates_and_values_are_inverse_and_stay_inside(bounds: Bounds) -> None:
    for x in (0.0, 0.3, 1.0):
        assert bounds.coordinate(float(bounds.value(np.array(x)))) == pytest.approx(x)
    assert bounds.value(np.array([-1.0, 2.0])).tolist() == pytest.approx([bounds.low, bounds.high])


def test_every_searched_range_is_allowed_and_holds_the_start() -> None:
    for name in ("local_hold", "local_hold_blind"):
        limit = load_controller(name).limit
        for constant, bounds in {**SEARCHED, **ATTAINED}.items():
            assert bounds.low <= getattr(limit, constant) <= bounds.high
            for end in (bounds.low, bounds.high):
                from_dict(LocalLimit, {"kind": "local", constant: end}, "limit")


def test_the_start_costs_what_it_costs_and_a_cap_costs_more() -> None:
    of = search()
    points = np.array([at(of), at(of, hold_periods=6, hold_frac=0.01), at(of)])
    logs = of.over_start(points, range(4))
    assert logs.shape == (3, 4)
    assert (logs[[0, 2]] == 0).all(), "the same flows, decisions and packets"
    assert logs[1].mean() > 0
    spent = of.rack_periods
    assert spent % 4 == 0, "three candidates and the start"
    assert (of.over_start(points[:1], range(4)) == 0).all()
    assert spent < of.rack_periods < 2 * spent


def test_without_sizes_hosts_know_backlogs_and_what_was_sent_is_searched_too() -> None:
    of = search(blind=True, start="local_hold_blind")
    assert set(of.bounds) - set(search().bounds) == {"attained_frac"}
    assert (of.over_start(np.array([at(of)]), range(2)) == 0).all()


def test_a_start_that_is_no_formula_is_refused() -> None:
    with pytest.raises(ConfigError, match="limit is of kind local, got max_min"):
        search(start="max_min")


def test_it_prints_a_controller_with_what_was_spent_and_what_it_is_worth(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("SELECTED", "JUDGED"):
        monkeypatch.setattr(tuning_local, name, 2)
    arguments = ["--rack-periods", "1", "--lists", "1", "--epochs", "20", "--seed", "2"]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    made = from_dict(Controller, yaml.safe_load(printed), "local_tuned")
    assert made.name == "local_tuned"
    assert made.stack == load_controller("local_hold").stack
    assert isinstance(made.limit, LocalLimit)
    assert f"tuning_local {' '.join(arguments)}` (seed 2): 1 generations" in printed
    assert main(arguments) == 0
    assert capsys.readouterr().out == printed, "equal seeds search alike"


@pytest.mark.parametrize("arguments", [["--lists", "0"], ["--rack-periods", "x"], ["--seed", "-1"], ["--sizes"]])
def test_bad_options_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert arguments[0].lstrip("-") in capsys.readouterr().err
