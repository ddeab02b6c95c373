# SPDX-License-Identifier: BSD-3-Clause
"""Ranks of a league, what contenders need, and a contender of one's own among published results."""

import copy
from typing import Any

import pytest

from ncc.core.errors import ConfigError, ResultError
from ncc.harness.run import eval_flow_seed
from ncc.run.compose import composed
from ncc.study.league import League
from ncc.study.league_result import GROUPS, flow_digests, flows_digest, group_of, needs_of, placed
from ncc.study.load import load_experiment
from ncc.study.points import grid_of, require_places
from ncc.study.spec import experiment_from
from tests.study.grids import grid

SEEDS = [0, 1, 2]
SLOW, FAST, REFERENCE, ORACLE = "slow", "fast", "plain", "seer"


def plain(**more: Any) -> dict[str, Any]:
    """A result of four contenders in two cells: `fast` cannot run in the second, and `seer` knows all."""
    values = {
        (REFERENCE, "a"): [1.0, 2.0, 3.0], (SLOW, "a"): [2.0, 4.0, 6.0], (FAST, "a"): [0.5, 1.0, 1.5],
        (REFERENCE, "b"): [4.0, 4.0, 4.0], (SLOW, "b"): [2.0, 2.0, 2.0],
        (ORACLE, "a"): [0.1, 0.1, 0.1], (ORACLE, "b"): [0.1, 0.1, 0.1],
    }  # fmt: skip
    shown = {"title": "time", "scale": 1.0, "digits": 2}
    return {
        "title": "a league", "notes": "", "datapath": "packetsim", "runs_text": "3 seeds of 1 s", "commits": ["abc"],
        "seeds": SEEDS, "axes": {"cell": {"label": "cell", "points": ["a", "b"]}},
        "contenders": {name: name.upper() for name in (REFERENCE, SLOW, FAST, ORACLE)},
        "measures": {"time": shown, "cpu": shown},
        "ranking": {"measure": "time", "reference": REFERENCE, "beside": ["cpu"]},
        "needs": {REFERENCE: ["marks"], SLOW: [], FAST: ["words", "stack"], ORACLE: ["oracle"]},
        "cannot": [{"contender": FAST, "at": ["b"], "why": "it needs a wheel: set wheel to true"}],
        "flows": [{"at": [at], "digests": [f"{at}{seed}" for seed in SEEDS]} for at in "ab"],
        "per_seed": [{"contender": name, "at": [at], "values": of} for (name, at), of in values.items()],
        "cells": [
            {"measure": "cpu", "contender": name, "at": [at], "value": 0.5, "n_invalid": int(name == SLOW)}
            for name, at in values
        ],
        **more,
    }  # fmt: skip


def row(league: League, name: str, table: int = 0) -> list[str]:
    return next([c.middle for c in row.cells] for row in league.grids()[table].rows if row.lead[0] == name.upper())


def test_ranks_ratios_and_places_by_hand() -> None:
    """The ratios of `slow` are 2 and 0.5, whose geometric mean is 1, that of the reference."""
    league = League(plain())
    assert row(league, REFERENCE) == ["1", "1.00", "2", "2", "0.50", "marks"]
    assert row(league, SLOW) == ["1", "1.00", "3†", "1†", "0.50", ""]
    assert row(league, FAST) == ["–", "0.50 (1)", "1", "–", "0.50", "words, stack"]  # noqa: RUF001
    assert row(league, ORACLE)[0] == "–", "it has no rank"  # noqa: RUF001
    assert row(league, SLOW, table=1) == ["2.00†", "0.50†"]
    assert row(league, REFERENCE, table=1) == ["2", "4"]
    assert [r.section for r in league.grids()[0].rows] == [GROUPS[0][0]] * 2 + [GROUPS[4][0], GROUPS[5][0]]
    assert league.cannot() == [("FAST", "b", "it needs a wheel: set wheel to true")]


def test_intervals_are_over_the_same_seeds_for_all() -> None:
    """`near` is better than the reference in two seeds of three, so it is first in some draws and second in others.

    `slow` is twice the reference in every seed. Drawn apart, it would be below it in some draws; drawn in pairs, never.
    """
    made = plain()
    made["contenders"]["near"], made["needs"]["near"] = "NEAR", []
    made["per_seed"] += [{"contender": "near", "at": [at], "values": of} for at, of in
                         (("a", [0.9, 1.9, 3.5]), ("b", [4.0, 4.0, 4.0]))]  # fmt: skip
    league = League(made)
    bounds = {name: league.drawn[0][i, 0].tolist() for i, name in enumerate(league.names)}
    assert bounds["near"] == [2, 3]
    assert bounds[SLOW] == [4, 4]
    assert bounds[FAST] == [1, 1]


def test_one_seed_has_no_intervals() -> None:
    made = plain(seeds=[0])
    made["per_seed"] = [{**entry, "values": entry["values"][:1]} for entry in made["per_seed"]]
    assert all(not cell.spread for table in League(made).grids() for row in table.rows for cell in row.cells)
    assert League(made).grids()[0].lines[0][0] == "* best. One seed, so no intervals."


def own(seeds: list[int]) -> dict[str, Any]:
    """A result of one's own contender beside the reference."""
    made = plain(seeds=seeds, contenders={REFERENCE: "PLAIN", "own_mine": "mine"}, cannot=[], commits=["def"])
    made["needs"] = {REFERENCE: ["marks"], "own_mine": []}
    theirs = [entry for entry in plain()["per_seed"] if entry["contender"] == REFERENCE]
    made["per_seed"] = [{**entry, "values": [entry["values"][i] for i in seeds]} for entry in theirs]
    made["per_seed"] += [{"contender": "own_mine", "at": [at], "values": [0.25] * len(seeds)} for at in "ab"]
    made["flows"] = [{"at": [at], "digests": [f"{at}{seed}" for seed in seeds]} for at in "ab"]
    made["cells"] = [{**cell, "contender": "own_mine"} for cell in made["cells"] if cell["contender"] == REFERENCE]
    return made


def test_ones_own_is_placed_on_the_seeds_that_it_ran() -> None:
    league = League(placed(own([0, 2]), plain()), ("own_mine",))
    assert league.plain["seeds"] == [0, 2]
    assert row(league, REFERENCE)[:2] == ["2", "1.00"]
    mine = next(row for row in league.grids()[0].rows if row.lead[0] == "mine (yours)")
    assert [cell.middle for cell in mine.cells][2:4] == ["1", "1"]


def test_the_place_of_ones_own_is_said() -> None:
    """Its means are 1/8 and 1/16 of the reference's, whose geometric mean is 0.088."""
    result = placed(own([0, 1, 2]), plain())
    (said,) = League(result, ("own_mine",)).own_places()
    assert said == "mine (yours): 0.09 [0.07, 0.13] of the time of PLAIN, place 1 of 3."
    result["per_seed"] = [
        entry for entry in result["per_seed"] if (entry["contender"], entry["at"]) != ("own_mine", ["b"])
    ]
    (said,) = League(result, ("own_mine",)).own_places()
    assert said == "mine (yours): 0.13 (1) [0.08, 0.25] of the time of PLAIN, without a place."
    assert League(result).own_places() == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"flows": [{"at": [at], "digests": ["x", "y"]} for at in "ab"]}, "has other flows at a"),
        ({"seeds": [0, 7]}, "has seeds 0 to 2, and not 7"),
        ({"per_seed": [{"contender": REFERENCE, "at": [at], "values": [1.0, 3.1]} for at in "ab"]},
         r"this code's runs of plain at a differ from the published ones \(commit abc\)"),
        ({"axes": {"load": {}}}, "another ranking or other axes"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_refused(change: dict[str, Any], why: str) -> None:
    with pytest.raises(ResultError, match=f"{why}.*: run all contenders here: add all=true"):
        placed({**own([0, 2]), **change}, plain())


def test_every_contender_runs_somewhere_and_the_reference_everywhere() -> None:
    of = grid("league")
    require_places(of, tuple(of.experiment.contenders))
    assert len({cell.point for cell in of.cells if cell.contender == "dctcp_tuned"}) == 10
    assert {at for name, at in of.cannot if name == "ncc"} == set()
    assert {name for name, _ in of.cannot} == {"fits", "sw", "ictcp_asks", "dcqcn_pfc", "conga", "nscc", "rccc"}
    assert all(":" in why for why in of.cannot.values()), "each says what would meet the need"


def test_all_contenders_meet_the_same_flows() -> None:
    assert len(flow_digests(grid("league", "quick"), [1100])) == 2


def test_needs_follow_from_settings() -> None:
    of = grid("league")
    found = {c.contender: needs_of(of.experiment.contenders[c.contender], c.controller, c.scenario) for c in of.cells}
    assert found["bbr"] == ()
    assert found["dctcp"] == ("marks",)
    assert found["ncc"] == ("marks", "tuning", "sizes", "words", "agents")
    assert found["auto"] == ("marks", "tuning", "words", "agents", "classes")
    assert found["flowtune"] == ("marks", "words", "agents")
    assert found["conga"] == found["prague"] == ("marks", "switches")
    assert found["ictcp"] == ("marks", "words", "agents")
    assert found["pias"] == ("marks", "classes")
    assert found["hpcc"] == ("switches",)
    assert found["homa"] == ("sizes", "words", "classes", "stack")
    assert found["ndp"] == ("words", "routes", "switches", "stack")
    assert "oracle" in found["receiver_oracle"]
    assert [GROUPS[group_of(found[name])][0] for name in ("cubic", "ncc", "spray", "hpcc", "homa", "max_min")] == [
        name for name, _ in GROUPS
    ]


def league_with(**contenders: Any) -> tuple[Any, dict[str, Any]]:
    described = copy.deepcopy(composed("evaluate", ["experiment=league"])["experiment"])
    described["contenders"] |= contenders
    return experiment_from(described, "experiment/league")


def test_an_unmet_need_is_refused_before_anything_runs() -> None:
    of = grid_of("league", *league_with(mine={"controller": "homa"}), "quick", only=("mine",))
    with pytest.raises(ConfigError, match=r"'mine' can run at no point .* needs 8 classes in every port: set classes"):
        require_places(of, ("mine",))


def test_the_need_of_the_most_cells_is_said() -> None:
    """In two cells there are no leaves and spines; in the other eight the programs are rivals."""
    programs = {"scenario.topology.programs": [{"name": "conga"}, {"name": "letflow"}]}
    both = league_with(both={"controller": "dctcp", "changes": programs})
    of = grid_of("league", *both, "full", only=("both",))
    with pytest.raises(ConfigError, match="of experiment league: Programs conga and letflow both choose the ways of a"):
        require_places(of, ("both",))


def test_other_flows_are_refused() -> None:
    change = {"scenario.workload": {"one": {"kind": "fixed", "flows": [
        {"start_s": 0.0, "src": "s0", "dst": "receiver", "size_bytes": 1}]}}}  # fmt: skip
    mine = league_with(mine={"controller": "dctcp", "changes": change})
    preset = mine[0].presets["quick"].replace(axes={"cell": ("incast",)})
    of = grid_of("league", mine[0].replace(presets={"quick": preset}), mine[1], "quick", only=("dctcp", "mine"))
    with pytest.raises(ConfigError, match="'mine' has other flows than the others at incast"):
        flow_digests(of, [0])


def test_the_digest_of_flows_sees_every_column() -> None:
    scenario = next(cell.scenario for cell in grid("league", "quick").cells)
    flows = scenario.flows(eval_flow_seed(0))
    assert flows_digest(flows) == flows_digest(scenario.flows(eval_flow_seed(0)))
    assert flows_digest(flows) != flows_digest(scenario.flows(eval_flow_seed(1)))
    for column in ("start_s", "size_bytes", "dst"):
        changed = copy.deepcopy(flows)
        getattr(changed, column)[-1] += 1
        assert flows_digest(changed) != flows_digest(flows)


def test_an_experiment_without_a_ranking_refuses_what_cannot_run() -> None:
    experiment, scenario = load_experiment("dctcp_incast")
    name = next(iter(experiment.contenders))
    bare = experiment.contenders[name].replace(controller="homa", params={}, tuned="")
    with pytest.raises(ConfigError, match=f"contender '{name}'"):
        grid_of("dctcp_incast", experiment.replace(contenders={**experiment.contenders, name: bare}), scenario, "quick")
