# SPDX-License-Identifier: BSD-3-Clause
"""The rule that chooses a tuned set, and the script that prints it."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from ncc.core.errors import ResultError
from ncc.study.spec import experiment_from
from ncc.study.table import At, Table
from studies import tuning
from tests.study.toy import toy


def sweep(**changes: Any) -> tuple[Any, Any]:
    plain = toy(
        axes={
            "threshold": {
                "label": "K", "values": [20, 50],
                "sets": [{"key": "scenario.topology.mark_threshold_bytes", "scale": 1500}],
            },
            "own": {"label": "g", "cases": {"default": {}, "slow": {"contenders.dctcp.params.g_shift": 6}}},
            "cell": {"label": "cell", "cases": {"a": {}, "b": {"scenario.duration_s": 0.2}}},
        },
        contenders={"dctcp": {"controller": "dctcp"}},
        measures={"mean": {"kind": "fct"}, "goodput": {"kind": "summary", "metric": "goodput_bps"}},
        checks={"c": {"kind": "within", "claim": "", "measure": "mean", "contender": "dctcp", "low": 0}},
        values=[], panels=[{"measure": "mean"}], presets__quick__axes={},
        scenario__topology__mark_threshold_bytes=30000,
        **changes,
    )  # fmt: skip
    return experiment_from(plain, "toy")


def table(fct: dict[tuple[float, str], tuple[float, float]], goodput: dict[tuple[float, str], float]) -> Table:
    values: dict[tuple[str, str, At], tuple[float, ...]] = {}
    for (k, own), cells in fct.items():
        for cell, value in zip("ab", cells, strict=True):
            values["mean", "dctcp", (k, own, cell)] = (value,)
            values["goodput", "dctcp", (k, own, cell)] = (goodput.get((k, own), 1.0),)
    axes: dict[str, At] = {"threshold": (20.0, 50.0), "own": ("default", "slow"), "cell": ("a", "b")}
    return Table(axes=axes, contenders=("dctcp",), values=values)


AS_IS, WIDE, SLOW, BOTH = (20.0, "default"), (50.0, "default"), (20.0, "slow"), (50.0, "slow")


def test_the_lowest_geometric_mean_wins_among_settings_that_keep_the_goodput() -> None:
    experiment, scenario = sweep()
    # WIDE is best in the mean of ratios of nothing: 1 and 0.5; SLOW has 0.6 twice; BOTH would be best, at less goodput.
    fct = {AS_IS: (1.0, 4.0), WIDE: (1.0, 2.0), SLOW: (0.6, 2.4), BOTH: (0.1, 0.1)}
    best = tuning.chosen(experiment, scenario, table(fct, {BOTH: 0.97}))
    assert best["dctcp"][0] == SLOW
    assert best["dctcp"][1] == pytest.approx(0.6)
    found = tuning.tuned_set(experiment, scenario, table(fct, {BOTH: 0.97}))
    assert found.topology == "many_to_one"
    assert found.controllers["dctcp"].to_dict() == {
        "changes": {"scenario.topology.mark_threshold_bytes": 30000}, "params": {"g_shift": 6},
    }  # fmt: skip
    assert tuning.chosen(experiment, scenario, table(fct, {BOTH: 0.985}))["dctcp"][0] == BOTH


def test_a_setting_under_which_flows_do_not_finish_is_not_chosen() -> None:
    experiment, scenario = sweep()
    undefined = (math.nan, math.nan)
    fct = {AS_IS: (1.0, 1.0), WIDE: undefined, SLOW: (0.9, 0.9), BOTH: (1.0, math.nan)}
    assert tuning.chosen(experiment, scenario, table(fct, {}))["dctcp"] == (SLOW, 0.9)
    with pytest.raises(ResultError, match="dctcp has no setting at which all flows finish"):
        tuning.chosen(experiment, scenario, table(dict.fromkeys(fct, undefined), {}))


def test_the_command_prints_the_set_with_the_command_that_made_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tuning, "load_experiment", lambda _: sweep())
    of = table({AS_IS: (1.0, 1.0), WIDE: (1.0, 2.0), SLOW: (0.5, 0.5), BOTH: (3.0, 3.0)}, {})
    result = {
        "format": 2, "name": "tuning_toy", "datapath": "packetsim", "complete": False, "written_at": "", "source": "",
        "commits": ["abc"], "holds": True, "verdict": "", "preset": "sweep", "seeds": [0, 1],
        "contenders": {"dctcp": "DCTCP"}, "cells": [
            {"measure": m, "contender": c, "at": at, "value": values[0], "n_seeds": 2}
            for (m, c, at), values in of.values.items()
        ], "axes": {name: {"points": list(points)} for name, points in of.axes.items()},
    }  # fmt: skip
    (tmp_path / "result.json").write_text(json.dumps(result))
    assert tuning.main([str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "experiment=tuning_toy preset=sweep seeds=2` (commit abc)" in said
    assert "topology: many_to_one" in said
    assert "g_shift: 6" in said
    assert tuning.main([str(tmp_path / "nowhere")]) == 1
    assert "run the experiment again" in capsys.readouterr().err
