# SPDX-License-Identifier: BSD-3-Clause
"""The same controllers on several datapaths: one table, and ratios that say how far the datapaths agree."""

import pytest

from ncc.core.errors import ConfigError
from ncc.results.comparison import Comparison, comparison
from ncc.results.judgement import Judgement
from ncc.results.table import differences, markdown
from tests.results.made import printed, summary

SEEDS = (0, 1, 2, 3, 4)


def compared(scale: float = 1.0, goodput: float = 1.0, *, invalid: int | None = None) -> Comparison:
    """NCC's mean slowdown is 1 to 5 and DCTCP's always 4, times `scale`."""
    runs = {
        "ncc": [_summary((1.0 + seed) * scale, goodput) for seed in SEEDS],
        "dctcp": [_summary(4.0 * scale, goodput) for _ in SEEDS],
    }
    return comparison(runs, SEEDS, scenario="rack", n_flows=90, invalid={"ncc": {invalid: ["lost"]}} if invalid else {})


def _summary(slowdown: float, goodput: float) -> dict[str, float]:
    return summary(slowdown_all_mean=slowdown, goodput_bps=goodput * 1e9)


def test_ratios_are_paired_and_taken_over_the_last() -> None:
    judgement = Judgement({"packetsim": compared(1.04), "ns3": compared()})
    assert judgement.reference == "ns3"
    for name in ("ncc", "dctcp"):
        ratio = judgement.ratio("packetsim", name, "slowdown_all_mean")
        # Seeds differ five-fold; in pairs the ratio is 1.04 in each of them, and so is every resampling's.
        assert (ratio.estimate, ratio.low, ratio.high) == pytest.approx((1.04, 1.04, 1.04))
        assert ratio.n == 5
        assert not judgement.strays("packetsim", name, "slowdown_all_mean")


@pytest.mark.parametrize(("scale", "strays"), [(1.051, True), (0.949, True), (1.049, False), (0.951, False)])
def test_five_per_cent_of_mean_slowdown_are_too_much(scale: float, strays: bool) -> None:
    judgement = Judgement({"packetsim": compared(scale), "ns3": compared()})
    assert judgement.strays("packetsim", "ncc", "slowdown_all_mean") is strays


def test_what_cannot_be_compared_strays_nowhere_and_shows_a_dash() -> None:
    judgement = Judgement({"packetsim": compared(goodput=0.0), "ns3": compared(goodput=0.0)})
    assert not judgement.strays("packetsim", "ncc", "goodput_bps")
    assert not judgement.strays("packetsim", "ncc", "slowdown_all_p99")
    row = next(line for line in printed(judgement).splitlines() if line.startswith(" Goodput") and "1%" in line)
    assert row.count("–") == 2  # noqa: RUF001


def test_an_invalid_run_counts_in_the_ratio_and_is_said() -> None:
    judgement = Judgement({"packetsim": compared(2.0, invalid=4), "ns3": compared()})
    ratio = judgement.ratio("packetsim", "ncc", "slowdown_all_mean")
    assert (ratio.estimate, ratio.n, ratio.n_missing) == (2.0, 5, 0)
    assert "INVALID 1 of 10" in printed(judgement)


def test_both_datapaths_stand_in_one_table() -> None:
    lines = printed(Judgement({"packetsim": compared(2.0), "ns3": compared()})).splitlines()
    assert "rack on packetsim and ns3: 5 seeds, 90 flows per controller" in lines
    first = next(i for i, line in enumerate(lines) if line.strip().startswith("mean"))
    assert lines[first].split()[:3] == ["mean", "packetsim", "6.00"]
    assert lines[first + 1].split()[:2] == ["ns3", "3.00"]
    assert "Agreement: packetsim over ns3, on the same flows, 5 seeds" in lines
    ratio = next(line for line in lines if "FCT slowdown, all flows, mean" in line)
    assert ratio.count("2.000!") == 2
    assert any("not within the tolerance: there, believe ns3 alone" in line for line in lines)


def test_a_difference_that_rounds_to_none_has_no_sign() -> None:
    def shown(*less: float) -> tuple[str, str]:
        runs = {"ncc": [_summary(2.0 + x, 1.0) for x in less], "dctcp": [_summary(2.0, 1.0) for _ in less]}
        grid = differences(Judgement({"ns3": comparison(runs, SEEDS)}), "dctcp")
        (row,) = [row for row in grid.rows if row.title.startswith("FCT slowdown, all flows, mean")]
        return row.cells[0].middle, row.cells[0].spread

    assert shown(0.0, 0.0, 0.001, 0.002, 0.004) == ("0.00", "[0.00, 0.00]")
    assert shown(0.0, 0.0, -0.001, -0.002, -0.004) == ("0.00", "[0.00, 0.00]")
    assert shown(*[0.02] * 4, 0.021) == ("+0.02", "[+0.02, +0.02]")
    assert shown(*[-0.02] * 4, -0.021) == ("\N{MINUS SIGN}0.02", "[\N{MINUS SIGN}0.02, \N{MINUS SIGN}0.02]")


def test_the_best_is_judged_within_a_datapath() -> None:
    worse = comparison(
        {"ncc": [_summary(9.0, 1.0)] * 5, "dctcp": [_summary(4.0, 1.0)] * 5}, SEEDS, scenario="rack", n_flows=90
    )
    lines = markdown(Judgement({"packetsim": worse, "ns3": compared()})).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| FCT slowdown, all flows, mean | packetsim"))
    assert lines[start] == "| FCT slowdown, all flows, mean | packetsim | 9.00 | **4.00** |"
    assert lines[start + 1].startswith("|  | ns3 | 3.00 ["), "NCC's 3.00 [1.8, 4.2] is not told from DCTCP's 4.00"


def test_one_datapath_has_no_column_and_nothing_to_agree_with() -> None:
    text = markdown(Judgement({"ns3": compared()}))
    assert "|  | NCC | DCTCP |" in text
    assert "Agreement" not in text


def test_more_datapaths_are_each_held_against_the_last() -> None:
    text = printed(Judgement({"packetsim": compared(1.5), "linux": compared(2.0), "ns3": compared()}))
    below = text.split("Agreement: each datapath over ns3, on the same flows")[1].splitlines()
    first = next(i for i, line in enumerate(below) if "FCT slowdown" in line)
    assert below[first].count("1.500!") == 2
    assert below[first + 1].split()[:3] == ["linux", "5%", "2.000!"]


def test_datapaths_with_other_runs_are_no_pairs() -> None:
    other = comparison({"ncc": [_summary(1, 1)] * 5}, SEEDS, scenario="rack", n_flows=90)
    with pytest.raises(ConfigError, match="packetsim, ns3 must have run the same scenario, controllers and seeds"):
        Judgement({"packetsim": other, "ns3": compared()})
    with pytest.raises(ConfigError, match="at least one datapath"):
        Judgement({})
