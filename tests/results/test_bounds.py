# SPDX-License-Identifier: BSD-3-Clause
"""Bounds beside the controllers: in the table, its files and its pictures, and never among those who compete."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.harness.results import run_folder, save_evaluation, save_run
from ncc.harness.run import eval_flow_seed
from ncc.metrics.bounds import bound_summary, bounds_for
from ncc.metrics.catalogue import CATALOGUE
from ncc.results.comparison import Comparison, bounds_of, compare, comparison
from ncc.results.grid import RULE
from ncc.results.judgement import Judgement
from ncc.results.plot import fct_by_size, slowdown_cdf
from ncc.results.table import markdown
from tests.results.made import NAN, printed, summary
from tests.support.experiments import fluid_run, small_rack

SEEDS = (1, 2, 3, 4, 5)
START = (0.010, 0.020, 0.030, 0.040, 0.050)


def columns(fct_s: tuple[float, ...]) -> dict[str, list[float]]:
    return {
        key: list(values)
        for key, values in (dict.fromkeys(CATALOGUE, (NAN,) * len(SEEDS)) | {"fct_mean_s": fct_s}).items()
    }


def example(**fct: tuple[float, ...]) -> Comparison:
    """DCTCP, another a quarter of the way to the bound, and the bounds: faster than everybody."""
    fct = fct or {"ncc": tuple(0.9 * v for v in START), "dctcp": START}
    runs = {name: [summary(fct_mean_s=v, goodput_bps=1e9) for v in values] for name, values in fct.items()}
    bounds = {
        "ideal_fair": columns(tuple(0.8 * v for v in START)),
        "srpt_bound": columns(tuple(0.6 * v for v in START)),
    }
    return comparison(runs, SEEDS, scenario="rack", n_flows=9, bounds=bounds, learned=("ncc",))


def test_bounds_never_compete() -> None:
    found = example()
    assert found.controllers == ("ncc", "dctcp")
    assert found.cell("srpt_bound", "fct_mean_s").estimate == pytest.approx(0.018)
    assert found.best("fct_mean_s") == ("ncc",), "both bounds are faster"


def test_the_gap_closed_is_a_share_with_its_interval() -> None:
    gaps = example().gaps
    assert list(gaps) == ["ncc"]
    assert (gaps["ncc"].estimate, gaps["ncc"].low, gaps["ncc"].high) == pytest.approx((0.25, 0.25, 0.25))
    assert example(ncc=START, newreno=START).gaps == {}, "it starts at DCTCP"
    from_ncc = replace(example(), reference="ncc").gaps
    assert from_ncc["dctcp"].estimate == pytest.approx(-1 / 3), "DCTCP is further away than ncc"
    beyond = example(ncc=tuple(0.5 * v for v in START), dctcp=tuple(0.6 * v for v in START))
    assert np.isnan(beyond.gaps["ncc"].estimate), "DCTCP stands where the bound is: there is no gap"


def test_they_stand_apart_in_the_table() -> None:
    lines = printed(Judgement({"ns3": example()})).splitlines()
    (head,) = (line for line in lines if "ideal fair" in line and "DCTCP" in line)
    assert head.index("DCTCP") < head.index(RULE) < head.index("ideal fair") < head.index("SRPT bound")
    (fct,) = (line for line in lines if line.strip().startswith("FCT, mean"))
    assert [word for word in fct.split() if word[0].isdigit() and word[-1] != "]"] == [
        "27.000*",
        "30.000",
        "24.000",
        "18.000",
    ]
    (goodput,) = (line for line in lines if line.strip().startswith("Goodput"))
    assert goodput.split(RULE)[1].split() == ["–", "–"]  # noqa: RUF001
    assert any("no controllers, so never best" in line for line in lines)
    said = "Gap closed, mean FCT, from DCTCP (0 %) to SRPT bound (100 %): NCC 25 % [25, 25]."
    assert said in lines
    assert said in markdown(Judgement({"ns3": example()}))
    hardly = example(ncc=tuple(1.0001 * v for v in START), dctcp=START)
    assert "(100 %): NCC 0 % [0, 0]." in printed(Judgement({"ns3": hardly})), "0 has no sign"
    both = printed(Judgement({"packetsim": example(), "ns3": example()}))
    assert both.count("Gap closed") == 2
    assert "to SRPT bound (100 %) on packetsim: NCC" in both
    without = comparison({"a": [dict.fromkeys(CATALOGUE, 1.0)]}, [1])
    assert RULE not in printed(Judgement({"ns3": without}))


@pytest.mark.parametrize("full", [True, False])
def test_a_gap_has_a_minus_sign_and_wants_seeds(full: bool) -> None:
    away = example(ncc=tuple(1.1 * v for v in START), dctcp=START)
    share = "NCC \N{MINUS SIGN}25 % [\N{MINUS SIGN}25, \N{MINUS SIGN}25]" if full else "by NCC: \N{MINUS SIGN}25 %."
    assert share in printed(Judgement({"ns3": away}), full=full)
    few = {
        name: [{key: column[i] for key, column in found.items()} for i in range(2)]
        for name, found in away.values.items()
    }
    bounds = {name: {key: list(column[:2]) for key, column in found.items()} for name, found in away.bounds.items()}
    told = printed(Judgement({"ns3": comparison(few, SEEDS[:2], bounds=bounds)}), full=full)
    assert "SRPT bound" in told
    assert "Gap" not in told


def test_markdown_shows_whom_not_to_count() -> None:
    lines = markdown(Judgement({"ns3": example()})).splitlines()[2:]
    assert lines[2] == "|  | NCC | DCTCP | *ideal fair* | *SRPT bound* |"
    assert lines[3] == "| --- | ---: | ---: | ---: | ---: |"
    assert "**27.000**" in lines[4]
    assert lines[4].count("**") == 2


def test_an_evaluation_s_bounds_are_of_its_flows(tmp_path: Path) -> None:
    scenario = small_rack()
    runs = [fluid_run(seed, scenario=scenario) for seed in (2, 1)]
    stored = [save_run(run, run_folder(tmp_path, "fluid", run.seed), config={}) for run in runs]
    evaluation = save_evaluation(tmp_path, stored, config={})
    assert compare(evaluation).bounds == {}
    found = compare(evaluation, bounds=True)
    for name in bounds_for(scenario):
        wanted = [bound_summary(scenario, eval_flow_seed(seed), name)["fct_mean_s"] for seed in (2, 1)]
        assert found.bounds[name]["fct_mean_s"] == wanted, "in the order of the seeds"
        assert (np.array(wanted) < found.values["fluid"]["fct_mean_s"]).all(), "nobody is faster than a bound"
    assert found.bounds == bounds_of(scenario, (2, 1))


def test_a_controller_cannot_be_called_as_a_bound() -> None:
    with pytest.raises(ConfigError, match="may not be called 'srpt_bound'"):
        example(srpt_bound=START)


def test_pictures_show_them_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    size = rng.integers(500, 10**7, 300)
    data, bounds = {"ncc": (size, 1 + rng.random(300))}, {"srpt_bound": (size, 1 + 0.1 * rng.random(300))}
    for draw in (slowdown_cdf, fct_by_size):
        draw(data, tmp_path / "without.png")
        draw(data, tmp_path / "with.png", bounds=bounds)
        assert (tmp_path / "without.png").read_bytes() != (tmp_path / "with.png").read_bytes()
