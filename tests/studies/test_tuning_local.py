# SPDX-License-Identifier: BSD-3-Clause
"""The search for a formula's constants: all candidates meet the same flows, and the script prints a controller."""

from functools import cache

import numpy as np
import pytest
import yaml

from ncc.core.value import from_dict
from ncc.envs.families import Families
from ncc.harness.controller import Controller, LocalLimit
from ncc.run.compose import load_datapath
from ncc.run.controllers import load_controller
from studies import tuning_local
from studies.random_networks import load_families
from studies.tuning_local import Search, main


@cache
def families() -> Families:
    return load_families("mixture", ["incast"], epochs=60).replace(drain_epochs=20)


def search(*, blind: bool = False, start: str = "local_hold") -> Search:
    datapath = load_datapath("packetsim").load()
    return Search(load_controller(start), families(), datapath, 1, blind=blind)


def at(of: Search, **constants: float) -> list[float]:
    """The point with the start's constants but these."""
    return [bounds.coordinate({**of.start, **constants}[name]) for name, bounds in of.bounds.items()]


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
    assert f"tuning_local.py {' '.join(arguments)}` (seed 2): 1 generations" in printed
    assert main(arguments) == 0
    assert capsys.readouterr().out == printed, "equal seeds search alike"
