# SPDX-License-Identifier: BSD-3-Clause
import json
from colorsys import rgb_to_hsv
from pathlib import Path

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.harness.results import run_folder, save_evaluation, save_run
from ncc.metrics.catalogue import HEADLINE
from ncc.metrics.summary import summarise
from ncc.results.comparison import Comparison, compare, comparison
from ncc.results.judgement import Judgement
from ncc.results.palette import PALETTE, label, styles, variant_styles
from ncc.results.table import differences, full_table, markdown
from tests.results.made import NAN, alone, printed, summary
from tests.support.experiments import fluid_run, small_rack


def example() -> Comparison:
    """NCC is better by 1 in every seed although seeds differ by more; Reno does not differ significantly from NCC."""
    slowdown = {"ncc": (2, 4, 9, 3, 7), "dctcp": (3, 5, 10, 4, 8), "newreno": (2.5, 3.5, 9.1, 3.05, 7)}
    goodput = {"ncc": (3e9,) * 5, "dctcp": (1e9,) * 5, "newreno": (2e9,) * 5}
    summaries = {
        name: [summary(slowdown_all_mean=s, goodput_bps=g) for s, g in zip(slowdown[name], goodput[name], strict=True)]
        for name in slowdown
    }
    return comparison(summaries, [1, 2, 3, 4, 5], scenario="rack", n_flows=1234, duration_s=0.2)


def test_numbers_by_hand() -> None:
    c = example()
    cell = c.cell("ncc", "slowdown_all_mean")
    assert cell.estimate == 5.0
    assert 2.0 <= cell.low < 5.0 < cell.high <= 9.0
    assert (cell.n, cell.n_missing) == (5, 0)
    assert c.cell("dctcp", "goodput_bps").low == c.cell("dctcp", "goodput_bps").high == 1e9
    assert c.metrics == ("slowdown_all_mean", "goodput_bps"), "undefined metrics are left out"


def test_the_best_is_found_in_pairs() -> None:
    c = example()
    # All three intervals overlap; in pairs DCTCP is slower by exactly 1 each time, and Reno is slower or faster.
    assert c.best("slowdown_all_mean") == ("ncc", "newreno")
    assert c.best("goodput_bps") == ("ncc",), "higher is better"


def test_nobody_is_best_when_all_are_alike_or_the_metric_does_not_judge() -> None:
    same = [summary(timeouts_per_flow=0.0, mark_frac=0.1 * i) for i in range(3)]
    other = [summary(timeouts_per_flow=0.0, mark_frac=0.9) for _ in range(3)]
    c = comparison({"a": same, "b": other}, [1, 2, 3])
    assert c.best("timeouts_per_flow") == ()
    assert c.best("mark_frac") == ()


def test_controllers_without_common_seeds_are_not_told_apart() -> None:
    ours = [summary(slowdown_all_mean=v) for v in (1.0, 1.1, NAN, NAN)]
    theirs = [summary(slowdown_all_mean=v) for v in (NAN, NAN, 5.0, 5.1)]
    assert comparison({"ncc": ours, "dctcp": theirs}, [1, 2, 3, 4]).best("slowdown_all_mean") == ()


def test_invalid_runs_count_as_they_ended_and_are_never_best() -> None:
    """Starving its flows makes NCC fast in what is left; with the seed that it starved it is not."""
    slowdown = {"ncc": (2.0, 2.0, 2.0, 2.0, 40.0), "dctcp": (3.0, 3.0, 3.0, 3.0, 3.0)}
    runs = {name: [summary(slowdown_all_mean=v) for v in values] for name, values in slowdown.items()}
    c = comparison(runs, range(5), invalid={"ncc": {4: ["3 of 9 flows were not delivered"]}, "dctcp": {}})
    assert not c.valid
    assert c.cell("ncc", "slowdown_all_mean").estimate == pytest.approx(9.6)
    assert c.best("slowdown_all_mean") == ("dctcp",)
    said = "never best: 1 of NCC's 5 runs, the first on ns3, seed 4: 3 of 9 flows were not delivered"
    for text in (printed(alone(c)), markdown(alone(c))):
        assert "INVALID 1 of 5" in text
        assert said in " ".join(text.split())


def test_an_invalid_run_without_a_number_counts_as_the_worst_of_its_seed() -> None:
    runs = {
        "ncc": [summary(fct_mean_s=NAN, goodput_bps=NAN), summary(fct_mean_s=1.0, goodput_bps=2.0)],
        "dctcp": [summary(fct_mean_s=3.0, goodput_bps=5.0), summary(fct_mean_s=NAN, goodput_bps=4.0)],
        "cubic": [summary(fct_mean_s=4.0, goodput_bps=6.0), summary(fct_mean_s=9.0, goodput_bps=7.0)],
    }
    c = comparison(runs, [1, 2], invalid={"ncc": {1: ["it crashed"]}})
    assert c.values["ncc"]["fct_mean_s"] == [4.0, 1.0]
    assert c.values["ncc"]["goodput_bps"] == [5.0, 2.0]
    assert np.isnan(c.values["ncc"]["jain"]).all(), "undefined for everybody"
    assert np.isnan(c.values["dctcp"]["fct_mean_s"][1]), "a valid run may have nothing to count"


def test_the_table_says_what_it_is() -> None:
    text = printed(alone(example()))
    assert "rack on ns3: 5 seeds of 0.2 s, 1,234 flows per controller" in text
    rows = {line.split("  ")[0].strip(): line for line in text.splitlines()}
    assert "3.000*" in rows["Goodput (Gbps)"]
    assert "1.000 " in rows["Goodput (Gbps)"]
    mean = next(line for line in text.splitlines() if line.strip().startswith("mean"))
    assert [word for word in mean.split() if word[0].isdigit() and word[-1] != "]"] == ["5.00*", "6.00", "5.03*"]
    assert text.index("NCC") < text.index("DCTCP") < text.index("NewReno")
    assert "Undefined in these runs: " in text
    assert "Jain index" in text.split("Undefined")[1]


def test_flows_of_one_range_of_sizes_are_told_once() -> None:
    """Their rows would repeat those of all flows. A metric that nobody has a difference in has no row either."""
    small = {f"slowdown_{sizes}_{point}": 2.0 for sizes in ("all", "small") for point in ("mean", "p50", "p95", "p99")}
    of_one = alone(comparison({name: [summary(**small)] * 5 for name in ("ncc", "dctcp")}, range(5)))
    assert {row.section for row in full_table(of_one).rows} == {"FCT slowdown, all flows"}
    assert [row.title for row in differences(of_one, "dctcp", HEADLINE).rows] == [
        "FCT slowdown, <= 100 KB, p99",
        "FCT slowdown, all flows, mean",
    ]
    undefined = printed(of_one).split("Undefined")[1]
    assert undefined.count("100 KB to 10 MB") == 1, "all of a range in one"
    assert "<= 100 KB" not in undefined
    several = small | {"slowdown_large_mean": 1.5}
    both = alone(comparison({name: [summary(**several)] * 5 for name in ("ncc", "dctcp")}, range(5)))
    assert len(full_table(both).rows) == 9
    fair = comparison({"ncc": [summary(jain=0.9, **small)] * 5, "dctcp": [summary(**small)] * 5}, range(5))
    assert "Jain index" in [row.title for row in full_table(alone(fair)).rows]
    assert "Jain index" not in [row.title for row in differences(alone(fair), "dctcp", HEADLINE).rows]


def test_one_seed_makes_no_claim() -> None:
    text = printed(alone(comparison({"ncc": [summary(jain=0.9)], "dctcp": [summary(jain=0.8)]}, [1])))
    assert "no claim" in text
    assert "[" not in text


@pytest.mark.parametrize("width", [140, 80, 60])
def test_it_fits_the_terminal_and_loses_nothing(width: int) -> None:
    text = printed(alone(example()), width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert "…" not in text
    for word in ("NCC", "DCTCP", "NewReno", "5.00*", "6.00", "5.03*"):
        assert word in text


def test_a_pipe_is_as_wide_as_columns_says(monkeypatch: pytest.MonkeyPatch) -> None:
    free = printed(alone(example()))
    monkeypatch.setenv("COLUMNS", "60")
    assert max(map(len, free.splitlines())) > 60
    assert max(map(len, printed(alone(example())).splitlines())) <= 60


def test_markdown_is_a_table() -> None:
    lines = markdown(alone(example())).rstrip().splitlines()
    assert lines[0] == lines[-1] == "NCC against DCTCP: goodput 200 % higher [200, 200]."
    table = lines[lines.index("|  | NCC | DCTCP | NewReno |") :]
    assert table[1] == "| --- | ---: | ---: | ---: |"
    assert table[2].startswith("| FCT slowdown, all flows, mean | **5.00** [")
    assert table[3] == "| Goodput (Gbps) | **3.000** | 1.000 | 2.000 |"


def test_it_is_written_with_the_values_of_every_seed(tmp_path: Path) -> None:
    c = comparison(
        {"a": [summary(jain=0.9), summary(jain=NAN)], "b": [summary(jain=0.7), summary(jain=0.8)]},
        [4, 7],
        scenario="rack",
        n_flows=5,
        invalid={"b": {7: ["why"]}},
    )
    judgement = Judgement({"packetsim": c, "ns3": c})
    judgement.save(tmp_path)
    plain = json.loads((tmp_path / "comparison.json").read_text())
    assert plain["datapaths"] == ["packetsim", "ns3"]
    ns3 = plain["comparisons"]["ns3"]
    assert ns3["invalid"] == {"b": {"7": ["why"]}}
    assert ns3["values"]["a"]["jain"] == [0.9, None]


def test_an_evaluation_is_compared_by_its_runs(tmp_path: Path) -> None:
    scenario = small_rack()
    runs = {
        (seed, share): fluid_run(seed, share=share, scenario=scenario) for seed in (1, 2) for share in (False, True)
    }
    stored = [
        save_run(run, run_folder(tmp_path, run.controller.name, seed), config={}) for (seed, _), run in runs.items()
    ]
    c = compare(save_evaluation(tmp_path, stored, config={}))
    assert c.controllers == ("fluid", "share")
    assert c.n_flows == len(scenario.flows(runs[1, False].flow_seed)) + len(scenario.flows(runs[2, False].flow_seed))
    for (seed, share), run in runs.items():
        wanted = summarise(scenario, run.flows, run.records.flows, run.records.ports, run.epochs)
        for key, values in c.values["share" if share else "fluid"].items():
            assert values[seed - 1] == pytest.approx(wanted[key], nan_ok=True), key
    with pytest.raises(ConfigError, match="same flows and seeds"):
        compare(save_evaluation(tmp_path, stored[:3], config={}))


def test_names_and_looks_are_one_to_one() -> None:
    assert label("ncc") == "NCC"
    assert label("mine") == "mine"
    assert label("dctcp_tuned") == "tuned DCTCP"
    assert label("mine_tuned") == "mine_tuned"
    assert len({(s.colour, s.line) for s in styles(["dctcp", "dctcp_tuned", "cubic"]).values()}) == 3
    assert len({s.label for s in PALETTE.values()}) == len({s.colour for s in PALETTE.values()}) == len(PALETTE)
    many = styles([f"c{i}" for i in range(30)])
    assert len({(s.colour, s.line) for s in many.values()}) == 30
    assert styles(["x", "dctcp"])["x"] == styles(["ncc", "x"])["x"], "a name looks the same in every figure"
    assert list(styles(["b", "a", "ncc"])) == ["b", "a", "ncc"]


def test_variants_of_a_controller_are_of_its_hue_and_differ() -> None:
    def hue(colour: str) -> float:
        return rgb_to_hsv(*(int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)))[0]

    several = [f"v{i}" for i in range(7)]
    looks = variant_styles({**dict.fromkeys(several, "ncc"), "bcc": "dctcp"})
    assert looks["v0"] == PALETTE["ncc"]
    assert looks["bcc"] == PALETTE["dctcp"]
    assert all(hue(looks[name].colour) == pytest.approx(hue(PALETTE["ncc"].colour), abs=0.01) for name in several)
    assert len({(s.colour, s.line, s.marker) for s in looks.values()}) == len(looks)
    assert len({looks[name].marker for name in several}) == 7
